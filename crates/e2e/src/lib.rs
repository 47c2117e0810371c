//! What tests of the whole share: the server under test, clients of it, and what stands around it.
//!
//! This is support for tests: whatever goes wrong here is a panic that says what was wanted.

pub mod certificates;
pub mod client;
pub mod collector;
pub mod envoy;
pub mod grpc;
pub mod process;
pub mod program;
pub mod server;
pub mod upstream;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tollgate::Stopwatch;

/// The longest that anything may take that is waited for. Far more than it takes: a machine may be
/// busy with other tests.
const PATIENCE: Duration = Duration::from_secs(30);

/// How soon to look again for what nobody announces: a port that closes, an answer that changes.
const GLANCE: Duration = Duration::from_millis(10);

/// Waits until `look` finds what it looks for. It looks whenever a process of the tests has said
/// something or has ended, and now and then besides.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let stopwatch = Stopwatch::start();
    loop {
        // Before the look, so that nothing said meanwhile is missed.
        let heard = process::heard();
        if let Some(found) = look() {
            return found;
        }
        assert!(stopwatch.elapsed() < PATIENCE, "waited in vain for {what}");
        process::await_more(heard, GLANCE);
    }
}

/// Tells threads that what they were started for is over, in a panic too.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Does `work` on so many threads while `act` runs. `work` is told when that is over.
pub fn beside(threads: usize, work: impl Fn(&AtomicBool) + Sync, act: impl FnOnce()) {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| work(&is_over));
        }
        let _over = Over(&is_over);
        act();
    });
}
