//! What the linter finds, and what it lets pass.

use tollgate_rules::{LintContext, Policy, Severity, Source, lint};

/// Where nothing about the surroundings is suspicious.
pub(crate) const QUIET: LintContext =
    LintContext { nodes: Some(1), trusted_proxies: Some(true), redis: false };

/// Lints and compares what is found as `field: part of the message`.
fn check(context: LintContext, text: &str, expected: &[&str]) {
    let source = Source::parse(text);
    let policy = Policy::compile(&source).unwrap_or_else(|problems| panic!("{problems:?}\n{text}"));
    let problems = lint(&source, &policy, &context);
    let shown = problems.iter().map(|one| format!("{}: {}", one.path, one.message));
    let shown = shown.collect::<Vec<_>>();
    assert_eq!(shown.len(), expected.len(), "found {shown:#?}\nin {text}");
    for ((problem, shown), expected) in problems.iter().zip(&shown).zip(expected) {
        let (field, message) = expected.split_once(": ").expect("a field and a message");
        assert!(problem.path == field && problem.message.contains(message), "{shown}\nin {text}");
        assert_eq!(problem.severity, Severity::Warning);
        assert!(problem.advice.is_some() && problem.position.is_some(), "{shown}");
    }
}

/// A policy of rules, each given as `rule_id, more fields`, with 100 per hour by default.
fn rules(rules: &[&str]) -> String {
    let rules = rules.iter().map(|fields| {
        let (id, fields) = fields.split_once(", ").unwrap_or((fields, ""));
        let mut rule = format!("rule_id: {id}, {fields}");
        for (name, value) in [("limit", "100"), ("window", "1h"), ("identifier_type", "user_id")] {
            if !fields.contains(&format!("{name}:")) && !fields.contains(&format!("{name}_")) {
                rule = format!("{rule}, {name}: {value}");
            }
        }
        format!("  - {{{}}}\n", rule.replace(", ,", ","))
    });
    format!("rules:\n{}", rules.collect::<String>())
}

pub(crate) fn check_rules(context: LintContext, cases: &[(&[&str], &[&str])]) {
    for (fields, expected) in cases {
        check(context, &rules(fields), expected);
    }
}

#[test]
fn a_rule_that_is_replaced_everywhere() {
    let never = "rules[0]: never applies: b replaces it";
    check_rules(
        QUIET,
        &[
            (&["a", "b, replaces: [a]"], &[never]),
            (&["a", "b"], &[]),
            (&["a", "b, replaces: [a], enabled: false"], &[]),
            (
                &[
                    "a, applies_to: {endpoints: [/x/y]}",
                    "b, replaces: [a], applies_to: {endpoints: [/x/*]}",
                ],
                &[never],
            ),
            (
                &[
                    "a, applies_to: {endpoints: [/x/*]}",
                    "b, replaces: [a], applies_to: {endpoints: [/x/y]}",
                ],
                &[],
            ),
            (
                &[
                    "a, applies_to: {endpoints: ['/x/{p}']}",
                    "b, replaces: [a], applies_to: {endpoints: [/x/y]}",
                ],
                &[],
            ),
            (
                &[
                    "a, applies_to: {hosts: [x.a.org]}",
                    "b, replaces: [a], applies_to: {hosts: ['*.a.org']}",
                ],
                &[never],
            ),
            (
                &[
                    "a, applies_to: {methods: [GET]}",
                    "b, replaces: [a], applies_to: {methods: [GET, PUT]}",
                ],
                &[never],
            ),
            (&["a", "b, replaces: [a], applies_to: {methods: [GET]}"], &[]),
            (&["a", "b, replaces: [a], tenant: acme"], &[]),
            (&["a, tenant: acme", "b, replaces: [a]"], &[never]),
            (&["a", "b, replaces: [a], key_pattern: 'x*'"], &[]),
            (&["a, key_pattern: 'x*'", "b, replaces: [a], key_pattern: 'x*'"], &[never]),
            // Requests without an address reach `a`.
            (&["a", "b, replaces: [a], identifier_type: [user_id, ip]"], &[]),
            (
                &["a, identifier_type: [user_id, ip]", "b, replaces: [a], identifier_type: global"],
                &[never],
            ),
        ],
    );
}

