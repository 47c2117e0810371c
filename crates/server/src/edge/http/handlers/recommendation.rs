//! `GET /api/v1/recommendation`: limits that the recent requests of this node propose.

use axum::Json;
use axum::extract::{OriginalUri, State};
use axum::response::{IntoResponse, Response};
use tollgate::rules::parse_window;
use tollgate_api::RecommendationResponse;
use tollgate_simulate::Percent;
use tollgate_simulate::recommend::RecommendOptions;

use crate::app::state::ServerState;
use crate::edge::http::extract::RuleViewer;
use crate::edge::http::openapi::AdminProblems;
use crate::edge::http::paging::Parameters;
use crate::edge::http::problem::{Problem, ProblemBody};
use crate::edge::http::wire::time::rfc_3339_exact;
use crate::observe::recommendation::LiveRecommendation;

const DEFAULT_HEADROOM: &str = "20%";
const DEFAULT_REFUSED: &str = "0.1%";
const DEFAULT_WINDOW: &str = "1m";
const DEFAULT_ENDPOINTS: usize = 8;
const MAX_ENDPOINTS: usize = 100;

/// Proposes limits by the recent requests of this node: for each class of clients and for the busiest endpoints.
///
/// Each limit is what all but a small share of requests needed, and the headroom on top. The rules are replayed on these
/// requests, so that a preview of them without the other rules in force shows the same figures. Nothing is charged or changed. Administrators of a tenant
/// get rules of that tenant, by its requests.
#[utoipa::path(
    get, path = "/api/v1/recommendation", tag = "rules", security(("token" = [])),
    params(
        ("headroom" = Option<String>, Query, description = "How much more than needed each limit allows, 0% to 1000%; 20% if not given"),
        ("refuse_at_most" = Option<String>, Query, description = "The largest share of requests that the rules may refuse, all together; 0.1% if not given"),
        ("window" = Option<String>, Query, description = "The window of the limits, like 10s, 1m or 1h; 1m if not given"),
        ("endpoints" = Option<u64>, Query, description = "The most endpoints that get a limit; 8 if not given, never more than 100", minimum = 0, maximum = 100),
    ),
    responses(
        (status = 200, description = "The limits", body = RecommendationResponse),
        (status = 400, description = "The query cannot be read", body = ProblemBody<'_>, content_type = "application/problem+json"),
        (status = 404, description = "No recent requests are kept, or none can be counted by", body = ProblemBody<'_>, content_type = "application/problem+json"),
        (status = 422, description = "The requests have names that no rule can have", body = ProblemBody<'_>, content_type = "application/problem+json"),
        (status = 503, description = "Too many replays are running, or it took too long", body = ProblemBody<'_>, content_type = "application/problem+json"),
        AdminProblems,
    )
)]
pub(crate) async fn recommendation(
    State(app): State<ServerState>,
    RuleViewer(session): RuleViewer,
    OriginalUri(uri): OriginalUri,
) -> Result<Response, Problem> {
    let known = ["headroom", "refuse_at_most", "window", "endpoints"];
    let query = Parameters::read(&uri, &known)?;
    let options = options_of(&query, session.tenant())?;
    let recommended = app.recommend(&session.caller(), options).await?;
    Ok((session.fields, Json(response_of(recommended))).into_response())
}

fn options_of(query: &Parameters, tenant: Option<String>) -> Result<RecommendOptions, Problem> {
    let wrong =
        |name: &str, what: &str| Problem::bad_request("invalid_query", format!("`{name}`: {what}"));
    let share = |name: &str, usual: &str, most: u32| {
        let text = query.one(name)?.unwrap_or(usual);
        Percent::parse(text, most).map_err(|what| wrong(name, &what))
    };
    let window = query.one("window")?.unwrap_or(DEFAULT_WINDOW);
    if parse_window(window).is_err() {
        return Err(wrong("window", "write it like 10s, 1m or 1h"));
    }
    let endpoints = match query.one("endpoints")? {
        None => DEFAULT_ENDPOINTS,
        Some(text) => {
            let number = text.parse().ok().filter(|number| *number <= MAX_ENDPOINTS);
            let what = format!("write a number from 0 to {MAX_ENDPOINTS}");
            number.ok_or_else(|| wrong("endpoints", &what))?
        }
    };
    Ok(RecommendOptions {
        headroom: share("headroom", DEFAULT_HEADROOM, 1_000)?,
        refuse_at_most: share("refuse_at_most", DEFAULT_REFUSED, 100)?,
        window: window.to_owned(),
        endpoints,
        tenant,
    })
}

fn response_of(recommended: LiveRecommendation) -> RecommendationResponse {
    let LiveRecommendation { recommendation, one_in, is_cut, other_rules } = recommended;
    RecommendationResponse {
        from: rfc_3339_exact(recommendation.first),
        until: rfc_3339_exact(recommendation.last),
        requests: recommendation.requests,
        refused: recommendation.refused,
        clients: recommendation.clients,
        clients_refused: recommendation.clients_refused,
        one_in,
        cut: is_cut,
        other_rules,
        rules: recommendation.rules,
    }
}
