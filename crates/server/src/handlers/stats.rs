//! `GET /api/v1/stats`: how often each rule said what, since this node knows it.

use axum::Json;
use axum::extract::{OriginalUri, State};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tollgate::RuleCounts;
use utoipa::ToSchema;

use crate::extract::Viewer;
use crate::openapi::AdminProblems;
use crate::paging::Parameters;
use crate::problem::{Problem, ProblemBody};
use crate::state::ServerState;

/// What this node did.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StatsAnswer {
    /// For how long it runs.
    uptime_seconds: f64,
    /// The revision in force.
    revision: u64,
    /// All rules together. A request that several rules judged counts several times.
    totals: CountsAnswer,
    /// Every rule.
    rules: Vec<RuleStats>,
}

/// How often one rule said what.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RuleStats {
    /// The rule.
    rule_id: String,
    #[serde(flatten)]
    counts: CountsAnswer,
}

/// How often something was said.
#[derive(Clone, Copy, Debug, Default, Serialize, ToSchema)]
pub(crate) struct CountsAnswer {
    /// Requests that fitted.
    admitted: u64,
    /// Requests that were refused.
    refused: u64,
    /// Requests that a rule would have refused that only watches.
    would_refuse: u64,
    /// Requests close to a limit.
    warned: u64,
    /// Requests that were told to wait.
    delayed: u64,
    /// Requests judged without the shared store.
    degraded: u64,
}

impl From<RuleCounts> for CountsAnswer {
    fn from(counts: RuleCounts) -> Self {
        let RuleCounts { admitted, refused, would_refuse, warned, delayed, degraded, .. } = counts;
        Self { admitted, refused, would_refuse, warned, delayed, degraded }
    }
}

impl CountsAnswer {
    const fn plus(self, other: Self) -> Self {
        Self {
            admitted: self.admitted + other.admitted,
            refused: self.refused + other.refused,
            would_refuse: self.would_refuse + other.would_refuse,
            warned: self.warned + other.warned,
            delayed: self.delayed + other.delayed,
            degraded: self.degraded + other.degraded,
        }
    }
}

/// Tells how often each rule admitted, refused and warned on this node.
#[utoipa::path(
    get, path = "/api/v1/stats", tag = "audit", security(("token" = [])),
    responses(
        (status = 200, description = "The figures", body = StatsAnswer),
        (status = 400, description = "There are no parameters", body = ProblemBody<'_>, content_type = "application/problem+json"),
        AdminProblems,
    )
)]
pub(crate) async fn stats(
    State(app): State<ServerState>,
    Viewer(session): Viewer,
    OriginalUri(uri): OriginalUri,
) -> Result<Response, Problem> {
    Parameters::read(&uri, &[])?;
    let counted = app.limiter.stats().into_iter().chain(app.envoy.limiter.stats());
    let rules: Vec<RuleStats> = counted
        .map(|(rule_id, counts)| RuleStats { rule_id: rule_id.to_string(), counts: counts.into() })
        .collect();
    let answer = StatsAnswer {
        uptime_seconds: app.started.elapsed().as_secs_f64(),
        revision: app.rulebook.in_force().revision.number,
        totals: rules
            .iter()
            .map(|rule| rule.counts)
            .fold(CountsAnswer::default(), CountsAnswer::plus),
        rules,
    };
    Ok((session.fields, Json(answer)).into_response())
}
