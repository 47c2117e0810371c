//! States that a clock gone wrong has left in the future.

use crate::kernel::log;
use crate::{Limit, Micros, State, Timestamp};

/// Threads that were interrupted after they read the clock are late by less.
const LEAST_PATIENCE: Micros = Micros::from_secs(1);

impl Limit {
    /// How far a state may be ahead of the clock before the clock is taken for one that was wrong: one
    /// full refill of a bucket, or two windows, but a second at least: whoever is only late must not be
    /// given anything for it.
    #[must_use]
    #[inline]
    pub fn patience(&self) -> Micros {
        let usual = if self.algorithm.is_bucket() {
            self.refill_time()
        } else {
            Micros::new(self.window.get().saturating_mul(2))
        };
        usual.max(LEAST_PATIENCE)
    }

    /// Brings a state back that a clock gone wrong has left far in the future, where it would refuse
    /// everything until the clock catches up: further than its [`patience`](Self::patience). What was
    /// used stays used; says whether the state changed.
    #[inline]
    pub fn heal(&self, state: &mut Option<State>, now: Timestamp) -> bool {
        // A blocked counter is not looked at, so it waits for a limit that does.
        if self.limit == 0 {
            return false;
        }
        let Some(state) = state.as_mut().filter(|state| state.is_of(self)) else { return false };
        let ahead = match state {
            State::Bucket(state) => state.at.since(now),
            State::Window(state) => state.at.since(now),
            State::Log(log) => log::ahead(log, now),
        };
        let is_lost = ahead > Micros::ZERO && ahead > self.patience();
        if is_lost {
            match state {
                State::Bucket(state) => state.at = now,
                // Its counts move to the window that the clock is in.
                State::Window(state) => state.at = now,
                State::Log(log) => log::move_back(log, now),
            }
        }
        is_lost
    }
}