#[test]
fn a_rule_behind_one_that_blocks() {
    let never = "rules[0]: never counts: b has a limit of 0";
    check_rules(
        QUIET,
        &[
            (&["a, applies_to: {endpoints: [/x]}", "b, limit: 0"], &[never]),
            (&["a", "b, limit: 0, applies_to: {endpoints: [/x]}"], &[]),
            (&["a", "b, limit: 0, action: log_only"], &[]),
            (&["a, replaces: [b]", "b, limit: 0"], &["rules[1]: never applies"]),
            (&["a, limit: 0", "b, limit: 0"], &[]),
        ],
    );
}

#[test]
fn a_rule_that_matches_nothing() {
    check_rules(
        QUIET,
        &[
            (
                &["a, identifier_type: global, key_pattern: 'x*'"],
                &["rules[0].key_pattern: always *"],
            ),
            (&["a, identifier_type: global, key_pattern: '*'"], &[]),
            (
                &["a, identifier_type: tenant, tenant: acme, key_pattern: 'b*'"],
                &["rules[0].key_pattern: always acme"],
            ),
            (&["a, identifier_type: tenant, tenant: acme, key_pattern: 'a*'"], &[]),
            (&["a, identifier_type: tenant, key_pattern: 'b*'"], &[]),
            (
                &[
                    "a, identifier_type: endpoint, key_pattern: '/y*', applies_to: {endpoints: [/x, /z]}",
                ],
                &["rules[0].key_pattern: always /x or /z"],
            ),
            (
                &["a, tenant: acme, applies_to: {attributes: {tenant: ['b*']}}"],
                &["rules[0].applies_to.attributes: never applies"],
            ),
            (&["a, tenant: acme, applies_to: {attributes: {tenant: ['a*']}}"], &[]),
        ],
    );
}

#[test]
fn tiers_and_methods_that_no_request_has() {
    check_rules(
        QUIET,
        &[
            (
                &["a, applies_to: {user_tiers: [pro]}"],
                &["rules[0].applies_to.user_tiers[0]: no client is in tier pro"],
            ),
            (
                &["a, applies_to: {methods: [GTE]}"],
                &["rules[0].applies_to.methods[0]: no request has the method GTE"],
            ),
            (&["a, applies_to: {methods: [GET, PROPFIND]}"], &[]),
        ],
    );
    let tiered = rules(&["a, applies_to: {user_tiers: [pro]}"]);
    check(QUIET, &format!("{tiered}tiers: [{{tier: pro}}]"), &[]);
    let client = "clients: [{identifier_type: user_id, identifier: u, tier: pro}]";
    check(QUIET, &format!("{tiered}{client}"), &[]);
}

#[test]
fn a_watcher_that_switches_a_rule_off() {
    let watched = "rules[1].replaces: a is not enforced";
    check_rules(
        QUIET,
        &[
            (&["a", "b, action: log_only, replaces: [a], tenant: acme"], &[watched]),
            (&["a, action: log_only", "b, action: log_only, replaces: [a], tenant: acme"], &[]),
            (&["a", "b, replaces: [a], tenant: acme"], &[]),
        ],
    );
}

