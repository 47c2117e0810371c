//! Warnings with hysteresis: they begin at one share of the limit and end below another, so that a client at the
//! threshold is not warned on and off.
//!
//! The counters with a warning are in a fixed table. A place may be taken over by another counter; one that is lost
//! counts as normal.

use std::sync::atomic::{AtomicU32, Ordering};

use serde::Serialize;
use tollgate_core::{Micros, Outcome};
use tollgate_rules::SoftLimit;

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
const WHOLE: u128 = 1_000_000;

/// The counters that have a warning.
#[derive(Debug)]
pub(crate) struct WarningState {
    places: Box<[AtomicU32]>,
}

impl WarningState {
    pub(crate) fn new() -> Self {
        Self { places: (0..PLACES).map(|_| AtomicU32::new(0)).collect() }
    }

    /// The state of a counter after a request. `delays` says whether its rule delays requests.
    pub(crate) fn update(
        &self,
        soft: SoftLimit,
        outcome: &Outcome,
        delays: bool,
        fingerprint: u64,
    ) -> SoftState {
        let is_delayed = outcome.report.delay.is_some_and(|delay| delay > Micros::ZERO);
        let is_throttled = if outcome.admitted { is_delayed } else { delays };
        if is_throttled {
            return SoftState::Throttled;
        }
        // Some bits of the fingerprint choose the place of a counter, others label it.
        let place = &self.places[usize::try_from(fingerprint).unwrap_or(0) % PLACES];
        let label = u32::try_from(fingerprint >> 32).unwrap_or(0) | 1;
        let limit = u128::from(outcome.limit);
        let used = limit.saturating_sub(u128::from(outcome.report.remaining)) * WHOLE;
        let is_warned = || place.load(Ordering::Relaxed) == label;
        if limit > 0 && used >= limit * u128::from(soft.warn_at) {
            if !is_warned() {
                place.store(label, Ordering::Relaxed);
            }
            return SoftState::Warning;
        }
        if !is_warned() {
            return SoftState::Normal;
        }
        if used >= limit * u128::from(soft.clear_at) {
            return SoftState::Warning;
        }
        place.store(0, Ordering::Relaxed);
        SoftState::Normal
    }
}
