//! The rate at which a bucket drains, as an exact fraction.
//!
//! `limit` per `window` is stored as `drain` parts per microsecond and `unit` parts per whole unit, reduced by their
//! greatest common divisor: 7 per second has no rounding error.

use crate::{Micros, Report};

/// `drain` parts leave per microsecond; `unit` parts are one unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rate {
    /// The limit that this rate belongs to. Two rates with the same limit and window are equal.
    pub(crate) limit: u64,
    pub(crate) drain: u64,
    pub(crate) unit: u64,
}

impl Rate {
    pub(crate) fn new(limit: u64, window: Micros) -> Self {
        let window = window.get().max(1);
        let divisor = gcd(limit, window);
        Self { limit, drain: limit / divisor, unit: window / divisor }
    }

    /// `units` in parts. At most 2^64 * 2^45.
    #[inline]
    pub(crate) fn parts(self, units: u64) -> u128 {
        u128::from(units) * u128::from(self.unit)
    }

    /// Parts that drain in `span`. At most 2^64 * 2^63.
    #[inline]
    pub(crate) fn drained(self, span: Micros) -> u128 {
        u128::from(span.get()) * u128::from(self.drain)
    }

    /// Whole units in `parts`, rounded up.
    #[inline]
    pub(crate) fn units_ceil(self, parts: u128) -> u64 {
        div_ceil(parts, self.unit)
    }

    /// Whole units in `parts`, rounded down.
    #[inline]
    pub(crate) fn units_floor(self, parts: u128) -> u64 {
        u64::try_from(parts / u128::from(self.unit)).unwrap_or(u64::MAX)
    }

    /// The report of a debt that is not zero, within `capacity`, and draining.
    #[inline]
    pub(crate) fn plain_report(self, capacity: u64, debt: u64) -> Report {
        let (whole, part) = (debt / self.unit, debt % self.unit);
        let (used, above) = if part > 0 { (whole + 1, part) } else { (whole, self.unit) };
        Report {
            remaining: capacity.saturating_sub(used),
            retry_after: Some(Micros::ZERO),
            reset_after: Micros::new(debt.div_ceil(self.drain)),
            next_after: Some(Micros::new(above.div_ceil(self.drain))),
            delay: None,
        }
    }

    /// How long until `parts` have drained, rounded up.
    #[inline]
    pub(crate) fn time_for(self, parts: u128) -> Micros {
        Micros::new(div_ceil(parts, self.drain))
    }
}

/// Rounds up, saturates, and divides 64 bits whenever it can: the 128-bit division is five times as slow and rarely
/// needed.
#[inline]
fn div_ceil(parts: u128, by: u64) -> u64 {
    if by == 0 {
        return u64::MAX;
    }
    match u64::try_from(parts) {
        Ok(parts) => parts.div_ceil(by),
        Err(_) => u64::try_from(parts.div_ceil(u128::from(by))).unwrap_or(u64::MAX),
    }
}

const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    if a == 0 { 1 } else { a }
}
