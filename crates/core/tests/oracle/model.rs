//! A limiter that answers from the history of a counter by trying: it searches time for the moment
//! at which a level has fallen instead of computing it.

use tollgate_core::{Algorithm, Micros, Quota, Report, Timestamp};

use crate::history::{Event, History, What};

pub(crate) struct Model {
    quota: Quota,
    history: History,
}

impl Model {
    pub(crate) fn new(quota: Quota) -> Self {
        Self { quota, history: History::new(&quota) }
    }

    pub(crate) fn change(&mut self, quota: Quota) {
        self.quota = quota;
    }

    fn capacity(&self) -> u128 {
        if self.quota.limit == 0 { 0 } else { self.quota.burst.unwrap_or(self.quota.limit).into() }
    }

    fn is_blocked(&self) -> bool {
        self.quota.limit == 0
    }

    fn in_fractions(&self, units: u128) -> u128 {
        units * u128::from(self.quota.window.get())
    }

    fn level(&self, at: i128) -> u128 {
        if self.history.belongs_to(&self.quota) {
            self.history.level(at, self.quota.limit)
        } else {
            0
        }
    }

    /// What an admission at that time would find in use: under a lowered limit, the level rounded up
    /// to whole units.
    fn level_found(&self, at: i128) -> u128 {
        let level = self.level(at);
        let is_bucket = self.quota.algorithm.is_bucket();
        if is_bucket && self.history.pace(self.quota.limit) != self.quota.limit {
            self.history.whole(level)
        } else {
            level
        }
    }

    /// How long a bucket takes to drain so much, under the limit in force.
    fn drains_in(&self, level: u128) -> Micros {
        let pace = u128::from(self.quota.limit);
        least(|wait| u128::from(wait) * pace >= level)
    }

    /// Whether a request fits beside a level.
    fn fits_beside(&self, level: u128, cost: u64) -> bool {
        let Quota { algorithm, limit, grace, max_delay, .. } = self.quota;
        let ceiling = self.in_fractions(self.capacity() + u128::from(grace));
        let after = level + self.in_fractions(cost.into());
        let delayed = u128::from(max_delay.get()) * u128::from(limit);
        match algorithm {
            Algorithm::LeakyBucket if max_delay > Micros::ZERO => {
                after <= ceiling && level <= delayed
            }
            Algorithm::TokenBucket | Algorithm::Gcra => {
                // A counter holds 64 bits of units, however long the delay may be.
                after <= (ceiling + delayed).min(self.in_fractions(u64::MAX.into()))
            }
            _ => after <= ceiling,
        }
    }

    fn admits(&self, at: i128, cost: u64) -> bool {
        cost == 0 || (!self.is_blocked() && self.fits_beside(self.level_found(at), cost))
    }

    fn remaining(&self, at: i128) -> u64 {
        let used = self.level(at).div_ceil(u128::from(self.quota.window.get()));
        u64::try_from(self.capacity().saturating_sub(used)).expect("a capacity has 64 bits")
    }

    /// Judges a request, charges it if admitted, and reports.
    pub(crate) fn ask(&mut self, now: Timestamp, cost: u64) -> (bool, Report) {
        let at = i128::from(now.as_micros());
        let admitted = self.admits(at, cost);
        let found = self.level_found(at);
        if admitted {
            self.record(now, What::Charge(cost.into()));
        }
        (admitted, self.report(at, cost, admitted, found))
    }

    fn report(&self, at: i128, cost: u64, admitted: bool, found: u128) -> Report {
        let later = |wait: u64| at + i128::from(wait);
        let remaining = self.remaining(at);
        let retry_after = if admitted {
            Some(Micros::ZERO)
        } else {
            let ever = !self.is_blocked() && self.fits_beside(0, cost);
            ever.then(|| least(|wait| self.admits(later(wait), cost)))
        };
        let in_use = !self.is_blocked() && self.level(at) > 0;
        Report {
            remaining,
            retry_after,
            reset_after: if in_use {
                least(|wait| self.level(later(wait)) == 0)
            } else {
                Micros::ZERO
            },
            next_after: in_use.then(|| least(|wait| self.remaining(later(wait)) > remaining)),
            delay: if admitted { self.delay(cost, found) } else { None },
        }
    }

    /// How long a request admitted beside the level `found` waits for its turn.
    fn delay(&self, cost: u64, found: u128) -> Option<Micros> {
        let Quota { algorithm, grace, max_delay, .. } = self.quota;
        let queues = algorithm == Algorithm::LeakyBucket;
        if !queues && (max_delay == Micros::ZERO || self.is_blocked()) {
            return None;
        }
        if cost == 0 || self.is_blocked() {
            return Some(Micros::ZERO);
        }
        let ceiling = self.in_fractions(self.capacity() + u128::from(grace));
        let after = found + self.in_fractions(cost.into());
        Some(self.drains_in(if queues { found } else { after.saturating_sub(ceiling) }))
    }

    pub(crate) fn debit(&mut self, now: Timestamp, cost: u64) {
        self.record(now, What::Debit { units: cost.into(), most: 2 * self.capacity() });
    }

    /// Refunds units that were charged `under` another quota, or under the one in force.
    pub(crate) fn refund(
        &mut self,
        now: Timestamp,
        units: u64,
        charged_at: Option<Timestamp>,
        under: Option<Quota>,
    ) {
        let quota = under.unwrap_or(self.quota);
        let has_charged = self.history.belongs_to(&quota) && !self.history.is_empty();
        if has_charged && quota.limit > 0 && units > 0 {
            let charged_at = charged_at.map(|at| at.as_micros().into());
            let at = self.history.effective(now.as_micros().into());
            let what = What::Refund { units: units.into(), charged_at };
            self.history.record(Event { at, limit: quota.limit, what });
        }
    }

    fn record(&mut self, now: Timestamp, what: What) {
        let (What::Charge(units)
        | What::Debit { units, .. }
        | What::Refund { units, .. }
        | What::Moved(units)) = what;
        if units == 0 || self.is_blocked() {
            return;
        }
        if !self.history.belongs_to(&self.quota) {
            self.history = History::new(&self.quota);
        }
        let at = self.history.effective(now.as_micros().into());
        self.history.record(Event { at, limit: self.quota.limit, what });
    }

    /// Corrects a counter that is ahead of the clock by more than a full refill of a bucket, or two
    /// windows, and by more than a second.
    pub(crate) fn correct_clock_skew(&mut self, now: Timestamp) -> bool {
        if !self.history.belongs_to(&self.quota) {
            return false;
        }
        let now = i128::from(now.as_micros());
        let skew_tolerance = if self.quota.algorithm.is_bucket() {
            i128::from(self.drains_in(self.in_fractions(self.capacity())).get())
        } else {
            2 * i128::from(self.quota.window.get())
        };
        let lost = self.history.ahead_of(now) > skew_tolerance.max(1_000_000);
        if lost {
            self.history.move_back_to(now);
        }
        lost
    }
}

/// The least wait after which `holds`; it must go on holding. The longest wait there is, if none.
fn least(holds: impl Fn(u64) -> bool) -> Micros {
    if holds(0) {
        return Micros::ZERO;
    }
    let (mut too_short, mut enough) = (0, 1_u64);
    while !holds(enough) {
        if enough == u64::MAX {
            return Micros::new(u64::MAX);
        }
        (too_short, enough) = (enough, enough.saturating_mul(2));
    }
    while enough - too_short > 1 {
        let middle = too_short + (enough - too_short) / 2;
        if holds(middle) { enough = middle } else { too_short = middle }
    }
    Micros::new(enough)
}
