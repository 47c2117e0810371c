//! An unavailable store is a value inside the decision: each rule applies its `on_store_failure`, and
//! no check fails.

mod away;
mod copies;
mod known;
mod mixed;

use crate::faulty;
use crate::scene;

use faulty::FaultyStore;
use scene::Scene;
use tollgate::Micros;
use tollgate::store::StoreErrorKind;

/// Plays steps on a limiter with a shared store, and compares the decisions. Between two steps the
/// store may go `down`, hang until the `timeout`, and come `up` again.
fn check(policy: &str, steps: &[(&str, &str)]) {
    check_with(FaultyStore::new(Micros::ZERO), policy, steps);
}

fn check_with(store: FaultyStore, policy: &str, steps: &[(&str, &str)]) {
    let mut scene = Scene::new(policy, store);
    for (number, (step, expected)) in steps.iter().enumerate() {
        let store = scene.limiter.store();
        match *step {
            "up" => store.set_fault(None),
            "down" => store.set_fault(Some(StoreErrorKind::Unavailable)),
            "timeout" => store.set_fault(Some(StoreErrorKind::Timeout)),
            _ => {
                let answer = scene.step(step);
                assert_eq!(answer, *expected, "step {number}, `{step}`, under {policy}");
            }
        }
    }
}
