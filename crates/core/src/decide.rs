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
pub fn decide<'a>(outcomes: impl Iterator<Item = &'a Outcome> + Clone) -> Verdict {
    let all = outcomes.enumerate();
    let enforced = || all.clone().filter(|(_, outcome)| outcome.mode != Mode::Shadow);
    let refused = enforced()
        .filter(|(_, outcome)| !outcome.admitted)
        .reduce(|best, next| if waits_longer(next.1, best.1) { next } else { best });
    if let Some((binding, _)) = refused {
        return Verdict { admitted: false, binding: Some(binding), delay: None };
    }
    let tightest =
        enforced().reduce(|best, next| if is_tighter(next.1, best.1) { next } else { best });
    Verdict {
        admitted: true,
        binding: tightest.map(|(binding, _)| binding),
        delay: enforced().filter_map(|(_, outcome)| outcome.report.delay).max(),
    }
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
