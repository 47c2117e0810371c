//! Heavy hitters of the last minutes, in bounded memory: clients, rules and endpoints with most
//! decisions.
//!
//! Time is cut into slices, and each has a sketch for everything that is ranked. A sketch counts exactly
//! until it knows too many names. Then it takes one off every count and removes names whose count is 0
//! (the summary of Misra and Gries): no count is too high, none is too low by more than `taken_off`, and
//! a name with a larger share than one in [`MAX_NAMES`] is never missing.

use std::collections::{HashMap, VecDeque};

use foldhash::quality::RandomState;
use tollgate::Timestamp;
use tollgate_catalog::DecisionAction;

use super::decision_event::DecisionEvent;

/// How many names a sketch counts.
const MAX_NAMES: usize = 500;
/// The length of a slice.
const SLICE_MICROS: u64 = 10_000_000;
/// The longest window of a ranking, in seconds.
pub(crate) const MAX_WINDOW: u64 = 300;
/// The slice that is being filled, and those of the longest window.
const SLICES: usize = 1 + (MAX_WINDOW * 1_000_000 / SLICE_MICROS) as usize;

/// What decisions are counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TopBy {
    Client,
    Rule,
    Endpoint,
}

impl TopBy {
    pub(crate) const ALL: [(&'static str, Self); 3] =
        [("client", Self::Client), ("rule", Self::Rule), ("endpoint", Self::Endpoint)];
}

/// Which decisions are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TopOutcome {
    /// Refused requests.
    Refused,
    /// Requests that a shadow rule would have refused.
    WouldRefuse,
    /// All recorded requests.
    Recorded,
}

impl TopOutcome {
    const COUNT: usize = 3;

    /// What a decision counts as, besides `Recorded`.
    const fn from_action(action: DecisionAction) -> Option<Self> {
        match action {
            DecisionAction::Refused | DecisionAction::Denied => Some(Self::Refused),
            DecisionAction::WouldRefuse => Some(Self::WouldRefuse),
            DecisionAction::Throttled | DecisionAction::Allowed => None,
        }
    }
}

/// The names with the highest counts, in descending order.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ranking {
    pub(crate) names: Vec<(String, u64)>,
    /// How much any count may be too low, at most.
    pub(crate) may_lack: u64,
}

/// Counts of the last minutes.
#[derive(Debug, Default)]
pub(crate) struct Top {
    slices: VecDeque<Slice>,
}

#[derive(Debug)]
struct Slice {
    number: u64,
    /// How many decisions had been missed before it began.
    missed_before: u64,
    /// For each of [`TopBy`], one for each of [`TopOutcome`].
    sketches: [[Sketch; TopOutcome::COUNT]; TopBy::ALL.len()],
}

impl Top {
    pub(super) fn count(&mut self, note: &DecisionEvent, now: Timestamp, missed: u64) {
        let rule_id = note.rule_id.as_deref();
        let names = [Some(note.client.as_str()), rule_id, note.details.endpoint.as_deref()];
        self.count_names(names, TopOutcome::from_action(note.action), now, missed);
    }

    /// Counts a decision by its names, in the order of [`TopBy`].
    fn count_names(
        &mut self,
        names: [Option<&str>; TopBy::ALL.len()],
        of: Option<TopOutcome>,
        now: Timestamp,
        missed: u64,
    ) {
        let slice = self.slice(now, missed);
        for (sketches, name) in slice.sketches.iter_mut().zip(names) {
            let Some(name) = name else { continue };
            sketches[TopOutcome::Recorded as usize].count(name);
            if let Some(of) = of {
                sketches[of as usize].count(name);
            }
        }
    }

    /// The slice that is being filled. A clock that was set back fills the last one.
    fn slice(&mut self, now: Timestamp, missed_before: u64) -> &mut Slice {
        let number = now.as_micros() / SLICE_MICROS;
        if self.slices.back().is_none_or(|last| last.number < number) {
            if self.slices.len() == SLICES {
                self.slices.pop_front();
            }
            self.slices.push_back(Slice { number, missed_before, sketches: Default::default() });
        }
        let last = self.slices.len() - 1;
        &mut self.slices[last]
    }

