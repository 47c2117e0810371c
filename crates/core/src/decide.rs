//! Combines the results of several counters into one verdict, and chooses the rule that the response reports.

use crate::{Micros, Mode, Report};

/// One rule's part in a decision: figures to report, without limits or states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The index of the rule in its policy.
    pub rule: usize,
    /// Whether the rule was enforced.
    pub mode: Mode,
    /// Whether the charge fitted.
    pub admitted: bool,
    /// The most that can be in use.
    pub limit: u64,
    /// How long the rate takes to refill `limit`: the window, unless the burst differs from the limit.
    pub window: Micros,
    /// What was charged, or would have been.
    pub cost: u64,
    /// The figures.
    pub report: Report,
}

/// The combined result of all outcomes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Whether every enforced rule admitted the request.
    pub admitted: bool,
    /// The index of the outcome that is reported: for a refused request the one with the longest wait, for an
    /// admitted one the one with the least left of its limit. Shadow rules are never reported.
    pub binding: Option<usize>,
    /// How long an admitted request is delayed: the longest delay of its rules.
    pub delay: Option<Micros>,
}

/// Combines outcomes, which are in order of precedence; the first of equals binds.
#[must_use]
#[inline]
pub fn decide<'a>(outcomes: impl Iterator<Item = &'a Outcome>) -> Verdict {
    let mut binding: Option<(usize, &Outcome)> = None;
    let mut delay = None;
    for (index, outcome) in outcomes.enumerate().filter(|(_, it)| it.mode != Mode::Shadow) {
        let binds = match binding {
            None => true,
            // A refusal is reported before any admission.
            Some((_, best)) if best.admitted != outcome.admitted => best.admitted,
            Some((_, best)) if outcome.admitted => is_tighter(outcome, best),
            Some((_, best)) => waits_longer(outcome, best),
        };
        if binds {
            binding = Some((index, outcome));
        }
        delay = delay.max(outcome.report.delay);
    }
    let admitted = binding.is_none_or(|(_, outcome)| outcome.admitted);
    let binding = binding.map(|(index, _)| index);
    Verdict { admitted, binding, delay: delay.filter(|_| admitted) }
}

fn waits_longer(a: &Outcome, b: &Outcome) -> bool {
    match (a.report.retry_after, b.report.retry_after) {
        (None, Some(_)) => true,
        (Some(a), Some(b)) => a > b,
        (_, None) => false,
    }
}

/// Compares remaining/limit by cross multiplication. A limit of zero has nothing left.
fn is_tighter(a: &Outcome, b: &Outcome) -> bool {
    let left =
        |x: &Outcome, y: &Outcome| u128::from(x.report.remaining) * u128::from(y.limit.max(1));
    left(a, b) < left(b, a)
}
