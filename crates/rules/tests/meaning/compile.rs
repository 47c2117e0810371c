//! Every mistake in a policy is found, in its place, with advice.

use tollgate_core::Algorithm;
use tollgate_rules::{CompileOptions, Policy, Source};

/// The fields in which a text has problems. All of them come with advice and with a position.
fn flawed_fields(text: &str) -> Vec<String> {
    let Err(problems) = Policy::from_text(text) else { return Vec::new() };
    let mut fields = Vec::new();
    for problem in problems {
        assert!(problem.advice.is_some(), "no advice: {problem}");
        assert!(problem.position.is_some(), "no position: {problem}");
        fields.push(problem.path);
    }
    fields
}

fn check(text: &str, expected: &[&str]) {
    assert_eq!(flawed_fields(text), expected, "{text}");
}

#[test]
fn an_unknown_identifier_type_is_guessed() {
    for (written, expected) in [
        ("user", "unknown identifier type `user`; did you mean user_id?"),
        ("userid", "unknown identifier type `userid`; did you mean user_id?"),
        ("api-key", "unknown identifier type `api-key`; did you mean api_key?"),
        ("client_ip", "unknown identifier type `client_ip`; did you mean ip?"),
        ("banana", "unknown identifier type `banana`"),
    ] {
        let text =
            format!("rules: [{{rule_id: r, limit: 1, window: 1s, identifier_type: {written}}}]");
        let problems = Policy::from_text(&text).expect_err(written);
        let messages: Vec<_> = problems.iter().map(|problem| &*problem.message).collect();
        assert_eq!(messages, [expected]);
    }
}

/// Problems of meaning used to be reported only once all fields of the rule could be read.
#[test]
fn a_field_that_cannot_be_read_does_not_hide_what_is_wrong_with_others() {
    let rule = |fields: &str, expected: &[&str]| {
        let expected: Vec<String> = expected.iter().map(|it| format!("rules[1].{it}")).collect();
        let text = format!(
            "rules: [{{rule_id: a, limit: 1, window: 1s, identifier_type: ip}}, {{{fields}}}]"
        );
        assert_eq!(flawed_fields(&text), expected, "{text}");
    };
    rule(
        "rule_id: B, limit: ten, window: 1s, identifier_type: banana, applies_to: {endpoints: [x]}",
        &["rule_id", "limit", "identifier_type", "applies_to.endpoints[0]"],
    );
    rule(
        "limit: 1, window: 1d, time_zone: UTC, identifier_type: ip, soft: {warn_at: 8}, cost: x",
        &["rule_id", "time_zone", "soft.warn_at", "cost"],
    );
    // What may be wrong only because of the field that cannot be read is not reported.
    let gcra = "rule_id: b, limit: 1, window: 1s, identifier_type: ip, burst: 5";
    rule(&format!("{gcra}, algorithm: 5"), &["algorithm"]);
    rule(&format!("{gcra}, algoritm: gcra"), &["algoritm"]);
    rule(&format!("{gcra}, algorithm: gcra, action: throttle, enabled: 5"), &["enabled"]);
    rule(&format!("{gcra}, enabled: 5"), &["burst", "enabled"]);
    rule(
        "rule_id: b, limit: 1, windw: 1s, identifier_type: ip, time_zone: UTC",
        &["window_seconds", "windw"],
    );
}

/// Messages quoted what was written as it was, and `lint` printed it to the terminal.
#[test]
fn what_a_message_quotes_is_safe_to_print() {
    for host in ["\\e[2J*".to_owned(), "-*".repeat(20_000)] {
        let rule = "rule_id: a, limit: 1, window: 1s, identifier_type: ip";
        let text = format!("rules: [{{{rule}, applies_to: {{hosts: [\"{host}\"]}}}}]");
        let problems = Policy::from_text(&text).expect_err("not a host");
        let shown = problems[0].to_string();
        assert!(shown.len() < 2_000 && !shown.chars().any(char::is_control), "{shown:?}");
    }
}