    /// The names with the highest counts of the last seconds, in whole slices.
    pub(crate) fn ranking(
        &self,
        (by, of): (TopBy, TopOutcome),
        now: Timestamp,
        window_seconds: u64,
        (limit, missed): (usize, u64),
    ) -> Ranking {
        let window = window_seconds.min(MAX_WINDOW) * 1_000_000;
        let first = now.as_micros().saturating_sub(window) / SLICE_MICROS;
        let slices = || self.slices.iter().filter(|slice| slice.number >= first);
        let mut sums: HashMap<&str, u64> = HashMap::new();
        let mut may_lack =
            slices().next().map_or(0, |oldest| missed.saturating_sub(oldest.missed_before));
        for slice in slices() {
            let sketch = &slice.sketches[by as usize][of as usize];
            may_lack += sketch.taken_off;
            for (name, count) in &sketch.counts {
                *sums.entry(name).or_default() += count;
            }
        }
        let mut names: Vec<(&str, u64)> = sums.into_iter().collect();
        names.sort_unstable_by(|(name, count), (other, more)| (more, name).cmp(&(count, other)));
        names.truncate(limit);
        let names = names.into_iter().map(|(name, count)| (name.to_owned(), count)).collect();
        Ranking { names, may_lack }
    }
}

/// Counts up to [`MAX_NAMES`] names.
#[derive(Debug, Default)]
struct Sketch {
    counts: HashMap<Box<str>, u64, RandomState>,
    /// How much was taken off every count.
    taken_off: u64,
}

impl Sketch {
    fn count(&mut self, name: &str) {
        if let Some(count) = self.counts.get_mut(name) {
            *count += 1;
        } else if self.counts.len() < MAX_NAMES {
            self.counts.insert(name.into(), 1);
        } else {
            // The cost is amortised: each count that is visited was paid for by an increment.
            self.taken_off += 1;
            self.counts.retain(|_, count| {
                *count -= 1;
                *count > 0
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    /// Counts names at these seconds, and ranks them at second 1,000.
    fn check(counted: &[(u64, &str)], window: u64, expected: &[(&str, u64)], may_lack: u64) {
        let mut top = Top::default();
        for (missed, (second, name)) in (0..).zip(counted) {
            let names = [Some(*name), None, None];
            top.count_names(
                names,
                Some(TopOutcome::Refused),
                Timestamp::from_secs(*second),
                missed * may_lack,
            );
        }
        assert!(top.slices.len() <= SLICES, "{}", top.slices.len());
        let missed = counted.len() as u64 * may_lack;
        let now = Timestamp::from_secs(1_000);
        let ranking = top.ranking((TopBy::Client, TopOutcome::Refused), now, window, (10, missed));
        let names: Vec<(&str, u64)> =
            ranking.names.iter().map(|(name, count)| (name.as_str(), *count)).collect();
        assert_eq!(names, expected, "{counted:?}");
        if may_lack == 0 {
            assert_eq!(ranking.may_lack, 0);
        } else {
            assert!(ranking.may_lack > 0, "missed decisions are reported");
        }
        assert_eq!(top.ranking((TopBy::Rule, TopOutcome::Refused), now, window, (10, 0)).names, []);
    }

    #[test]
    fn only_the_window_counts() {
        let spread = [(500, "old"), (930, "a"), (945, "b"), (946, "a"), (999, "a"), (1_000, "c")];
        check(&[], 60, &[], 0);
        check(&spread, 60, &[("a", 2), ("b", 1), ("c", 1)], 0);
        check(&spread, 1, &[("a", 1), ("c", 1)], 0);
        check(&spread, 300, &[("a", 3), ("b", 1), ("c", 1)], 0);
        check(&spread, 9_999, &[("a", 3), ("b", 1), ("c", 1)], 0);
        check(&spread, 60, &[("a", 2), ("b", 1), ("c", 1)], 7);
        // A clock that is set back.
        check(&[(995, "a"), (100, "b"), (996, "a")], 60, &[("a", 2), ("b", 1)], 0);
        let long: Vec<(u64, &str)> = (0..1_000).map(|second| (second, "a")).collect();
        check(&long, 300, &[("a", 300)], 0);
    }

    proptest! {
        #[test]
        fn a_sketch_is_never_too_high_and_too_low_by_at_most_taken_off(
            heavy in prop::collection::vec(0_u32..40, 0..3_000),
            light in 0_u32..3_000,
        ) {
            let mut sketch = Sketch::default();
            let mut exact: HashMap<String, u64> = HashMap::new();
            let names = heavy.iter().map(|number| format!("heavy {number}"));
            for name in names.chain((0..light).map(|number| format!("light {number}"))) {
                sketch.count(&name);
                *exact.entry(name).or_default() += 1;
            }
            prop_assert!(sketch.counts.len() <= MAX_NAMES);
            prop_assert!(sketch.taken_off <= exact.values().sum::<u64>() / (MAX_NAMES as u64 + 1));
            prop_assert!(exact.len() > MAX_NAMES || sketch.taken_off == 0);
            for (name, count) in &exact {
                let told = sketch.counts.get(name.as_str()).copied().unwrap_or(0);
                prop_assert!(told <= *count && *count <= told + sketch.taken_off, "{name}");
            }
        }
    }
}
