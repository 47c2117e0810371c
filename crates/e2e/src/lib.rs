//! Fixtures of the tests of the binary: the server under test, its clients, proxies and upstreams.
//!
//! This is support for tests: whatever goes wrong here is a panic that says what was wanted.

pub mod certificates;
pub mod client;
pub mod clock;
pub mod collector;
pub mod envoy;
pub mod grpc;
pub mod nginx;
pub mod process;
pub mod program;
pub mod server;
pub mod upstream;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tollgate::Stopwatch;

/// The timeout of everything that is waited for. Far more than it takes: a machine may be busy with
/// other tests.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

/// The interval between polls for changes without a notification: a closed port, another response.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Polls `look` until it returns something: whenever a process of the tests has printed something or
/// has ended, and at an interval besides.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let stopwatch = Stopwatch::start();
    loop {
        // Read before the poll, so that no output is missed.
        let heard = process::heard();
        if let Some(found) = look() {
            return found;
        }
        assert!(stopwatch.elapsed() < WAIT_TIMEOUT, "waited in vain for {what}");
        process::await_more(heard, POLL_INTERVAL);
    }
}

/// Signals threads to stop when it is dropped, in a panic too.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `work` on so many threads while `act` runs. The flag that `work` gets is set at the end.
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
