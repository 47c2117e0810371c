//! The memory of a decision is used again by the next one of its thread, which must show nothing of it.

use tollgate::{Decision, DecisionReason, Limiter, ManualClock, Policy, Request};
use tollgate_core::Timestamp;

const POLICY: &str = "
tiers: [{tier: pro}]
clients: [{identifier: rich, identifier_type: user_id, tier: pro}]
overrides: [{identifier: rich, identifier_type: user_id, rule_id: r0, limit: 2}]
blacklist: [{identifier: 203.0.113.9, identifier_type: ip, reason: abuse}]
rules:
- {rule_id: r0, identifier_type: user_id, limit: 1, window: 1h, applies_to: {endpoints: [/many]}}
- {rule_id: r1, identifier_type: user_id, limit: 9, window: 1h, algorithm: leaky_bucket, applies_to: {endpoints: [/many]}}
- {rule_id: r2, identifier_type: user_id, limit: 9, window: 1h, action: log_only, applies_to: {endpoints: [/many]}}
- {rule_id: r3, identifier_type: user_id, limit: 9, window: 1h, applies_to: {endpoints: [/many]}}
- {rule_id: r4, identifier_type: user_id, limit: 9, window: 1h, applies_to: {endpoints: [/many]}}
- {rule_id: r5, identifier_type: tenant, limit: 9, window: 1h, applies_to: {endpoints: [/few]}}
";

fn limiter() -> Limiter<tollgate::MemoryStore, ManualClock> {
    let policy = Policy::from_text(POLICY).unwrap_or_else(|problems| panic!("{problems:?}"));
    let clock = ManualClock::at(Timestamp::from_secs(1_800_000_000));
    Limiter::builder().policy(policy).clock(clock).build()
}

#[test]
fn a_decision_shows_nothing_of_the_one_before_it() {
    let limiter = limiter();
    let long = "x".repeat(1_000);
    let first = [
        Request::new().user_id("rich").path("/many"),
        Request::new().user_id(&long).path("/many"),
        Request::new().user_id(&long).path("/many"),
        Request::new().user_id("alice").ip("203.0.113.9").path("/many"),
    ];
    for before in first {
        let _ = limiter.check(&before).now();
        let none = limiter.check(&Request::new().path("/other")).now();
        assert!(none.is_allowed());
        assert_eq!(*none.reason(), DecisionReason::NoRule);
        assert_eq!((none.outcomes().count(), none.charged(), none.tier()), (0, 0, None));
        assert_eq!((none.retry_after(), none.delay(), none.remaining()), (None, None, None));
        assert!(none.binding().is_none() && none.would_refuse().is_none());
        drop(none);
        let few = limiter.check(&tollgate::Peek(&Request::new().tenant("acme").path("/few"))).now();
        let outcomes: Vec<_> =
            few.outcomes().map(|one| (&*one.rule.id, one.outcome.report.remaining)).collect();
        assert_eq!(outcomes, [("r5", 9)]);
    }
}

#[test]
fn decisions_of_other_threads_and_after_their_limiter_are_whole() {
    let decisions: Vec<_> = (0..4)
        .map(|number: u64| {
            std::thread::spawn(move || {
                let limiter = limiter();
                let user = number.to_string();
                (0..100).for_each(|_| {
                    drop(limiter.check(&Request::new().user_id(&user).path("/many")).now());
                });
                limiter.check(&Request::new().tenant(&user).path("/few").cost(number + 1)).now()
            })
            .join()
            .expect("a decision")
        })
        .collect();
    let left: Vec<_> = decisions.iter().map(Decision::remaining).collect();
    assert_eq!(left, [Some(8), Some(7), Some(6), Some(5)]);
}
