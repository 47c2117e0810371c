//! The integers derived from a quota, and the one place that dispatches to the three kernels.

use crate::kernel::{Balance as _, bucket, log, rate::Rate, window};
use crate::{Algorithm, Calendar, ChargeResult, Micros, Mode, Quota, State, Timestamp};

/// A compiled [`Quota`].
#[derive(Clone, Copy, Debug, Eq)]
pub struct Limit {
    pub(crate) algorithm: Algorithm,
    /// Units per window; 0 blocks.
    pub(crate) limit: u64,
    pub(crate) window: Micros,
    /// The reported limit: the most that can be in use without grace.
    pub(crate) capacity: u64,
    /// What admission is tested against: capacity plus grace.
    pub(crate) ceiling: u64,
    /// Buckets only: how far beyond the ceiling an admission may be scheduled.
    pub(crate) max_delay: Micros,
    /// Fixed windows only: windows of the calendar. `window` is then their nominal length.
    pub(crate) calendar: Option<&'static Calendar>,
    /// Buckets only: how fast a debt drains.
    pub(crate) rate: Rate,
    /// Buckets without delay and grace: the capacity in parts, if that fits 64 bits. Otherwise 0, which selects the
    /// general path.
    pub(crate) plain_room: u64,
    /// A hash of the fields above, computed once.
    digest: u64,
}

/// The rate follows from the other fields, and the digest decides most comparisons.
impl PartialEq for Limit {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
            && self.algorithm == other.algorithm
            && self.limit == other.limit
            && self.window == other.window
            && self.capacity == other.capacity
            && self.ceiling == other.ceiling
            && self.max_delay == other.max_delay
            && self.calendar == other.calendar
    }
}

/// The figures of one counter after a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The largest cost that would be admitted at this same instant, not counting grace.
    pub remaining: u64,
    /// Zero if admitted; else the least wait after which the same request would be; `None`: never.
    pub retry_after: Option<Micros>,
    /// How long until nothing is in use.
    pub reset_after: Micros,
    /// How long until `remaining` grows by at least one; `None` when nothing is in use.
    pub next_after: Option<Micros>,
    /// How long an admitted request is delayed; only leaky buckets and throttled limits set it.
    pub delay: Option<Micros>,
}

/// A counter advanced to a point in time, by its kernel.
#[derive(Clone, Copy, Debug)]
enum CounterLevel {
    /// A limit of zero, which has no state.
    Blocked,
    Bucket(bucket::Debt),
    Window(window::WindowCounts),
    Log(log::Live),
}

impl Limit {
    pub(crate) fn derive(quota: &Quota) -> Self {
        let capacity = if quota.limit == 0 { 0 } else { quota.burst.unwrap_or(quota.limit) };
        let ceiling = if quota.limit == 0 { 0 } else { capacity.saturating_add(quota.grace) };
        let (algorithm, window) = (quota.algorithm as u64, quota.window.get());
        let fields = [algorithm, quota.limit, window, capacity, ceiling, quota.max_delay.get()];
        let calendar = quota.calendar.map(Calendar::id);
        let digest = fields.iter().chain(&calendar).fold(0, |hash: u64, field| {
            let mixed = (hash ^ field).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            mixed ^ (mixed >> 32)
        });
        let rate = Rate::new(quota.limit, quota.window);
        let is_plain = quota.algorithm.is_bucket()
            && quota.algorithm != Algorithm::LeakyBucket
            && quota.max_delay == Micros::ZERO;
        let plain_room = u64::try_from(rate.parts(capacity)).ok().filter(|_| is_plain);
        Self {
            algorithm: quota.algorithm,
            limit: quota.limit,
            window: quota.window,
            capacity,
            ceiling,
            max_delay: quota.max_delay,
            calendar: quota.calendar,
            rate,
            plain_room: plain_room.unwrap_or(0),
            digest,
        }
    }

    /// A hash of this limit, stable across processes. Equal limits have equal digests.
    #[must_use]
    #[inline]
    pub const fn digest(&self) -> u64 {
        self.digest
    }

    /// How usage is counted.
    #[must_use]
    #[inline]
    pub const fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Units per window; 0 blocks.
    #[must_use]
    #[inline]
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// The window; of the calendar, the nominal length of its unit.
    #[must_use]
    #[inline]
    pub const fn window(&self) -> Micros {
        self.window
    }

    /// The most that can be in use at one instant, not counting grace.
    #[must_use]
    #[inline]
    pub const fn capacity(&self) -> u64 {
        self.capacity
    }

