//! A debt that drains: token bucket, leaky bucket and GCRA are this, in three spellings.
//!
//! The debt is counted in parts of the rate it was taken at, so fractions are never lost. A state
//! written under another limit is still understood: a raised limit drains at the new rate from the
//! last admission on (a raise takes effect at once), a lowered one at the old rate until the next
//! admission rewrites the debt in the new parts, rounded up to whole units.

use super::rate::Rate;
use crate::{Algorithm, Limit, Micros, Report, State, Timestamp};

/// What a bucket remembers: how much is owed, since when, and in which parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketState {
    pub(crate) algorithm: Algorithm,
    pub(crate) limit: u64,
    pub(crate) window: Micros,
    pub(crate) debt: u128,
    pub(crate) at: Timestamp,
}

impl BucketState {
    /// A state as a store kept it: `debt` is in parts of the rate `limit` per `window`.
    #[must_use]
    pub const fn new(limit: &Limit, debt: u128, at: Timestamp) -> Self {
        Self { algorithm: limit.algorithm, limit: limit.limit, window: limit.window, debt, at }
    }

    /// The debt in parts, and the moment it was written.
    #[must_use]
    pub const fn parts(&self) -> (u128, Timestamp) {
        (self.debt, self.at)
    }

    /// Whether this state is counted in the parts of that limit.
    #[must_use]
    pub fn is_counted_in(&self, limit: &Limit) -> bool {
        self.algorithm == limit.algorithm
            && self.limit == limit.limit
            && self.window == limit.window
    }
}

/// A debt brought forward to a moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Debt {
    debt: u128,
    /// The parts `debt` is counted in: the limit's own, or those of a limit since lowered.
    rate: Rate,
    /// The moment this debt stands at.
    at: Timestamp,
    /// How far the clock is behind that moment; nothing drains until it has caught up.
    behind: Micros,
}

pub(crate) fn advance(limit: &Limit, state: Option<&State>, now: Timestamp) -> Debt {
    let fresh = Debt { debt: 0, rate: limit.rate, at: now, behind: Micros::ZERO };
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
    let drained = rate.drained(now.since(state.at));
    Debt {
        debt: debt.saturating_sub(drained),
        rate,
        at: now.max(state.at),
        behind: state.at.since(now),
    }
}

/// Brings back a state that is more than one full refill ahead of the clock.
pub(crate) fn heal(limit: &Limit, state: &mut BucketState, now: Timestamp) -> bool {
    let behind = state.at.since(now);
    let lost =
        behind > Micros::ZERO && behind > limit.rate.time_for(limit.rate.parts(limit.capacity));
    if lost {
        state.at = now;
    }
    lost
}

impl Debt {
    pub(crate) const fn is_zero(&self) -> bool {
        self.debt == 0
    }

    /// The debt at which nothing more is admitted.
    fn ceiling(&self, limit: &Limit) -> u128 {
        let ceiling = self.rate.parts(limit.ceiling);
        if limit.algorithm == Algorithm::LeakyBucket {
            ceiling
        } else {
            ceiling + self.rate.drained(limit.max_delay)
        }
    }

    /// The largest debt with which a request of this cost is admitted; `None` if no debt is small
    /// enough.
    fn admits_from(&self, limit: &Limit, cost: u64) -> Option<u128> {
        let room = self.ceiling(limit).checked_sub(self.rate.parts(cost))?;
        let queue_bounded =
            limit.algorithm == Algorithm::LeakyBucket && limit.max_delay > Micros::ZERO;
        Some(if queue_bounded { room.min(self.rate.drained(limit.max_delay)) } else { room })
    }

    pub(crate) fn fits(&self, limit: &Limit, cost: u64) -> bool {
        self.admits_from(limit, cost).is_some_and(|most| self.debt <= most)
    }

    /// The debt in the parts of `limit`.
    fn in_parts_of(&self, limit: &Limit) -> u128 {
        if self.rate.limit == limit.limit {
            self.debt
        } else {
            limit.rate.parts(self.rate.units_ceil(self.debt))
        }
    }

    /// Owes `cost` more, up to `most` units in all; what is owed already stays owed.
    pub(crate) fn add(&self, limit: &Limit, cost: u64, most: u64) -> BucketState {
        let debt = self.in_parts_of(limit);
        let sum = debt.saturating_add(limit.rate.parts(cost));
        BucketState::new(limit, sum.min(limit.rate.parts(most)).max(debt), self.at)
    }

    pub(crate) fn refund(&self, limit: &Limit, units: u64) -> BucketState {
        BucketState {
            limit: self.rate.limit,
            ..BucketState::new(limit, self.debt.saturating_sub(self.rate.parts(units)), self.at)
        }
    }

    fn wait_for(&self, target: u128) -> Micros {
        match self.debt.checked_sub(target) {
            None | Some(0) => Micros::ZERO,
            Some(excess) => self.rate.time_for(excess).plus(self.behind),
        }
    }

    pub(crate) fn report(&self, limit: &Limit, cost: u64, admitted: bool) -> Report {
        let used = self.rate.units_ceil(self.debt);
        let remaining = limit.capacity.saturating_sub(used);
        let below = limit.capacity.saturating_sub(remaining).saturating_sub(1);
        Report {
            remaining,
            retry_after: if admitted {
                Some(Micros::ZERO)
            } else {
                self.admits_from(limit, cost).map(|most| self.wait_for(most))
            },
            reset_after: self.wait_for(0),
            next_after: (self.debt > 0).then(|| self.wait_for(self.rate.parts(below))),
            delay: if admitted { self.delay(limit, cost) } else { None },
        }
    }

    /// How long a request just admitted has to wait for its turn.
    fn delay(&self, limit: &Limit, cost: u64) -> Option<Micros> {
        let ahead = if limit.algorithm == Algorithm::LeakyBucket {
            if cost == 0 { 0 } else { self.debt.saturating_sub(self.rate.parts(cost)) }
        } else if limit.max_delay > Micros::ZERO {
            self.debt.saturating_sub(self.rate.parts(limit.ceiling))
        } else {
            return None;
        };
        Some(self.rate.time_for(ahead))
    }
}
