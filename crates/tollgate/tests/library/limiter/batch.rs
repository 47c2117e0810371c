//! A batch of checks answers what the same checks answer one by one.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use tollgate::{Attributes, Decision, DecisionReason, Micros, Outcome, Request, SoftState};

use crate::limiter::in_memory;
use crate::limiter::scene::{config, request};

/// Rules to choose from.
const RULES: &[&str] = &[
    "rule_id: user, limit: 7, window: 10s, identifier_type: user_id, algorithm: gcra",
    "rule_id: tenant, limit: 9, window: 10s, identifier_type: tenant, algorithm: fixed_window",
    "rule_id: log, limit: 5, window: 10s, identifier_type: user_id, algorithm: sliding_window_log",
    "rule_id: watch, limit: 3, window: 10s, identifier_type: tenant, action: log_only",
    "rule_id: queue, limit: 10, window: 10s, burst: 4, identifier_type: user_id, algorithm: leaky_bucket",
    "rule_id: held, limit: 5, window: 5s, identifier_type: ip, algorithm: token_bucket, action: throttle",
    "rule_id: global, limit: 30, window: 10s, identifier_type: global, on_missing: deny",
    "rule_id: path, limit: 4, window: 10s, identifier_type: [user_id, path], applies_to: {endpoints: [/api/*]}",
    "rule_id: key, limit: 9, window: 10s, identifier_type: api_key, on_missing: deny, applies_to: {endpoints: [/api/keyed]}",
    "rule_id: own, limit: 6, window: 10s, identifier_type: user_id, consistency: local",
    "rule_id: free, limit: 3, window: 10s, identifier_type: user_id, applies_to: {user_tiers: [free]}",
    "rule_id: block, limit: 0, window: 10s, identifier_type: global, applies_to: {endpoints: [/never]}",
];

const DIRECTORY: &str = "
tiers: [{tier: free, default: true}, {tier: pro}]
clients: [{identifier_type: user_id, identifier: paul, tier: pro}]
whitelist: [{identifier_type: user_id, identifier: root}]
blacklist: [{identifier_type: user_id, identifier: mallory}]
";

/// Everything a decision says, but for the keys.
#[derive(Debug, PartialEq)]
struct Answer {
    allowed: bool,
    reason: DecisionReason,
    binding: Option<usize>,
    delay: Option<Micros>,
    tier: Option<String>,
    outcomes: Vec<(Outcome, SoftState)>,
}

fn answer(decision: &Decision) -> Answer {
    Answer {
        allowed: decision.is_allowed(),
        reason: decision.reason().clone(),
        binding: decision.binding().map(|binding| binding.outcome.rule),
        delay: decision.delay(),
        tier: decision.tier().map(str::to_owned),
        outcomes: decision.outcomes().map(|outcome| (outcome.outcome, outcome.state)).collect(),
    }
}

fn policies() -> impl Strategy<Value = String> {
    subsequence(RULES, 1..=RULES.len()).prop_map(|rules| {
        // A warning that ends where it begins needs no memory, which limiters lose at random.
        let soft = "soft: {warn_at: 0.5, clear_at: 0.5}";
        let rules = rules.iter().map(|rule| format!("  - {{{rule}, {soft}}}\n"));
        format!("{DIRECTORY}rules:\n{}", rules.collect::<String>())
    })
}

fn requests() -> impl Strategy<Value = Vec<String>> {
    let user = select(vec!["", "user_id=ann", "user_id=paul", "user_id=root", "user_id=mallory"]);
    let tenant = select(vec!["", "tenant=acme", "tenant=zoo"]);
    let ip = select(vec!["", "ip=192.0.2.1", "ip=2001:db8::1"]);
    let path = select(vec!["", "/", "/api/x", "/api/keyed", "/never"]);
    let key = select(vec!["", "api_key=k"]);
    let cost = select(vec!["", "cost=0", "cost=2", "cost=5", "cost=40"]);
    let request =
        (user, tenant, ip, path, key, cost).prop_map(|(user, tenant, ip, path, key, cost)| {
            [user, tenant, ip, path, key, cost].join(" ")
        });
    vec(request, 0..40)
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn a_batch_is_its_checks_one_by_one(
        policy in policies(),
        batches in vec((0..4_000_u64, requests()), 1..4),
    ) {
        let (together, apart) = (in_memory(&policy).limiter, in_memory(&policy).limiter);
        for (pause, batch) in &batches {
            together.clock().advance(Micros::from_millis(*pause));
            apart.clock().advance(Micros::from_millis(*pause));
            let requests: Vec<Request<'_>> = batch.iter().map(|text| request(text)).collect();
            let views: Vec<&dyn Attributes> =
                requests.iter().map(|request| request as &dyn Attributes).collect();
            let decisions = together.check_batch(&views).now();
            prop_assert_eq!(decisions.len(), requests.len());
            for ((text, request), decision) in batch.iter().zip(&requests).zip(&decisions) {
                let alone = apart.check(request).now();
                prop_assert_eq!(answer(decision), answer(&alone), "{} under {}", text, policy);
            }
        }
        prop_assert_eq!(together.stats(), apart.stats());
    }
}
