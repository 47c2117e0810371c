//! `GET /api/v1/history`: how requests ended on this node over the last hours, and how long checks took.

use axum::Json;
use axum::extract::{OriginalUri, State};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tollgate::{Micros, Timestamp};
use utoipa::ToSchema;

use crate::app::state::ServerState;
use crate::edge::http::extract::RuleViewer;
use crate::edge::http::openapi::AdminProblems;
use crate::edge::http::paging::Parameters;
use crate::edge::http::problem::{Problem, ProblemBody};
use crate::edge::http::wire::time::rfc_3339_exact;
use crate::observe::history::{
    HistoryFigures, HistoryPoint, MAX_RANGE, Quantiles, RequestFigures, RuleFigures, RuleHistory,
};

/// The range if none is given: an hour.
const DEFAULT_RANGE: Micros = Micros::from_secs(60 * 60);
const MIN_RANGE: Micros = Micros::from_secs(60);

/// The figures of this node over a range. Each list has one number for each step, the oldest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HistoryAnswer {
    /// The range.
    range_seconds: u64,
    /// The figures of the node; null for administrators of a tenant.
    node: Option<NodeHistory>,
    /// The policies that came into force within the range, the oldest first.
    revisions: Vec<RevisionInForce>,
    /// The rules that decided something within the range; for administrators of a tenant, those of the tenant.
    rules: Vec<RuleHistoryAnswer>,
}

/// How requests ended within each step, each counted once, and how long checks took.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NodeHistory {
    /// When the first step began, in RFC 3339.
    #[schema(format = DateTime)]
    from: String,
    /// The length of a step.
    step_seconds: u64,
    /// Passed, and counted by at least one rule.
    allowed: Vec<u64>,
    /// Refused because a limit was reached.
    refused: Vec<u64>,
    /// Refused because the client is on the deny list, banned, or lacks a required identifier.
    denied: Vec<u64>,
    /// Passed after a delay.
    throttled: Vec<u64>,
    /// Passed because no rule applies, or because the client is on the allow list.
    unlimited: Vec<u64>,
    /// Not checked: the request was invalid, or the store unavailable and a rule fails closed.
    error: Vec<u64>,
    /// Decided without the shared store; also counted above.
    degraded: Vec<u64>,
    /// How long checks took.
    check_seconds: QuantilesAnswer,
    /// How long the store took to settle.
    store_seconds: QuantilesAnswer,
}

/// Quantiles of durations in seconds; null where there were none.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct QuantilesAnswer {
    /// Half of all took less.
    p50: Vec<Option<f64>>,
    /// 95 % of all took less.
    p95: Vec<Option<f64>>,
    /// 99 % of all took less.
    p99: Vec<Option<f64>>,
}

/// When a policy came into force on this node.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RevisionInForce {
    /// When, in RFC 3339.
    #[schema(format = DateTime)]
    at: String,
    /// The revision.
    revision: u64,
    /// How many rules it has.
    rules: usize,
}

/// The decisions of a rule within each step.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RuleHistoryAnswer {
    /// The rule; `RULE~candidate` is the candidate of a rule.
    rule_id: String,
    /// When the first step began, in RFC 3339.
    #[schema(format = DateTime)]
    from: String,
    /// The length of a step, which is longer than that of the node.
    step_seconds: u64,
    /// Requests within the limit.
    allowed: Vec<u64>,
    /// Requests that were refused, also because the rule had banned their clients, or fails closed.
    refused: Vec<u64>,
    /// Requests that the rule would have refused if it were not `log_only`, or the candidate if it were in force.
    would_refuse: Vec<u64>,
}

impl NodeHistory {
    fn new(figures: &HistoryFigures, now: Timestamp) -> Self {
        let HistoryFigures { step, points, .. } = figures;
        let count = |count: fn(&RequestFigures) -> u64| {
            points.iter().map(|point| count(&point.requests)).collect()
        };
        Self {
            from: rfc_3339_exact(points.first().map_or(now, |first| first.at)),
            step_seconds: step.as_secs_ceil(),
            allowed: count(|it| it.allowed),
            refused: count(|it| it.refused),
            denied: count(|it| it.denied),
            throttled: count(|it| it.throttled),
            unlimited: count(|it| it.unlimited),
            error: count(|it| it.error),
            degraded: count(|it| it.degraded),
            check_seconds: QuantilesAnswer::new(points, |point| point.check),
            store_seconds: QuantilesAnswer::new(points, |point| point.store),
        }
    }
}

