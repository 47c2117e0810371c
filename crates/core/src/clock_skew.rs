//! Corrects states that were written with a clock that ran ahead.

use crate::kernel::log;
use crate::{Limit, Micros, State, Timestamp};

/// A thread that is interrupted after it read the clock is late by less than this.
const MIN_SKEW_TOLERANCE: Micros = Micros::from_secs(1);

impl Limit {
    /// How far a state may be ahead of the clock before the clock that wrote it counts as wrong: one full refill of a
    /// bucket, or two windows, but at least a second, so that a late thread gains nothing.
    #[must_use]
    #[inline]
    pub fn skew_tolerance(&self) -> Micros {
        let usual = if self.algorithm.is_bucket() {
            self.refill_time()
        } else {
            Micros::new(self.window.get().saturating_mul(2))
        };
        usual.max(MIN_SKEW_TOLERANCE)
    }

    /// Corrects a state that is further ahead of the clock than the [tolerance](Self::skew_tolerance): it would refuse
    /// everything until the clock catches up. What was used stays used. Returns whether the state changed.
    #[inline]
    pub fn correct_clock_skew(&self, state: &mut Option<State>, now: Timestamp) -> bool {
        // A limit of zero does not read its state, so it is corrected under the next limit.
        if self.limit == 0 {
            return false;
        }
        let Some(state) = state.as_mut().filter(|state| state.is_of(self)) else { return false };
        let ahead = match state {
            State::Bucket(state) => state.at.since(now),
            State::Window(state) => state.at.since(now),
            State::Log(log) => log::ahead(log, now),
        };
        let is_lost = ahead > Micros::ZERO && ahead > self.skew_tolerance();
        if is_lost {
            match state {
                State::Bucket(state) => state.at = now,
                // The counts move to the current window.
                State::Window(state) => state.at = now,
                State::Log(log) => log::move_back(log, now),
            }
        }
        is_lost
    }
}
