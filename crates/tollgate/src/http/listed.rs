//! Which rules the list fields name: all of them, or the most binding ones where there are too many.
//!
//! Proxies read the head of a response into small buffers, nginx into 4 KiB by default, and fail if
//! it does not fit.

use std::cmp::Reverse;

use super::figures::remaining;
use crate::decision::{Decision, RuleOutcome};

/// The largest value of a field that lists rules. There are two of them.
const MAX_LIST_BYTES: usize = 1_024;
/// The size of a rule in a list besides its id: quotes, a separator and two parameters.
const FIGURES_BYTES: usize = 44;

/// The rules that the list fields name, in the order of reports.
pub(super) struct RuleList {
    /// The indexes of the rules that are named, sorted; `None`: all of them.
    chosen: Option<Vec<usize>>,
}

impl RuleList {
    pub(super) fn of(decision: &Decision) -> Self {
        let bytes: usize = enforced(decision).map(|outcome| bytes_of(&outcome)).sum();
        let chosen = (bytes > MAX_LIST_BYTES).then(|| choose(decision));
        Self { chosen }
    }

    pub(super) fn iter<'a>(&self, decision: &'a Decision) -> impl Iterator<Item = RuleOutcome<'a>> {
        let is_chosen = |place: &usize| {
            self.chosen.as_ref().is_none_or(|chosen| chosen.binary_search(place).is_ok())
        };
        let outcomes = enforced(decision).enumerate();
        outcomes.filter(move |(place, _)| is_chosen(place)).map(|(_, outcome)| outcome)
    }
}

/// Shadow rules are not reported to clients.
pub(super) fn enforced(decision: &Decision) -> impl Iterator<Item = RuleOutcome<'_>> {
    decision.outcomes().filter(|outcome| !outcome.is_shadow())
}

fn bytes_of(outcome: &RuleOutcome<'_>) -> usize {
    outcome.rule.id.len() + FIGURES_BYTES
}

/// As many as fit: the rule that binds, then those that refuse, then those with the smallest share left.
fn choose(decision: &Decision) -> Vec<usize> {
    let binding = decision.binding().map(|binding| binding.outcome.rule);
    let mut ranked: Vec<_> = enforced(decision)
        .enumerate()
        .map(|(place, outcome)| {
            let figures = &outcome.outcome;
            let left = u128::from(remaining(figures)) * 1_000_000;
            let share = left / u128::from(figures.limit.max(1));
            let is_binding = binding == Some(figures.rule);
            ((Reverse(is_binding), figures.admitted, share, place), bytes_of(&outcome))
        })
        .collect();
    ranked.sort_unstable();
    let mut room = MAX_LIST_BYTES;
    let mut chosen = Vec::new();
    for ((_, _, _, place), bytes) in ranked {
        let Some(left) = room.checked_sub(bytes) else { break };
        room = left;
        chosen.push(place);
    }
    chosen.sort_unstable();
    chosen
}
