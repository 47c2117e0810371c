//! What rules do while the store is unavailable, and that it is used again when it is back.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use tollgate::store::StoreErrorKind;
use tollgate::{Attributes, Micros, Refusal, Request, RuleCounts};

use crate::failure::check;
use crate::failure::faulty::FaultyStore;
use crate::failure::scene::{Scene, at_once, config, render, request};

fn policy(fields: &str) -> String {
    format!(
        "rules: [{{rule_id: r, limit: 3, window: 1m, identifier_type: user_id, \
         algorithm: fixed_window, {fields}}}]"
    )
}

#[test]
fn an_open_rule_passes() {
    check(
        &policy("on_store_failure: open"),
        &[
            ("0 check user_id=u cost=3", "allowed by r, 0 left, warned"),
            ("down", ""),
            ("0 check user_id=u cost=100", "allowed, degraded"),
            ("timeout", ""),
            ("0 check user_id=u cost=100", "allowed, degraded"),
            ("up", ""),
            ("0 check user_id=u", "refused by r, 0 left, retry in 60000 ms, warned"),
        ],
    );
}

#[test]
fn a_closed_rule_refuses() {
    check(
        &policy("on_store_failure: closed"),
        &[
            ("0 check user_id=u", "allowed by r, 2 left"),
            ("down", ""),
            ("0 check user_id=u", "refused: store unavailable, degraded"),
            ("timeout", ""),
            ("0 check user_id=u", "refused: store unavailable, degraded"),
            ("up", ""),
            ("0 check user_id=u", "allowed by r, 1 left"),
        ],
    );
}

#[test]
fn a_local_rule_counts_on_this_node_under_a_larger_limit() {
    check(
        &policy("on_store_failure: local, fallback_factor: 2"),
        &[
            ("0 check user_id=u cost=3", "allowed by r, 0 left, warned"),
            ("down", ""),
            ("0 check user_id=u cost=7", "refused by r, 3 left, never, degraded"),
            ("0 check user_id=u cost=6", "allowed by r, 0 left, warned, degraded"),
            ("timeout", ""),
            ("0 check user_id=u", "refused by r, 0 left, retry in 60000 ms, warned, degraded"),
            // Local charges are not copied to the store.
            ("up", ""),
            ("0 check user_id=v cost=3", "allowed by r, 0 left, warned"),
            ("0 check user_id=u", "refused by r, 0 left, retry in 60000 ms, warned"),
            ("60000 check user_id=u", "allowed by r, 2 left"),
            // Local charges are kept for the next outage.
            ("down", ""),
            ("0 check user_id=u", "refused by r, 0 left, retry in 60000 ms, warned, degraded"),
        ],
    );
}

#[test]
fn of_several_rules_a_closed_one_wins_and_an_open_one_passes() {
    let policy = "
rules:
  - {rule_id: closed, limit: 3, window: 1m, identifier_type: api_key, algorithm: fixed_window, on_store_failure: closed}
  - {rule_id: local, limit: 3, window: 1m, identifier_type: user_id, algorithm: fixed_window, fallback_factor: 1}
  - {rule_id: open, limit: 3, window: 1m, identifier_type: ip, algorithm: fixed_window, on_store_failure: open}
  - {rule_id: watch, limit: 3, window: 1m, identifier_type: tenant, algorithm: fixed_window, on_store_failure: closed, action: log_only}
";
    check(
        policy,
        &[
            ("down", ""),
            ("0 check api_key=k user_id=u ip=192.0.2.1", "refused: store unavailable, degraded"),
            // The local rule was not charged by that.
            ("0 check user_id=u ip=192.0.2.1 cost=3", "allowed by local, 0 left, warned, degraded"),
            (
                "0 check user_id=u ip=192.0.2.1",
                "refused by local, 0 left, retry in 60000 ms, warned, degraded",
            ),
            ("0 check ip=192.0.2.1 cost=9", "allowed, degraded"),
            // A shadow rule does not fail closed.
            ("0 check tenant=acme cost=9", "allowed, degraded"),
            ("0 check header:x=y", "no rule"),
        ],
    );
}