#[test]
fn rules() {
    for (fields, expected) in [
        ("", ""),
        ("rule_id: Api", "rule_id"),
        ("rule_id: ''", "rule_id"),
        ("limit: 9223372036854775807", ""),
        ("burst: 5", "burst"),
        ("algorithm: gcra, burst: 5", ""),
        ("algorithm: fixed_window, burst: 5", "burst"),
        ("algorithm: fixed_window, window: 1 day, time_zone: UTC", ""),
        ("algorithm: fixed_window, window: 1 week, time_zone: Asia/Kolkata", ""),
        ("algorithm: fixed_window, window: 1 month, time_zone: Europe/Berlin", ""),
        ("window: 1 month, time_zone: Europe/Berlin", "algorithm"),
        ("algorithm: gcra, window: 1 month, time_zone: Europe/Berlin", "algorithm"),
        ("algorithm: fixed_window, window: 1 month", "time_zone"),
        ("algorithm: fixed_window, window: 1 month, time_zone: Europe/Berln", "time_zone"),
        ("algorithm: fixed_window, window: 1 month, time_zone: ''", "time_zone"),
        ("algorithm: fixed_window, window: 1d, time_zone: UTC", "time_zone"),
        ("algorithm: fixed_window, window: 2 months, time_zone: UTC", "window"),
        ("limit_from: {claim: rate_limit, ceiling: 1000}", ""),
        ("limit_from: {claim: rate_limit, ceiling: 10}", ""),
        ("limit_from: {claim: rate_limit, ceiling: 9}", "limit_from.ceiling"),
        ("limit_from: {claim: rate_limit, ceiling: 0}", "limit_from.ceiling"),
        ("limit_from: {claim: '', ceiling: 1000}", "limit_from.claim"),
        ("limit_from: {claim: rate_limit}", "limit_from.ceiling"),
        ("limit_from: claim:rate_limit", "limit_from"),
        (
            "algorithm: sliding_window_log, limit_from: {claim: rate_limit, ceiling: 10001}",
            "limit_from.ceiling",
        ),
        ("action: throttle", "action"),
        ("action: throttle, throttle: {max_delay_ms: 0}", "action"),
        ("action: throttle, algorithm: gcra", ""),
        ("throttle: {max_delay_ms: 100}", ""),
        ("algorithm: sliding_window_log, limit: 10000", ""),
        ("algorithm: sliding_window_log, limit: 10001", "limit"),
        ("algorithm: sliding_window_log, limit: 10000, soft: {grace: 1}", "limit"),
        ("identifier_type: user", "identifier_type"),
        ("identifier_type: 'header:'", "identifier_type"),
        ("identifier_type: 'header:a b'", "identifier_type"),
        ("identifier_type: 'user_id:x'", "identifier_type"),
        ("identifier_type: [user_id, ip, user_id]", "identifier_type[2]"),
        ("identifier_type: ['header:A', 'header:a']", "identifier_type[1]"),
        (
            "identifier_type: ['claim:a', 'claim:b', 'claim:c', 'claim:d', 'claim:e', 'claim:f', \
             'claim:g', 'claim:h', 'claim:i']",
            "identifier_type",
        ),
        ("key_pattern: '[a'", "key_pattern"),
        ("key_pattern: '[]'", "key_pattern"),
        ("key_pattern: '[z-a]'", "key_pattern"),
        ("key_pattern: 'a\\'", "key_pattern"),
        ("key_pattern: ''", "key_pattern"),
        ("key_pattern: '[!a-z]\\*?'", ""),
        ("tenant: ''", "tenant"),
        ("refusal: {status: 503}", ""),
        ("refusal: {body: problem}", ""),
        ("refusal: {status: 402, body: flat}", ""),
        ("refusal: {body: 'wait {retry_after} s', content_type: text/plain}", ""),
        ("refusal: {}", "refusal"),
        ("refusal: {body: 'wait {retry_after} s'}", "refusal.body"),
        ("refusal: {body: '{seconds}', content_type: text/plain}", "refusal.body"),
        ("refusal: {body: wait, content_type: plain}", "refusal.body"),
        ("refusal: {body: flat, content_type: text/plain}", "refusal.content_type"),
        ("refusal: {status: 503, content_type: text/plain}", "refusal.content_type"),
        ("applies_to: {endpoints: [api]}", "applies_to.endpoints[0]"),
        ("applies_to: {endpoints: [/a, '*']}", "applies_to.endpoints[1]"),
        ("applies_to: {endpoints: ['/a/*/b']}", "applies_to.endpoints[0]"),
        ("applies_to: {endpoints: ['/a*']}", "applies_to.endpoints[0]"),
        ("applies_to: {endpoints: ['/**']}", "applies_to.endpoints[0]"),
        ("applies_to: {endpoints: ['/x{id}']}", "applies_to.endpoints[0]"),
        ("applies_to: {endpoints: ['/{}']}", "applies_to.endpoints[0]"),
        ("applies_to: {endpoints: ['/{a b}']}", "applies_to.endpoints[0]"),
        ("applies_to: {endpoints: ['/a?b=1']}", "applies_to.endpoints[0]"),
        ("applies_to: {endpoints: ['/a//b']}", "applies_to.endpoints[0]"),
        ("applies_to: {endpoints: ['//*']}", "applies_to.endpoints[0]"),
        ("applies_to: {endpoints: ['/a/%2e%2e/b']}", "applies_to.endpoints[0]"),
        ("applies_to: {endpoints: ['/', '/*', '/a/', '/a/{b}/c/*', '/caf%C3%A9']}", ""),
        ("applies_to: {hosts: ['a.*.com']}", "applies_to.hosts[0]"),
        ("applies_to: {hosts: ['https://a.com']}", "applies_to.hosts[0]"),
        ("applies_to: {hosts: ['a.com:80']}", "applies_to.hosts[0]"),
        ("applies_to: {hosts: ['']}", "applies_to.hosts[0]"),
        ("applies_to: {hosts: ['*.a.com', A.com., '[::1]']}", ""),
        ("applies_to: {methods: [GET, 'P T']}", "applies_to.methods[1]"),
        ("applies_to: {methods: [get, PROPFIND]}", ""),
        ("applies_to: {attributes: {a: []}}", "applies_to.attributes[\"a\"]"),
        ("applies_to: {attributes: {a: [x, '[']}}", "applies_to.attributes[\"a\"][1]"),
        ("applies_to: {attributes: {path: [x]}}", "applies_to.attributes[\"path\"]"),
        ("applies_to: {attributes: {'header:': [x]}}", "applies_to.attributes[\"header:\"]"),
        ("applies_to: {attributes: {a: [x], 'claim:b': [y], ip: ['10.*']}}", ""),
        ("cost: 0", ""),
        ("costs: {reports: 1}", "costs[\"reports\"]"),
        ("costs: {'G T /x': 1}", "costs[\"G T /x\"]"),
        ("costs: {'POST /x': 1, /y/*: 2}", ""),
        ("soft: {warn_at: 0.5, clear_at: 0.6}", "soft.clear_at"),
        ("soft: {warn_at: 1, clear_at: 1}", ""),
        ("replaces: [r]", "replaces[0]"),
        ("replaces: [s]", "replaces[0]"),
    ] {
        let defaults =
            [("rule_id", "r"), ("limit", "10"), ("window", "1m"), ("identifier_type", "user_id")];
        let mut rule = fields.to_owned();
        for (name, value) in defaults {
            if !fields.contains(&format!("{name}:")) {
                rule = format!("{name}: {value}, {rule}");
            }
        }
        let path = format!("rules[0].{expected}");
        let expected = if expected.is_empty() { &[][..] } else { &[path.as_str()] };
        check(&format!("rules: [{{{rule}}}]"), expected);
    }
}

