//! `Limiter::reprice`: whatever was charged and whatever the final cost is, in the end the counter
//! holds the final cost, in every store.

use proptest::prelude::*;
use tollgate::store::StoreErrorKind;
use tollgate::{MemoryStore, Micros, Request, Store};

use crate::tower::faulty::FaultyStore;
use crate::tower::scene::{Scene, at_once, config};

const ALGORITHMS: [&str; 6] = [
    "fixed_window",
    "sliding_window_log",
    "sliding_window_counter",
    "token_bucket",
    "leaky_bucket",
    "gcra",
];

fn policy(algorithm: &str, more: &str) -> String {
    format!(
        "rules: [{{rule_id: r, limit: 100, window: 1m, identifier_type: user_id, algorithm: {algorithm}{more}}}]"
    )
}

fn in_memory(algorithm: &str) -> Scene<MemoryStore> {
    Scene::new(&policy(algorithm, ""), MemoryStore::with_bytes(0))
}

fn shared(more: &str) -> Scene<FaultyStore> {
    Scene::new(&policy("fixed_window", more), FaultyStore::new(Micros::ZERO))
}

/// Sends requests whose final cost differs from the charge, and compares what is left so many
/// milliseconds after midnight.
fn check<S: Store>(scene: &mut Scene<S>, requests: &[(u64, u64)], millis: u64, left: u64) {
    for (cost, worth) in requests {
        let decision = at_once(scene.limiter.check(&Request::new().user_id("u").cost(*cost)));
        assert!(decision.is_allowed());
        let corrected = at_once(scene.limiter.reprice(decision, |rule, charged| {
            assert_eq!((&*rule.id, charged), ("r", *cost));
            *worth
        }));
        corrected.expect("a store that answers");
    }
    let seen = scene.step(&format!("{millis} peek user_id=u"));
    let words: Vec<&str> = seen.split(", ").take(2).collect();
    assert_eq!(words, ["allowed by r", &format!("{left} left")], "{requests:?}");
}

proptest! {
    #![proptest_config(config(200))]

    #[test]
    fn the_final_cost_is_charged(
        algorithm in prop::sample::select(&ALGORITHMS[..]),
        requests in prop::collection::vec((0_u64..=20, 0_u64..=20), 0..=4),
    ) {
        let worth: u64 = requests.iter().map(|(_, worth)| worth).sum();
        check(&mut in_memory(algorithm), &requests, 0, 100 - worth);
    }
}

#[test]
fn a_refusal_has_charged_nothing_and_costs_nothing() {
    let policy = "
rules:
  - {rule_id: r, limit: 100, window: 1m, identifier_type: user_id, algorithm: fixed_window}
  - {rule_id: refusing, limit: 0, window: 1m, identifier_type: tenant, algorithm: fixed_window}
";
    for worth in [0, 50] {
        let mut scene = Scene::new(policy, MemoryStore::with_bytes(0));
        check(&mut scene, &[(10, 10)], 0, 90);
        let refused = scene.limiter.check(&Request::new().user_id("u").tenant("t").cost(10)).now();
        assert!(!refused.is_allowed());
        at_once(scene.limiter.reprice(refused, |_, _| worth)).expect("counters in memory");
        check(&mut scene, &[], 0, 90);
    }
}

#[test]
fn a_debit_stops_one_limit_below_zero() {
    for algorithm in ALGORITHMS {
        let mut scene = in_memory(algorithm);
        check(&mut scene, &[(1, u64::MAX)], 0, 0);
        // Everything is back when twice the limit has drained.
        check(&mut scene, &[], 120_000, 100);
    }
    check(&mut in_memory("gcra"), &[(1, u64::MAX)], 60_000, 0);
    check(&mut in_memory("gcra"), &[(1, u64::MAX)], 60_600, 1);
}

#[test]
fn corrections_go_where_the_charge_went() {
    let requests = [(10, 30), (10, 0)];
    for more in ["", ", consistency: local"] {
        check(&mut shared(more), &requests, 0, 70);
    }
    // Without the store, a node counts and corrects locally.
    let mut scene = shared(", fallback_factor: 1");
    scene.limiter.store().set_fault(Some(StoreErrorKind::Unavailable));
    for (cost, worth) in requests {
        let decision = at_once(scene.limiter.check(&Request::new().user_id("u").cost(cost)));
        at_once(scene.limiter.reprice(decision, |_, _| worth)).expect("counted on this node");
    }
    assert_eq!(scene.step("0 peek user_id=u"), "allowed by r, 70 left, degraded");
    scene.limiter.store().set_fault(None);
    check(&mut scene, &[], 0, 100);
}

#[test]
fn a_store_that_fails_before_the_correction_is_an_error() {
    let scene = shared("");
    for worth in [0, 2] {
        scene.limiter.store().set_fault(None);
        let decision = at_once(scene.limiter.check(&Request::new().user_id("u")));
        scene.limiter.store().set_fault(Some(StoreErrorKind::Timeout));
        let corrected = at_once(scene.limiter.reprice(decision, |_, _| worth));
        assert_eq!(corrected.expect_err("no server").kind(), StoreErrorKind::Timeout);
    }
}
