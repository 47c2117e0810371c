//! What the linter says of limits that are too small for their algorithm, of counters that a whole fleet
//! shares, and of documents that also have errors.

use tollgate_rules::{LintContext, Severity, Source, inspect};

use crate::lint::{QUIET, check_rules};

#[test]
fn small_limits_of_the_sliding_counter() {
    let coarse = "rules[0].limit: steady clients get about";
    check_rules(
        QUIET,
        &[
            (
                &["a, limit: 1"],
                &["rules[0].limit: with 1 requests per window, steady clients get about 50 %"],
            ),
            (&["a, limit: 5"], &["rules[0].limit: about 80 %"]),
            (&["a, limit: 10"], &["rules[0].limit: about 90 %"]),
            (&["a, limit: 11"], &[]),
            (&["a, limit: 0"], &[]),
            (&["a, limit: 5, window: 1h, algorithm: sliding_window_log"], &[]),
            (&["a, limit: 5, algorithm: gcra"], &[]),
            (&["a, limit: 5, action: log_only"], &[coarse]),
            // What counts is how many requests fit.
            (&["a, limit: 100, cost: 10"], &[coarse]),
            (&["a, limit: 110, cost: 10"], &[]),
            (&["a, limit: 100, costs: {/x: 10}"], &[]),
        ],
    );
}

#[test]
fn bursts_below_the_limit() {
    let below = "rules[0].burst: at most 20 pass at once, less than the limit of 100";
    check_rules(
        QUIET,
        &[
            (&["a, algorithm: gcra, burst: 20"], &[below]),
            (&["a, algorithm: token_bucket, burst: 20"], &[below]),
            (&["a, algorithm: gcra, burst: 100"], &[]),
            (&["a, algorithm: gcra, burst: 150"], &[]),
            (&["a, algorithm: gcra"], &[]),
            // Requests keep a distance: that is what a burst of 1 is for.
            (&["a, algorithm: gcra, burst: 1"], &[]),
            // The length of a queue says nothing about the limit.
            (&["a, algorithm: leaky_bucket, burst: 20"], &[]),
        ],
    );
}

#[test]
fn requests_that_cost_more_than_a_full_counter_has() {
    check_rules(
        QUIET,
        &[
            (
                &["a, cost: 101"],
                &["rules[0].cost: never passes: it costs 101, and a full counter has 100"],
            ),
            (&["a, cost: 100, algorithm: gcra"], &[]),
            (
                &["a, costs: {/export: 500}"],
                &["rules[0].costs[\"/export\"]: never passes: it costs 500"],
            ),
            (&["a, cost: 30, algorithm: gcra, burst: 1"], &["rules[0].cost: a full counter has 1"]),
            (&["a, cost: 101, algorithm: gcra, soft: {grace: 1}"], &[]),
            (&["a, limit: 0, cost: 5"], &[]),
        ],
    );
}

#[test]
fn one_counter_for_a_whole_fleet() {
    let redis = LintContext { redis: true, ..QUIET };
    let hot = "rules[0].identifier_type: a hot key: 5000 requests a second of all nodes";
    let many = "limit: 5000, window: 1s";
    let cases: [(&str, &[&str]); 11] = [
        ("identifier_type: global", &[hot]),
        ("identifier_type: endpoint, applies_to: {endpoints: [/x]}", &[hot]),
        ("identifier_type: endpoint, applies_to: {endpoints: [/x, /y]}", &[]),
        ("identifier_type: tenant, tenant: acme", &[hot]),
        ("identifier_type: tenant", &[]),
        ("identifier_type: tenant, key_pattern: acme", &[hot]),
        ("identifier_type: tenant, key_pattern: 'ac*'", &[]),
        ("identifier_type: [tenant, user_id], tenant: acme", &[]),
        ("identifier_type: [tenant, user_id], key_pattern: acme", &[]),
        ("identifier_type: global, consistency: local", &[]),
        ("identifier_type: user_id", &[]),
    ];
    for (fields, expected) in cases {
        check_rules(redis, &[(&[&format!("a, {many}, {fields}")], expected)]);
        // One node alone has no store to overload.
        check_rules(QUIET, &[(&[&format!("a, {many}, {fields}")], &[])]);
    }
    check_rules(
        redis,
        &[
            (&["a, limit: 999, window: 1s, identifier_type: global"], &[]),
            (
                &["a, limit: 60000, window: 1m, identifier_type: global"],
                &["rules[0].identifier_type: a hot key: 1000 requests"],
            ),
            (
                &["a, identifier_type: global, action: log_only"],
                &["rules[0].identifier_type: a hot key: all requests of all nodes"],
            ),
        ],
    );
    let fleet = LintContext { nodes: Some(3), ..QUIET };
    let closed = "on_store_failure: closed";
    check_rules(fleet, &[(&[&format!("a, {many}, {closed}, identifier_type: global")], &[hot])]);
}

/// What is found, as `severity field`.
fn found(text: &str) -> Vec<String> {
    let problems = inspect(&Source::parse(text), &QUIET);
    let named = |severity| if severity == Severity::Error { "error" } else { "warning" };
    problems.iter().map(|it| format!("{} {}", named(it.severity), it.path)).collect()
}

#[test]
fn warnings_are_reported_beside_errors() {
    let text = "rules:
  - {rule_id: small, limit: 5, window: 1m, identifier_type: user_id}
  - {rule_id: wrong, limit: ten, window: 1m, identifier_type: user_id}
  - {rule_id: small, limit: 4, window: 1m, identifier_type: user_id}
overrides: [{rule_id: wrong, identifier_type: user_id, identifier: u, limit: 5}]
";
    assert_eq!(
        found(text),
        ["error rules[1].limit", "error rules[2].rule_id", "warning rules[0].limit"]
    );
    // A tier that could not be read was meant to be declared.
    let text = "rules: [{rule_id: a, limit: 50, window: 1m, identifier_type: user_id, applies_to: {user_tiers: [pro]}}]
tiers: [{tier: pro, defautl: true}]
";
    assert_eq!(found(text), ["error tiers[0].defautl"]);
    assert_eq!(found("rules: [").len(), 1);
}
