//! Nothing a client sends makes planning panic, escape a rule, or take long.

use proptest::prelude::*;
use tollgate_core::Timestamp;
use tollgate_rules::Policy;

use crate::paths::nasty_path;
use crate::request::{Request, plan, policy, render};

fn busy_policy() -> Policy {
    policy(
        r#"
        rules:
        - {rule_id: all, limit: 5, window: 1m, identifier_type: global}
        - {rule_id: path, limit: 5, window: 1m, identifier_type: [path, endpoint, ip],
           applies_to: {endpoints: ["/a/{x}/*", "/{x}/b", "/api/*", "/"], hosts: ["*.example.com", a.org]}}
        - {rule_id: glob, limit: 5, window: 1m, identifier_type: "header:x", key_pattern: "*a*b*c*[!d]*?"}
        - {rule_id: costly, limit: 5, window: 1m, identifier_type: user_id, cost: 9223372036854775807,
           costs: {"POST /a/*": 9223372036854775807}, applies_to: {methods: [POST], attributes: {y: ["*z*"]}}}
        - {rule_id: own, limit: 5, window: 1m, identifier_type: [tenant, user_id], tenant: acme}
        tiers: [{tier: free, default: true}]
        clients:
        - {identifier_type: user_id, identifier: u, tier: free}
        - {identifier_type: [user_id, "header:x"], identifier: [u, v], tier: free}
        overrides: [{identifier_type: user_id, identifier: u, rule_id: costly, multiplier: 1000000000}]
        whitelist: [{identifier_type: ip, identifier: "2001:db8::/33"}, {identifier_type: ip, identifier: 0.0.0.0/1}]
        blacklist: [{identifier_type: ip, identifier: "::/0", expires_at: "2001-01-01T00:00:00Z"}]
        "#,
    )
}

fn nasty_value() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        nasty_path(),
        ".*",
        "[a-f0-9:.]{0,40}",
        "[a.]{0,300}",
        "(u|acme|POST|a\\.org|x\\.example\\.com:1|192\\.0\\.2\\.1|\\[::1\\]:80)",
    ]
}

fn nasty_request() -> impl Strategy<Value = Request> {
    let names = vec![
        "user_id",
        "api_key",
        "ip",
        "tenant",
        "host",
        "path",
        "method",
        "tier",
        "header:x",
        "attribute:y",
    ];
    let values = prop::collection::vec((prop::sample::select(names), nasty_value()), 0..10);
    values.prop_map(|values| {
        values.iter().fold(Request::default(), |request, (name, value)| request.with(name, value))
    })
}

proptest! {
    #[test]
    fn nothing_panics(
        requests in prop::collection::vec(nasty_request(), 1..4),
        now in any::<u64>(),
    ) {
        let policy = busy_policy();
        let now = Timestamp::from_micros(now);
        let plan = plan(&policy, &requests, now);
        let keys = plan.charges(policy.rules()).map(|one| (one.key.rule, one.key.subject, one.key.rest));
        let mut keys = keys.collect::<Vec<_>>();
        let count = keys.len();
        keys.sort_unstable();
        keys.dedup();
        prop_assert_eq!(keys.len(), count, "keys are distinct");
        for request in &requests {
            let explanation = policy.explain(request, now);
            prop_assert_eq!(explanation.rules.len(), policy.rules().len());
            for rule in policy.rules().iter() {
                let hasher = foldhash::fast::FixedState::default();
                prop_assert!(policy.plan_rule(&rule.id, request, now, &hasher).is_some());
            }
        }
    }

    /// Two requests share a counter only if all their identifiers are the same.
    #[test]
    fn keys_cannot_be_forged(
        a in prop::collection::vec(".{1,6}", 3),
        b in prop::collection::vec(".{1,6}", 3),
    ) {
        let policy = policy(
            "rules: [{rule_id: r, limit: 5, window: 1m, \
             identifier_type: [user_id, tenant, 'header:x']}]",
        );
        let request = |values: &[String]| {
            let names = ["user_id", "tenant", "header:x"].into_iter();
            names.zip(values).fold(Request::default(), |one, (name, value)| one.with(name, value))
        };
        let plan = plan(&policy, &[request(&a), request(&b)], Timestamp::EPOCH);
        prop_assert_eq!(plan.planned().len(), if a == b { 1 } else { 2 });
    }
}

/// Sizes far beyond what an edge lets through still end at once.
#[test]
fn long_values_are_harmless() {
    let policy = busy_policy();
    let long = 200_000;
    for (name, value) in [
        ("path", "/a".repeat(long)),
        ("path", "/..".repeat(long)),
        ("path", "/%2e%2e/a".repeat(long)),
        ("path", "%".repeat(long)),
        ("host", "a.".repeat(long)),
        ("host", ":".repeat(long)),
        ("header:x", "abc".repeat(long)),
        ("header:x", "ab".repeat(long)),
        ("ip", "1".repeat(long)),
        ("method", "GET".repeat(long)),
        ("tier", "free".repeat(long)),
        ("user_id", "u".repeat(long)),
    ] {
        let request = Request::parse("POST ip=192.0.2.1").with(name, &value);
        let plan = plan(&policy, &[request], Timestamp::EPOCH);
        assert!(render(&plan, &policy).contains("all(*)=5*1"), "{name}");
    }
}
