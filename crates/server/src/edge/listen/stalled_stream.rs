//! Ends responses over HTTP/2 that their clients do not read.
//!
//! Activity on a connection says nothing about one of its streams: as long as others make progress, a
//! stream whose window stays closed would keep its response and all its resources. The library does not
//! poll a body for its next frame before the last one is sent, so a stuck body cannot notice it: the
//! connection checks it, and aborts the task that sends it.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, Weak};

use tokio::task::AbortHandle;

/// How one response is sent.
#[derive(Debug, Default)]
pub(super) struct StalledStream {
    pieces: AtomicU32,
    /// A frame was handed over, and the next one has not been polled for yet.
    awaits_client: AtomicBool,
    sender: OnceLock<AbortHandle>,
}

impl StalledStream {
    /// Notes that a frame was handed over.
    pub(super) fn give(&self) {
        self.pieces.fetch_add(1, Relaxed);
        self.awaits_client.store(true, Relaxed);
    }

    /// Notes that the next frame was polled for, and the service has none yet.
    pub(super) fn await_service(&self) {
        self.awaits_client.store(false, Relaxed);
    }
}

/// The responses of one connection that were not complete at once.
#[derive(Debug, Default)]
pub(super) struct StalledStreams(Vec<Followed>);

#[derive(Debug)]
struct Followed {
    pace: Weak<StalledStream>,
    pieces: u32,
    quiet_looks: u32,
}

/// When this many responses are followed, finished ones are removed.
const PACES_CAPACITY: usize = 128;

impl StalledStreams {
    /// Follows a response that a task sends.
    pub(super) fn follow(&mut self, pace: &Arc<StalledStream>, sender: AbortHandle) {
        // There is one task for each response.
        let _ = pace.sender.set(sender);
        if self.0.len() >= PACES_CAPACITY {
            self.0.retain(|followed| followed.pace.strong_count() > 0);
        }
        self.0.push(Followed { pace: Arc::downgrade(pace), pieces: 0, quiet_looks: 0 });
    }

    /// Checks all responses. Aborts those of which nothing was taken for more than `most_quiet` checks.
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

    /// Plays events: `p` a frame is handed over, `w` the next one is waited for, `.` a check. Three
    /// quiet checks are one too many.
    async fn check(events: &str, is_ended: bool) {
        let (pace, mut paces) = (Arc::<StalledStream>::default(), StalledStreams::default());
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
    async fn a_response_ends_when_its_client_does_not_read_it() {
        // A service has no timeout, before the first frame and after it.
        check("......", false).await;
        check("pw......", false).await;
        // A client has.
        check("p...", false).await;
        check("p....", true).await;
        check("pwp....", true).await;
        // A frame now and then is enough.
        check("p..p..p..p..", false).await;
    }

    #[tokio::test]
    async fn finished_responses_are_removed() {
        let mut paces = StalledStreams::default();
        let task = tokio::spawn(std::future::pending::<()>());
        let open = Arc::<StalledStream>::default();
        paces.follow(&open, task.abort_handle());
        for _ in 0..3 * PACES_CAPACITY {
            paces.follow(&Arc::default(), task.abort_handle());
            assert!(paces.0.len() <= PACES_CAPACITY);
        }
        paces.look(2);
        assert_eq!(paces.0.len(), 1);
        task.abort();
    }
}
