//! A counter in sixteen bytes, for a store in memory that knows which limit the state is counted in. It is settled in
//! registers; a state that does not fit is settled as a [`State`], with the same arithmetic.

use crate::kernel::window::{WindowCounts, fades_to};
use crate::kernel::{Balance, bucket::Debt};
use crate::{
    Algorithm, BucketState, Calendar, Charge, ChargeResult, Limit, Micros, Mode, Report, State,
    Timestamp, WindowState,
};

/// The packed form of a bucket or a window. It means something only beside its limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PackedState {
    /// The time of the last admission.
    pub at: Timestamp,
    /// A debt in parts, a count, or two counts of 32 bits, the current one below.
    pub value: u64,
}

impl PackedState {
    /// The packed form of a state counted in `limit`; `None` if it is too large, or is a log.
    #[must_use]
    pub fn pack(state: &State, limit: &Limit) -> Option<Self> {
        if !state.is_of(limit) {
            return None;
        }
        let (at, value) = match state {
            State::Bucket(bucket) if bucket.limit == limit.limit => {
                (bucket.at, u64::try_from(bucket.debt).ok()?)
            }
            State::Window(window) if limit.algorithm == Algorithm::FixedWindow => {
                (window.at, window.current)
            }
            State::Window(window) => (window.at, Self::join(window.current, window.previous)?),
            State::Bucket(_) | State::Log(_) => return None,
        };
        Some(Self { at, value })
    }

    /// The state in its general form; `None` if the limit is one of a log.
    #[must_use]
    pub fn unpack(self, limit: &Limit) -> Option<State> {
        let Limit { algorithm, limit: per_window, window, .. } = *limit;
        let Self { at, value } = self;
        let (current, previous) = match algorithm {
            Algorithm::TokenBucket | Algorithm::LeakyBucket | Algorithm::Gcra => {
                let debt = u128::from(value);
                let bucket = BucketState { algorithm, limit: per_window, window, debt, at };
                return Some(State::Bucket(bucket));
            }
            Algorithm::FixedWindow => (value, 0),
            Algorithm::SlidingWindowCounter => self.counts(),
            Algorithm::SlidingWindowLog => return None,
        };
        let calendar = limit.calendar.map_or(0, Calendar::id);
        Some(State::Window(WindowState { algorithm, window, calendar, at, current, previous }))
    }

    /// The fast path of [`PackedState::settle`], for nearly every request: a cost that fits. `None`: nothing was
    /// charged, call `settle`. It saves a third of the time of a check.
    #[must_use]
    #[inline]
    pub fn admit(
        self,
        charge: &Charge<'_>,
        now: Timestamp,
        result: &mut ChargeResult,
    ) -> Option<Self> {
        if charge.limit.algorithm.has_aligned_windows() {
            self.admit_to_window(charge, now, result)
        } else {
            self.admit_to_bucket(charge, now, result)
        }
    }

    /// A cost that fits a bucket whose debt is 64 bits and is neither delayed nor beyond the capacity.
    #[inline]
    fn admit_to_bucket(
        self,
        charge: &Charge<'_>,
        now: Timestamp,
        result: &mut ChargeResult,
    ) -> Option<Self> {
        let Charge { limit, cost, mode, .. } = *charge;
        let elapsed = now.as_micros().checked_sub(self.at.as_micros())?;
        let drained = elapsed.checked_mul(limit.rate.drain)?;
        let taken = cost.checked_mul(limit.rate.unit)?;
        let debt = self.value.saturating_sub(drained).checked_add(taken)?;
        // `plain_room` is 0 for any limit that needs the general path.
        if taken == 0 || debt > limit.plain_room || mode == Mode::Debit {
            return None;
        }
        result.admitted = true;
        result.written = true;
        result.report = limit.rate.plain_report(limit.capacity, debt);
        Some(Self { at: now, value: debt })
    }

