//! Time as the kernels see it: microseconds, in integers that saturate instead of wrapping.
//!
//! Microseconds because Unix time in microseconds stays below 2^53 until the year 2255, which is
//! what a Redis script (whose numbers are doubles) can hold exactly; nanoseconds do not fit.

use std::fmt;
use std::num::NonZeroU64;
use std::time::Duration;

/// A point in time: microseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

/// A span of time in microseconds.
///
/// Stored plus one, so that an `Option<Micros>` takes 64 bits: reports are copied a lot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Micros(NonZeroU64);

impl Timestamp {
    /// The Unix epoch.
    pub const EPOCH: Self = Self(0);

    /// The time `micros` microseconds after the Unix epoch.
    #[must_use]
    #[inline]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// The time `millis` milliseconds after the Unix epoch, saturating.
    #[must_use]
    #[inline]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000))
    }

    /// The time `secs` seconds after the Unix epoch, saturating.
    #[must_use]
    #[inline]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000))
    }

    /// Microseconds since the Unix epoch.
    #[must_use]
    #[inline]
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// The time that passed since `earlier`; zero if that is later.
    #[must_use]
    #[inline]
    pub const fn since(self, earlier: Self) -> Micros {
        Micros::new(self.0.saturating_sub(earlier.0))
    }

    /// This time plus `span`, saturating.
    #[must_use]
    #[inline]
    pub const fn plus(self, span: Micros) -> Self {
        Self(self.0.saturating_add(span.get()))
    }

    /// This time minus `span`, or the epoch.
    #[must_use]
    #[inline]
    pub const fn minus(self, span: Micros) -> Self {
        Self(self.0.saturating_sub(span.get()))
    }
}

impl Micros {
    /// A span of no length.
    pub const ZERO: Self = Self(NonZeroU64::MIN);

    /// A span of `micros` microseconds; the longest is one less than `u64::MAX`.
    #[must_use]
    #[inline]
    pub const fn new(micros: u64) -> Self {
        Self(NonZeroU64::MIN.saturating_add(micros))
    }

    /// A span of `millis` milliseconds, saturating.
    #[must_use]
    #[inline]
    pub const fn from_millis(millis: u64) -> Self {
        Self::new(millis.saturating_mul(1_000))
    }

    /// A span of `secs` seconds, saturating.
    #[must_use]
    #[inline]
    pub const fn from_secs(secs: u64) -> Self {
        Self::new(secs.saturating_mul(1_000_000))
    }

    /// The span in microseconds.
    #[must_use]
    #[inline]
    pub const fn get(self) -> u64 {
        self.0.get() - 1
    }

    /// Whole milliseconds, rounded up, so that a client never retries too early.
    #[must_use]
    #[inline]
    pub const fn as_millis_ceil(self) -> u64 {
        self.get().div_ceil(1_000)
    }

    /// Whole seconds, rounded up.
    #[must_use]
    #[inline]
    pub const fn as_secs_ceil(self) -> u64 {
        self.get().div_ceil(1_000_000)
    }

    /// The sum of two spans, saturating.
    #[must_use]
    #[inline]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.get()))
    }
}

impl Default for Micros {
    fn default() -> Self {
        Self::ZERO
    }
}

/// In the largest unit that needs no fraction: `3 s`, `1500 ms`, `7 us`.
impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.get() {
            micros if micros % 1_000_000 == 0 => write!(f, "{} s", micros / 1_000_000),
            micros if micros % 1_000 == 0 => write!(f, "{} ms", micros / 1_000),
            micros => write!(f, "{micros} us"),
        }
    }
}

impl fmt::Debug for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} us", self.get())
    }
}

impl From<Micros> for Duration {
    fn from(span: Micros) -> Self {
        Self::from_micros(span.get())
    }
}
