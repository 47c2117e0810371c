//! Time as the kernels see it: microseconds, in integers that saturate instead of wrapping.
//!
//! Microseconds because Unix time in microseconds stays below 2^53 until the year 2255, which is
//! what a Redis script (whose numbers are doubles) can hold exactly; nanoseconds do not fit.

use std::time::Duration;

/// A moment: microseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

/// A span of time in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Micros(u64);

impl Timestamp {
    /// The Unix epoch.
    pub const EPOCH: Self = Self(0);

    /// The moment `micros` microseconds after the Unix epoch.
    #[must_use]
    #[inline]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// The moment `millis` milliseconds after the Unix epoch, or the last one there is.
    #[must_use]
    #[inline]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000))
    }

    /// The moment `secs` seconds after the Unix epoch, or the last one there is.
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

    /// How long after `earlier` this is; zero if it is not after it.
    #[must_use]
    #[inline]
    pub const fn since(self, earlier: Self) -> Micros {
        Micros(self.0.saturating_sub(earlier.0))
    }

    /// This moment plus `span`, or the last moment there is.
    #[must_use]
    #[inline]
    pub const fn plus(self, span: Micros) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// This moment minus `span`, or the epoch.
    #[must_use]
    #[inline]
    pub const fn minus(self, span: Micros) -> Self {
        Self(self.0.saturating_sub(span.0))
    }
}

impl Micros {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// A span of `micros` microseconds.
    #[must_use]
    #[inline]
    pub const fn new(micros: u64) -> Self {
        Self(micros)
    }

    /// A span of `millis` milliseconds, or the longest there is.
    #[must_use]
    #[inline]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000))
    }

    /// A span of `secs` seconds, or the longest there is.
    #[must_use]
    #[inline]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000))
    }

    /// The span in microseconds.
    #[must_use]
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Whole milliseconds, rounded up: nobody is told to come back too early.
    #[must_use]
    #[inline]
    pub const fn as_millis_ceil(self) -> u64 {
        self.0.div_ceil(1_000)
    }

    /// Whole seconds, rounded up.
    #[must_use]
    #[inline]
    pub const fn as_secs_ceil(self) -> u64 {
        self.0.div_ceil(1_000_000)
    }

    /// The sum of two spans, or the longest there is.
    #[must_use]
    #[inline]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl From<Micros> for Duration {
    fn from(span: Micros) -> Self {
        Self::from_micros(span.0)
    }
}
