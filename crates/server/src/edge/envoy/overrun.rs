//! Peeks and charges beyond a limit, as callers of envoyproxy/ratelimit know them that charge afterwards.
//!
//! That service counts refused requests too, so a counter can be over its limit. A peek (no hits) passes
//! at exactly the limit, and is refused after a charge that went over it. Here a refused request is not
//! counted, so a counter ends at its limit. What takes it over is one unit, charged by a limit that is
//! larger by one; a peek by that limit finds nothing left.

use smallvec::SmallVec;
use tollgate::{CheckTarget, Decision, ExplicitCharge, Quota, RuleOutcome};
use tollgate_core::Limit;

use super::files::FileCharges;
use crate::app::state::ServerState;

/// For each charge, the limit that is larger by one; `None` if the limit blocks, or cannot be larger.
pub(super) type OverLimits = SmallVec<[Option<Limit>; 4]>;

/// A limit that is larger by one.
pub(super) fn larger(quota: &Quota) -> Option<Limit> {
    let limit = (quota.limit > 0).then(|| quota.limit.checked_add(1)).flatten()?;
    Quota { limit, ..*quota }.compile().ok()
}

/// Which of the peeks find their counters over the limit. Charges that are no peeks are not looked at.
pub(super) async fn exceeded_peeks(
    app: &ServerState,
    lines: &[ExplicitCharge<'_>],
    limits: &OverLimits,
) -> SmallVec<[bool; 4]> {
    let mut exceeded = SmallVec::<[bool; 4]>::from_elem(false, lines.len());
    let mut peeks = FileCharges::new();
    let mut places = SmallVec::<[usize; 4]>::new();
    for (place, line) in lines.iter().enumerate().filter(|(_, line)| line.cost == 0) {
        match limits.get(place).and_then(Option::as_ref) {
            Some(limit) => {
                peeks.push(ExplicitCharge { limit: Some(limit), ..*line });
                places.push(place);
            }
            // Nothing passes a limit of 0.
            None => exceeded[place] = true,
        }
    }
    if peeks.is_empty() {
        return exceeded;
    }
    let peeked = app.envoy.limiter.check_unrecorded(CheckTarget::Charges(&peeks)).await;
    for outcome in peeked.outcomes().filter(|outcome| outcome.outcome.report.remaining == 0) {
        if let Some(place) = places.get(outcome.subject) {
            exceeded[*place] = true;
        }
    }
    exceeded
}

/// Whether all that is left of a peek's limit is to be looked at more closely.
pub(super) fn is_used_up(outcome: &RuleOutcome<'_>) -> bool {
    outcome.outcome.cost == 0 && outcome.outcome.report.remaining == 0
}

/// Takes what is left for a request that exceeds its only limit, and one unit more, so that peeks are
/// refused from then on. Returns the decision about what was left, if anything was. `is_peeked`: whether
/// there are peeks that a used-up counter has to be over its limit for; without them, a flood of refused
/// requests costs no further call.
///
/// A limit in shadow mode is drained like an enforced one: a trial has to show what going live would do.
pub(super) async fn overrun(
    app: &ServerState,
    decision: &Decision,
    line: &ExplicitCharge<'_>,
    larger: Option<&Limit>,
    is_peeked: bool,
) -> Option<Decision> {
    let limiter = &app.envoy.limiter;
    let outcome = decision.outcomes().next().filter(RuleOutcome::is_exceeded)?;
    let left = outcome.outcome.report.remaining;
    let mut drained = None;
    if left > 0 {
        let rest = [ExplicitCharge { cost: left.min(line.cost), ..*line }];
        // The request is in the statistics already. Another request may have taken the rest meanwhile.
        drained = Some(limiter.check_unrecorded(CheckTarget::Charges(&rest)).await);
    }
    if (left > 0 || is_peeked) && larger.is_some() {
        let over = [ExplicitCharge { cost: 1, limit: larger, ..*line }];
        // If it does not fit, the counter is over its limit already.
        let _ = limiter.check_unrecorded(CheckTarget::Charges(&over)).await;
    }
    drained
}
