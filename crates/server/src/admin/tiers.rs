//! The tiers that clients can be in: shown and replaced all at once, since at most one is the default.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{OriginalUri, State};
use axum::response::{IntoResponse, Response};
use serde_json::Value as JsonValue;
use serde_json::value::{RawValue, to_raw_value};
use tollgate::rules::PolicyDocument;
use tollgate_catalog::{Filter, Intent, Kind};

use super::policy::read_document;
use super::response::{ChangesAnswer, refusal, shown};
use super::write::{is_dry_run, write};
use crate::app::state::ServerState;
use crate::edge::http::extract::{JsonBody, Operator, Viewer};
use crate::edge::http::openapi::{AdminProblems, BodyProblems, TrialParameter, WriteProblems};
use crate::edge::http::paging::Parameters;
use crate::edge::http::problem::{Problem, ProblemBody};
use crate::policy::source::PolicySource;

/// Lists the tiers.
#[utoipa::path(
    get, path = "/api/v1/tiers", tag = "clients", security(("token" = [])),
    params(("detail" = Option<bool>, Query, description = "Also return version, created_at, created_by, updated_at and updated_by")),
    responses(
        (status = 200, description = "The tiers", body = Object),
        (status = 503, description = "The catalog is unavailable", body = ProblemBody<'_>, content_type = "application/problem+json"),
        (status = 400, description = "The query cannot be read", body = ProblemBody<'_>, content_type = "application/problem+json"),
        AdminProblems,
    )
)]
pub(crate) async fn get(
    State(app): State<ServerState>,
    Viewer(session): Viewer,
    OriginalUri(uri): OriginalUri,
) -> Result<Response, Problem> {
    let detail = Parameters::read(&uri, &["detail"])?.flag("detail")?;
    let tiers: Vec<Box<RawValue>> = match &app.policy_source {
        PolicySource::Catalog(catalog_sync) if detail => {
            let all = Filter::default();
            let page = catalog_sync.catalog.page(Kind::Tier, &all, None, usize::MAX).await;
            let page = page.map_err(|error| refusal(&error))?;
            page.entries.iter().map(|stored| shown(stored, true)).collect()
        }
        PolicySource::Catalog(catalog_sync) => {
            let view = catalog_sync.view();
            view.tiers().values().filter_map(|tier| to_raw_value(tier).ok()).collect()
        }
        PolicySource::File(source) => {
            let loaded = source.loaded.load();
            loaded.document.tiers.iter().filter_map(|tier| to_raw_value(tier).ok()).collect()
        }
    };
    Ok((session.fields, Json(BTreeMap::from([("tiers", tiers)]))).into_response())
}

/// Replaces the tiers, in one transaction. A tier that clients, API keys or rules use cannot be removed.
#[utoipa::path(
    put, path = "/api/v1/tiers", tag = "clients", security(("token" = [])),
    request_body(content = Object, description = "All tiers; at most one is the default, for clients in no other", example = json!({"tiers": [{"tier": "free", "default": true}, {"tier": "pro"}]})),
    params(TrialParameter),
    responses(
        (status = 200, description = "What was changed, or would be", body = ChangesAnswer),
        BodyProblems,
        WriteProblems,
        AdminProblems,
    )
)]
pub(crate) async fn put(
    State(app): State<ServerState>,
    Operator(session): Operator,
    OriginalUri(uri): OriginalUri,
    JsonBody(body): JsonBody,
) -> Result<Response, Problem> {
    app.policy_source.catalog()?;
    let dry_run = is_dry_run(&uri)?;
    let reading = async move { read(&body) };
    let document = Box::new(app.queues.parsing.run(&session.caller(), reading).await??);
    let intent = Intent::Apply { document, prune: vec![Kind::Tier], revision: None };
    let written = write(&app, &session, intent, dry_run).await?;
    Ok((session.fields, Json(ChangesAnswer::new(&written, dry_run))).into_response())
}

/// A document with tiers and nothing else. The list is required, also if it is empty.
fn read(body: &[u8]) -> Result<PolicyDocument, Problem> {
    let document = read_document(body)?;
    let fields: JsonValue = serde_json::from_slice(body).unwrap_or_default();
    // null is no list: a program that lost its own would remove all tiers.
    let is_all = fields.as_object().is_some_and(|it| it.len() == 1) && fields["tiers"].is_array();
    if !is_all {
        let detail = "send all tiers and nothing else: {\"tiers\": [{\"tier\": \"free\"}]}";
        return Err(Problem::unprocessable("invalid_document", detail));
    }
    Ok(document)
}
