//! `GET /api/v1/stats`: how requests ended, and how often each rule decided what, in the fleet or on this node.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::{OriginalUri, State};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tollgate::RuleCounts;
use tollgate::rules::candidate_of;
use utoipa::ToSchema;

use crate::app::state::ServerState;
use crate::edge::http::extract::RuleViewer;
use crate::edge::http::handlers::top::scope;
use crate::edge::http::openapi::AdminProblems;
use crate::edge::http::paging::Parameters;
use crate::edge::http::problem::{Problem, ProblemBody};
use crate::edge::http::wire::time::rfc_3339_exact;
use crate::observe::fleet_figures::StatsFigures;
use crate::observe::history::RequestFigures;

/// The figures of all nodes, or of this one, since their start.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StatsAnswer {
    /// How long this node has been running.
    uptime_seconds: f64,
    /// The revision in force on this node.
    revision: u64,
    /// fleet or node: whose figures they are.
    scope: &'static str,
    /// How many nodes have responded.
    nodes: usize,
    /// The nodes that did not respond, or have been silent for less than ten minutes.
    silent_nodes: Vec<String>,
    /// Since when the others cannot be reached, in RFC 3339, because the store or the catalog's database that nodes
    /// exchange messages through is away: the figures are of this node only. Absent while they can be reached.
    #[schema(format = DateTime)]
    #[serde(skip_serializing_if = "Option::is_none")]
    others_unreachable_since: Option<String>,
    /// What the nodes decided before this time is in the figures, in RFC 3339, by the clock of this node: at most a second ago.
    #[schema(format = DateTime)]
    as_of: String,
    /// Requests, each counted once; absent for administrators of a tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    totals: Option<RequestTotals>,
    /// Bans; absent for administrators of a tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    bans: Option<BanFigures>,
    /// Every rule; for administrators of a tenant, those of the tenant.
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
    /// Not checked: the request was invalid, its caller left, or the store unavailable and a rule fails closed
    /// (`fallback_closed` of the rule).
    error: u64,
    /// Decided without the shared store; also counted above.
    degraded: u64,
}

impl From<RequestFigures> for RequestTotals {
    fn from(figures: RequestFigures) -> Self {
        let requests = figures.all();
        let RequestFigures { allowed, refused, denied, throttled, unlimited, error, degraded } =
            figures;
        Self { requests, allowed, refused, denied, throttled, unlimited, error, degraded }
    }
}

/// Bans of clients.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub(crate) struct BanFigures {
    /// In force now.
    in_force: u64,
    /// Made.
    made: u64,
    /// Not made because there were too many.
    not_made: u64,
}

/// The decisions of one rule.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RuleStats {
    /// The rule.
    rule_id: String,
    #[serde(flatten)]
    counts: CountsAnswer,
    /// The candidate of the rule, if it has one that was counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    candidate: Option<CandidateStats>,
}

/// What a candidate would have done with the requests that passed, since it has its limit.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub(crate) struct CandidateStats {
    /// Requests within its limit.
    admitted: u64,
    /// Requests that passed, and that it would have refused.
    would_refuse: u64,
    /// Requests within its limit that it would have delayed.
    would_delay: u64,
}

impl RuleStats {
    /// The figures of rules, each with those of its candidate.
    fn list(counted: Vec<(Arc<str>, RuleCounts)>) -> Vec<Self> {
        let (candidates, rules): (Vec<_>, Vec<_>) =
            counted.into_iter().partition(|(id, _)| candidate_of(id).is_some());
        let candidates: HashMap<&str, CandidateStats> = candidates
            .iter()
            .filter_map(|(id, counts)| Some((candidate_of(id)?, CandidateStats::from(*counts))))
            .collect();
        let list = rules.into_iter().map(|(rule_id, counts)| Self {
            counts: counts.into(),
            candidate: candidates.get(&*rule_id).copied(),
            rule_id: rule_id.to_string(),
        });
        list.collect()
    }
}

impl From<RuleCounts> for CandidateStats {
    fn from(counts: RuleCounts) -> Self {
        let RuleCounts { admitted, would_refuse, delayed, .. } = counts;
        Self { admitted, would_refuse, would_delay: delayed }
    }
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
    /// Of those, requests that were refused because the rule fails closed.
    fallback_closed: u64,
}

impl From<RuleCounts> for CountsAnswer {
    fn from(counts: RuleCounts) -> Self {
        let RuleCounts {
            admitted,
            refused,
            banned,
            would_refuse,
            warned,
            delayed,
            degraded,
            fallback_closed,
            ..
        } = counts;
        Self { admitted, refused, banned, would_refuse, warned, delayed, degraded, fallback_closed }
    }
}

/// Shows how requests ended, and how often each rule admitted, refused and warned, since the nodes started.
///
/// In a fleet, the figures of all nodes are added up. Administrators of a tenant see the rules of that tenant.
#[utoipa::path(
    get, path = "/api/v1/stats", tag = "audit", security(("token" = [])),
    params(("scope" = Option<String>, Query, description = "fleet or node: the figures of all nodes, or of this one; fleet if not given")),
    responses(
        (status = 200, description = "The figures", body = StatsAnswer),
        (status = 400, description = "The query cannot be read", body = ProblemBody<'_>, content_type = "application/problem+json"),
        AdminProblems,
    )
)]
pub(crate) async fn stats(
    State(app): State<ServerState>,
    RuleViewer(session): RuleViewer,
    OriginalUri(uri): OriginalUri,
) -> Result<Response, Problem> {
    let (scope_name, scope) = scope(&Parameters::read(&uri, &["scope"])?)?;
    let _ticket = app.queues.figure_queries.enter(&session.caller())?;
    let merged = app.stats(scope).await;
    let StatsFigures { totals, bans_in_force, bans_made, bans_not_made, rules } = merged.figures;
    let tenant = session.tenant();
    let is_for_operators = tenant.is_none();
    let rules = rules.into_iter().filter(|(it, _)| app.is_rule_of(it, tenant.as_deref()));
    let bans = BanFigures { in_force: bans_in_force, made: bans_made, not_made: bans_not_made };
    let answer = StatsAnswer {
        uptime_seconds: app.started.elapsed().as_secs_f64(),
        revision: app.policy_source.in_force().revision.number,
        scope: scope_name,
        nodes: merged.nodes,
        silent_nodes: if is_for_operators { merged.silent } else { Vec::new() },
        others_unreachable_since: merged.unreachable_since.map(rfc_3339_exact),
        as_of: rfc_3339_exact(merged.as_of),
        totals: is_for_operators.then(|| totals.into()),
        bans: is_for_operators.then_some(bans),
        rules: RuleStats::list(rules.collect()),
    };
    Ok((session.fields, Json(answer)).into_response())
}
