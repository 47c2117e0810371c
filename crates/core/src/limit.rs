//! The integers derived from a quota, and the one place where the three kernels are told apart.

use crate::kernel::{bucket, log, rate::Rate, window};
use crate::{Algorithm, Micros, Quota, State, Timestamp};

/// A compiled [`Quota`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    pub(crate) algorithm: Algorithm,
    /// Units per window; 0 blocks.
    pub(crate) limit: u64,
    pub(crate) window: Micros,
    /// What people are shown: the most that can be in use without grace.
    pub(crate) capacity: u64,
    /// What admission is tested against: capacity plus grace.
    pub(crate) ceiling: u64,
    /// Buckets only: how far beyond the ceiling an admission may be scheduled.
    pub(crate) max_delay: Micros,
    /// Buckets only: how fast a debt drains.
    pub(crate) rate: Rate,
}

/// What a person wants to know about one counter after a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The largest cost that would be admitted at this same instant, not counting grace.
    pub remaining: u64,
    /// Zero if admitted; else the least wait after which the same request would be; `None`: never.
    pub retry_after: Option<Micros>,
    /// How long until nothing is in use any more.
    pub reset_after: Micros,
    /// How long until `remaining` grows by at least one; `None` when nothing is in use.
    pub next_after: Option<Micros>,
    /// How long an admitted request is to be held; only leaky buckets and throttled limits say so.
    pub delay: Option<Micros>,
}

/// When the level of a counter falls, as far as a [`Report`] needs to know. Each kernel has one.
pub(crate) trait Level {
    /// How long until at most `target` whole units are in use.
    fn wait_for(&self, target: u64) -> Micros;
    /// Units in use, rounded up.
    fn used(&self) -> u64;
}

impl Limit {
    pub(crate) fn derive(quota: &Quota) -> Self {
        let capacity = if quota.limit == 0 { 0 } else { quota.burst.unwrap_or(quota.limit) };
        Self {
            algorithm: quota.algorithm,
            limit: quota.limit,
            window: quota.window,
            capacity,
            ceiling: if quota.limit == 0 { 0 } else { capacity.saturating_add(quota.grace) },
            max_delay: quota.max_delay,
            rate: Rate::new(quota.limit, quota.window),
        }
    }

    /// How usage is counted.
    #[must_use]
    pub const fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Units per window; 0 blocks.
    #[must_use]
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// The window.
    #[must_use]
    pub const fn window(&self) -> Micros {
        self.window
    }

    /// The most that can be in use at one instant, not counting grace.
    #[must_use]
    pub const fn capacity(&self) -> u64 {
        self.capacity
    }