#[test]
fn a_limit_above_that_of_its_parent() {
    let never = "rules[1].limit: never reached: a counts the same requests";
    let child = "b, identifier_type: [tenant, user_id], limit: 1000";
    check_rules(
        QUIET,
        &[
            (&["a, identifier_type: tenant", child], &[never]),
            (&["a, identifier_type: tenant, limit: 1000", child], &[]),
            (&["a, identifier_type: tenant, limit: 5000", child], &[]),
            (
                &["a, identifier_type: tenant", &format!("{child}, replaces: [a]")],
                &["rules[1].limit: "][..0],
            ),
            (&["a, identifier_type: tenant, action: log_only", child], &[]),
            (&["a, identifier_type: ip", child], &[]),
            (&["a, identifier_type: tenant, applies_to: {methods: [GET]}", child], &[]),
            (
                &[
                    "a, identifier_type: tenant",
                    &format!("{child}, applies_to: {{methods: [GET]}}"),
                ],
                &[never],
            ),
            (&["a, identifier_type: tenant", &format!("{child}, cost: 5")], &[]),
            (&["a, identifier_type: tenant, window: 1m", child], &[]),
            (&["a, identifier_type: tenant", &format!("{child}, window: 1m")], &[never]),
            (&["a, identifier_type: tenant, consistency: local", child], &[]),
            (
                &[
                    "a, identifier_type: tenant, algorithm: gcra, burst: 2000",
                    &format!("{child}, algorithm: gcra"),
                ],
                &[],
            ),
            (
                &[
                    "a, identifier_type: tenant, algorithm: gcra",
                    &format!("{child}, algorithm: gcra"),
                ],
                &[never],
            ),
        ],
    );
}

#[test]
fn a_rule_that_never_denies() {
    let never = "rules[0].cost: every request costs 0";
    check_rules(
        QUIET,
        &[
            (&["a, cost: 0"], &[never]),
            (&["a, cost: 0, costs: {/x: 0}"], &[never]),
            (&["a, cost: 0, costs: {/x: 1}"], &[]),
            (&["a, cost: 0, action: log_only"], &[]),
        ],
    );
}

#[test]
fn limits_beyond_what_redis_counts_exactly() {
    let redis = LintContext { redis: true, ..QUIET };
    let inexact = "rules[0].limit: Redis counts exactly up to 1099511627776, not 1099511627777";
    check_rules(
        redis,
        &[
            (&["a, limit: 1099511627777"], &[inexact]),
            (&["a, limit: 1099511627776"], &[]),
            (&["a, limit: 1099511627777, consistency: local"], &[]),
            (&["a, algorithm: gcra, burst: 1099511627777"], &["rules[0].burst: Redis"]),
        ],
    );
    check_rules(QUIET, &[(&["a, limit: 1099511627777"], &[])]);
    let overridden = |limit: u64| {
        let over = "overrides: [{identifier_type: user_id, identifier: u, rule_id: a, limit: ";
        format!("{}{over}{limit}}}]", rules(&["a"]))
    };
    check(redis, &overridden(1_099_511_627_777), &["overrides[0]: Redis counts exactly"]);
    check(redis, &overridden(2_147_483_648), &[]);
}

#[test]
fn counting_by_address_behind_proxies() {
    let context = |trusted_proxies| LintContext { trusted_proxies, ..QUIET };
    let by_ip: &[&str] = &["a, identifier_type: [ip, path]"];
    check_rules(
        context(Some(false)),
        &[(by_ip, &["rules[0].identifier_type: no trusted proxies are set"])],
    );
    // What is unknown is not suspect: every policy that counts by address would be.
    check_rules(context(None), &[(by_ip, &[])]);
    check_rules(context(Some(true)), &[(by_ip, &[])]);
    check_rules(context(Some(false)), &[(&["a"], &[])]);
}

#[test]
fn logins_that_stay_open() {
    let open = "rules[0].on_store_failure: nothing limits guessing";
    for (endpoint, id, expected) in [
        ("/login", "a", &[open][..]),
        ("/v1/users/{id}/password", "a", &[open]),
        ("/oauth2/x", "a", &[open]),
        ("/sign-in", "a", &[open]),
        ("/x", "user_login", &[open]),
        ("/x", "otp", &[open]),
        ("/authors", "a", &[]),
        ("/x", "presets", &[]),
    ] {
        let fields =
            format!("{id}, on_store_failure: open, applies_to: {{endpoints: ['{endpoint}']}}");
        check_rules(QUIET, &[(&[&fields], expected)]);
    }
    check_rules(
        QUIET,
        &[
            (&["login, on_store_failure: local"], &[]),
            (&["login, on_store_failure: closed"], &[]),
            (&["login, on_store_failure: open, consistency: local"], &[]),
        ],
    );
}

