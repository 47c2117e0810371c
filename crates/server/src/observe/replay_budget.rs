//! Ends a replay that takes too long, or whose caller has left.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use tollgate::Stopwatch;
use tollgate_simulate::Stopped;

/// How often the clock and the caller are looked at, in requests.
const REQUESTS_PER_LOOK: usize = 16;

/// Says to a replay that its caller has left, when it is dropped.
#[derive(Debug, Default)]
pub(crate) struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// What is left of the time of a replay, as long as its caller waits.
#[derive(Debug)]
pub(crate) struct ReplayBudget {
    is_cancelled: Arc<AtomicBool>,
    began: Stopwatch,
    max: Duration,
}

impl CancelOnDrop {
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }
}

impl ReplayBudget {
    /// The time from now on, until the flag is set.
    pub(crate) fn new(is_cancelled: Arc<AtomicBool>, max: Duration) -> Self {
        Self { is_cancelled, began: Stopwatch::start(), max }
    }

    pub(crate) fn is_spent(&self) -> bool {
        self.is_cancelled.load(Relaxed) || self.began.elapsed() > self.max
    }

    /// Looks now and then, as requests are replayed.
    pub(crate) fn check(&self, replayed: usize) -> Result<(), Stopped> {
        let is_spent = replayed.is_multiple_of(REQUESTS_PER_LOOK) && self.is_spent();
        if is_spent { Err(Stopped) } else { Ok(()) }
    }
}
