//! The clock of this machine, to measure durations and the difference to a server's clock.

use std::time::{Duration, Instant, SystemTime};

use tollgate_core::Timestamp;

/// A time to measure from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment(Instant);

impl Moment {
    #[expect(clippy::disallowed_methods, reason = "this is a clock")]
    pub(crate) fn now() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}

/// The time by the clock of this machine.
#[expect(clippy::disallowed_methods, reason = "this is a clock")]
pub(crate) fn wall_clock() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let micros = since_epoch.map_or(0, |since| since.as_micros());
    Timestamp::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
}