    /// A limit `factor` times as large, for a node that has to count alone.
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
        })
    }

    /// Brings a state back that a clock gone wrong has left far in the future, where it would refuse
    /// everything until the clock catches up: more than one full refill of a bucket, or two
    /// windows. Nothing is given back; says whether the state changed.
    pub fn heal(&self, state: &mut Option<State>, now: Timestamp) -> bool {
        match state {
            Some(State::Bucket(state)) => bucket::heal(self, state, now),
            Some(State::Window(state)) => window::heal(state, now),
            Some(State::Log(log)) => log::heal(log, now),
            None => false,
        }
    }

    /// Whether a request of this cost may pass now. A cost of zero always may.
    #[must_use]
    pub fn fits(&self, state: Option<&State>, now: Timestamp, cost: u64) -> bool {
        if cost == 0 {
            return true;
        }
        if self.limit == 0 {
            return false;
        }
        match self.algorithm {
            Algorithm::FixedWindow | Algorithm::SlidingWindowCounter => {
                window::advance(self, state, now).fits(cost, self.ceiling)
            }
            Algorithm::SlidingWindowLog => log::fits(self, state, now, cost),
            _ => bucket::advance(self, state, now).fits(self, cost),
        }
    }

    /// Takes `cost` from the counter. The caller has asked [`Limit::fits`].
    pub fn charge(&self, state: &mut Option<State>, now: Timestamp, cost: u64) {
        self.add(state, now, cost, u64::MAX);
    }

    /// Takes `cost` whatever is left: a bucket may go one capacity below zero, a count may reach
    /// twice the limit, and there it stops.
    pub fn debit(&self, state: &mut Option<State>, now: Timestamp, cost: u64) {
        self.add(state, now, cost, self.capacity.saturating_mul(2));
    }

    fn add(&self, state: &mut Option<State>, now: Timestamp, cost: u64, most: u64) {
        if cost == 0 || self.limit == 0 {
            return;
        }
        match self.algorithm {
            Algorithm::FixedWindow | Algorithm::SlidingWindowCounter => {
                let counts = window::advance(self, state.as_ref(), now);
                *state = Some(State::Window(counts.add(self, cost, most)));
            }
            Algorithm::SlidingWindowLog => log::add(self, state, now, cost, most),
            _ => {
                let debt = bucket::advance(self, state.as_ref(), now);
                *state = Some(State::Bucket(debt.add(self, cost, most)));
            }
        }
    }

    /// Gives `units` back. Tied to the moment of a charge, they go to the window or entry that was
    /// charged then, and nowhere if it has passed; untied, to the newest.
    pub fn refund(
        &self,
        state: &mut Option<State>,
        now: Timestamp,
        units: u64,
        charged_at: Option<Timestamp>,
    ) {
        if units == 0 || self.limit == 0 || state.is_none() {
            return;
        }
        match self.algorithm {
            Algorithm::FixedWindow | Algorithm::SlidingWindowCounter => {
                let counts = window::advance(self, state.as_ref(), now);
                *state = Some(State::Window(counts.refund(self, units, charged_at)));
            }
            Algorithm::SlidingWindowLog => log::refund(self, state, now, units, charged_at),
            _ => {
                let debt = bucket::advance(self, state.as_ref(), now);
                *state = Some(State::Bucket(debt.refund(self, units)));
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
        if self.limit == 0 {
            let at_once = admitted.then_some(Micros::ZERO);
            let delay = at_once.filter(|_| self.algorithm == Algorithm::LeakyBucket);
            return Report { retry_after: at_once, delay, ..Report::default() };
        }
        match self.algorithm {
            Algorithm::FixedWindow | Algorithm::SlidingWindowCounter => {
                self.report_level(&window::advance(self, state, now), cost, admitted)
            }
            Algorithm::SlidingWindowLog => {
                self.report_level(&log::level(self, state, now), cost, admitted)
            }
            _ => bucket::advance(self, state, now).report(self, cost, admitted),
        }
    }

    /// Whole-unit kernels share one report: every figure is a wait for some level.
    fn report_level(&self, level: &impl Level, cost: u64, admitted: bool) -> Report {
        let used = level.used();
        let remaining = self.capacity.saturating_sub(used);
        let retry_after = if admitted {
            Some(Micros::ZERO)
        } else {
            self.ceiling.checked_sub(cost).map(|target| level.wait_for(target))
        };
        Report {
            remaining,
            retry_after,
            reset_after: level.wait_for(0),
            next_after: (used > 0)
                .then(|| level.wait_for(self.capacity.saturating_sub(remaining).saturating_sub(1))),
            delay: None,
        }
    }

    /// Whether the state is worth nothing any more: losing it changes no answer from `now` on.
    #[must_use]
    pub fn is_idle(&self, state: &State, now: Timestamp) -> bool {
        match self.algorithm {
            Algorithm::FixedWindow | Algorithm::SlidingWindowCounter => {
                window::advance(self, Some(state), now).is_zero()
            }
            Algorithm::SlidingWindowLog => log::level(self, Some(state), now).used() == 0,
            _ => bucket::advance(self, Some(state), now).is_zero(),
        }
    }

    /// How long until the state is worth nothing any more, and whether it is exhausted meanwhile.
    #[must_use]
    pub fn standing(&self, state: &State, now: Timestamp) -> (bool, Micros) {
        let report = self.report(Some(state), now, 0, true);
        (report.remaining == 0, report.reset_after)
    }
}
