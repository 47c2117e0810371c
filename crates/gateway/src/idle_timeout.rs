//! A timeout for the next frame of a body.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Sleep, sleep};
use tollgate::Stopwatch;

/// Expires if nothing arrives for too long. A timer exists only while something is awaited.
#[derive(Debug)]
pub(crate) struct IdleTimeout {
    limit: Duration,
    timer: Option<Pin<Box<Sleep>>>,
    is_running: bool,
}

impl IdleTimeout {
    pub(crate) const fn new(limit: Duration) -> Self {
        Self { limit, timer: None, is_running: false }
    }

    /// Restarts the timeout: something arrived.
    pub(crate) const fn renew(&mut self) {
        self.is_running = false;
    }

    /// Ready if nothing has arrived for too long, here or in `elsewhere`.
    pub(crate) fn poll_run_out(
        &mut self,
        elsewhere: Option<&LastMove>,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(self.limit)));
        if !self.is_running {
            timer.set(sleep(self.limit));
            self.is_running = true;
        }
        loop {
            ready!(timer.as_mut().poll(context));
            match elsewhere.and_then(|elsewhere| elsewhere.left_of(self.limit)) {
                None => return Poll::Ready(()),
                Some(left) => timer.set(sleep(left)),
            }
        }
    }
}

/// When something last moved, shared between tasks.
#[derive(Debug)]
pub(crate) struct LastMove {
    running: Stopwatch,
    /// In microseconds.
    at: AtomicU64,
}

impl LastMove {
    pub(crate) fn now() -> Self {
        Self { running: Stopwatch::start(), at: AtomicU64::new(0) }
    }

    /// Records that something moved.
    pub(crate) fn renew(&self) {
        let now = u64::try_from(self.running.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.at.store(now, Relaxed);
    }

    /// What is left of `limit` since something moved; `None` if nothing is.
    pub(crate) fn left_of(&self, limit: Duration) -> Option<Duration> {
        let at = Duration::from_micros(self.at.load(Relaxed));
        let left = at.saturating_add(limit).saturating_sub(self.running.elapsed());
        (!left.is_zero()).then_some(left)
    }
}