    /// What admission is tested against: the capacity and grace.
    #[must_use]
    #[inline]
    pub const fn ceiling(&self) -> u64 {
        self.ceiling
    }

    /// How far beyond the ceiling a bucket may schedule an admission.
    #[must_use]
    #[inline]
    pub const fn max_delay(&self) -> Micros {
        self.max_delay
    }

    /// Whether requests are delayed: by a leaky bucket, or by a throttled limit.
    #[must_use]
    #[inline]
    pub fn delays(&self) -> bool {
        self.algorithm == Algorithm::LeakyBucket || self.max_delay > Micros::ZERO
    }

    /// How long the rate takes to refill the capacity; of the calendar, the nominal length of a window.
    #[must_use]
    #[inline]
    pub(crate) fn refill_time(&self) -> Micros {
        if self.capacity == self.limit {
            return self.window;
        }
        self.rate.time_for(self.rate.parts(self.capacity))
    }

    /// A limit `factor` times as large, for the local fallback of a node.
    #[must_use]
    pub fn scaled(&self, factor: u32) -> Self {
        let times = |n: u64| n.saturating_mul(u64::from(factor)).min(crate::MAX_LIMIT);
        let grace = self.ceiling - self.capacity;
        Self::derive(&Quota {
            algorithm: self.algorithm,
            limit: times(self.limit),
            window: self.window,
            burst: self.algorithm.is_bucket().then(|| times(self.capacity)),
            grace,
            max_delay: self.max_delay,
            calendar: self.calendar,
        })
    }

    #[inline]
    fn level(&self, state: Option<&State>, now: Timestamp) -> CounterLevel {
        if self.limit == 0 {
            return CounterLevel::Blocked;
        }
        match self.algorithm {
            Algorithm::TokenBucket | Algorithm::LeakyBucket | Algorithm::Gcra => {
                CounterLevel::Bucket(bucket::advance(self, state, now))
            }
            Algorithm::FixedWindow | Algorithm::SlidingWindowCounter => {
                CounterLevel::Window(window::advance(self, state, now))
            }
            Algorithm::SlidingWindowLog => CounterLevel::Log(log::advance(self, state, now)),
        }
    }

    #[inline]
    fn admits(&self, level: &CounterLevel, cost: u64) -> bool {
        cost == 0
            || match level {
                CounterLevel::Blocked => false,
                CounterLevel::Bucket(debt) => debt.fits(self, cost),
                CounterLevel::Window(counts) => counts.fits(self, cost),
                CounterLevel::Log(live) => live.fits(self, cost),
            }
    }

    /// Charges `cost`, up to `most` in all, and returns the new level.
    #[inline]
    fn add(
        &self,
        level: CounterLevel,
        state: &mut Option<State>,
        cost: u64,
        most: u64,
    ) -> CounterLevel {
        match level {
            CounterLevel::Blocked => CounterLevel::Blocked,
            CounterLevel::Bucket(debt) => {
                let debt = debt.add(self, cost, most);
                *state = Some(State::Bucket(debt.state(self)));
                CounterLevel::Bucket(debt)
            }
            CounterLevel::Window(counts) => {
                let counts = counts.add(self, cost, most);
                *state = Some(State::Window(counts.state(self)));
                CounterLevel::Window(counts)
            }
            CounterLevel::Log(live) => CounterLevel::Log(log::add(self, live, state, cost, most)),
        }
    }

    #[inline]
    fn figures(
        &self,
        level: &CounterLevel,
        state: Option<&State>,
        cost: u64,
        admitted: bool,
    ) -> Report {
        match level {
            CounterLevel::Blocked => {
                let at_once = admitted.then_some(Micros::ZERO);
                let delay = at_once.filter(|_| self.algorithm == Algorithm::LeakyBucket);
                Report { retry_after: at_once, delay, ..Report::default() }
            }
            CounterLevel::Bucket(debt) => debt.report(self, cost, admitted),
            CounterLevel::Window(counts) => counts.report(self, cost, admitted),
            CounterLevel::Log(live) => {
                self.whole_units(live.used(), cost, admitted, |target| live.wait_for(state, target))
            }
        }
    }

    /// Kernels that count whole units share one report: every figure is a wait for some level.
    #[inline]
    pub(crate) fn whole_units(
        &self,
        used: u64,
        cost: u64,
        admitted: bool,
        wait_for: impl Fn(u64) -> Micros,
    ) -> Report {
        let remaining = self.capacity.saturating_sub(used);
        Report {
            remaining,
            retry_after: if admitted {
                Some(Micros::ZERO)
            } else {
                self.ceiling.checked_sub(cost).map(&wait_for)
            },
            reset_after: wait_for(0),
            next_after: (used > 0).then(|| wait_for(self.just_below(remaining))),
            delay: None,
        }
    }