#[test]
fn a_refund_goes_where_it_was_charged() {
    check(
        &policy("fallback_factor: 1"),
        &[
            ("0 check user_id=u cost=2", "allowed by r, 1 left"),
            ("down", ""),
            ("0 check user_id=u cost=3", "allowed by r, 0 left, warned, degraded"),
            // Counted on this node, so the store is not needed.
            ("0 refund", "done"),
            ("0 peek user_id=u", "allowed by r, 3 left, degraded"),
            ("0 check user_id=u cost=1", "allowed by r, 2 left, degraded"),
            ("up", ""),
            ("0 refund", "done"),
            ("0 peek user_id=u", "allowed by r, 1 left"),
            // Counted in the store, which is unavailable.
            ("down", ""),
            ("0 refund", "the store cannot be reached"),
            ("0 peek user_id=u", "allowed by r, 3 left, degraded"),
            ("up", ""),
            ("0 peek user_id=u", "allowed by r, 1 left"),
        ],
    );
}

#[test]
fn a_reset_says_if_the_store_did_not_hear_it() {
    check(
        &policy("fallback_factor: 1"),
        &[
            ("0 check user_id=u cost=3", "allowed by r, 0 left, warned"),
            ("down", ""),
            ("0 check user_id=u cost=3", "allowed by r, 0 left, warned, degraded"),
            ("0 reset user_id=u", "the store cannot be reached"),
            ("0 peek user_id=u", "allowed by r, 3 left, degraded"),
            ("timeout", ""),
            ("0 reset user_id=u", "the store did not respond in time"),
            ("up", ""),
            ("0 peek user_id=u", "allowed by r, 0 left, warned"),
            ("0 reset user_id=u", "1 changed"),
            ("0 peek user_id=u", "allowed by r, 3 left"),
        ],
    );
}

#[test]
fn the_decision_says_why() {
    let closed = policy("on_store_failure: closed");
    for fault in [
        StoreErrorKind::Unavailable,
        StoreErrorKind::Timeout,
        StoreErrorKind::Corrupt,
        StoreErrorKind::Refused,
    ] {
        let scene = Scene::new(&closed, FaultyStore::new(Micros::ZERO));
        scene.limiter.store().set_fault(Some(fault));
        let decision = at_once(scene.limiter.check(&request("user_id=u")));
        assert_eq!(decision.degraded(), Some(fault));
        assert_eq!(decision.refusal(), Some(Refusal::StoreUnavailable));
        assert_eq!(decision.retry_after(), None);
    }
}

#[test]
fn degraded_decisions_are_counted() {
    let mut scene = Scene::new(&policy("fallback_factor: 1"), FaultyStore::new(Micros::ZERO));
    scene.step("0 check user_id=u");
    scene.limiter.store().set_fault(Some(StoreErrorKind::Timeout));
    (0..5).for_each(|_| drop(scene.step("0 check user_id=u")));
    let expected = RuleCounts {
        admitted: 4,
        refused: 2,
        warned: 1,
        degraded: 5,
        fallback_local: 5,
        ..RuleCounts::default()
    };
    assert_eq!(scene.limiter.stats()[0].1, expected);
}

#[test]
fn requests_that_fail_open_or_closed_are_counted_by_rule() {
    let policy = "rules:
  - {rule_id: local, limit: 5, window: 10s, identifier_type: user_id}
  - {rule_id: node, limit: 5, window: 10s, identifier_type: user_id, consistency: local}
  - {rule_id: open, limit: 5, window: 10s, identifier_type: tenant, on_store_failure: open}
  - {rule_id: closed, limit: 5, window: 10s, identifier_type: ip, on_store_failure: closed}
  - {rule_id: watch, limit: 5, window: 10s, identifier_type: tenant, on_store_failure: closed, action: log_only}
";
    let mut scene = Scene::new(policy, FaultyStore::new(Micros::ZERO));
    scene.limiter.store().set_fault(Some(StoreErrorKind::Timeout));
    scene.step("0 check user_id=u tenant=t");
    scene.step("0 check tenant=t");
    scene.step("0 check tenant=t cost=0");
    scene.step("0 check user_id=u tenant=t ip=192.0.2.1");
    let fallbacks = |counts: &RuleCounts| {
        let RuleCounts { degraded, fallback_local, fallback_open, fallback_closed, .. } = *counts;
        assert_eq!(degraded, fallback_local + fallback_open + fallback_closed);
        (fallback_local, fallback_open, fallback_closed)
    };
    let counted: Vec<_> = scene.limiter.stats();
    let counted: Vec<_> =
        counted.iter().map(|(rule_id, counts)| (&**rule_id, fallbacks(counts))).collect();
    let expected = [
        ("local", (1, 0, 0)),
        ("node", (0, 0, 0)),
        ("open", (0, 2, 0)),
        ("closed", (0, 0, 1)),
        ("watch", (0, 2, 0)),
    ];
    assert_eq!(counted, expected);
}

