//! A series of points at falling resolution: the last minutes by seconds, the last hours by minutes.

use std::collections::VecDeque;

use tollgate::{Micros, Timestamp};

/// What a series is made of: it can be added up.
pub(super) trait HistorySample: Clone + Default {
    fn add(&mut self, other: &Self);
}

/// The length of a point, and how many of them are kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Resolution {
    pub(super) step: Micros,
    pub(super) points: usize,
}

impl Resolution {
    pub(super) const fn new(step_seconds: u64, points: usize) -> Self {
        Self { step: Micros::from_secs(step_seconds), points }
    }
}

/// Points of one length, the oldest first, without gaps.
#[derive(Clone, Debug)]
struct HistoryLevel<T> {
    resolution: Resolution,
    points: VecDeque<T>,
    /// The number of the last point since 1970.
    last: u64,
    /// Whether older points were dropped.
    is_full: bool,
}

impl<T: HistorySample> HistoryLevel<T> {
    fn new(resolution: Resolution) -> Self {
        Self { resolution, points: VecDeque::new(), last: 0, is_full: false }
    }

    fn add(&mut self, at: Timestamp, sample: &T) {
        let number = at.as_micros() / self.resolution.step.get();
        let missing = match self.points.len() {
            0 => 1,
            // A clock that was set back fills the last point.
            _ => number.saturating_sub(self.last),
        };
        let most = self.resolution.points;
        for _ in 0..missing.min(most as u64) {
            if self.points.len() == most {
                self.points.pop_front();
                self.is_full = true;
            }
            self.points.push_back(T::default());
        }
        self.last = number.max(self.last);
        if let Some(last) = self.points.back_mut() {
            last.add(sample);
        }
    }

    /// When the point at a place began.
    fn begin(&self, place: usize) -> Timestamp {
        let number = (self.last + 1 + place as u64).saturating_sub(self.points.len() as u64);
        Timestamp::from_micros(number.saturating_mul(self.resolution.step.get()))
    }
}

/// A series at several resolutions, the finest first.
#[derive(Clone, Debug)]
pub(super) struct HistoryLevels<T> {
    levels: Vec<HistoryLevel<T>>,
    /// Until when samples were added.
    until: Timestamp,
}

/// Points of a series, the oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HistorySlice<T> {
    pub(super) step: Micros,
    pub(super) from: Timestamp,
    pub(super) points: Vec<T>,
}

impl<T: HistorySample> HistoryLevels<T> {
    pub(super) fn new(resolutions: &[Resolution]) -> Self {
        let levels = resolutions.iter().map(|it| HistoryLevel::new(*it)).collect();
        Self { levels, until: Timestamp::from_micros(0) }
    }

    /// Adds what happened in the second from `at` on.
    pub(super) fn add(&mut self, at: Timestamp, sample: &T) {
        self.levels.iter_mut().for_each(|level| level.add(at, sample));
        self.until = self.until.max(at.plus(Micros::from_secs(1)));
    }

    /// The points of the last `range`, at the finest resolution that has all that is known of it; without the one that
    /// is not complete yet.
    pub(super) fn last(&self, now: Timestamp, range: Micros) -> HistorySlice<T> {
        let since = now.minus(range);
        let has_all = |level: &&HistoryLevel<T>| !level.is_full || level.begin(0) <= since;
        let level = self.levels.iter().find(has_all).or(self.levels.last());
        let Some(level) = level else {
            return HistorySlice { step: Micros::ZERO, from: now, points: Vec::new() };
        };
        let step = level.resolution.step;
        let is_shown = |place: &usize| {
            let begin = level.begin(*place);
            begin.plus(step) > since && begin.plus(step) <= self.until
        };
        let mut shown = (0..level.points.len()).filter(is_shown).peekable();
        let from = shown.peek().map_or(now, |first| level.begin(*first));
        let points = shown.filter_map(|place| level.points.get(place).cloned()).collect();
        HistorySlice { step, from, points }
    }

    /// The last point of the finest resolution.
    pub(super) fn newest(&self) -> Option<(Timestamp, &T)> {
        let finest = self.levels.first()?;
        let place = finest.points.len().checked_sub(1)?;
        Some((finest.begin(place), finest.points.get(place)?))
    }

    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.levels.iter().map(|level| level.points.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    impl HistorySample for u64 {
        fn add(&mut self, other: &Self) {
            *self += other;
        }
    }

    const RESOLUTIONS: [Resolution; 3] =
        [Resolution::new(1, 10), Resolution::new(5, 8), Resolution::new(20, 6)];

    fn at(second: u64) -> Timestamp {
        Timestamp::from_secs(1_000_000 + second)
    }

    proptest! {
        /// Against a model that keeps everything: each point is the sum of its seconds, in order, without gaps, and
        /// there are never more than were asked for.
        #[test]
        fn points_are_the_sums_of_their_seconds(
            steps in prop::collection::vec((0_u64..4, 0_u64..10), 1..200), range in 1_u64..150,
        ) {
            let mut levels = HistoryLevels::<u64>::new(&RESOLUTIONS);
            let (mut second, mut all) = (0, std::collections::BTreeMap::<u64, u64>::new());
            for (step, amount) in steps {
                second += step;
                levels.add(at(second), &amount);
                *all.entry(second).or_default() += amount;
            }
            prop_assert!(levels.held() <= 10 + 8 + 6);
            let HistorySlice { step, from, points } =
                levels.last(at(second + 1), Micros::from_secs(range));
            let step = step.get() / 1_000_000;
            for (place, sum) in (0..).zip(&points) {
                let begin = from.as_micros() / 1_000_000 - 1_000_000 + place * step;
                let seconds = all.range(begin..begin + step).map(|(_, amount)| amount);
                prop_assert_eq!(seconds.sum::<u64>(), *sum, "at {} + {}", begin, step);
                prop_assert!(begin + step <= second + 1, "it is complete");
                prop_assert!(begin + step + range > second + 1, "it is within the range");
            }
            // As much as is kept: of the coarsest resolution at least, all but the point that is not complete.
            let shown = points.len() as u64 * step;
            let known = second + 1 - all.first_key_value().map_or(0, |(first, _)| *first);
            prop_assert!(shown + 2 * step > known.min(range).min(20 * 5), "{} of {}", shown, known);
        }
    }

    #[test]
    fn a_long_pause_and_a_clock_set_back_do_no_harm() {
        let mut levels = HistoryLevels::<u64>::new(&RESOLUTIONS);
        for (second, amount) in [(0, 1), (5_000_000, 2), (4_999_000, 3)] {
            levels.add(at(second), &amount);
        }
        let last = levels.last(at(5_000_001), Micros::from_secs(10));
        assert_eq!(last.points.last(), Some(&5));
        assert_eq!(levels.newest(), Some((at(5_000_000), &5)));
        assert!(levels.held() <= 24);
    }
}
