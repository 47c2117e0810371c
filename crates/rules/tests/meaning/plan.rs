//! Which rules apply to a request, by which keys, at what cost and limit.

use foldhash::fast::FixedState;
use tollgate_core::{Micros, Timestamp};
use tollgate_rules::{Admission, Attributes, Policy};

use crate::request::{Request, plan, policy, render};

const NOW: Timestamp = Timestamp::from_secs(1_700_000_000);

/// Plans each request under a policy and compares what comes out.
fn check(text: &str, cases: &[(&str, &str)]) {
    let policy = policy(text);
    for (request, expected) in cases {
        let plan = plan(&policy, &[Request::parse(request)], NOW);
        assert_eq!(render(&plan, &policy), *expected, "{request}\nunder {text}");
    }
}

/// A policy of rules with a limit of 10 per minute, given as their other fields.
fn rules(fields: &[&str]) -> String {
    let rules = fields.iter().map(|fields| format!("  - {{limit: 10, window: 1m, {fields}}}\n"));
    format!("rules:\n{}", rules.collect::<String>())
}

#[test]
fn keys_are_the_values_of_identifiers() {
    for (identifiers, request, key) in [
        ("user_id", "GET / user_id=u1", "u1"),
        ("api_key", "api_key=secret", "secret"),
        ("tenant", "tenant=acme", "acme"),
        ("ip", "ip=192.0.2.7", "192.0.2.7"),
        ("ip", "ip=::ffff:192.0.2.7", "192.0.2.7"),
        ("ip", "ip=2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("ip", "ip=2001:DB8::1", "2001:db8::/64"),
        ("ip", "ip=ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "ffff:ffff:ffff:ffff::/64"),
        ("global", "GET /", "*"),
        ("endpoint", "GET /a", "*"),
        ("path", "/a//b/../c?q=1", "/a/c"),
        ("header:X-Region", "header:x-region=eu", "eu"),
        ("claim:sub", "claim:sub=s", "s"),
        ("attribute:plan", "attribute:plan=p", "p"),
        ("[tenant, user_id]", "tenant=acme user_id=u1", "acme,u1"),
        ("[user_id, path, ip]", "/x user_id=u1 ip=192.0.2.7", "u1,/x,192.0.2.7"),
    ] {
        let text = rules(&[&format!("rule_id: r, identifier_type: {identifiers}")]);
        check(&text, &[(request, &format!("r({key})=10*1"))]);
    }
}

#[test]
fn a_value_of_any_length_is_counted_and_its_key_stays_short() {
    let text = rules(&[
        "rule_id: a, identifier_type: user_id",
        "rule_id: b, identifier_type: [tenant, user_id], key_pattern: 't*t'",
    ]);
    let policy = policy(&text);
    let keys = |user: &str, tenant: &str| {
        let request = Request::default().with("user_id", user).with("tenant", tenant);
        render(&plan(&policy, &[request], NOW), &policy)
    };
    // As long as a value may be, and one byte more. The digest is the one that sha256sum prints.
    let longest = "t".repeat(1_024);
    assert_eq!(keys(&longest, "x"), format!("a({longest})=10*1"));
    let digest = "sha256:d6e072035fe102d4d5acc3b665f8b14b926bfed68b6133d32172d3e04a92c235";
    let long = "t".repeat(1_025);
    assert_eq!(keys(&long, "x"), format!("a({digest})=10*1"));
    let with_long = keys(&long, &long);
    assert!(with_long.contains(" b("), "the pattern sees the whole value: {with_long}");
    assert!(with_long.len() < 300, "{with_long}");
    let other = format!("{}u", "t".repeat(1_024));
    assert_ne!(keys(&other, "x"), keys(&long, "x"), "other values have other counters");
    assert!(!keys("x", &other).contains(" b("), "the end of a long value is looked at");
    assert_ne!(
        keys(digest, "x"),
        keys(&long, "x"),
        "a digest does not name the counter of a value"
    );
}

#[test]
fn long_keys_are_kept_whole() {
    let text = rules(&[
        "rule_id: a, identifier_type: user_id",
        "rule_id: b, identifier_type: [tenant, user_id, api_key], on_missing: deny",
        "rule_id: c, identifier_type: api_key",
        "rule_id: d, identifier_type: user_id",
    ]);
    for lengths in [[1, 300, 1], [200, 200, 200], [256, 1, 1], [100, 56, 101]] {
        let [user, tenant, key] = ["u", "t", "k"].map(str::to_owned);
        let [user, tenant, key] =
            [user.repeat(lengths[0]), tenant.repeat(lengths[1]), key.repeat(lengths[2])];
        let expected =
            format!("a({user})=10*1 b({tenant},{user},{key})=10*1 c({key})=10*1 d({user})=10*1");
        check(&text, &[(&format!("user_id={user} tenant={tenant} api_key={key}"), &expected)]);
        let expected = format!("missing:b a({user})=10*1 d({user})=10*1");
        check(&text, &[(&format!("user_id={user} tenant={tenant}"), &expected)]);
    }
}

#[test]
fn debugging_shows_no_secrets() {
    let text = format!(
        "{}clients: [{{identifier_type: api_key, identifier: secret, tier: pro}}]",
        rules(&["rule_id: a, identifier_type: api_key"])
    );
    let policy = policy(&text);
    let plan = plan(&policy, &[Request::parse("api_key=secret")], NOW);
    let shown = format!("{policy:?} {plan:?}");
    assert!(shown.contains("1 tiers") && shown.contains("KeyText(9 bytes)"), "{shown}");
    let secret = format!("{:?}", b"secret");
    assert!(
        !shown.contains("secret") && !shown.contains(secret.trim_matches(['[', ']'])),
        "{shown}"
    );
}

#[test]
fn a_missing_identifier_skips_the_rule_or_refuses_the_request() {
    let fields = |on_missing: &str| {
        rules(&[
            &format!("rule_id: r, identifier_type: [user_id, ip], on_missing: {on_missing}"),
            "rule_id: other, identifier_type: global, priority: -1",
        ])
    };
    let other = "other(*)=10*1";
    for request in ["user_id=u1", "ip=192.0.2.1", "user_id= ip=192.0.2.1", "user_id=u ip=nonsense"]
    {
        check(&fields("skip"), &[(request, other)]);
        check(&fields("deny"), &[(request, &format!("missing:r {other}"))]);
    }
    let watching = fields("deny, action: log_only");
    check(&watching, &[("user_id=u1", other)]);
    let replaced = rules(&[
        "rule_id: r, identifier_type: user_id, on_missing: deny",
        "rule_id: other, identifier_type: global, replaces: [r]",
    ]);
    check(&replaced, &[("GET /", other)]);
}

#[test]
fn all_matching_rules_apply_in_order() {
    let text = rules(&[
        "rule_id: any, identifier_type: global",
        "rule_id: tail, identifier_type: global, applies_to: {endpoints: [/api/*]}",
        "rule_id: longer, identifier_type: global, applies_to: {endpoints: [/api/users/*]}",
        "rule_id: parameter, identifier_type: global, applies_to: {endpoints: ['/api/users/{id}']}",
        "rule_id: exact, identifier_type: global, applies_to: {endpoints: [/api/users/me]}",
        "rule_id: gets, identifier_type: global, applies_to: {methods: [GET, HEAD]}",
        "rule_id: get, identifier_type: global, applies_to: {methods: [get]}",
        "rule_id: first, identifier_type: global, priority: 1",
        "rule_id: off, identifier_type: global, enabled: false",
    ]);
    let line =
        |ids: &str| ids.split(' ').map(|id| format!("{id}(*)=10*1")).collect::<Vec<_>>().join(" ");
    check(
        &text,
        &[
            ("GET /api/users/me", &line("first exact parameter longer tail get gets any")),
            ("POST /api/users/u2", &line("first parameter longer tail any")),
            ("POST /api/users/u2/x", &line("first longer tail any")),
            ("POST /api/users", &line("first longer tail any")),
            ("POST /api", &line("first tail any")),
            ("POST /apis", &line("first any")),
            ("get /", &line("first get gets any")),
            ("", &line("first any")),
        ],
    );
}

#[test]
fn endpoints_count_by_the_narrowest_pattern() {
    let text = rules(&["rule_id: r, identifier_type: endpoint, \
                        applies_to: {endpoints: [/api/*, '/api/users/{id}', /api/users/me]}"]);
    check(
        &text,
        &[
            ("/api/users/me", "r(/api/users/me)=10*1"),
            ("/api/users/u1", "r(/api/users/{id})=10*1"),
            ("/api/orders/7", "r(/api/*)=10*1"),
            ("/other", ""),
        ],
    );
}

#[test]
fn conditions_narrow_a_rule() {
    for (condition, matching, others) in [
        (
            "applies_to: {methods: [GET, purge]}",
            &["GET /", "PURGE /", "get /"][..],
            &["POST /", "/"][..],
        ),
        (
            "applies_to: {hosts: [api.example.com, '*.example.org']}",
            &["host=API.example.com:443", "host=api.example.com.", "host=a.b.example.org"],
            &[
                "host=example.org",
                "host=evil-example.org",
                "host=.example.org",
                "host=api.example.com.evil.net",
                "/",
            ],
        ),
        (
            "applies_to: {user_tiers: [free, basic]}",
            &["tier=free", "tier=basic"],
            &["tier=pro", "/"],
        ),
        ("tenant: acme", &["tenant=acme"], &["tenant=Acme", "tenant=other", "/"]),
        (
            "applies_to: {attributes: {plan: [p*, q], 'header:X-A': ['?']}}",
            &["attribute:plan=p1 header:x-a=1", "attribute:plan=q header:x-a=z"],
            &[
                "attribute:plan=p1",
                "attribute:plan=r header:x-a=1",
                "attribute:plan=p header:x-a=12",
            ],
        ),
        (
            "key_pattern: 'in-*'",
            &["user_id=in-1", "user_id=in-"],
            &["user_id=x-in-1", "user_id=out"],
        ),
    ] {
        let text = rules(&[&format!("rule_id: r, identifier_type: user_id, {condition}")]);
        let policy = policy(&text);
        for (requests, expected) in [(matching, 1), (others, 0)] {
            for request in requests {
                let mut request = Request::parse(request);
                if !format!("{request:?}").contains("user_id") {
                    request = request.with("user_id", "u1");
                }
                let found = plan(&policy, &[request.clone()], NOW).planned().len();
                assert_eq!(found, expected, "{request:?} under {text}");
            }
        }
    }
}

#[test]
fn costs_multiply() {
    let text = rules(&["rule_id: r, identifier_type: global, cost: 2, \
                        costs: {'POST /reports': 10, /reports: 5, '/reports/*': 4, \
                        'GET /free/{x}': 0, '/free/*': 7}"]);
    check(
        &text,
        &[
            ("POST /reports", "r(*)=10*10"),
            ("GET /reports/", "r(*)=10*5"),
            ("/reports", "r(*)=10*5"),
            ("POST /reports/1", "r(*)=10*4"),
            ("GET /free/x", "r(*)=10*0"),
            ("POST /free/x", "r(*)=10*7"),
            ("GET /", "r(*)=10*2"),
            ("user_id=u1", "r(*)=10*2"),
            ("POST /reports cost=3", "r(*)=10*30"),
            ("POST /reports cost=0", "r(*)=10*0"),
            ("POST /reports cost=18446744073709551615", "r(*)=10*18446744073709551615"),
        ],
    );
}

#[test]
fn replacement_is_one_simultaneous_step() {
    let text = rules(&[
        "rule_id: a, identifier_type: global, replaces: [b]",
        "rule_id: b, identifier_type: global, replaces: [c], applies_to: {endpoints: [/b/*]}",
        "rule_id: c, identifier_type: global",
        "rule_id: d, identifier_type: user_id, replaces: [a, c]",
    ]);
    check(
        &text,
        &[
            // Nothing replaces `a`, and `b` does not match here.
            ("GET /", "a(*)=10*1 c(*)=10*1"),
            // `b` is replaced and still replaces `c`.
            ("GET /b/1", "a(*)=10*1"),
            // `a` is replaced and still replaces `b`.
            ("GET /b/1 user_id=u", "d(u)=10*1"),
            ("GET / user_id=u", "d(u)=10*1"),
        ],
    );
}

#[test]
fn tiers_come_from_the_directory_then_the_request_then_the_default() {
    let text = format!(
        "{}tiers: [{{tier: free, default: true}}, {{tier: pro}}, {{tier: gold}}]\n\
         clients:\n\
         - {{identifier_type: user_id, identifier: u1, tier: pro}}\n\
         - {{identifier_type: api_key, identifier: k1, tier: gold}}\n\
         - {{identifier_type: ip, identifier: '2001:db8::1', tier: gold}}\n\
         - {{identifier_type: [user_id, tenant], identifier: [u2, acme], tier: gold}}\n",
        rules(&["rule_id: r, identifier_type: global"])
    );
    let policy = policy(&text);
    for (request, tier) in [
        ("/", Some("free")),
        ("user_id=u1", Some("pro")),
        ("user_id=u1 tier=gold", Some("pro")),
        ("user_id=u1 api_key=k1", Some("pro")),
        ("user_id=u9 api_key=k1", Some("gold")),
        ("ip=2001:db8::ffff", Some("gold")),
        ("ip=2001:db8:1::1", Some("free")),
        ("user_id=u2", Some("free")),
        ("user_id=u2 tenant=acme", Some("gold")),
        ("user_id=u2 tenant=other tier=pro", Some("pro")),
        ("tier=gold", Some("gold")),
        // It is not declared, so it is no tier: the default one counts.
        ("tier=platinum", Some("free")),
    ] {
        let plan = plan(&policy, &[Request::parse(request)], NOW);
        assert_eq!(plan.tier(), tier, "{request}");
    }
    let elsewhere =
        crate::request::policy("clients: [{identifier_type: user_id, identifier: u1, tier: x}]");
    let moved = policy.with_directory(elsewhere.directory().clone());
    let request = Request::parse("user_id=u1");
    assert_eq!(plan(&moved, &[request], NOW).tier(), Some("free"), "x is not declared here");
    let undeclared = crate::request::policy(&rules(&["rule_id: r, identifier_type: global"]));
    for (request, tier) in [("/", None), ("tier=platinum", Some("platinum"))] {
        let plan = plan(&undeclared, &[Request::parse(request)], NOW);
        assert_eq!(plan.tier(), tier, "{request}");
    }
}

#[test]
fn log_only_watches() {
    let text = rules(&["rule_id: r, identifier_type: global, action: log_only"]);
    check(&text, &[("GET /", "r(*)?=10*1")]);
}

#[test]
fn several_subjects_settle_together() {
    let text = format!(
        "{}whitelist: [{{identifier_type: user_id, identifier: vip, reason: vip}}]\n\
         blacklist: [{{identifier_type: user_id, identifier: bad, reason: bad}}]\n",
        rules(&[
            "rule_id: total, identifier_type: global, priority: 1",
            "rule_id: user, identifier_type: user_id, on_missing: deny, \
             applies_to: {endpoints: [/u]}",
            "rule_id: pair, identifier_type: [user_id, tenant]",
        ])
    );
    let policy = policy(&text);
    for (requests, expected) in [
        (&["/u user_id=a", "/u user_id=b cost=2"][..], "total(*)=10*3 user(a)=10*1 user(b)=10*2"),
        (&["/u user_id=a", "/u user_id=a cost=4"], "total(*)=10*5 user(a)=10*5"),
        (
            &["user_id=ab tenant=c", "user_id=a tenant=bc"],
            "total(*)=10*2 pair(ab,c)=10*1 pair(a,bc)=10*1",
        ),
        (&["cost=18446744073709551615", "cost=2"], "total(*)=10*18446744073709551615"),
        (&["/u user_id=a", "/u"], "missing:user total(*)=10*2 user(a)=10*1"),
        (&["/u user_id=a", "user_id=vip"], "allowed:vip"),
        (&["user_id=vip", "/u user_id=a", "user_id=bad"], "denied:bad"),
        (&["/u", "user_id=vip"], "allowed:vip"),
        (&["user_id=vip", "/u user_id=a"], "allowed:vip"),
        (&["user_id=a tenant=t", "/u user_id=b"], "total(*)=10*2 user(b)=10*1 pair(a,t)=10*1"),
        (&[], ""),
    ] {
        let requests = requests.iter().map(|text| Request::parse(text)).collect::<Vec<_>>();
        let plan = plan(&policy, &requests, NOW);
        assert_eq!(render(&plan, &policy), expected, "{requests:?}");
    }
}

#[test]
fn one_rule_by_its_name() {
    let text = format!(
        "{}overrides: [{{identifier_type: user_id, identifier: vip, rule_id: r, limit: 99}}]\n\
         blacklist: [{{identifier_type: user_id, identifier: bad}}]\n",
        rules(&[
            "rule_id: r, identifier_type: user_id, key_pattern: 'x*', tenant: acme, \
             costs: {/dear: 5}, applies_to: {methods: [GET], endpoints: [/a/*]}, on_missing: deny",
            "rule_id: e, identifier_type: endpoint, applies_to: {endpoints: [/a/*]}",
            "rule_id: off, identifier_type: global, enabled: false",
            "rule_id: replaced, identifier_type: global",
            "rule_id: replacing, identifier_type: global, replaces: [replaced]",
        ])
    );
    let policy = policy(&text);
    for (rule, request, expected) in [
        ("r", "user_id=u1", Some("r(u1)=10*1")),
        ("r", "POST /dear user_id=u1 cost=2", Some("r(u1)=10*10")),
        ("r", "user_id=vip", Some("r(vip)=99*1")),
        ("r", "user_id=bad", Some("denied:-")),
        ("r", "ip=192.0.2.1", Some("")),
        ("e", "/a/b", Some("e(/a/*)=10*1")),
        ("e", "/a/*", Some("e(/a/*)=10*1")),
        ("e", "/b/", Some("e(/b)=10*1")),
        ("e", "GET", Some("e(*)=10*1")),
        ("off", "/", Some("")),
        ("replaced", "/", Some("replaced(*)=10*1")),
        ("unknown", "/", None),
    ] {
        let request = Request::parse(request);
        let plan = policy.plan_rule(rule, &request, NOW, &FixedState::default());
        let found = plan.map(|plan| render(&plan, &policy));
        assert_eq!(found.as_deref(), expected, "{rule} for {request:?}");
    }
}

#[test]
fn fingerprints_follow_the_key_and_the_hasher() {
    let text =
        rules(&["rule_id: a, identifier_type: user_id", "rule_id: b, identifier_type: user_id"]);
    let policy = policy(&text);
    let request = Request::parse("user_id=u1");
    let subjects: [&dyn Attributes; 1] = [&request];
    let of = |seed| {
        let plan = policy.plan(&subjects, NOW, &FixedState::with_seed(seed));
        plan.charges(policy.rules()).map(|charge| charge.key.fingerprint).collect::<Vec<_>>()
    };
    assert_eq!(of(1), of(1));
    assert_ne!(of(1), of(2));
    assert_ne!(of(1)[0], of(1)[1]);
}

#[test]
fn rules_keep_what_was_written() {
    let policy = policy(
        "rules: [{rule_id: r, name: R, limit: 7, window_seconds: 0.5, identifier_type: user_id, \
         algorithm: leaky_bucket, burst: 9, action: throttle, on_store_failure: closed, \
         soft: {warn_at: 0.5, clear_at: 0.25, grace: 2}, fallback_factor: 3, consistency: local, \
         penalty: {after: 5, within_seconds: 60, ban_seconds: 600}, refund_on: [5xx, 404]}]",
    );
    let rule = policy.rules().find("r").expect("the rule");
    assert_eq!(rule.quota.max_delay, Micros::from_millis(1000), "the default of throttle");
    assert_eq!((rule.quota.grace, rule.limit.capacity()), (2, 9));
    assert_eq!((rule.soft.warn_at, rule.soft.clear_at), (500_000, 250_000));
    assert_eq!(rule.penalty.as_ref().map(|penalty| penalty.ban), Some(Micros::from_secs(600)));
    for (status, refunds) in [(500, true), (599, true), (404, true), (403, false), (200, false)] {
        assert_eq!(rule.refund_on.contains(status), refunds, "{status}");
    }
}

#[test]
fn an_empty_policy_judges_and_finds_nothing() {
    let policy = Policy::default();
    let plan = plan(&policy, &[Request::parse("GET / user_id=u1")], NOW);
    assert!(plan.planned().is_empty());
    assert_eq!(plan.admission, Admission::Judge);
}

#[test]
fn forgotten_keys_are_gone_and_the_tier_is_not() {
    let policy = policy(&rules(&["rule_id: r, identifier_type: [user_id, ip]"]));
    for length in [1, 1_000] {
        let user = "u".repeat(length);
        let request = Request::parse(&format!("user_id={user} ip=192.0.2.1 tier=pro"));
        let mut plan = plan(&policy, &[request], NOW);
        let sizes = |plan: &tollgate_rules::Plan| {
            let charge = plan.charges(policy.rules()).next().expect("the rule applies");
            (charge.key.subject.len(), charge.key.rest.len())
        };
        assert_eq!(sizes(&plan), (length, 9));
        plan.forget_keys();
        assert_eq!(sizes(&plan), (0, 0), "a key of {length}");
        assert_eq!(plan.tier(), Some("pro"), "a key of {length}");
    }
}
