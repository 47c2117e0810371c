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
    /// By how much the limit that was charged is larger than `limit`: a node that counts alone has a multiple of it.
    pub surplus: u64,
}

/// What a verdict takes into account of one rule's outcome.
#[derive(Clone, Copy, Debug)]
pub struct Vote<'a> {
    /// Whether the rule was enforced.
    pub mode: Mode,
    /// Whether the charge fitted.
    pub admitted: bool,
    /// The most that can be in use.
    pub limit: u64,
    /// The figures.
    pub report: &'a Report,
}

impl Outcome {
    /// What is left of `limit`, as far as a client can rely on it: a node that counts alone may let more pass, but does
    /// not promise it.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.report.remaining.saturating_sub(self.surplus).min(self.limit)
    }

    /// The vote of its rule.
    #[must_use]
    pub const fn vote(&self) -> Vote<'_> {
        let Self { mode, admitted, limit, report, .. } = self;
        Vote { mode: *mode, admitted: *admitted, limit: *limit, report }
    }
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

/// Combines votes, which are in order of precedence; the first of equals binds.
#[must_use]
#[inline]
pub fn decide<'a>(votes: impl Iterator<Item = Vote<'a>>) -> Verdict {
    let mut binding: Option<(usize, Vote<'_>)> = None;
    let mut delay = None;
    for (index, vote) in votes.enumerate().filter(|(_, it)| it.mode != Mode::Shadow) {
        let binds = match &binding {
            None => true,
            // A refusal is reported before any admission.
            Some((_, best)) if best.admitted != vote.admitted => best.admitted,
            Some((_, best)) if vote.admitted => is_tighter(&vote, best),
            Some((_, best)) => waits_longer(&vote, best),
        };
        if binds {
            binding = Some((index, vote));
        }
        delay = delay.max(vote.report.delay);
    }
    let admitted = binding.is_none_or(|(_, vote)| vote.admitted);
    let binding = binding.map(|(index, _)| index);
    Verdict { admitted, binding, delay: delay.filter(|_| admitted) }
}

fn waits_longer(a: &Vote<'_>, b: &Vote<'_>) -> bool {
    match (a.report.retry_after, b.report.retry_after) {
        (None, Some(_)) => true,
        (Some(a), Some(b)) => a > b,
        (_, None) => false,
    }
}

/// Compares remaining/limit by cross multiplication. A limit of zero has nothing left.
fn is_tighter(a: &Vote<'_>, b: &Vote<'_>) -> bool {
    let left =
        |x: &Vote<'_>, y: &Vote<'_>| u128::from(x.report.remaining) * u128::from(y.limit.max(1));
    left(a, b) < left(b, a)
}
