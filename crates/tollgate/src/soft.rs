//! Warnings with hysteresis: they begin at one share of the limit and end below another, so that a client at the
//! threshold is not warned on and off.
//!
//! The counters with a warning are in a fixed table. A place may be taken over by another counter; one that is lost
//! counts as normal.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use serde::Serialize;
use tollgate_core::{ChargeResult, Micros};
use tollgate_rules::{Planned, Rule};

/// How close a client is to its limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SoftState {
    /// Below the threshold.
    #[default]
    Normal,
    /// Close to the limit.
    Warning,
    /// Delayed; or refused by a rule that delays, since the delay would be too long.
    Throttled,
}

const PLACES: usize = 1 << 16;
/// A share of one, in millionths.
const WHOLE: u64 = 1_000_000;
/// The largest limit whose product with a share fits 64 bits.
const MAX_NARROW: u64 = u64::MAX / WHOLE;

/// Whether `used` is at least this share of the limit, in millionths.
#[inline]
fn is_at_least(used: u64, limit: u64, share: u32) -> bool {
    if limit <= MAX_NARROW && u64::from(share) <= WHOLE {
        return used * WHOLE >= limit * u64::from(share);
    }
    u128::from(used) * u128::from(WHOLE) >= u128::from(limit) * u128::from(share)
}

/// The counters that have a warning.
#[derive(Debug)]
pub(crate) struct WarningState {
    places: Box<[AtomicU32]>,
    /// How many places are taken. While none is, no place has to be read: most clients are far from their limits.
    taken: AtomicUsize,
}

impl WarningState {
    pub(crate) fn new() -> Self {
        let places = (0..PLACES).map(|_| AtomicU32::new(0)).collect();
        Self { places, taken: AtomicUsize::new(0) }
    }

    /// Labels a place; 0 clears it.
    fn set(&self, place: &AtomicU32, label: u32) {
        let before = place.swap(label, Ordering::Relaxed);
        if before == 0 && label != 0 {
            self.taken.fetch_add(1, Ordering::Relaxed);
        } else if before != 0 && label == 0 {
            self.taken.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// The state of a counter after a request. `rule` is the rule of this charge; `surplus` is by how much the limit that
    /// was charged is larger than its own.
    #[inline]
    pub(crate) fn update(
        &self,
        rule: &Rule,
        planned: &Planned,
        settled: &ChargeResult,
        surplus: u64,
    ) -> SoftState {
        let (soft, limit, report) = (rule.soft, planned.limit(rule), &settled.report);
        let is_delayed = report.delay.is_some_and(|delay| delay > Micros::ZERO);
        let is_throttled = if settled.admitted { is_delayed } else { limit.delays() };
        if is_throttled {
            return SoftState::Throttled;
        }
        let fingerprint = planned.fingerprint();
        // Some bits of the fingerprint choose the place of a counter, others label it.
        let place = &self.places[usize::try_from(fingerprint).unwrap_or(0) % PLACES];
        let label = u32::try_from(fingerprint >> 32).unwrap_or(0) | 1;
        let limit = limit.capacity();
        let used = limit.saturating_sub(report.remaining.saturating_sub(surplus));
        let is_warned = || place.load(Ordering::Relaxed) == label;
        if limit > 0 && is_at_least(used, limit, soft.warn_at) {
            if !is_warned() {
                self.set(place, label);
            }
            return SoftState::Warning;
        }
        if self.taken.load(Ordering::Relaxed) == 0 || !is_warned() {
            return SoftState::Normal;
        }
        if is_at_least(used, limit, soft.clear_at) {
            return SoftState::Warning;
        }
        self.set(place, 0);
        SoftState::Normal
    }
}
