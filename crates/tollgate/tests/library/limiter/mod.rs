//! How a limiter behaves, as scripts of requests and decisions.

mod admission;
mod batch;
mod calendar;
mod candidate;
mod charging;
mod corrections;
mod penalty;
mod report;
mod reused;
mod soft;
mod unmatched;

use crate::scene;

use scene::Scene;
use tollgate::MemoryStore;

/// Plays steps on a limiter, and compares the decisions.
fn check(policy: &str, steps: &[(&str, &str)]) {
    let mut scene = in_memory(policy);
    for (number, (step, expected)) in steps.iter().enumerate() {
        assert_eq!(scene.step(step), *expected, "step {number}, `{step}`, under {policy}");
    }
}

fn in_memory(policy: &str) -> Scene<MemoryStore> {
    Scene::new(policy, MemoryStore::with_bytes(0))
}