#[test]
fn what_a_fleet_admits_without_its_store() {
    let nodes = |nodes| LintContext { nodes, redis: true, ..QUIET };
    let fleet = "rules[0].fallback_factor: 3 nodes x 2 x 100 = 600";
    check_rules(nodes(Some(3)), &[(&["a"], &[fleet]), (&["a, on_store_failure: closed"], &[])]);
    check_rules(nodes(Some(3)), &[(&["a, consistency: local"], &[]), (&["a, limit: 0"], &[])]);
    check_rules(nodes(Some(1)), &[(&["a, fallback_factor: 10"], &[])]);
    let general = "rules[0].fallback_factor: N nodes admit N x 10 x 100";
    check_rules(nodes(None), &[(&["a, fallback_factor: 10"], &[general]), (&["a"], &[])]);
}

#[test]
fn overrides_that_never_apply() {
    let over = |kind: &str, identifier: &str| {
        format!(
            "{}overrides: [{{identifier_type: {kind}, identifier: {identifier}, rule_id: a, limit: 5}}]",
            rules(&["a, identifier_type: [tenant, user_id]"])
        )
    };
    check(QUIET, &over("user_id", "u"), &[]);
    check(QUIET, &over("[user_id, tenant]", "[u, t]"), &[]);
    check(
        QUIET,
        &over("api_key", "k"),
        &["overrides[0].identifier_type: does not count by api_key"],
    );
    check(
        QUIET,
        &over("[user_id, ip]", "[u, 192.0.2.1]"),
        &["overrides[0].identifier_type: by ip"],
    );
}

#[test]
fn disabled_rules_are_not_linted() {
    check_rules(QUIET, &[(&["login, enabled: false, cost: 0, on_store_failure: open"], &[])]);
}

#[test]
fn penalties_that_ban_no_client_or_all_clients() {
    let none = "rules[0].penalty: a rule that only watches bans no client";
    let all = "rules[0].penalty: all of them are banned together";
    let penalty = "penalty: {after: 3, within_seconds: 60, ban_seconds: 600}";
    for (fields, expected) in [
        ("identifier_type: user_id", &[][..]),
        ("identifier_type: [endpoint, user_id]", &[]),
        ("identifier_type: user_id, action: log_only", &[none]),
        ("identifier_type: global", &[all]),
        ("identifier_type: [endpoint, path]", &[all]),
    ] {
        let text = format!("rules: [{{rule_id: a, limit: 100, window: 1m, {fields}, {penalty}}}]");
        check(QUIET, &text, expected);
    }
}

#[test]
fn bans_that_are_easily_left() {
    for (kind, identifier, expected) in [
        ("ip", "2001:db8:1:2::7", &["blacklist[0].identifier: has all of 2001:db8:1:2::/64"][..]),
        ("ip", "2001:db8:1:2::/112", &["blacklist[0].identifier: has all of 2001:db8:1:2::/64"]),
        ("ip", "2001:db8:1:2::/64", &[]),
        ("ip", "2001:db8::/32", &[]),
        ("ip", "192.0.2.1", &[]),
        ("user_id", "2001:db8:1:2::7", &[]),
    ] {
        let entry = format!("[{{identifier_type: {kind}, identifier: '{identifier}'}}]");
        check(QUIET, &format!("{}blacklist: {entry}", rules(&["a"])), expected);
        check(QUIET, &format!("{}whitelist: {entry}", rules(&["a"])), &[]);
    }
}
