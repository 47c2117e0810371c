//! The decisions of each rule over the last 24 hours, for a bounded number of rules.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use tollgate::rules::candidate_of;
use tollgate::{Micros, RuleCounts, Timestamp};

use super::levels::{HistoryLevels, HistorySample, HistorySlice, Resolution};
use super::{RuleFigures, RuleHistory};

/// How many rules have a history: the first that are used.
const MAX_RULES: usize = 1_000;
const RESOLUTIONS: [Resolution; 3] =
    [Resolution::new(10, 30), Resolution::new(60, 60), Resolution::new(600, 144)];

/// The decisions of rules.
#[derive(Debug, Default)]
pub(super) struct RuleHistories {
    rules: HashMap<Arc<str>, KeptRule, RandomState>,
}

#[derive(Debug)]
struct KeptRule {
    levels: HistoryLevels<RuleSample>,
    /// The counts of the last second.
    before: RuleSample,
    /// When the rule was last in force.
    in_force_at: Timestamp,
}

/// Decisions of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct RuleSample {
    allowed: u64,
    refused: u64,
    would_refuse: u64,
}

impl HistorySample for RuleSample {
    fn add(&mut self, other: &Self) {
        self.allowed += other.allowed;
        self.refused += other.refused;
        self.would_refuse += other.would_refuse;
    }
}

impl RuleSample {
    const fn new(counts: &RuleCounts) -> Self {
        Self {
            allowed: counts.admitted,
            refused: counts.refused + counts.banned + counts.fallback_closed,
            would_refuse: counts.would_refuse,
        }
    }

    /// Whether counts began at 0 again: those of a rule that was removed and is back, or of another candidate.
    const fn is_anew(&self, before: &Self) -> bool {
        self.allowed < before.allowed
            || self.refused < before.refused
            || self.would_refuse < before.would_refuse
    }

    /// How much more it is.
    const fn since(&self, before: &Self) -> Self {
        if self.is_anew(before) {
            return *self;
        }
        Self {
            allowed: self.allowed - before.allowed,
            refused: self.refused - before.refused,
            would_refuse: self.would_refuse - before.would_refuse,
        }
    }
}

impl RuleHistories {
    /// Adds the decisions of a second.
    pub(super) fn add(
        &mut self,
        at: Timestamp,
        counts: impl Iterator<Item = (Arc<str>, RuleCounts)>,
    ) {
        for (rule_id, counts) in counts {
            let after = RuleSample::new(&counts);
            let is_known = self.rules.contains_key(&rule_id);
            if !is_known && (after == RuleSample::default() || !self.make_room(at)) {
                continue;
            }
            let id = Arc::clone(&rule_id);
            let kept = self.rules.entry(rule_id).or_insert_with(|| KeptRule {
                levels: HistoryLevels::new(&RESOLUTIONS),
                before: RuleSample::default(),
                in_force_at: at,
            });
            // What a candidate with another limit would have refused says nothing about this one.
            if after.is_anew(&kept.before) && candidate_of(&id).is_some() {
                kept.levels = HistoryLevels::new(&RESOLUTIONS);
            }
            kept.levels.add(at, &after.since(&kept.before));
            (kept.before, kept.in_force_at) = (after, at);
        }
    }

    /// Makes room for another rule, if need be by forgetting one that is not in force any more.
    fn make_room(&mut self, at: Timestamp) -> bool {
        if self.rules.len() >= MAX_RULES {
            let is_gone = |kept: &KeptRule| at.since(kept.in_force_at) > Micros::from_secs(2);
            let gone = self.rules.iter().find(|(_, kept)| is_gone(kept));
            let gone = gone.map(|(rule_id, _)| Arc::clone(rule_id));
            return gone.is_some_and(|gone| self.rules.remove(&gone).is_some());
        }
        true
    }

    /// The decisions of the last `range`, of the rules that had any and that `is_wanted`, in the order of their names.
    pub(super) fn last(
        &self,
        now: Timestamp,
        range: Micros,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Vec<RuleHistory> {
        let wanted = self.rules.iter().filter(|(rule_id, _)| is_wanted(rule_id));
        let mut found: Vec<RuleHistory> = wanted
            .map(|(rule_id, kept)| {
                let HistorySlice { step, from, points } = kept.levels.last(now, range);
                let points = points.iter().map(|it| RuleFigures {
                    allowed: it.allowed,
                    refused: it.refused,
                    would_refuse: it.would_refuse,
                });
                RuleHistory { rule_id: Arc::clone(rule_id), step, from, points: points.collect() }
            })
            .filter(|rule| rule.points.iter().any(|it| *it != RuleFigures::default()))
            .collect();
        found.sort_unstable_by(|rule, other| rule.rule_id.cmp(&other.rule_id));
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(admitted: u64, refused: u64) -> RuleCounts {
        RuleCounts { admitted, refused, ..RuleCounts::default() }
    }

    fn at(second: u64) -> Timestamp {
        Timestamp::from_secs(1_000_000 + second)
    }

    #[test]
    fn the_decisions_of_rules_are_kept_in_steps_of_ten_seconds() {
        let mut rules = RuleHistories::default();
        for second in 0..40 {
            // The rule is removed after 20 seconds, and back after 30.
            let counted = match second {
                0..20 => counts(second + 1, 1),
                20..30 => continue,
                _ => counts(2 * (second - 29), 0),
            };
            let unused = ("unused".into(), RuleCounts::default());
            rules.add(at(second), [("login".into(), counted), unused].into_iter());
        }
        let found = rules.last(at(40), Micros::from_secs(300), |_| true);
        let [login] = found.as_slice() else { panic!("{found:?}") };
        let points: Vec<(u64, u64)> =
            login.points.iter().map(|it| (it.allowed, it.refused)).collect();
        assert_eq!(points, [(10, 1), (10, 0), (0, 0), (20, 0)]);
        assert_eq!((login.step, login.from), (Micros::from_secs(10), at(0)));
        assert_eq!(rules.last(at(40), Micros::from_secs(300), |it| it != "login"), []);
    }

    #[test]
    fn figures_of_another_candidate_begin_at_zero() {
        let mut rules = RuleHistories::default();
        let tried = |admitted, would_refuse| {
            let counts = RuleCounts { admitted, would_refuse, ..RuleCounts::default() };
            [(Arc::from("api~candidate"), counts)].into_iter()
        };
        for second in 0..20 {
            let counted = if second < 10 { tried(374, 315) } else { tried(22, 0) };
            rules.add(at(second), counted);
        }
        let found = rules.last(at(20), Micros::from_secs(300), |_| true);
        let [candidate] = found.as_slice() else { panic!("{found:?}") };
        let sums = candidate.points.iter().fold((0, 0), |(allowed, would_refuse), it| {
            (allowed + it.allowed, would_refuse + it.would_refuse)
        });
        assert_eq!(sums, (22, 0));
    }

    #[test]
    fn the_number_of_rules_is_bounded_and_those_in_force_take_the_place_of_others() {
        let mut rules = RuleHistories::default();
        let used = |range: std::ops::Range<usize>| {
            range.map(|number| (Arc::from(format!("r{number}")), counts(1, 0)))
        };
        rules.add(at(0), used(0..3 * MAX_RULES));
        assert_eq!(rules.rules.len(), MAX_RULES);
        rules.add(at(10), used(2_900..2_902));
        assert_eq!(rules.rules.len(), MAX_RULES);
        assert!(rules.rules.contains_key("r2900") && rules.rules.contains_key("r2901"));
    }
}
