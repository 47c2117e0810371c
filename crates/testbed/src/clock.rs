//! The only file here that reads the system clock: tests wait for servers, and a slow network is slow by the clock.
#![allow(clippy::disallowed_methods)]

use std::time::{Duration, Instant};

/// How long something takes, for tests of what must not take long.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts now.
    #[must_use]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// The time since the start.
    #[must_use]
    pub fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}

/// The time of tokio's clock, which tests may stop and advance.
#[must_use]
pub fn tokio_now() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

/// A point in time to wait for.
#[derive(Clone, Copy)]
pub(crate) struct Moment(Instant);

impl Moment {
    pub(crate) fn after(delay: Duration) -> Self {
        Self(Instant::now() + delay)
    }

    /// How long it is until then; nothing once it has passed.
    pub(crate) fn left(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    pub(crate) fn has_passed(self) -> bool {
        self.left().is_zero()
    }
}
