//! A refusal from the deny cache is a decision like any other, but about one rule only: the other rules
//! were not read.

use tollgate::store::{DenyCache, StoreErrorKind};
use tollgate::{Attributes, Decision, Micros, Refusal, RuleOutcome};

use crate::failure::faulty::FaultyStore;
use crate::failure::scene::{MIDNIGHT, Scene, at_once, parse, render, request};

/// How far the store's clock is ahead.
const STORE_SKEW: Micros = Micros::from_secs(20);

const POLICY: &str = "
rules:
  - {rule_id: address, limit: 100, window: 1m, identifier_type: ip, algorithm: fixed_window}
  - {rule_id: user, limit: 3, window: 1m, identifier_type: user_id, algorithm: fixed_window}
  - {rule_id: tenant, limit: 50, window: 1m, identifier_type: tenant, algorithm: fixed_window}
";

/// A request of the exhausted user, to which all three rules apply.
const OVER: &str = "ip=192.0.2.1 user_id=u tenant=acme";

/// A scene in which the user is exhausted, and its refusal is cached.
fn scene(policy: &str) -> Scene<DenyCache<FaultyStore>> {
    let mut scene = Scene::new(policy, DenyCache::new(FaultyStore::new(STORE_SKEW)));
    assert_eq!(scene.step("0 check user_id=u cost=3"), "allowed by user, 0 left, warned");
    let refused = scene.step(&format!("0 check {OVER}"));
    assert_eq!(refused, "refused by user, 0 left, retry in 40000 ms, warned");
    assert_eq!(scene.limiter.store().hits(), 0);
    scene
}

/// The rules that a decision has figures for, each with what is left of it.
fn figures(decision: &Decision) -> Vec<(String, u64)> {
    let left =
        |outcome: RuleOutcome<'_>| (outcome.rule.id.to_string(), outcome.outcome.report.remaining);
    decision.outcomes().map(left).collect()
}

/// The decision half a second later, for which the store is not needed.
fn check_known(policy: &str, expected: &[(&str, u64)]) {
    let limiter = &scene(policy).limiter;
    limiter.store().inner().set_fault(Some(StoreErrorKind::Unavailable));
    limiter.clock().advance(Micros::from_millis(500));
    let expected: Vec<(String, u64)> =
        expected.iter().map(|(rule, left)| ((*rule).to_owned(), *left)).collect();
    let request = request(OVER);
    let alone = at_once(limiter.check(&request));
    let together = at_once(limiter.check_batch(&[&request as &dyn Attributes]));
    for decision in together.iter().chain([&alone]) {
        assert_eq!(render(decision), "refused by user, 0 left, retry in 39500 ms, warned");
        assert_eq!(figures(decision), expected);
        assert_eq!(decision.refusal(), Some(Refusal::RateLimited));
        assert_eq!(decision.retry_after(), Some(Micros::from_millis(39_500)));
        assert_eq!(decision.degraded(), None);
        assert_eq!(decision.now(), MIDNIGHT.plus(STORE_SKEW).plus(Micros::from_millis(500)));
        assert_eq!(decision.charged(), 0);
    }
    assert_eq!(limiter.store().hits(), 2);
    let refused: Vec<u64> = limiter.stats().iter().map(|(_, counts)| counts.refused).collect();
    assert_eq!(refused, [0, 3, 0]);
}

#[test]
fn the_decision_names_the_rule_that_refused_and_no_other() {
    check_known(POLICY, &[("user", 0)]);
}

/// Local rules are read, so the decision has their figures, and no charge stays there.
#[test]
fn local_rules_are_in_the_decision() {
    let on_this_node = |rule: &str| {
        POLICY.replace(
            &format!("{{rule_id: {rule},"),
            &format!("{{rule_id: {rule}, consistency: local,"),
        )
    };
    check_known(&on_this_node("address"), &[("address", 100), ("user", 0)]);
    check_known(&on_this_node("tenant"), &[("user", 0), ("tenant", 50)]);
}

#[test]
fn after_a_second_the_store_is_called_again() {
    let mut scene = scene(POLICY);
    for (millis, figures, hits) in [(999, 1, 1), (1_000, 3, 1), (1_500, 1, 2)] {
        scene.limiter.clock().set(MIDNIGHT.plus(Micros::from_millis(millis)));
        let decision = at_once(scene.limiter.check(&request(OVER)));
        assert!(!decision.is_allowed());
        assert_eq!(decision.outcomes().count(), figures, "after {millis} ms");
        assert_eq!(scene.limiter.store().hits(), hits, "after {millis} ms");
    }
    assert_eq!(scene.step("1500 refund oldest"), "done");
    assert_eq!(scene.step(&format!("1500 check {OVER}")), "allowed by user, 2 left");
}

#[test]
fn a_reset_and_a_raised_limit_take_effect_at_once() {
    let mut reset = scene(POLICY);
    assert_eq!(reset.step("10 reset user_id=u"), "1 changed");
    assert_eq!(reset.step(&format!("10 check {OVER}")), "allowed by user, 2 left");
    let mut raised = scene(POLICY);
    raised.limiter.install(&parse(&POLICY.replace("limit: 3,", "limit: 30,")));
    assert_eq!(raised.step(&format!("10 check {OVER}")), "allowed by user, 26 left");
}

/// An explanation has the current figures of every rule.
#[test]
fn an_explanation_reads_the_store() {
    let scene = scene(POLICY);
    for _ in 0..2 {
        let explained = at_once(scene.limiter.explain(&request(OVER)));
        assert!(!explained.would_pass);
        assert_eq!(explained.binding.as_deref(), Some("user"));
        let exceeded: Vec<bool> =
            explained.figures.iter().map(|figures| figures.exceeded).collect();
        assert_eq!(exceeded, [false, true, false]);
    }
    assert_eq!(scene.limiter.store().hits(), 0);
}