impl QuantilesAnswer {
    fn new(points: &[HistoryPoint], of: fn(&HistoryPoint) -> Quantiles) -> Self {
        let list = |quantile: fn(Quantiles) -> Option<f64>| {
            points.iter().map(|point| quantile(of(point))).collect()
        };
        Self { p50: list(|it| it.p50), p95: list(|it| it.p95), p99: list(|it| it.p99) }
    }
}

impl From<RuleHistory> for RuleHistoryAnswer {
    fn from(rule: RuleHistory) -> Self {
        let count =
            |count: fn(&RuleFigures) -> u64| rule.points.iter().map(count).collect::<Vec<u64>>();
        Self {
            rule_id: rule.rule_id.to_string(),
            from: rfc_3339_exact(rule.from),
            step_seconds: rule.step.as_secs_ceil(),
            allowed: count(|it| it.allowed),
            refused: count(|it| it.refused),
            would_refuse: count(|it| it.would_refuse),
        }
    }
}

/// Shows how requests ended on this node over the last hours, and how long checks took.
///
/// The figures are in memory, at falling resolution: seconds for 5 minutes, 10 seconds for an hour, minutes for a day.
#[utoipa::path(
    get, path = "/api/v1/history", tag = "audit", security(("token" = [])),
    params(("range" = Option<String>, Query, description = "How far back, as in 5m, 1h or 24h: 1m to 24h; 1h if not given")),
    responses(
        (status = 200, description = "The figures", body = HistoryAnswer),
        (status = 400, description = "The query cannot be read", body = ProblemBody<'_>, content_type = "application/problem+json"),
        AdminProblems,
    )
)]
pub(crate) async fn history(
    State(app): State<ServerState>,
    RuleViewer(session): RuleViewer,
    OriginalUri(uri): OriginalUri,
) -> Result<Response, Problem> {
    let query = Parameters::read(&uri, &["range"])?;
    let range = query.one("range")?.map_or(Ok(DEFAULT_RANGE), read_range)?;
    let tenant = session.tenant();
    let now = app.now();
    let figures = app.history.figures(now, range);
    let rules = app.history.rules(now, range, |rule_id| app.is_rule_of(rule_id, tenant.as_deref()));
    let revisions = figures.revisions.iter().map(|mark| RevisionInForce {
        at: rfc_3339_exact(mark.at),
        revision: mark.revision,
        rules: mark.rules,
    });
    let answer = HistoryAnswer {
        range_seconds: range.as_secs_ceil(),
        revisions: revisions.filter(|_| tenant.is_none()).collect(),
        node: tenant.is_none().then(|| NodeHistory::new(&figures, now)),
        rules: rules.into_iter().map(RuleHistoryAnswer::from).collect(),
    };
    Ok((session.fields, Json(answer)).into_response())
}

/// A range as in `90s`, `5m` or `24h`.
pub(crate) fn read_range(text: &str) -> Result<Micros, Problem> {
    let seconds = text.find(|c: char| !c.is_ascii_digit()).and_then(|end| {
        let (number, unit) = text.split_at(end);
        let seconds = match unit {
            "s" => 1,
            "m" => 60,
            "h" => 60 * 60,
            _ => return None,
        };
        number
            .parse::<u64>()
            .ok()?
            .checked_mul(seconds)
            .filter(|it| *it <= MAX_RANGE.as_secs_ceil())
    });
    let range = seconds.map(Micros::from_secs).filter(|range| *range >= MIN_RANGE);
    range.ok_or_else(|| {
        let detail = "`range` is a time from 1m to 24h, like 5m, 1h or 24h";
        Problem::bad_request("invalid_query", detail)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_from_a_minute_to_a_day() {
        let check = |text: &str, seconds: Option<u64>| {
            let range = read_range(text).ok().map(Micros::as_secs_ceil);
            assert_eq!(range, seconds, "{text}");
        };
        check("60s", Some(60));
        check("1m", Some(60));
        check("24h", Some(86_400));
        check("1440m", Some(86_400));
        for wrong in ["", "h", "5", "59s", "25h", "-1h", "1d", "1.5h", "99999999999999999999h"] {
            check(wrong, None);
        }
    }
}
