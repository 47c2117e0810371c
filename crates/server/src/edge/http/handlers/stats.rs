//! `GET /api/v1/stats`: how requests ended on this node, and how often each rule decided what.

use axum::Json;
use axum::extract::{OriginalUri, State};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tollgate::{BanCounts, RuleCounts};
use utoipa::ToSchema;

use crate::app::state::ServerState;
use crate::edge::http::extract::RuleViewer;
use crate::edge::http::openapi::AdminProblems;
use crate::edge::http::paging::Parameters;
use crate::edge::http::problem::{Problem, ProblemBody};
use crate::observe::metrics::{RequestCounts, RequestOutcome};

/// The figures of this node.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StatsAnswer {
    /// How long it has been running.
    uptime_seconds: f64,
    /// The revision in force.
    revision: u64,
    /// Requests, each counted once; absent for the administrator of a tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    totals: Option<RequestTotals>,
    /// Bans; absent for the administrator of a tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    bans: Option<BanFigures>,
    /// Every rule; for the administrator of a tenant, those of that tenant.
    rules: Vec<RuleStats>,
}

/// How requests ended, at all entry points together.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub(crate) struct RequestTotals {
    /// All of them.
    requests: u64,
    /// Passed, and counted by at least one rule.
    allowed: u64,
    /// Refused because a limit was reached.
    refused: u64,
    /// Refused because the client is on the deny list, banned, or lacks a required identifier.
    denied: u64,
    /// Passed after a delay.
    throttled: u64,
    /// Passed because no rule applies, or because the client is on the allow list.
    unlimited: u64,
    /// Not checked: the request was invalid, or the store unavailable and a rule fails closed.
    error: u64,
}

impl From<RequestCounts> for RequestTotals {
    fn from(counts: RequestCounts) -> Self {
        Self {
            requests: counts.iter().map(|(.., count)| count).sum(),
            allowed: counts.total(RequestOutcome::Allowed),
            refused: counts.total(RequestOutcome::Refused),
            denied: counts.total(RequestOutcome::Denied),
            throttled: counts.total(RequestOutcome::Throttled),
            unlimited: counts.total(RequestOutcome::Unlimited),
            error: counts.total(RequestOutcome::Error),
        }
    }
}

/// Bans of clients.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub(crate) struct BanFigures {
    /// In force now.
    in_force: u64,
    /// Made by this node.
    made: u64,
    /// Not made by this node because there were too many.
    not_made: u64,
}

impl From<BanCounts> for BanFigures {
    fn from(counts: BanCounts) -> Self {
        let BanCounts { in_force, made, not_made } = counts;
        Self { in_force: in_force as u64, made, not_made }
    }
}

/// The decisions of one rule.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RuleStats {
    /// The rule.
    rule_id: String,
    #[serde(flatten)]
    counts: CountsAnswer,
}

/// Decisions by kind.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub(crate) struct CountsAnswer {
    /// Requests within the limit.
    admitted: u64,
    /// Requests that were refused.
    refused: u64,
    /// Requests of clients that the rule had banned.
    banned: u64,
    /// Requests that the rule would have refused if it were not `log_only`.
    would_refuse: u64,
    /// Requests close to a limit.
    warned: u64,
    /// Requests that were delayed.
    delayed: u64,
    /// Requests checked without the shared store.
    degraded: u64,
}

impl From<RuleCounts> for CountsAnswer {
    fn from(counts: RuleCounts) -> Self {
        let RuleCounts {
            admitted, refused, banned, would_refuse, warned, delayed, degraded, ..
        } = counts;
        Self { admitted, refused, banned, would_refuse, warned, delayed, degraded }
    }
}

/// Shows how often each rule admitted, refused and warned on this node. The administrator of a tenant sees the rules of that
/// tenant.
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
    RuleViewer(session): RuleViewer,
    OriginalUri(uri): OriginalUri,
) -> Result<Response, Problem> {
    Parameters::read(&uri, &[])?;
    let (own, policy) = (session.tenant(), app.limiter.policy());
    let is_visible = |rule_id: &str| match &own {
        Some(own) => {
            policy.rules().find(rule_id).is_some_and(|rule| rule.tenant.as_deref() == Some(own))
        }
        None => true,
    };
    let rules: Vec<RuleStats> = app
        .rule_counts()
        .filter(|(rule_id, _)| is_visible(rule_id))
        .map(|(rule_id, counts)| RuleStats { rule_id: rule_id.to_string(), counts: counts.into() })
        .collect();
    let answer = StatsAnswer {
        uptime_seconds: app.started.elapsed().as_secs_f64(),
        revision: app.policy_source.in_force().revision.number,
        totals: own.is_none().then(|| app.metrics.requests.read().into()),
        bans: own.is_none().then(|| app.limiter.ban_counts().into()),
        rules,
    };
    Ok((session.fields, Json(answer)).into_response())
}
