//! `GET /api/v1/rate-limits/status`: a client reads its own limits.

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, header};
use serde::{Deserialize, Serialize};
use tollgate::http::write_fields;
use tollgate::identity::HttpRequest;
use tollgate::{CheckTarget, DecisionReason};
use utoipa::ToSchema;

use crate::app::state::ServerState;
use crate::edge::http::extract::Peer;
use crate::edge::http::problem::{Problem, ProblemBody};
use crate::edge::http::wire::ban::BanAnswer;
use crate::edge::http::wire::decode::shorten;
use crate::edge::http::wire::response::seconds;
use crate::edge::http::wire::time::rfc_3339;

/// The endpoint that a client wants its limits for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StatusQuery {
    endpoint: Option<String>,
    method: Option<String>,
}

/// What a client has left.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StatusAnswer {
    /// The identity of the client: the user, else the owner of the API key, else the address.
    client_id: String,
    /// Whether every request of the client is refused.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    denied: bool,
    /// The ban of the client; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    banned: Option<BanAnswer>,
    /// Every limit that applies.
    limits: Vec<LimitAnswer>,
}

/// What is left of one limit.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LimitAnswer {
    /// The rule.
    rule_id: String,
    /// The most that can be in use.
    limit: u64,
    /// What is left.
    remaining: u64,
    /// When the limit resets, in RFC 3339: `fixed_window` and `sliding_window_counter` at the end of the current
    /// window, others when nothing is in use.
    #[schema(format = DateTime)]
    reset_at: String,
    /// When nothing is in use, in RFC 3339, if there are no more requests.
    #[schema(format = DateTime)]
    full_at: String,
    /// The seconds in which the rate refills `limit`: the window, unless there is a burst.
    #[serde(serialize_with = "tollgate_api::seconds")]
    window_seconds: f64,
}

/// Shows a client its own limits. The client is identified by its token, its API key, or its address.
///
/// `?endpoint=/path` and `?method=` add the limits of single endpoints.
#[utoipa::path(
    get, path = "/api/v1/rate-limits/status", tag = "clients",
    params(
        ("endpoint" = Option<String>, Query, description = "The limits for this path"),
        ("method" = Option<String>, Query, description = "The limits for this method; GET if not given"),
    ),
    responses(
        (status = 200, description = "What is left", body = StatusAnswer),
        (status = 400, description = "The query or the credentials cannot be read, or the endpoint is ambiguous", body = ProblemBody<'_>, content_type = "application/problem+json"),
        (status = 401, description = "The credentials are not valid, and identity.unverified is refuse", body = ProblemBody<'_>, content_type = "application/problem+json"),
        (status = 429, description = "This server is called too often", body = ProblemBody<'_>, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn status(
    State(app): State<ServerState>,
    peer: Peer,
    headers: HeaderMap,
    query: Result<Query<StatusQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    app.guard.status_call(peer.address.ip())?;
    let Query(StatusQuery { endpoint, method }) =
        query.map_err(|error| Problem::bad_request("invalid_query", shorten(error.body_text())))?;
    let identity = app.identify(&headers, peer).await;
    if let Some(why) = identity.credential_problem {
        return Err(Problem::of_credentials(why));
    }
    let path = app.paths.read(endpoint.as_deref().unwrap_or("/")).map_err(Problem::of_path)?;
    let request = HttpRequest {
        identity: &identity,
        method: method.as_deref().unwrap_or("GET"),
        host: None,
        path: &path,
        headers: &headers,
        cost: 0,
    };
    let decision = app.limiter.check(&request).await;
    let banned = BanAnswer::of(&decision);
    // The limits shown do not depend on the ban; the header fields do.
    let unbanned = match &banned {
        Some(_) => Some(app.limiter.check(CheckTarget::Unbanned(&request)).await),
        None => None,
    };
    let limits = unbanned
        .as_ref()
        .unwrap_or(&decision)
        .outcomes()
        .filter(|outcome| !outcome.is_shadow())
        .map(|outcome| LimitAnswer {
            rule_id: outcome.rule.id.to_string(),
            limit: outcome.outcome.limit,
            remaining: outcome.outcome.remaining(),
            reset_at: rfc_3339(decision.now().plus(outcome.reset_after(decision.now()))),
            full_at: rfc_3339(decision.now().plus(outcome.outcome.report.reset_after)),
            window_seconds: seconds(outcome.outcome.window),
        })
        .collect();
    let client_id = identity.user_id.clone().unwrap_or_else(|| identity.ip.clone());
    let mut fields = HeaderMap::new();
    write_fields(&decision, app.families, &mut fields);
    fields.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // A request that no rule applies to says nothing about other requests of the client.
    let is_unmatched = *decision.reason() == DecisionReason::NoRule;
    let denied = !decision.is_allowed() && (!is_unmatched || endpoint.is_some());
    Ok((fields, Json(StatusAnswer { client_id, denied, banned, limits })).into_response())
}
