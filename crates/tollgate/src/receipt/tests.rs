//! Compares receipts of some traffic with the decisions they were made of.

use super::*;
use crate::clock::ManualClock;
use crate::limiter::Limiter;
use crate::request::Request;
use tollgate_rules::Policy;

const POLICY: &str = "
    tiers: [{tier: gold}]
    overrides: [{identifier: special, identifier_type: user_id, rule_id: per_user, limit: 3}]
    blacklist: [{identifier: banned, identifier_type: user_id, reason: abuse}]
    rules:
    - {rule_id: per_user, limit: 4, window: 1m, identifier_type: user_id, applies_to: {user_tiers: [gold]}}
    - {rule_id: smooth, algorithm: leaky_bucket, limit: 2, burst: 8, window: 1s, identifier_type: [user_id, endpoint]}
    - {rule_id: watch, limit: 2, window: 1h, identifier_type: global, action: log_only}";

/// Runs some traffic, and passes each decision to `look`.
fn traffic(look: impl Fn(&Limiter<tollgate_store::MemoryStore, ManualClock>, Decision)) {
    let policy = Policy::from_text(POLICY).unwrap_or_else(|problems| panic!("{problems:?}"));
    let clock = ManualClock::at(Timestamp::from_secs(1_800_000_000));
    let limiter = Limiter::builder().policy(policy).clock(clock.clone()).build();
    let long = "u".repeat(500);
    for (number, user) in ["a", "special", "banned", &long, "a"].iter().cycle().take(60).enumerate()
    {
        let path = ["/orders", "/items"][number % 2];
        let request = Request::new().user_id(user).path(path).tier("gold").cost(number as u64 % 3);
        look(&limiter, limiter.check(&request).now());
        clock.advance(Micros::from_millis(37));
    }
}

fn keys(decision: &Decision) -> Vec<(Vec<u8>, Vec<u8>, u64)> {
    let charges = decision.parts.plan.charges(decision.snapshot.policy.rules());
    let owned = |charge: tollgate_core::Charge<'_>| {
        (charge.key.subject.to_vec(), charge.key.rest.to_vec(), charge.key.fingerprint)
    };
    charges.map(owned).collect()
}

#[test]
fn a_receipt_opens_as_the_decision_it_was() {
    let kept = std::cell::RefCell::new(None::<Receipt>);
    traffic(|_, decision| {
        let (text, all_keys) = (format!("{decision:?}"), keys(&decision));
        let check = |opened: &Decision| {
            assert_eq!(format!("{opened:?}"), text);
            assert_eq!(opened.tier(), decision.tier());
            assert_eq!(
                (opened.parts.asked_at, opened.charged()),
                (decision.parts.asked_at, decision.charged())
            );
            if opened.is_allowed() {
                assert_eq!(keys(opened), all_keys, "{text}");
            } else {
                assert!(keys(opened).iter().all(|(subject, ..)| subject.is_empty()), "{text}");
            }
        };
        check(&decision.receipt().open());
        // Also over an earlier receipt.
        let mut kept = kept.borrow_mut();
        let receipt = kept.get_or_insert_with(|| decision.receipt());
        receipt.replace(&decision);
        receipt.look(check);
    });
}

#[test]
fn only_rare_decisions_are_kept_unpacked() {
    traffic(|_, decision| {
        let is_whole = matches!(decision.receipt().0, ReceiptForm::Whole(_));
        let is_own = decision.parts.plan.planned().iter().any(|line| line.own_limit.is_some());
        let is_long = keys(&decision).iter().any(|(subject, ..)| subject.len() > 100);
        let is_rare = decision.parts.reason != DecisionReason::Rules
            || is_own
            || (is_long && decision.is_allowed());
        assert_eq!(is_whole, is_rare, "{decision:?}");
    });
}

#[test]
fn a_refunded_receipt_frees_its_units() {
    traffic(|limiter, _| {
        let request = Request::new().user_id("fresh").path("/orders").tier("gold");
        let charged = limiter.check(&request).now();
        let left = charged.remaining();
        limiter.refund(charged.receipt().open()).now().expect("counters in memory");
        let again = limiter.check(&request).now();
        assert_eq!(again.remaining(), left);
        limiter.refund(again).now().expect("counters in memory");
    });
}
