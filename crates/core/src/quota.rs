//! A limit as written in a policy: an algorithm, a limit, a window. Every bound is checked here, once, so that the
//! kernels need no checks.

use std::fmt;

use crate::{Calendar, Limit, Micros};

/// The largest limit and burst: a signed 64-bit number, so that every store can keep it.
pub const MAX_LIMIT: u64 = i64::MAX as u64;
/// The shortest window: one millisecond.
pub const MIN_WINDOW: Micros = Micros::from_millis(1);
/// The longest window: 366 days.
pub const MAX_WINDOW: Micros = Micros::from_secs(366 * 24 * 60 * 60);

/// How usage is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    /// Counts per window aligned to the Unix epoch or to the calendar; the whole limit is available again at once.
    FixedWindow,
    /// Stores every admission for one window: exact, at the price of memory.
    SlidingWindowLog,
    /// Two aligned windows, the earlier one weighted by how much of it is still in view.
    SlidingWindowCounter,
    /// Tokens refill continuously up to a capacity.
    TokenBucket,
    /// A queue that is served at a steady rate; an admitted request carries its delay.
    LeakyBucket,
    /// The generic cell rate algorithm: a token bucket kept as a schedule.
    Gcra,
}

impl Algorithm {
    /// All six, in the order in which they are listed everywhere.
    pub const ALL: [Self; 6] = [
        Self::FixedWindow,
        Self::SlidingWindowLog,
        Self::SlidingWindowCounter,
        Self::TokenBucket,
        Self::LeakyBucket,
        Self::Gcra,
    ];

    /// The name used in policies, APIs and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::FixedWindow => "fixed_window",
            Self::SlidingWindowLog => "sliding_window_log",
            Self::SlidingWindowCounter => "sliding_window_counter",
            Self::TokenBucket => "token_bucket",
            Self::LeakyBucket => "leaky_bucket",
            Self::Gcra => "gcra",
        }
    }

    /// The algorithm with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }

    /// Whether usage drains continuously: such an algorithm can have a burst and can throttle.
    #[must_use]
    pub const fn is_bucket(self) -> bool {
        matches!(self, Self::TokenBucket | Self::LeakyBucket | Self::Gcra)
    }

    /// Whether windows begin and end for all keys at the same time: at multiples of their length.
    #[must_use]
    pub const fn has_aligned_windows(self) -> bool {
        matches!(self, Self::FixedWindow | Self::SlidingWindowCounter)
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A limit as written in a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// How usage is counted.
    pub algorithm: Algorithm,
    /// Units admitted per window; 0 blocks.
    pub limit: u64,
    /// The length of the window.
    pub window: Micros,
    /// Capacity of a bucket, if not the limit itself. Not for windows and logs.
    pub burst: Option<u64>,
    /// Units admitted above the limit, which the reported figures do not show.
    pub grace: u64,
    /// Buckets only: admit a request that would have to wait at most this long, and delay it.
    pub max_delay: Micros,
    /// Fixed windows only: windows of the calendar, instead of equal ones since the Unix epoch. Then `window` is the
    /// nominal length of its unit. Calendars are few, large and shared by all limits, so they live forever.
    pub calendar: Option<&'static Calendar>,
}

impl Quota {
    /// `limit` units per `window`, without burst, grace or delay.
    #[must_use]
    pub const fn new(algorithm: Algorithm, limit: u64, window: Micros) -> Self {
        let (burst, grace, max_delay, calendar) = (None, 0, Micros::ZERO, None);
        Self { algorithm, limit, window, burst, grace, max_delay, calendar }
    }

    /// `limit` units per window of `calendar`.
    #[must_use]
    pub const fn per_calendar_window(limit: u64, calendar: &'static Calendar) -> Self {
        let mut quota = Self::new(Algorithm::FixedWindow, limit, calendar.unit().nominal());
        quota.calendar = Some(calendar);
        quota
    }

    /// Sets the capacity of a bucket.
    #[must_use]
    pub const fn with_burst(mut self, burst: u64) -> Self {
        self.burst = Some(burst);
        self
    }

    /// Checks every bound and derives the integers the kernels compute with.
    ///
    /// # Errors
    /// The first bound that the quota breaks.
    pub fn compile(self) -> Result<Limit, QuotaError> {
        if self.limit > MAX_LIMIT {
            return Err(QuotaError::LimitTooLarge);
        }
        if self.window < MIN_WINDOW || self.window > MAX_WINDOW {
            return Err(QuotaError::WindowOutOfRange);
        }
        if self.calendar.is_some_and(|calendar| calendar.unit().nominal() != self.window) {
            return Err(QuotaError::WindowNotOfCalendar);
        }
        if self.calendar.is_some() && self.algorithm != Algorithm::FixedWindow {
            return Err(QuotaError::CalendarWithoutFixedWindow);
        }
        if self.grace > MAX_LIMIT {
            return Err(QuotaError::GraceTooLarge);
        }
        if self.max_delay > MAX_WINDOW {
            return Err(QuotaError::DelayTooLong);
        }
        if !self.algorithm.is_bucket() {
            if self.burst.is_some() {
                return Err(QuotaError::BurstWithoutBucket);
            }
            if self.max_delay > Micros::ZERO {
                return Err(QuotaError::DelayWithoutBucket);
            }
        }
        match self.burst {
            Some(0) => Err(QuotaError::BurstZero),
            Some(burst) if burst > MAX_LIMIT => Err(QuotaError::BurstTooLarge),
            _ => Ok(Limit::derive(&self)),
        }
    }
}

/// Which bound a [`Quota`] breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaError {
    /// The limit is above [`MAX_LIMIT`].
    LimitTooLarge,
    /// The window is not within [`MIN_WINDOW`] and [`MAX_WINDOW`].
    WindowOutOfRange,
    /// A burst for an algorithm that is not a bucket.
    BurstWithoutBucket,
    /// A burst of zero, which could never admit anything.
    BurstZero,
    /// The burst is above [`MAX_LIMIT`].
    BurstTooLarge,
    /// The grace is above [`MAX_LIMIT`].
    GraceTooLarge,
    /// A delay for an algorithm that is not a bucket.
    DelayWithoutBucket,
    /// The delay is longer than [`MAX_WINDOW`].
    DelayTooLong,
    /// Windows of the calendar for another algorithm than the fixed window.
    CalendarWithoutFixedWindow,
    /// Windows of the calendar, and another length.
    WindowNotOfCalendar,
}

impl fmt::Display for QuotaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LimitTooLarge => "the limit is above 9223372036854775807",
            Self::WindowOutOfRange => "the window must be between 1 ms and 366 days",
            Self::BurstWithoutBucket => {
                "only token_bucket, leaky_bucket and gcra have a burst; window algorithms admit the limit"
            }
            Self::BurstZero => "a burst must be at least 1; to block, set the limit to 0",
            Self::BurstTooLarge => "the burst is above 9223372036854775807",
            Self::GraceTooLarge => "the grace is above 9223372036854775807",
            Self::DelayWithoutBucket => {
                "only token_bucket, leaky_bucket and gcra can delay a request"
            }
            Self::DelayTooLong => "the delay is longer than 366 days",
            Self::CalendarWithoutFixedWindow => {
                "only fixed_window counts by days, weeks and months of the calendar"
            }
            Self::WindowNotOfCalendar => "a window of the calendar has no other length",
        })
    }
}

impl std::error::Error for QuotaError {}
