//! Decisions over HTTP, as tables of requests and responses.

mod bodies;
mod families;
mod fields;
mod templates;

use crate::faulty;
use crate::scene;

use faulty::FaultyStore;
use scene::{Scene, at_once, request};
use tollgate::store::StoreErrorKind;
use tollgate::{Decision, Micros};

/// A limiter under a policy after some steps; the step `down` makes the shared store unavailable.
fn after(policy: &str, steps: &[&str]) -> Scene<FaultyStore> {
    let mut scene = Scene::new(policy, FaultyStore::new(Micros::ZERO));
    for step in steps {
        match *step {
            "down" => scene.limiter.store().set_fault(Some(StoreErrorKind::Unavailable)),
            _ => drop(scene.step(step)),
        }
    }
    scene
}

/// The decision about one more request.
fn decide(scene: &Scene<FaultyStore>, asked: &str) -> Decision {
    at_once(scene.limiter.check(&request(asked)))
}