    /// The level at which one unit more than `remaining` is left.
    #[inline]
    pub(crate) fn just_below(&self, remaining: u64) -> u64 {
        self.capacity.saturating_sub(remaining).saturating_sub(1)
    }

    /// Settles a single charge. [`crate::settle`] settles several, all or nothing.
    #[inline]
    pub(crate) fn settle(
        &self,
        state: &mut Option<State>,
        now: Timestamp,
        cost: u64,
        mode: Mode,
    ) -> ChargeResult {
        let is_corrected = self.correct_clock_skew(state, now);
        let mut level = self.level(state.as_ref(), now);
        let admitted = mode == Mode::Debit || self.admits(&level, cost);
        let taken = admitted && cost > 0 && self.limit > 0;
        if taken {
            level = self.add(level, state, cost, self.most(mode));
        }
        let report = self.figures(&level, state.as_ref(), cost, admitted);
        ChargeResult { admitted, written: taken || is_corrected, report }
    }

    /// The most that may be in use after a charge.
    #[inline]
    pub(crate) fn most(&self, mode: Mode) -> u64 {
        if mode == Mode::Debit { self.capacity.saturating_mul(2) } else { u64::MAX }
    }

    /// Whether a request of this cost is admitted now. A cost of zero always is.
    #[must_use]
    pub fn fits(&self, state: Option<&State>, now: Timestamp, cost: u64) -> bool {
        self.admits(&self.level(state, now), cost)
    }

    /// Charges `cost`. The caller has checked [`Limit::fits`].
    pub fn charge(&self, state: &mut Option<State>, now: Timestamp, cost: u64) {
        self.take(state, now, cost, Mode::Enforce);
    }

    /// Charges `cost` even if it does not fit: a bucket goes at most one capacity below zero, a count up to twice the
    /// limit.
    pub fn debit(&self, state: &mut Option<State>, now: Timestamp, cost: u64) {
        self.take(state, now, cost, Mode::Debit);
    }

    pub(crate) fn take(&self, state: &mut Option<State>, now: Timestamp, cost: u64, mode: Mode) {
        if cost > 0 {
            let level = self.level(state.as_ref(), now);
            self.add(level, state, cost, self.most(mode));
        }
    }

    /// Refunds `units`. With the time of a charge, they go to the window or entry that was charged then, and are
    /// dropped if it has passed; without, to the newest. This limit is that of the charge, which need not be the limit
    /// in force: it tells whose state this is, and the state stays counted as it is.
    pub fn refund(
        &self,
        state: &mut Option<State>,
        now: Timestamp,
        units: u64,
        charged_at: Option<Timestamp>,
    ) {
        // A limit of zero has charged nothing.
        if units == 0 || self.limit == 0 || !state.as_ref().is_some_and(|state| state.is_of(self)) {
            return;
        }
        match state {
            None => {}
            Some(State::Bucket(bucket)) => bucket.refund(units),
            Some(State::Window(_)) => {
                let counts = window::advance(self, state.as_ref(), now);
                *state = Some(State::Window(counts.refund(self, units, charged_at).state(self)));
            }
            Some(State::Log(_)) => {
                let live = log::advance(self, state.as_ref(), now);
                log::refund(live, state, units, charged_at);
            }
        }
    }

    /// The figures of a counter after a request of `cost` was `admitted` or refused.
    #[must_use]
    pub fn report(
        &self,
        state: Option<&State>,
        now: Timestamp,
        cost: u64,
        admitted: bool,
    ) -> Report {
        self.figures(&self.level(state, now), state, cost, admitted)
    }

    /// Whether the state equals an unused one: losing it changes no decision from `now` on.
    #[must_use]
    pub fn is_idle(&self, state: &State, now: Timestamp) -> bool {
        match self.level(Some(state), now) {
            CounterLevel::Blocked => true,
            CounterLevel::Bucket(debt) => debt.is_zero(),
            CounterLevel::Window(counts) => counts.is_zero(),
            CounterLevel::Log(live) => live.used() == 0,
        }
    }

    /// Whether nothing is left, and how long until everything is available.
    #[must_use]
    pub fn standing(&self, state: &State, now: Timestamp) -> (bool, Micros) {
        let report = self.report(Some(state), now, 0, true);
        (report.remaining == 0, report.reset_after)
    }
}
