//! How late something is, and how late bare timers of the same runtime are on the same machine.

use std::fmt;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::sleep;
use tollgate::{Clock as _, SystemClock, Timestamp};

/// How late many were, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lateness {
    pub(crate) median: u64,
    pub(crate) p99: u64,
    pub(crate) most: u64,
}

impl Lateness {
    /// From turns and the times at which they were taken.
    pub(crate) fn of(taken: impl Iterator<Item = (Timestamp, Timestamp)>) -> Self {
        let mut late: Vec<u64> = taken.map(|(turn, moment)| moment.since(turn).get()).collect();
        late.sort_unstable();
        let at = |part: usize| late[(late.len() - 1) * part / 100];
        Self { median: at(50), p99: at(99), most: at(100) }
    }
}

impl fmt::Display for Lateness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { median, p99, most } = self;
        write!(f, "{median} us late in the median, {p99} us at p99, {most} us at most")
    }
}

/// Tasks that sleep until their turn and do nothing else, on the runtime where others are measured: what
/// timers and the machine cost anyway, at that very time.
pub(crate) struct Floor(Vec<JoinHandle<(Timestamp, Timestamp)>>);

impl Floor {
    pub(crate) fn start(turns: impl Iterator<Item = Timestamp>) -> Self {
        let sleeper = |turn| async move {
            sleep(until(turn)).await;
            (turn, SystemClock.now())
        };
        Self(turns.map(|turn| tokio::spawn(sleeper(turn))).collect())
    }

    pub(crate) async fn lateness(self) -> Lateness {
        let mut woken = Vec::with_capacity(self.0.len());
        for sleeper in self.0 {
            woken.push(sleeper.await.expect("no panic"));
        }
        Lateness::of(woken.into_iter())
    }
}

fn until(turn: Timestamp) -> Duration {
    turn.since(SystemClock.now()).into()
}