    /// A cost that fits the window that was counted last, without one before it in view.
    #[inline]
    fn admit_to_window(
        self,
        charge: &Charge<'_>,
        now: Timestamp,
        result: &mut ChargeResult,
    ) -> Option<Self> {
        let Charge { limit, cost, mode, .. } = *charge;
        let window = limit.window.get().max(1);
        let since = now.as_micros().checked_sub(self.at.as_micros())?;
        let passed = since.checked_add(self.at.as_micros() % window)?;
        let current = self.value.checked_add(cost)?;
        let is_sliding = limit.algorithm == Algorithm::SlidingWindowCounter;
        // The previous count of a sliding window is in the upper half.
        let is_narrow = !is_sliding || u32::try_from(current).is_ok();
        let is_plain = cost > 0 && mode != Mode::Debit && limit.calendar.is_none();
        if !is_plain || !is_narrow || passed >= window || current > limit.ceiling {
            return None;
        }
        let left = window - passed;
        let remaining = limit.capacity.saturating_sub(current);
        let (reset_after, next_after) = if is_sliding {
            let next = fades_to(limit.just_below(remaining), current, window);
            (left.saturating_add(window), left.saturating_add(next))
        } else {
            (left, left)
        };
        result.admitted = true;
        result.written = true;
        result.report = Report {
            remaining,
            retry_after: Some(Micros::ZERO),
            reset_after: Micros::new(reset_after),
            next_after: Some(Micros::new(next_after)),
            delay: None,
        };
        Some(Self { at: now, value: current })
    }

    /// Settles one charge on this counter, which is counted in the limit of the charge, and returns the new counter.
    /// `None`: nothing was charged, settle it as a [`State`].
    #[must_use]
    #[inline]
    pub fn settle(
        self,
        charge: &Charge<'_>,
        now: Timestamp,
        result: &mut ChargeResult,
    ) -> Option<Self> {
        let limit = charge.limit;
        // Only the general path corrects a state from the future.
        if self.at > now || limit.limit == 0 {
            return None;
        }
        match limit.algorithm {
            Algorithm::TokenBucket | Algorithm::LeakyBucket | Algorithm::Gcra => {
                let debt = Debt::new(limit.rate, u128::from(self.value), self.at);
                self.settle_balance(debt.until(now), charge, result)
            }
            Algorithm::FixedWindow => self.settle_balance(
                WindowCounts::new(limit, self.at, self.value, 0, now),
                charge,
                result,
            ),
            Algorithm::SlidingWindowCounter => {
                let (current, previous) = self.counts();
                let counts = WindowCounts::new(limit, self.at, current, previous, now);
                self.settle_balance(counts, charge, result)
            }
            Algorithm::SlidingWindowLog => None,
        }
    }

    /// Whether the counter equals an unused one; see [`Limit::is_idle`].
    #[must_use]
    #[inline]
    pub fn is_idle(self, limit: &Limit, now: Timestamp) -> bool {
        let is_empty = |(current, previous)| {
            WindowCounts::new(limit, self.at, current, previous, now).is_zero()
        };
        match limit.algorithm {
            _ if limit.limit == 0 => true,
            Algorithm::TokenBucket | Algorithm::LeakyBucket | Algorithm::Gcra => {
                u128::from(self.value) <= limit.rate.drained(now.since(self.at))
            }
            Algorithm::FixedWindow => is_empty((self.value, 0)),
            Algorithm::SlidingWindowCounter => is_empty(self.counts()),
            Algorithm::SlidingWindowLog => false,
        }
    }

    #[inline]
    fn settle_balance(
        self,
        balance: impl Balance,
        charge: &Charge<'_>,
        result: &mut ChargeResult,
    ) -> Option<Self> {
        let Charge { limit, cost, mode, .. } = *charge;
        let admitted = cost == 0 || mode == Mode::Debit || balance.fits(limit, cost);
        let written = admitted && cost > 0;
        let (balance, after) = if written {
            let balance = balance.add(limit, cost, limit.most(mode));
            (balance, balance.pack()?)
        } else {
            (balance, self)
        };
        result.admitted = admitted;
        result.written = written;
        result.report = balance.report(limit, cost, admitted);
        Some(after)
    }

    /// Two counts in 64 bits, if they fit.
    #[inline]
    pub(crate) fn join(current: u64, previous: u64) -> Option<u64> {
        let (current, previous) = (u32::try_from(current).ok()?, u32::try_from(previous).ok()?);
        Some(u64::from(previous) << 32 | u64::from(current))
    }

    /// The two counts: current, previous.
    #[inline]
    fn counts(self) -> (u64, u64) {
        (self.value & u64::from(u32::MAX), self.value >> 32)
    }
}
