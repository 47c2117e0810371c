//! Answers over HTTP/2 that their clients do not take.
//!
//! What moves on a connection says nothing about one of its streams: as long as others move, one whose
//! window stays closed would keep its answer, and all that belongs to it. The library asks no body for
//! its next piece before the last one has gone, so who is stuck cannot notice it himself: somebody else
//! has to look, and to end the task that sends.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, Weak};

use tokio::task::AbortHandle;

/// How one answer goes out.
#[derive(Debug, Default)]
pub(super) struct Pace {
    pieces: AtomicU32,
    /// A piece was handed over, and the next one has not been asked for yet.
    awaits_client: AtomicBool,
    sender: OnceLock<AbortHandle>,
}

impl Pace {
    /// A piece was handed over.
    pub(super) fn give(&self) {
        self.pieces.fetch_add(1, Relaxed);
        self.awaits_client.store(true, Relaxed);
    }

    /// The next piece was asked for, and is not there yet.
    pub(super) fn await_service(&self) {
        self.awaits_client.store(false, Relaxed);
    }
}

/// The answers of one connection that could not be given at once.
#[derive(Debug, Default)]
pub(super) struct Paces(Vec<Followed>);

#[derive(Debug)]
struct Followed {
    pace: Weak<Pace>,
    pieces: u32,
    quiet_looks: u32,
}

/// As many are followed before those that are over are forgotten.
const ROOM: usize = 128;

impl Paces {
    /// Follows an answer that a task sends.
    pub(super) fn follow(&mut self, pace: &Arc<Pace>, sender: AbortHandle) {
        // There is one task for each.
        let _ = pace.sender.set(sender);
        if self.0.len() >= ROOM {
            self.0.retain(|followed| followed.pace.strong_count() > 0);
        }
        self.0.push(Followed { pace: Arc::downgrade(pace), pieces: 0, quiet_looks: 0 });
    }

    /// Looks at all of them. Those of which nothing was taken for more than so many looks are ended.
    pub(super) fn look(&mut self, most_quiet: u32) {
        self.0.retain_mut(|followed| {
            let Some(pace) = followed.pace.upgrade() else { return false };
            let pieces = pace.pieces.load(Relaxed);
            if pieces != followed.pieces || !pace.awaits_client.load(Relaxed) {
                (followed.pieces, followed.quiet_looks) = (pieces, 0);
                return true;
            }
            followed.quiet_looks += 1;
            let is_stuck = followed.quiet_looks > most_quiet;
            if is_stuck && let Some(sender) = pace.sender.get() {
                sender.abort();
            }
            !is_stuck
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays events: `p` a piece is handed over, `w` the next one is waited for, `.` a look. Three quiet
    /// looks are one too many.
    async fn check(events: &str, is_ended: bool) {
        let (pace, mut paces) = (Arc::<Pace>::default(), Paces::default());
        let task = tokio::spawn(std::future::pending::<()>());
        paces.follow(&pace, task.abort_handle());
        for event in events.chars() {
            match event {
                'p' => pace.give(),
                'w' => pace.await_service(),
                _ => paces.look(2),
            }
        }
        tokio::task::yield_now().await;
        assert_eq!((paces.0.is_empty(), task.is_finished()), (is_ended, is_ended), "{events}");
        task.abort();
    }

    #[tokio::test]
    async fn an_answer_ends_when_nothing_of_it_is_taken() {
        // A service may take its time, before the first piece and after it.
        check("......", false).await;
        check("pw......", false).await;
        // A client may not.
        check("p...", false).await;
        check("p....", true).await;
        check("pwp....", true).await;
        // A piece now and then is enough.
        check("p..p..p..p..", false).await;
    }

    #[tokio::test]
    async fn those_that_are_over_are_forgotten() {
        let mut paces = Paces::default();
        let task = tokio::spawn(std::future::pending::<()>());
        let open = Arc::<Pace>::default();
        paces.follow(&open, task.abort_handle());
        for _ in 0..3 * ROOM {
            paces.follow(&Arc::default(), task.abort_handle());
            assert!(paces.0.len() <= ROOM);
        }
        paces.look(2);
        assert_eq!(paces.0.len(), 1);
        task.abort();
    }
}
