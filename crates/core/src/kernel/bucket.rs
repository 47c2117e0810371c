//! A debt that drains: token bucket, leaky bucket and GCRA are the same kernel.
//!
//! The debt is counted in parts of the rate it was taken at, so fractions are never lost. A state written under
//! another limit stays valid: a raised limit drains at the new rate from the last admission on (a raise takes effect
//! at once), a lowered one at the old rate until the next admission rewrites the debt in the new parts, rounded up to
//! whole units.

use super::Balance;
use super::rate::Rate;
use crate::{Algorithm, Limit, Micros, PackedState, Report, State, Timestamp};

/// The state of a bucket: how much is owed, since when, and in which parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketState {
    pub(crate) algorithm: Algorithm,
    pub(crate) limit: u64,
    pub(crate) window: Micros,
    pub(crate) debt: u128,
    pub(crate) at: Timestamp,
}

impl BucketState {
    /// Returns `units`, in the parts that the debt is counted in and as of the last admission. Draining is linear, so
    /// the debt at any later time is smaller by exactly these units; and a refund of a charge under an earlier limit
    /// does not bring back the rate of that limit.
    pub(crate) fn refund(&mut self, units: u64) {
        let parts = Rate::new(self.limit, self.window).parts(units);
        self.debt = self.debt.saturating_sub(parts);
    }
}

/// A debt advanced to a point in time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Debt {
    debt: u128,
    /// The parts that `debt` is counted in: those of the limit, or of a higher limit before it was lowered.
    rate: Rate,
    /// The time at which the debt has this value.
    at: Timestamp,
    /// How far the clock is behind `at`; nothing drains until it has caught up.
    behind: Micros,
}

#[inline]
pub(crate) fn advance(limit: &Limit, state: Option<&State>, now: Timestamp) -> Debt {
    let fresh = Debt::new(limit.rate, 0, now);
    let Some(State::Bucket(state)) = state else { return fresh };
    if state.algorithm != limit.algorithm || state.window != limit.window {
        return fresh;
    }
    let (debt, rate) = if state.limit == limit.limit {
        (state.debt, limit.rate)
    } else {
        let old = Rate::new(state.limit, state.window);
        if limit.limit > state.limit {
            (limit.rate.parts(old.units_ceil(state.debt)), limit.rate)
        } else {
            (state.debt, old)
        }
    };
    Debt::new(rate, debt, state.at).until(now)
}

impl Debt {
    /// A debt in parts of `rate`, as of `at`.
    #[inline]
    pub(crate) fn new(rate: Rate, debt: u128, at: Timestamp) -> Self {
        Self { debt, rate, at, behind: Micros::ZERO }
    }

    /// Advances the debt to `now`.
    #[inline]
    pub(crate) fn until(self, now: Timestamp) -> Self {
        let drained = self.rate.drained(now.since(self.at));
        Self {
            debt: self.debt.saturating_sub(drained),
            rate: self.rate,
            at: now.max(self.at),
            behind: self.at.since(now),
        }
    }

    #[inline]
    pub(crate) const fn is_zero(&self) -> bool {
        self.debt == 0
    }

    /// The largest debt with which a request of this cost is admitted; `None` if no debt is small
    /// enough.
    #[inline]
    fn admits_from(&self, limit: &Limit, cost: u64) -> Option<u128> {
        let (ceiling, cost) = (limit.rate.parts(limit.ceiling), limit.rate.parts(cost));
        let within_delay = limit.rate.drained(limit.max_delay);
        let room = if limit.algorithm != Algorithm::LeakyBucket {
            // Never more than a state can store.
            (ceiling + within_delay).min(limit.rate.parts(u64::MAX)).checked_sub(cost)?
        } else if limit.max_delay == Micros::ZERO {
            ceiling.checked_sub(cost)?
        } else {
            ceiling.checked_sub(cost)?.min(within_delay)
        };
        // An admission drains at the rate of its limit, beside a debt rounded up to whole units.
        let is_current = self.rate.limit == limit.limit;
        Some(if is_current { room } else { self.rate.parts(limit.rate.units_floor(room)) })
    }

    /// The debt in the parts of `limit`.
    #[inline]
    fn in_parts_of(&self, limit: &Limit) -> u128 {
        if self.rate.limit == limit.limit {
            self.debt
        } else {
            limit.rate.parts(self.rate.units_ceil(self.debt))
        }
    }

    /// The state to store.
    #[inline]
    pub(crate) fn state(&self, limit: &Limit) -> BucketState {
        let Limit { algorithm, window, .. } = *limit;
        BucketState { algorithm, limit: self.rate.limit, window, debt: self.debt, at: self.at }
    }

    #[inline]
    fn wait_for(&self, target: u128) -> Micros {
        match self.debt.checked_sub(target) {
            None | Some(0) => Micros::ZERO,
            Some(excess) => self.rate.time_for(excess).plus(self.behind),
        }
    }

    /// How long a request that was just admitted is delayed.
    #[inline]
    fn delay(&self, limit: &Limit, cost: u64) -> Option<Micros> {
        let served_at_once = if limit.algorithm == Algorithm::LeakyBucket {
            cost
        } else if limit.max_delay > Micros::ZERO {
            limit.ceiling
        } else {
            return None;
        };
        if cost == 0 {
            return Some(Micros::ZERO);
        }
        Some(self.rate.time_for(self.debt.saturating_sub(self.rate.parts(served_at_once))))
    }
}

impl Balance for Debt {
    #[inline]
    fn fits(&self, limit: &Limit, cost: u64) -> bool {
        self.admits_from(limit, cost).is_some_and(|most| self.debt <= most)
    }

    #[inline]
    fn add(&self, limit: &Limit, cost: u64, most: u64) -> Self {
        let debt = self.in_parts_of(limit);
        let sum = debt.saturating_add(limit.rate.parts(cost));
        Self { debt: sum.min(limit.rate.parts(most)).max(debt), rate: limit.rate, ..*self }
    }

    #[inline]
    fn report(&self, limit: &Limit, cost: u64, admitted: bool) -> Report {
        let used = self.rate.units_ceil(self.debt);
        let remaining = limit.capacity.saturating_sub(used);
        Report {
            remaining,
            retry_after: if admitted {
                Some(Micros::ZERO)
            } else {
                self.admits_from(limit, cost).map(|most| self.wait_for(most))
            },
            reset_after: self.wait_for(0),
            next_after: (self.debt > 0)
                .then(|| self.wait_for(self.rate.parts(limit.just_below(remaining)))),
            delay: if admitted { self.delay(limit, cost) } else { None },
        }
    }

    #[inline]
    fn pack(&self) -> Option<PackedState> {
        Some(PackedState { at: self.at, value: u64::try_from(self.debt).ok()? })
    }
}
