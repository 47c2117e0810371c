//! `GET /api/v1/events`: what happens on this node, as it happens.

use axum::extract::{OriginalUri, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, StatusCode, header};

use super::audit::accepts;
use crate::app::state::ServerState;
use crate::edge::http::extract::RuleViewer;
use crate::edge::http::openapi::AdminProblems;
use crate::edge::http::paging::Parameters;
use crate::edge::http::problem::{Problem, ProblemBody};

const EVENT_STREAM: &str = "text/event-stream";

/// Streams decisions and new revisions as server-sent events.
///
/// Events are `decision`, `revision`, and `lost` for a client that reads too slowly. The client has to
/// send `Accept: text/event-stream`. Administrators of a tenant get the decisions about its requests. The stream ends when the token is revoked, expires, or gets another
/// role or tenant.
#[utoipa::path(
    get, path = "/api/v1/events", tag = "audit", security(("token" = [])),
    responses(
        (status = 200, description = "Events, until one side ends it", body = String, content_type = "text/event-stream"),
        (status = 400, description = "There are no parameters", body = ProblemBody<'_>, content_type = "application/problem+json"),
        (status = 406, description = "`Accept` does not name text/event-stream", body = ProblemBody<'_>, content_type = "application/problem+json"),
        (status = 429, description = "Too many event streams are open with this token", body = ProblemBody<'_>, content_type = "application/problem+json"),
        (status = 503, description = "Too many event streams are open, or the server shuts down", body = ProblemBody<'_>, content_type = "application/problem+json"),
        AdminProblems,
    )
)]
pub(crate) async fn events(
    State(app): State<ServerState>,
    RuleViewer(session): RuleViewer,
    OriginalUri(uri): OriginalUri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    Parameters::read(&uri, &[])?;
    // A client that does not expect a stream would wait for its end.
    if !accepts(&headers, EVENT_STREAM) {
        return Err(Problem::new(
            StatusCode::NOT_ACCEPTABLE,
            "not_acceptable",
            "this call never ends; send `Accept: text/event-stream` if you want that",
        ));
    }
    let (shared, principal) = (app.clone(), session.principal.clone());
    let revoked = async move { shared.until_invalid(&principal).await };
    let body =
        app.audit_log.events.subscribe(session.principal.name(), session.tenant(), revoked)?;
    let mut fields = session.fields;
    fields.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok((fields, [(header::CONTENT_TYPE, EVENT_STREAM)], body).into_response())
}
