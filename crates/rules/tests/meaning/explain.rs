//! Explanations agree with plans, and contain no secrets.

use tollgate_core::Timestamp;
use tollgate_rules::Revision;

use crate::request::{Request, policy};

const POLICY: &str = "
rules:
- {rule_id: key, limit: 10, window: 1m, identifier_type: api_key, applies_to: {endpoints: [/api/*]}}
- {rule_id: user, limit: 10, window: 1m, identifier_type: [user_id, endpoint], key_pattern: 'u*',
   applies_to: {methods: [GET], user_tiers: [pro], hosts: ['*.example.com'], attributes: {plan: ['p*']}}}
- {rule_id: must, limit: 10, window: 1m, identifier_type: 'claim:sub', on_missing: deny, tenant: acme}
- {rule_id: watch, limit: 10, window: 1m, identifier_type: global, action: log_only, replaces: [old]}
- {rule_id: address, limit: 10, window: 1m, identifier_type: ip, tenant: acme}
- {rule_id: old, limit: 10, window: 1m, identifier_type: global}
- {rule_id: off, limit: 10, window: 1m, identifier_type: global, enabled: false}
tiers: [{tier: free, default: true}, {tier: pro}]
clients: [{identifier_type: user_id, identifier: u1, tier: pro}]
overrides: [{identifier_type: user_id, identifier: u1, rule_id: user, multiplier: 2}]
blacklist: [{identifier_type: ip, identifier: 10.0.0.0/8, reason: guests, expires_at: '2030-01-01T00:00:00Z'}]
";

const FULL: &str = "GET /api/x user_id=u1 host=a.example.com attribute:plan=p1";

/// What is said of one rule.
fn because(request: &str, rule: &str) -> String {
    let explanation = policy(POLICY).explain(&Request::parse(request), Timestamp::EPOCH);
    let found = explanation.rules.iter().find(|one| one.rule_id == rule).expect("the rule");
    let mark = match (found.applies, found.refuses) {
        (true, true) => "refuses: ",
        (true, false) => "applies: ",
        (false, _) => "",
    };
    format!("{mark}{}", found.because)
}

#[test]
fn says_why() {
    for (rule, request, expected) in [
        ("key", "/api/x api_key=abc", "applies: endpoint /api/* matched"),
        ("key", "/x", "the path is `/x`, which is none of its endpoints"),
        ("key", "user_id=u1", "the request has no path"),
        ("key", "/api/x", "the request has no api_key"),
        ("user", FULL, "applies: host, method, tier pro, attribute:plan matched"),
        ("user", &FULL.replace("GET", "PUT"), "the method is `PUT`, not GET"),
        ("user", &FULL.replace("GET", ""), "the request has no method"),
        ("user", &FULL.replace("u1", "u2"), "the tier is `free`, not pro"),
        (
            "user",
            &FULL.replace("a.example", "example"),
            "the host is `example.com`, which is none of its hosts",
        ),
        ("user", &FULL.replace("=p1", "=q"), "the attribute:plan is missing or does not match"),
        (
            "user",
            &format!("{} tier=pro", FULL.replace("u1", "x")),
            "the user_id does not match the key_pattern",
        ),
        ("must", "tenant=other", "the tenant is `other`, not acme"),
        (
            "must",
            "tenant=acme",
            "refuses: the request has no claim:sub, and the rule refuses such requests",
        ),
        ("must", "tenant=acme claim:sub=s", "applies: tenant acme matched"),
        ("address", "tenant=acme", "the request has no ip"),
        ("address", "tenant=acme ip=::1", "applies: tenant acme matched"),
        ("address", "tenant=acme ip=[::1]:80", "its ip `[::1]:80` is not an address"),
        ("watch", "/", "applies: it applies to every request"),
        ("old", "/", "watch takes its place"),
        ("off", "/", "the rule is switched off"),
    ] {
        assert_eq!(because(request, rule), expected, "{rule} for {request}");
    }
}

#[test]
fn shows_keys_limits_tiers_and_lists() {
    let policy = policy(POLICY).with_revision(Revision { epoch: 7, number: 3 });
    let request = Request::parse(FULL).with("ip", "10.1.2.3").with("api_key", "secret-0123456789");
    let json =
        serde_json::to_value(policy.explain(&request, Timestamp::EPOCH)).expect("plain data");
    assert_eq!(json["revision"]["number"], 3);
    assert_eq!(json["path"], "/api/x");
    assert_eq!(json["tier"], "pro");
    assert_eq!(json["tier_from"]["directory"], "user_id");
    assert_eq!(json["listed"]["list"], "deny");
    assert_eq!(json["listed"]["by"], "10.0.0.0/8");
    assert_eq!(json["listed"]["expires_at"], "2030-01-01T00:00:00Z");
    let rule = |id: &str| {
        let rules = json["rules"].as_array().expect("a list");
        rules.iter().find(|rule| rule["rule_id"] == id).expect("the rule")
    };
    assert_eq!(rule("user")["quota"]["limit"], 20);
    assert_eq!(rule("user")["quota"]["override_by"], "user_id");
    assert_eq!(rule("user")["key"][1]["value"], "*");
    assert_eq!(rule("key")["quota"]["limit"], 10);
    assert_eq!(rule("key")["quota"]["override_by"], serde_json::Value::Null);
    assert_eq!(rule("key")["key"][0]["value"], "secr…");
    assert_eq!(rule("watch")["log_only"], true);
    assert_eq!(rule("old")["replaced_by"], "watch");
    assert!(!json.to_string().contains("secret-"), "an API key is a secret");
}

#[test]
fn says_where_a_tier_comes_from() {
    for (request, expected) in [
        ("user_id=u1", r#"{"directory":"user_id"}"#),
        ("tier=pro", r#""request""#),
        ("/", r#""default""#),
    ] {
        let explanation = policy(POLICY).explain(&Request::parse(request), Timestamp::EPOCH);
        let origin = serde_json::to_string(&explanation.tier_from).expect("plain data");
        assert_eq!(origin, expected, "{request}");
    }
}
