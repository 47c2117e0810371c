//! Ten thousand requests that wait for their turn at once, by the real clock on the real runtime: what
//! they cost, how punctually they leave, and that cancelled ones free their places.

mod full;
mod gate;
mod lateness;
mod memory;
mod order;

use std::future::Future;
use std::sync::{Mutex, PoisonError};

use tokio::runtime::Builder;

/// As many as a layer delays by default.
const HELD: usize = 10_000;

/// Runs a test while no other one runs: they measure, and each would be the noise of the others.
fn run_alone<T>(runtime: &mut Builder, test: impl Future<Output = T>) -> T {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    runtime.enable_time().build().expect("a runtime").block_on(test)
}

/// The runtime of a small server.
fn threads() -> Builder {
    let mut runtime = Builder::new_multi_thread();
    runtime.worker_threads(2);
    runtime
}
