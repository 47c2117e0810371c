//! The only file that reads the system clock.
//!
//! Everything else takes a [`Timestamp`], so every decision can be tested and replayed. A limiter reads its [`Clock`]
//! once per check, or once per batch.
#![allow(clippy::disallowed_methods)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tollgate_core::{Micros, Timestamp};

/// The clock of a limiter.
pub trait Clock: Send + Sync + 'static {
    /// The current time.
    fn now(&self) -> Timestamp;
}

/// The clock of the operating system, read on every check.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_micros(u64::try_from(since_epoch.as_micros()).unwrap_or(u64::MAX))
    }
}

/// The system clock, read once a millisecond by a background thread.
///
/// Reading the clock costs as much as a check, and it keeps the processor from fetching the next counter meanwhile; a
/// time that is a millisecond old is as good for counting. The thread ends with the last clone.
#[derive(Clone, Debug)]
pub struct CachedClock(Arc<AtomicU64>);

impl CachedClock {
    /// How old the time may be.
    pub const RESOLUTION: Duration = Duration::from_millis(1);

    /// Starts the thread.
    ///
    /// # Errors
    /// The operating system cannot start a thread.
    pub fn start() -> std::io::Result<Self> {
        let cached = Arc::new(AtomicU64::new(SystemClock.now().as_micros()));
        let shared = Arc::downgrade(&cached);
        thread::Builder::new().name("tollgate-clock".into()).spawn(move || {
            while let Some(cached) = Weak::upgrade(&shared) {
                cached.store(SystemClock.now().as_micros(), Ordering::Relaxed);
                drop(cached);
                thread::sleep(Self::RESOLUTION);
            }
        })?;
        Ok(Self(cached))
    }
}

impl Clock for CachedClock {
    #[inline]
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::Relaxed))
    }
}

/// Measures durations, for statistics and timeouts. No decision depends on it.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts to measure.
    #[must_use]
    #[inline]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// The time since the start.
    #[must_use]
    #[inline]
    pub fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}

/// A clock that changes only by [`set`](Self::set) and [`advance`](Self::advance): for tests and simulations. Clones
/// share their time.
#[derive(Clone, Debug, Default)]
pub struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    /// A clock at `now`.
    #[must_use]
    pub fn at(now: Timestamp) -> Self {
        Self(Arc::new(AtomicU64::new(now.as_micros())))
    }

    /// Sets the time, which may be an earlier one.
    pub fn set(&self, now: Timestamp) {
        self.0.store(now.as_micros(), Ordering::Relaxed);
    }

    /// Advances the time by `span`.
    pub fn advance(&self, span: Micros) {
        self.set(self.now().plus(span));
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::Relaxed))
    }
}
