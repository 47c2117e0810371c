//! Exceptions from a rule for one client.

use axum::extract::{OriginalUri, State};
use axum::response::Response;
use http::HeaderMap;
use tollgate_catalog::Kind;

use super::entries::{self, PageProblems};
use crate::admin::ChangesAnswer;
use crate::extract::{JsonBody, RuleEditor, RuleViewer};
use crate::openapi::{AdminProblems, BodyProblems, PageParameters, WriteParameters, WriteProblems};
use crate::problem::{Problem, ProblemBody};
use crate::state::ServerState;

/// Lists exceptions from rules.
#[utoipa::path(
    get, path = "/api/v1/overrides", tag = "rules", security(("token" = [])),
    params(
        PageParameters,
        ("rule_id" = Option<String>, Query, description = "Only exceptions from this rule"),
        ("identifier_type" = Option<String>, Query, description = "Only those of clients that are named by this type of identifier"),
        ("identifier" = Option<String>, Query, description = "Only those of this client"),
        ("tenant" = Option<String>, Query, description = "Only exceptions from rules of this tenant"),
        ("detail" = Option<bool>, Query, description = "Also tell version, created_at, created_by, and written_by if a tenant-admin wrote it"),
    ),
    responses(
        (status = 200, description = "The exceptions, in the order of their names", body = Object),
        PageProblems,
        AdminProblems,
    )
)]
pub(crate) async fn get(
    State(app): State<ServerState>,
    RuleViewer(session): RuleViewer,
    OriginalUri(uri): OriginalUri,
) -> Result<Response, Problem> {
    entries::page(&app, session, &uri, Kind::Override, &["rule_id", "tenant"]).await
}

/// Makes an exception from a rule for a client, or changes it.
#[utoipa::path(
    put, path = "/api/v1/overrides", tag = "rules", security(("token" = [])),
    request_body(content = Object, description = "The client, the rule, and what is different for it: limit, window_seconds, burst or multiplier", example = json!({"identifier_type": "user_id", "identifier": "alice", "rule_id": "api_default", "limit": 5000, "expires_at": "2030-12-01T00:00:00Z"})),
    params(WriteParameters),
    responses(
        (status = 201, description = "Made", body = Object),
        (status = 200, description = "Changed, or what would be", body = Object),
        BodyProblems,
        WriteProblems,
        AdminProblems,
    )
)]
pub(crate) async fn put(
    State(app): State<ServerState>,
    RuleEditor(session): RuleEditor,
    OriginalUri(uri): OriginalUri,
    headers: HeaderMap,
    JsonBody(body): JsonBody,
) -> Result<Response, Problem> {
    let entry = entries::read(&app, &session, Kind::Override, move || body).await?;
    entries::put(&app, session, &uri, &headers, entry).await
}

/// Removes an exception: the rule holds for that client as for others.
#[utoipa::path(
    delete, path = "/api/v1/overrides", tag = "rules", security(("token" = [])),
    params(
        ("rule_id" = String, Query, description = "The rule", example = "api_default"),
        ("identifier_type" = Vec<String>, Query, description = "The type of the client's identifier; several for a client that is named by several at once", example = json!(["user_id"])),
        ("identifier" = Vec<String>, Query, description = "The identifier, or as many as there are types, in the same order", example = json!(["alice"])),
        WriteParameters,
    ),
    responses(
        (status = 204, description = "Removed"),
        (status = 200, description = "What would change", body = ChangesAnswer),
        (status = 404, description = "There is no such exception", body = ProblemBody<'_>, content_type = "application/problem+json"),
        WriteProblems,
        AdminProblems,
    )
)]
pub(crate) async fn delete(
    State(app): State<ServerState>,
    RuleEditor(session): RuleEditor,
    OriginalUri(uri): OriginalUri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    entries::remove_named(&app, session, &uri, &headers, Kind::Override).await
}
