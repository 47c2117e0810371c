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

#[test]
fn thousands_of_hostile_globs_do_not_occupy_a_thread() {
    let hostile = |glob: fn(usize) -> String| {
        let globs = (0..3_500).map(|length| format!("\"{}\"", glob(length % 100 + 100)));
        globs.collect::<Vec<_>>().join(", ")
    };
    // What takes too long to compare is counted; before, each of these took many seconds.
    let assumed = "r(*)=5*1";
    for (globs, expected) in [
        (hostile(|length| format!("*{}b", "a".repeat(length))), ""),
        (hostile(|length| format!("*{}b*", "a".repeat(length))), assumed),
        (hostile(|length| format!("*{}b*", "a?".repeat(length / 2))), assumed),
        (hostile(|length| format!("*{}[!a]*", "*a".repeat(length / 2))), assumed),
    ] {
        let policy = policy(&format!(
            "rules: [{{rule_id: r, limit: 5, window: 1m, identifier_type: global,
                       applies_to: {{attributes: {{'header:x': [{globs}]}}}}}}]"
        ));
        // Identifiers of the check API have up to 4 KiB, header fields of the gateway up to 64 KiB.
        for length in [4 << 10, 64 << 10] {
            let request = Request::default().with("header:x", &"a".repeat(length));
            let planned = render(&plan(&policy, &[request], Timestamp::EPOCH), &policy);
            assert_eq!(planned, expected, "{length} bytes");
        }
    }
}

const PARTNERS: &str = "
    rules:
    - {rule_id: everyone, limit: 5, window: 1m, identifier_type: ip}
    - {rule_id: partners, limit: 50, window: 1m, identifier_type: ip, replaces: [everyone],
       applies_to: {attributes: {'header:x': ['*a?b*']}}}
    - {rule_id: bots, limit: 1, window: 1m, identifier_type: ip, key_pattern: '*.*[!x].*.[!x]*',
       applies_to: {attributes: {'header:agent': ['*b?t*'], 'header:x': ['*']}}}";

#[test]
fn a_value_too_long_to_compare_is_counted_and_replaces_nothing() {
    let policy = policy(PARTNERS);
    let planned = |x: &str, agent: &str| {
        let request = Request::parse("ip=192.0.2.1").with("header:x", x);
        let request = request.with("header:agent", agent);
        let rules =
            render(&plan(&policy, std::slice::from_ref(&request), Timestamp::EPOCH), &policy);
        let explained = policy.explain(&request, Timestamp::EPOCH);
        let applying = explained.rules.iter().filter(|rule| rule.applies);
        let applying: Vec<&str> = applying.map(|rule| rule.rule_id.as_str()).collect();
        let charged: Vec<&str> = rules.split(' ').filter_map(|it| it.split('(').next()).collect();
        assert_eq!(applying, charged, "explain and plan agree");
        rules
    };
    let long = "c".repeat(200_000);
    // Compared.
    assert_eq!(planned("axb", "b"), "partners(192.0.2.1)=50*1");
    assert_eq!(planned("c", "b"), "everyone(192.0.2.1)=5*1");
    assert_eq!(planned("c", "a bot"), "bots(192.0.2.1)=1*1 everyone(192.0.2.1)=5*1");
    // Not compared: every rule that could match counts, and none is replaced.
    let both = "partners(192.0.2.1)=50*1 everyone(192.0.2.1)=5*1";
    assert_eq!(planned(&long, "b"), both);
    let all = "bots(192.0.2.1)=1*1 everyone(192.0.2.1)=5*1";
    assert_eq!(planned("c", &long), all);
}

#[test]
fn a_long_value_does_not_change_how_other_values_match() {
    let policy = policy(PARTNERS);
    let request = Request::parse("ip=192.0.2.1").with("header:x", &"c".repeat(200_000));
    let planned = |agent| {
        let request = request.clone().with("header:agent", agent);
        render(&plan(&policy, &[request], Timestamp::EPOCH), &policy)
    };
    assert!(!planned("a browser").contains("bots"), "{}", planned("a browser"));
    assert!(planned("a bot").contains("bots"), "{}", planned("a bot"));
}
