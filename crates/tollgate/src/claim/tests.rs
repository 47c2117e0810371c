//! Claims of some decisions, read again and broken.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tollgate_rules::Policy;
use tollgate_store::{MemoryStore, Outcomes, SettleRequest, Settlement};

use super::*;
use crate::clock::ManualClock;
use crate::request::Request;

/// A store that says that it is shared, and how it names its counters.
struct SharedMemory(MemoryStore, AtomicU64);

impl Store for SharedMemory {
    fn is_shared(&self) -> bool {
        true
    }

    fn naming(&self) -> u64 {
        self.1.load(Relaxed)
    }

    fn try_settle(&self, _: &SettleRequest<'_>, _: Timestamp, _: &mut Settlement) -> bool {
        false
    }

    async fn submit(&self, ops: &[Op<'_>], now: Timestamp) -> Outcomes {
        self.0.submit_now(ops, now)
    }
}

const POLICY: &str = "
    overrides: [{identifier: special, identifier_type: user_id, rule_id: per_user, limit: 70}]
    rules:
    - {rule_id: per_user, limit: 40, window: 1m, identifier_type: user_id, algorithm: fixed_window}
    - {rule_id: smooth, algorithm: leaky_bucket, limit: 20, burst: 80, window: 1s, identifier_type: [user_id, endpoint]}
    - {rule_id: plan, limit: 60, window: 1 month, time_zone: Europe/Berlin, algorithm: fixed_window, identifier_type: user_id}
    - {rule_id: all, limit: 50, window: 1h, identifier_type: global, algorithm: sliding_window_log}";

fn limiter(policy: &str) -> Limiter<SharedMemory, ManualClock> {
    let policy = Policy::from_text(policy).unwrap_or_else(|problems| panic!("{problems:?}"));
    let clock = ManualClock::at(Timestamp::from_secs(1_800_000_000));
    let store = SharedMemory(MemoryStore::with_bytes(1 << 20), AtomicU64::new(7));
    Limiter::builder().policy(policy).clock(clock).store(store).build()
}

fn remaining(decision: &Decision) -> Vec<u64> {
    decision.outcomes().map(|one| one.outcome.report.remaining).collect()
}

#[tokio::test]
async fn another_limiter_refunds_exactly_what_was_charged() {
    for user in ["a", "special"] {
        let limiter = limiter(POLICY);
        let request = Request::new().user_id(user).path("/orders").cost(3);
        let peek = || async { remaining(&limiter.check(&crate::Peek(&request)).await) };
        let before = peek().await;
        let decision = limiter.check(&request).await;
        let mut bytes = [0; 512];
        let len = limiter.write_claim(&decision, None, &mut bytes).expect("room");
        let claim = RefundClaim::read(&bytes[..len]).expect("a claim");
        let charges: Vec<_> = claim.charges().collect();
        assert_eq!(charges, [("per_user", 3), ("smooth", 3), ("plan", 3), ("all", 3)]);
        for (claimed, (_, charge, _)) in claim.charges.iter().zip(decision.reported_charges()) {
            assert_eq!(claimed.limit, *charge.limit, "{}", claimed.rule_id);
            assert_eq!(claimed.subject, charge.key.subject);
            assert_eq!((claimed.rest, claimed.group), (charge.key.rest, charge.key.group));
        }
        for (claimed, expected) in claim.outcomes().zip(decision.outcomes()) {
            assert_eq!((claimed.rule_id, claimed.state), (&*expected.rule.id, expected.state));
            let figures = |it: Outcome| {
                let Report { remaining, reset_after, delay, .. } = it.report;
                (it.limit, it.window, it.cost, it.mode, remaining, reset_after, delay)
            };
            assert_eq!(figures(claimed.outcome), figures(expected.outcome), "{}", claimed.rule_id);
        }
        assert_eq!((claim.revision(), claim.tier()), (decision.revision().number, None));
        assert_ne!(peek().await, before);
        let outcome = limiter.refund_claim(&claim, [0; 16]).await.expect("a store");
        assert_eq!(outcome, ClaimOutcome::Refunded { counters: 4 });
        assert_eq!(peek().await, before);
        limiter.clock.advance(Micros::from_secs(120));
        let outcome = limiter.refund_claim(&claim, [0; 16]).await.expect("a store");
        assert_eq!(outcome, ClaimOutcome::Refunded { counters: 2 }, "not the hour, nor the month");
        limiter.clock.advance(Micros::from_secs(31 * 24 * 3_600));
        let outcome = limiter.refund_claim(&claim, [0; 16]).await.expect("a store");
        assert_eq!(outcome, ClaimOutcome::Expired);
    }
}

/// It gave back what was never charged: under another secret of the fleet, counters in Redis start anew.
#[tokio::test]
async fn a_claim_on_counters_that_started_anew_has_expired() {
    let limiter = limiter(POLICY);
    let request = Request::new().user_id("a").path("/orders").cost(3);
    let decision = limiter.check(&request).await;
    let mut bytes = [0; 512];
    let len = limiter.write_claim(&decision, None, &mut bytes).expect("room");
    let claim = RefundClaim::read(&bytes[..len]).expect("a claim");
    let before = remaining(&limiter.check(&crate::Peek(&request)).await);
    limiter.store().1.store(8, Relaxed);
    let outcome = limiter.refund_claim(&claim, [0; 16]).await.expect("a store");
    assert_eq!(outcome, ClaimOutcome::Expired);
    assert_eq!(remaining(&limiter.check(&crate::Peek(&request)).await), before);
}

/// The record of an idempotency key is beside the first counter of the request, which may not have been charged.
#[tokio::test]
async fn a_claim_has_the_idempotency_key_of_its_request() {
    let shadow = "rules:
    - {rule_id: shadow, limit: 1, window: 1m, identifier_type: global, action: log_only, priority: 9}
    - {rule_id: per_user, limit: 40, window: 1m, identifier_type: user_id}";
    for (policy, cost) in [(POLICY, 1), (shadow, 2)] {
        let limiter = limiter(policy);
        let decision = limiter.check(&Request::new().user_id("a").path("/orders").cost(cost)).await;
        let mut bytes = [0; 512];
        let len = limiter.write_claim(&decision, Some([7; 16]), &mut bytes).expect("room");
        let claim = RefundClaim::read(&bytes[..len]).expect("a claim");
        assert_eq!(claim.used_key("d1-a1"), decision.used_key([7; 16], "d1-a1"));
        assert!(claim.used_key("d1-a1").is_some());
        let first = decision.parts.plan.charges(decision.snapshot.policy.rules()).next();
        assert_eq!(claim.key, first.map(|charge| ([7; 16], charge.key.subject)));
        let mut plain = [0; 512];
        let len = limiter.write_claim(&decision, None, &mut plain).expect("room");
        assert_eq!(RefundClaim::read(&plain[..len]).expect("a claim").used_key("d1-a1"), None);
    }
}

#[tokio::test]
async fn bytes_that_are_no_claim_are_not_read() {
    let limiter = limiter(POLICY);
    let decision = limiter.check(&Request::new().user_id("a").path("/orders")).await;
    let mut bytes = [0; 512];
    let len = limiter.write_claim(&decision, None, &mut bytes).expect("room");
    let whole = &bytes[..len];
    // Whole charges can be read; nothing else.
    let read = (0..len).filter(|end| RefundClaim::read(&whole[..*end]).is_some()).count();
    assert_eq!(read, 3);
    for place in 0..len {
        let mut changed = whole.to_vec();
        changed[place] ^= 0xff;
        let _ = RefundClaim::read(&changed);
    }
    let mut other_format = whole.to_vec();
    other_format[0] += 1;
    assert!(RefundClaim::read(&other_format).is_none() && RefundClaim::read(&[]).is_none());
}

#[tokio::test]
async fn a_decision_that_only_its_process_can_refund_has_no_claim() {
    let long = "u".repeat(600);
    let local =
        "rules: [{rule_id: r, limit: 9, window: 1m, identifier_type: user_id, consistency: local}]";
    let refused = "rules: [{rule_id: r, limit: 0, window: 1m, identifier_type: user_id}]";
    for (what, policy, user, cost) in [
        ("a long key", POLICY, &*long, 1),
        ("local counters", local, "a", 1),
        ("a refusal", refused, "a", 1),
        ("nothing charged", POLICY, "a", 0),
    ] {
        let limiter = limiter(policy);
        let decision = limiter.check(&Request::new().user_id(user).path("/").cost(cost)).await;
        assert_eq!(limiter.write_claim(&decision, None, &mut [0; 512]), None, "{what}");
    }
    let memory = Limiter::from_text(POLICY).expect("a policy");
    let decision = memory.check(&Request::new().user_id("a")).now();
    assert_eq!(memory.write_claim(&decision, None, &mut [0; 512]), None, "counters in memory");
}
