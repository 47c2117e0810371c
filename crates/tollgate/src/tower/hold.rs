//! The requests that wait for their turn: so many at most, since each keeps a connection and memory.

use std::sync::Arc;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::sleep;
use tollgate_core::{Micros, Mode, decide};

use crate::decision::Decision;

/// The places where requests wait. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct Places {
    free: Arc<Semaphore>,
    all: usize,
}

impl Places {
    pub(super) fn new(all: usize) -> Self {
        let all = all.min(Semaphore::MAX_PERMITS);
        Self { free: Arc::new(Semaphore::new(all)), all }
    }

    /// How many are taken.
    pub(super) fn taken(&self) -> usize {
        self.all.saturating_sub(self.free.available_permits())
    }

    /// A place for as long as that, or until the client leaves; `None` if all are taken.
    pub(super) fn take(&self, delay: Micros) -> Option<Turn<'_>> {
        Some(Turn { _place: self.free.try_acquire().ok()?, delay })
    }
}

/// A place, and how long it takes until whoever has it may go.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    _place: SemaphorePermit<'a>,
    delay: Micros,
}

impl Turn<'_> {
    /// Waits for it, and gives the place back.
    pub(super) async fn wait(self) {
        sleep(self.delay.into()).await;
    }
}

impl Decision {
    /// Refuses what was to be held: there is no place left. Each rule that wanted to hold it says to
    /// come back when its turn would have been.
    pub(super) fn turn_away(&mut self) {
        for judged in &mut self.lines {
            let outcome = &mut judged.outcome;
            let delay = outcome.report.delay.take().filter(|delay| *delay > Micros::ZERO);
            if delay.is_some() && outcome.mode != Mode::Shadow {
                outcome.admitted = false;
                outcome.report.retry_after = delay;
            }
        }
        self.judgement = decide(self.lines.iter().map(|judged| &judged.outcome));
    }
}
