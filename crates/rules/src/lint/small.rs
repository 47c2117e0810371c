//! Figures that are too small for what they are meant to allow.

use tollgate_core::{Algorithm, Quota};

use super::{LintView, Suspect};
use crate::compile::flaw::Flaw;

/// Up to this many requests per window, the sliding counter refuses a tenth or more of the requests of
/// a client that stays exactly at its limit: it takes the previous window for evenly filled.
const MAX_COARSE_LIMIT: u64 = 10;

/// A limit of a few requests, counted by an estimate.
pub(super) fn coarse_counter(_: &LintView<'_>, suspect: Suspect<'_>) -> Option<Flaw> {
    let Suspect { rule, document } = suspect;
    let cost = if document.costs.is_empty() { document.cost.max(1) } else { 1 };
    let requests = rule.quota.limit / cost;
    let is_coarse = rule.quota.algorithm == Algorithm::SlidingWindowCounter
        && (1..=MAX_COARSE_LIMIT).contains(&requests);
    is_coarse.then(|| {
        Flaw::new(
            format!(
                "sliding_window_counter estimates; with {requests} requests per window, steady clients \
                 get about {} % of that",
                steady_share(requests)
            ),
            "write algorithm: sliding_window_log, which is exact, or gcra",
        )
        .within("limit")
    })
}

/// How much of its limit a client gets that sends requests evenly, in percent: one request less per
/// window, but for a limit of 1, which passes in every second window. docs/algorithms.md measures it.
const fn steady_share(requests: u64) -> u64 {
    if requests <= 1 { 50 } else { 100 - 100 / requests }
}

/// A capacity below the limit: the limit passes in no moment, only spread over the window.
pub(super) fn burst_below_limit(_: &LintView<'_>, suspect: Suspect<'_>) -> Option<Flaw> {
    let Quota { algorithm, limit, burst, .. } = suspect.rule.quota;
    // In a queue, burst is its length. A burst of 1 says that requests have to keep a distance.
    let is_bucket = matches!(algorithm, Algorithm::TokenBucket | Algorithm::Gcra);
    let burst = burst.filter(|burst| is_bucket && *burst > 1 && *burst < limit)?;
    Some(
        Flaw::new(
            format!("at most {burst} pass at once, less than the limit of {limit}"),
            format!(
                "burst is the whole capacity, not an addition to the limit: for {burst} more than the \
                 limit, write burst: {}; to keep requests apart, write burst: 1",
                limit.saturating_add(burst)
            ),
        )
        .within("burst"),
    )
}

/// A request that costs more than a full counter has: it never passes.
pub(super) fn cost_above_capacity(_: &LintView<'_>, suspect: Suspect<'_>) -> Option<Flaw> {
    let Suspect { rule, document } = suspect;
    let capacity = rule.quota.burst.unwrap_or(rule.quota.limit).saturating_add(rule.quota.grace);
    let named = document.costs.iter().find(|(_, cost)| **cost > capacity);
    let (field, cost) = match named {
        _ if rule.quota.limit == 0 => return None,
        Some((endpoint, cost)) => {
            (format!("costs[{}]", serde_json::Value::from(&**endpoint)), *cost)
        }
        None if document.cost > capacity => ("cost".to_owned(), document.cost),
        None => return None,
    };
    Some(
        Flaw::new(
            format!(
                "such a request never passes: it costs {cost}, and a full counter has {capacity}"
            ),
            "lower the cost, or raise the limit or the burst",
        )
        .within(&field),
    )
}