#[test]
fn everything_around_the_rules() {
    let rule = |id: &str, more: &str| {
        format!("{{rule_id: {id}, limit: 10, window: 1m, identifier_type: user_id{more}}}")
    };
    let log = rule("log", ", algorithm: sliding_window_log");
    let (a, b) = (rule("a", ""), rule("b", ", replaces: [a], applies_to: {user_tiers: [pro]}"));
    for (rest, expected) in [
        ("tiers: []", &[][..]),
        ("tiers: [{tier: pro, default: true}, {tier: free}]", &[]),
        ("tiers: [{tier: pro}, {tier: pro}]", &["tiers[1].tier"]),
        ("tiers: [{tier: pro}, {tier: ''}]", &["tiers[1].tier"]),
        ("tiers: [{tier: pro, default: true}, {tier: x, default: true}]", &["tiers[1].default"]),
        ("tiers: [{tier: free}]", &["rules[1].applies_to.user_tiers[0]"]),
        ("clients: [{identifier_type: user_id, identifier: u, tier: anything}]", &[]),
        (
            "tiers: [{tier: pro}]\nclients: [{identifier_type: user_id, identifier: u, tier: x}]",
            &["clients[0].tier"],
        ),
        (
            "clients: [{identifier_type: path, identifier: /x, tier: x}]",
            &["clients[0].identifier_type"],
        ),
        (
            "clients: [{identifier_type: global, identifier: x, tier: x}]",
            &["clients[0].identifier"],
        ),
        (
            "clients: [{identifier_type: user_id, identifier: '', tier: x}]",
            &["clients[0].identifier"],
        ),
        (
            "clients: [{identifier_type: ip, identifier: 10.0.0.0/8, tier: x}]",
            &["clients[0].identifier"],
        ),
        ("clients: [{identifier_type: ip, identifier: '2001:db8::/64', tier: x}]", &[]),
        (
            "clients: [{identifier_type: [user_id, tenant], identifier: u, tier: x}]",
            &["clients[0].identifier"],
        ),
        (
            "clients: [{identifier_type: [tenant, user_id], identifier: [t, u], tier: x}, \
             {identifier_type: [user_id, tenant], identifier: [u, t], tier: y}]",
            &["clients[1]"],
        ),
        (
            "clients: [{identifier_type: ip, identifier: '2001:db8::1', tier: x}, \
             {identifier_type: ip, identifier: '2001:db8::2', tier: x}]",
            &["clients[1]"],
        ),
        ("overrides: [{identifier_type: user_id, identifier: u, rule_id: a, limit: 5}]", &[]),
        ("overrides: [{identifier_type: user_id, identifier: u, rule_id: a}]", &["overrides[0]"]),
        (
            "overrides: [{identifier_type: user_id, identifier: u, rule_id: z, limit: 5}]",
            &["overrides[0].rule_id"],
        ),
        (
            "overrides: [{identifier_type: user_id, identifier: u, rule_id: a, limit: 5, multiplier: 2}]",
            &["overrides[0].multiplier"],
        ),
        (
            "overrides: [{identifier_type: user_id, identifier: u, rule_id: a, multiplier: 0}]",
            &["overrides[0].multiplier"],
        ),
        (
            "overrides: [{identifier_type: user_id, identifier: u, rule_id: a, burst: 5}]",
            &["overrides[0].burst"],
        ),
        (
            "overrides: [{identifier_type: user_id, identifier: u, rule_id: log, limit: 10001}]",
            &["overrides[0].limit"],
        ),
        (
            "overrides: [{identifier_type: user_id, identifier: u, rule_id: a, limit: 1, \
             expires_at: tomorrow}]",
            &["overrides[0].expires_at"],
        ),
        (
            "overrides: [{identifier_type: user_id, identifier: u, rule_id: a, limit: 1, \
             starts_at: '2030-01-01'}]",
            &["overrides[0].starts_at"],
        ),
        // One that ends when it starts, or before that, would never be in force.
        (
            "overrides: [{identifier_type: user_id, identifier: u, rule_id: a, limit: 1, \
             starts_at: '2030-01-01T00:00:00Z', expires_at: '2030-01-01T01:00:00+01:00'}]",
            &["overrides[0].starts_at"],
        ),
        (
            "overrides: [{identifier_type: user_id, identifier: u, rule_id: a, limit: 1}, \
             {identifier_type: user_id, identifier: u, rule_id: a, limit: 2}, \
             {identifier_type: user_id, identifier: u, rule_id: b, limit: 2}]",
            &["overrides[1]"],
        ),
        ("whitelist: [{identifier_type: ip, identifier: 10.0.0.0/8}]", &[]),
        (
            "whitelist: [{identifier_type: ip, identifier: 10.0.0.1/8}]",
            &["whitelist[0].identifier"],
        ),
        (
            "whitelist: [{identifier_type: ip, identifier: 10.0.0.0/33}]",
            &["whitelist[0].identifier"],
        ),
        (
            "whitelist: [{identifier_type: ip, identifier: 10.0.0.0/08}]",
            &["whitelist[0].identifier"],
        ),
        ("whitelist: [{identifier_type: ip, identifier: 10.0.0}]", &["whitelist[0].identifier"]),
        (
            "blacklist: [{identifier_type: endpoint, identifier: /x}]",
            &["blacklist[0].identifier_type"],
        ),
        ("blacklist: [{identifier_type: 'header:X', identifier: x}]", &[]),
        (
            "blacklist: [{identifier_type: user_id, identifier: u}, \
             {identifier_type: user_id, identifier: u, reason: again}]",
            &["blacklist[1]"],
        ),
        (
            "blacklist: [{identifier_type: user_id, identifier: u, expires_at: '2030-01-01'}]",
            &["blacklist[0].expires_at"],
        ),
    ] {
        check(&format!("rules: [{a}, {b}, {log}]\n{rest}"), expected);
    }
    check(&format!("rules: [{a}, {a}]"), &["rules[1].rule_id"]);
    let circle = rule("a", ", replaces: [b]");
    check(&format!("rules: [{log}, {b}, {circle}]"), &["rules[1].replaces"]);
}

