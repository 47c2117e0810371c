//! The only file of this crate that reads the time: how long ago something was, and which date it
//! is for services that name one.
#![allow(clippy::disallowed_methods)]

use std::time::{SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

/// The present moment, which a test can stop.
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Whole seconds since 1970 by the clock of this machine.
pub(crate) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
