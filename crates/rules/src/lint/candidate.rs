//! Candidates that cannot tell anything.

use tollgate_core::{Mode, Quota};

use super::{LintView, Suspect};
use crate::compile::flaw::Flaw;

/// A candidate that would refuse nothing, because its rule refuses first.
pub(super) fn without_effect(view: &LintView<'_>, suspect: Suspect<'_>) -> Option<Flaw> {
    let rule = suspect.rule;
    let candidate = view.candidate(rule)?;
    if candidate.quota == rule.quota {
        let flaw = Flaw::new(
            "the candidate is the limit that the rule has already",
            "write what is to be tried, or remove the candidate",
        );
        return Some(flaw.within("candidate"));
    }
    // A shadow rule refuses nothing, so that its candidate is counted beyond the limit too.
    if rule.mode == Mode::Shadow || !is_looser(&candidate.quota, &rule.quota) {
        return None;
    }
    let flaw = Flaw::new(
        "the candidate would refuse nothing: the rule refuses first, and its refusals are not counted",
        "try a tighter limit; what a looser one would admit, the preview and tollgate simulate tell",
    );
    Some(flaw.within("candidate"))
}

/// Whether a client within the second quota provably stays within the first.
fn is_looser(candidate: &Quota, rule: &Quota) -> bool {
    let capacity = |quota: &Quota| quota.burst.unwrap_or(quota.limit);
    if candidate.algorithm != rule.algorithm || capacity(candidate) < capacity(rule) {
        return false;
    }
    if rule.algorithm.is_bucket() {
        let rate = |units: u64, window: u64| u128::from(units) * u128::from(window);
        return rate(candidate.limit, rule.window.get())
            >= rate(rule.limit, candidate.window.get());
    }
    if rule.algorithm.has_aligned_windows() {
        return candidate.window == rule.window && candidate.calendar == rule.calendar;
    }
    // Every shorter window lies within a longer one.
    candidate.window <= rule.window
}
