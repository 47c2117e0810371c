//! Times in HTTP responses: whole seconds, rounded so that no client retries too early.

use tollgate_core::{Limit, Outcome, Timestamp};

use crate::decision::{Decision, Refusal};

/// What is left, as far as a client can rely on it: a node on the local fallback may allow more than the limit, but
/// does not promise it ([`Outcome::remaining`]).
#[must_use]
pub fn remaining(outcome: &Outcome) -> u64 {
    outcome.remaining()
}

/// `Retry-After` while the store is unavailable. When it returns is unknown; this is enough for most restarts, and
/// keeps clients from retrying at once.
const STORE_ABSENCE_SECONDS: u64 = 5;

/// When the limit resets, in seconds since the epoch: fixed windows and sliding window counters at the end of the
/// current window, others when nothing is in use any more. `now` is the time of the decision, [`Decision::now`].
#[must_use]
pub fn reset_at(now: Timestamp, limit: &Limit, outcome: &Outcome) -> u64 {
    now.plus(limit.reset_after(now, &outcome.report)).as_micros().div_ceil(1_000_000)
}

/// When nothing will be in use any more, in seconds since the epoch. `now` is the time of the decision,
/// [`Decision::now`].
#[must_use]
pub const fn full_at(now: Timestamp, outcome: &Outcome) -> u64 {
    now.plus(outcome.report.reset_after).as_micros().div_ceil(1_000_000)
}

/// After how many seconds a refused request may be retried, at least one. `None`: it was not refused, it never
/// passes, or it was not a limit that refused it.
#[must_use]
pub fn retry_after(decision: &Decision) -> Option<u64> {
    match decision.refusal()? {
        Refusal::RateLimited => retry_after_rule(&decision.binding()?.outcome),
        Refusal::Banned => Some(decision.retry_after()?.as_secs_ceil().max(1)),
        Refusal::StoreUnavailable => Some(STORE_ABSENCE_SECONDS),
        Refusal::Denied => None,
    }
}

/// After how many seconds one rule would admit what it refused, at least one. `None`: it refused nothing, or never
/// will admit it.
///
/// With a grace, that may be before anything is left to report; then it is the later of the two times, since a client
/// must not be sent back to a limit whose fields say that nothing is left.
#[must_use]
pub fn retry_after_rule(outcome: &Outcome) -> Option<u64> {
    if outcome.admitted {
        return None;
    }
    let report = outcome.report;
    let wait = report.retry_after?.max(report.next_after.unwrap_or_default());
    Some(wait.as_secs_ceil().max(1))
}
