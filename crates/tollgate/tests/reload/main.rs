//! A policy is put in force at once and as a whole, while requests go on; what was counted stays.

use std::collections::BTreeSet;
use std::thread;

use tollgate::rules::Revision;
use tollgate::{
    Algorithm, Attributes, Decision, Explained, Limiter, ManualClock, MemoryStore, Policy, Request,
    Timestamp,
};

const NOW: Timestamp = Timestamp::from_secs(1_700_006_400);
const POLICIES: u64 = 20;
const ROUNDS: u64 = 5_000;
/// More than all requests together.
const STRIDE: u64 = 1_000_000;

fn parse(text: &str) -> Policy {
    Policy::from_text(text).expect("a valid policy")
}

fn limiter(policy: Policy) -> Limiter<MemoryStore, ManualClock> {
    let store = MemoryStore::with_bytes(0);
    Limiter::builder().policy(policy).store(store).clock(ManualClock::at(NOW)).build()
}

/// A policy that differs from all others in the names and limits of its rules.
fn numbered(number: u64) -> Policy {
    let text = format!(
        "
rules:
  - {{rule_id: shared, limit: {}, window: 1d, identifier_type: global, algorithm: fixed_window}}
  - {{rule_id: rule_{number}, limit: {}, window: 1d, identifier_type: user_id, algorithm: gcra}}
",
        shared_limit(number),
        own_limit(number)
    );
    parse(&text).with_revision(Revision { epoch: 1, number })
}

/// Limits so far apart that what is left of one cannot be taken for what is left of another.
const fn shared_limit(number: u64) -> u64 {
    1_000_000_000 + number * STRIDE
}

const fn own_limit(number: u64) -> u64 {
    2_000_000_000 + number * STRIDE
}

/// Every part of a decision belongs to its revision.
fn check_whole(decision: &Decision) {
    let number = decision.revision().number;
    let own = format!("rule_{number}");
    let expected = [("shared", shared_limit(number)), (own.as_str(), own_limit(number))];
    let parts: Vec<(&str, u64)> =
        decision.outcomes().map(|one| (&*one.rule.id, one.outcome.limit)).collect();
    assert_eq!(parts, expected);
    for one in decision.outcomes() {
        let used = one.outcome.limit.checked_sub(one.outcome.report.remaining);
        assert!(used.is_some_and(|used| used < STRIDE), "counted by another policy: {decision:?}");
    }
    assert!(decision.is_allowed());
}

/// An explanation reads one policy, too.
fn check_explanation(explained: &Explained) {
    let number = explained.explanation.revision.number;
    let limits: Vec<u64> = explained.figures.iter().map(|figures| figures.limit).collect();
    assert_eq!(limits, [shared_limit(number), own_limit(number)]);
}

#[test]
fn a_decision_comes_from_one_policy() {
    let policies: Vec<Policy> = (0..POLICIES).map(numbered).collect();
    for threads in [2, 4] {
        let limiter = limiter(policies[0].clone());
        let ask = || {
            let request = Request::new().user_id("u");
            let mut seen = BTreeSet::new();
            for _ in 0..ROUNDS {
                let decision = limiter.check(&request).now();
                check_whole(&decision);
                let batch = limiter.check_batch(&[&request as &dyn Attributes; 3]).now();
                batch.iter().for_each(check_whole);
                let revisions: BTreeSet<Revision> = batch.iter().map(Decision::revision).collect();
                assert_eq!(revisions.len(), 1, "a batch is judged by one policy");
                check_explanation(&limiter.explain(&request).now());
                seen.insert(decision.revision());
            }
            seen
        };
        let seen: Vec<BTreeSet<Revision>> = thread::scope(|scope| {
            let asking: Vec<_> = (0..threads).map(|_| scope.spawn(ask)).collect();
            let mut policies = policies.iter().cycle();
            while !asking.iter().all(thread::ScopedJoinHandle::is_finished) {
                let policy = policies.next().expect("an endless cycle");
                assert_eq!(limiter.install(policy), policy.revision());
            }
            asking.into_iter().map(|asked| asked.join().expect("a thread that ends")).collect()
        });
        assert!(seen.iter().any(|seen| seen.len() > 1), "the policy never changed in between");

        // No request was lost: not by the counter that all policies share, nor by its statistics.
        let asked = 4 * ROUNDS * threads;
        limiter.install(&policies[0]);
        let decision = limiter.check(&Request::new()).now();
        assert_eq!(decision.remaining(), Some(shared_limit(0) - asked - 1));
        let stats = limiter.stats();
        let (rule, counts) = &stats[0];
        assert_eq!((&**rule, counts.admitted, counts.refused), ("shared", asked + 1, 0));
    }
}

fn with_limit(algorithm: Algorithm, limit: u64) -> Policy {
    parse(&format!(
        "rules: [{{rule_id: r, limit: {limit}, window: 1h, identifier_type: user_id, algorithm: {algorithm}}}]"
    ))
}

#[test]
fn another_limit_counts_from_the_next_check_on() {
    for algorithm in Algorithm::ALL {
        let limiter = limiter(with_limit(algorithm, 3));
        let check = |cost| limiter.check(&Request::new().user_id("u").cost(cost)).now();
        assert!(check(3).is_allowed(), "{algorithm}");
        assert!(!check(1).is_allowed(), "{algorithm}");

        limiter.install(&with_limit(algorithm, 5));
        let raised = check(1);
        assert_eq!((raised.is_allowed(), raised.remaining()), (true, Some(1)), "{algorithm}");

        limiter.install(&with_limit(algorithm, 4));
        let lowered = check(1);
        assert_eq!((lowered.is_allowed(), lowered.remaining()), (false, Some(0)), "{algorithm}");

        limiter.install(&with_limit(algorithm, 0));
        assert!(!check(1).is_allowed(), "{algorithm}");

        limiter.install(&with_limit(algorithm, 6));
        assert_eq!(check(0).remaining(), Some(2), "{algorithm}: what was used stays used");
    }
}

/// A refund goes to the counter as the decision knew it, whatever is in force meanwhile.
#[test]
fn a_decision_can_be_refunded_under_another_policy() {
    let (before, after) = (with_limit(Algorithm::Gcra, 4), with_limit(Algorithm::Gcra, 8));
    let limiter = limiter(before);
    let decision = limiter.check(&Request::new().user_id("u").cost(3)).now();
    limiter.install(&after);
    limiter.refund(decision).now().expect("a store that answers");
    let look = limiter.check(&Request::new().user_id("u").cost(0)).now();
    assert_eq!(look.remaining(), Some(8));
}