#[test]
fn advice_names_what_would_be_right() {
    for (entry, expected) in [
        ("10.1.2.3/8", "the network is 10.0.0.0/8"),
        ("2001:db8::1/32", "the network is 2001:db8::/32"),
        ("::ffff:10.1.2.3/104", "the network is 10.0.0.0/8"),
    ] {
        let text = format!("whitelist: [{{identifier_type: ip, identifier: '{entry}'}}]");
        let problems = Policy::from_text(&text).expect_err("host bits are set");
        assert_eq!(problems[0].advice.as_deref(), Some(expected), "{entry}");
    }
}

/// A rule that cannot be used is reported once, and not again wherever it is named.
#[test]
fn one_mistake_is_reported_once() {
    let broken = "{rule_id: a, limit: none, window: 1m, identifier_type: user_id}";
    let flawed = "{rule_id: a, limit: 1, window: 1m, identifier_type: user}";
    for rule in [broken, flawed] {
        let text = format!(
            "rules: [{rule}, {{rule_id: b, limit: 1, window: 1m, identifier_type: ip, replaces: [a]}}]\n\
             overrides: [{{identifier_type: user_id, identifier: u, rule_id: a, limit: 1}}]"
        );
        assert_eq!(flawed_fields(&text).len(), 1, "{text}");
    }
}

#[test]
fn a_simulation_may_lift_the_bound_of_the_log() {
    let text = r#"{"algorithm":"sliding_window_log","limit":20000,"window_seconds":1}"#;
    let source = Source::parse_rule(text, "rule", "global");
    assert!(Policy::compile(&source).is_err());
    let options = CompileOptions { unbounded_log: true };
    let policy = Policy::compile_with(&source, &options).expect("the bound is lifted");
    assert_eq!(
        policy.rules().get(0).map(|rule| rule.quota.algorithm),
        Some(Algorithm::SlidingWindowLog)
    );
}
