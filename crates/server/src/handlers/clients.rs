//! Which client is in which tier.

use axum::extract::{OriginalUri, State};
use axum::response::Response;
use http::HeaderMap;
use tollgate_catalog::Kind;

use super::entries::{self, PageProblems};
use crate::admin::ChangesAnswer;
use crate::extract::{JsonBody, Operator, Viewer};
use crate::openapi::{AdminProblems, BodyProblems, PageParameters, WriteParameters, WriteProblems};
use crate::problem::{Problem, ProblemBody};
use crate::state::ServerState;

/// Lists clients that are in a tier of their own.
#[utoipa::path(
    get, path = "/api/v1/clients", tag = "clients", security(("token" = [])),
    params(
        PageParameters,
        ("tier" = Option<String>, Query, description = "Only clients in this tier"),
        ("identifier_type" = Option<String>, Query, description = "Only clients that are named by this type of identifier"),
        ("identifier" = Option<String>, Query, description = "Only this client"),
        ("detail" = Option<bool>, Query, description = "Also tell version, created_at and created_by"),
    ),
    responses(
        (status = 200, description = "The clients, in the order of their names", body = Object),
        PageProblems,
        AdminProblems,
    )
)]
pub(crate) async fn get(
    State(app): State<ServerState>,
    Viewer(session): Viewer,
    OriginalUri(uri): OriginalUri,
) -> Result<Response, Problem> {
    entries::page(&app, session, &uri, Kind::Client, &["tier"]).await
}

/// Puts a client into a tier.
#[utoipa::path(
    put, path = "/api/v1/clients", tag = "clients", security(("token" = [])),
    request_body(content = Object, description = "The client and its tier", example = json!({"identifier_type": "tenant", "identifier": "acme", "tier": "pro"})),
    params(WriteParameters),
    responses(
        (status = 201, description = "It is in a tier of its own now", body = Object),
        (status = 200, description = "It was in one: changed, or what would be", body = Object),
        BodyProblems,
        WriteProblems,
        AdminProblems,
    )
)]
pub(crate) async fn put(
    State(app): State<ServerState>,
    Operator(session): Operator,
    OriginalUri(uri): OriginalUri,
    headers: HeaderMap,
    JsonBody(body): JsonBody,
) -> Result<Response, Problem> {
    let entry = entries::read(&app, &session, Kind::Client, move || body).await?;
    entries::put(&app, session, &uri, &headers, entry).await
}

/// Takes a client out of its own tier.
#[utoipa::path(
    delete, path = "/api/v1/clients", tag = "clients", security(("token" = [])),
    params(
        ("identifier_type" = Vec<String>, Query, description = "The type of its identifier; several for a client that is named by several at once", example = json!(["tenant"])),
        ("identifier" = Vec<String>, Query, description = "The identifier, or as many as there are types, in the same order", example = json!(["acme"])),
        WriteParameters,
    ),
    responses(
        (status = 204, description = "It is in no tier of its own any more"),
        (status = 200, description = "What would change", body = ChangesAnswer),
        (status = 404, description = "It is in no tier of its own", body = ProblemBody<'_>, content_type = "application/problem+json"),
        WriteProblems,
        AdminProblems,
    )
)]
pub(crate) async fn delete(
    State(app): State<ServerState>,
    Operator(session): Operator,
    OriginalUri(uri): OriginalUri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    entries::remove_named(&app, session, &uri, &headers, Kind::Client).await
}
