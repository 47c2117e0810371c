//! Waiting for the next piece of a body, and no longer than so.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Sleep, sleep};

/// Runs out if nothing comes for too long. A timer exists only while something is waited for.
#[derive(Debug)]
pub(crate) struct Patience {
    limit: Duration,
    timer: Option<Pin<Box<Sleep>>>,
    is_running: bool,
}

impl Patience {
    pub(crate) const fn new(limit: Duration) -> Self {
        Self { limit, timer: None, is_running: false }
    }

    /// Something came.
    pub(crate) const fn renew(&mut self) {
        self.is_running = false;
    }

    /// Nothing came yet; ready if nothing has come for too long.
    pub(crate) fn poll_run_out(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(self.limit)));
        if !self.is_running {
            timer.set(sleep(self.limit));
            self.is_running = true;
        }
        timer.as_mut().poll(context)
    }
}