const RULES: &str = "
rules:
  OWN
  - {rule_id: user, limit: 5, window: 10s, identifier_type: user_id, fallback_factor: 1, algorithm: gcra}
  - {rule_id: open, limit: 5, window: 10s, identifier_type: tenant, on_store_failure: open}
  - {rule_id: closed, limit: 5, window: 10s, identifier_type: ip, on_store_failure: closed}
  - {rule_id: watch, limit: 2, window: 10s, identifier_type: tenant, action: log_only}
  - {rule_id: key, limit: 9, window: 10s, identifier_type: api_key, on_missing: deny, applies_to: {endpoints: [/keyed]}}
whitelist: [{identifier_type: user_id, identifier: root}]
blacklist: [{identifier_type: user_id, identifier: mallory}]
";
/// With a local rule, the requests of a batch are settled one by one.
const OWN: &str = "- {rule_id: own, limit: 4, window: 10s, identifier_type: user_id, consistency: local, algorithm: fixed_window}";

fn requests() -> impl Strategy<Value = Vec<String>> {
    let user = select(vec!["", "user_id=ann", "user_id=bob", "user_id=root", "user_id=mallory"]);
    let tenant = select(vec!["", "tenant=acme"]);
    let ip = select(vec!["", "", "ip=192.0.2.1"]);
    let path = select(vec!["/", "/keyed"]);
    let key = select(vec!["", "api_key=k"]);
    let cost = select(vec!["", "cost=0", "cost=2", "cost=9"]);
    let request =
        (user, tenant, ip, path, key, cost).prop_map(|(user, tenant, ip, path, key, cost)| {
            [user, tenant, ip, path, key, cost].join(" ")
        });
    vec(request, 0..12)
}

fn faults() -> impl Strategy<Value = Option<StoreErrorKind>> {
    select(vec![None, Some(StoreErrorKind::Unavailable), Some(StoreErrorKind::Timeout)])
}

proptest! {
    #![proptest_config(config(300))]

    /// With or without the store, a batch has the results of its checks one by one.
    #[test]
    fn a_batch_is_its_checks_one_by_one(
        with_own in any::<bool>(),
        batches in vec((faults(), 0..4_000_u64, requests()), 1..6),
    ) {
        let policy = RULES.replace("OWN", if with_own { OWN } else { "" });
        let scenes = [(); 2].map(|()| Scene::new(&policy, FaultyStore::new(Micros::ZERO)));
        let [together, apart] = scenes.each_ref().map(|scene| &scene.limiter);
        for (fault, pause, batch) in &batches {
            for limiter in [together, apart] {
                limiter.store().set_fault(*fault);
                limiter.clock().advance(Micros::from_millis(*pause));
            }
            let requests: Vec<Request<'_>> = batch.iter().map(|text| request(text)).collect();
            let views: Vec<&dyn Attributes> =
                requests.iter().map(|request| request as &dyn Attributes).collect();
            let decisions = at_once(together.check_batch(&views));
            for ((text, request), decision) in batch.iter().zip(&requests).zip(&decisions) {
                let alone = at_once(apart.check(request));
                prop_assert_eq!(render(decision), render(&alone), "{}, {:?}", text, fault);
            }
        }
        prop_assert_eq!(together.stats(), apart.stats());
    }
}
