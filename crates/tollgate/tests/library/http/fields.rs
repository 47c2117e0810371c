//! Header fields of every family, in every state a decision can be in.

use http::{HeaderMap, HeaderValue};
use proptest::prelude::*;
use proptest::sample::select;
use tollgate::http::{HeaderFamilies, full_at, reset_at, retry_after, write_fields};
use tollgate::{Algorithm, Decision, Micros, Timestamp};

use crate::http::scene::config;
use crate::http::{after, decide};

/// Compares the fields of a decision, one `name: value` a line.
fn check(families: &str, policy: &str, steps: &[&str], asked: &str, expected: &[&str]) {
    let decision = decide(&after(policy, steps), asked);
    let families = families.split_whitespace().map(|name| name.parse().expect("a family"));
    let fields = fields(&decision, HeaderFamilies::new(families).expect("no collision"));
    assert_eq!(fields, expected, "{asked} after {steps:?} under {policy}");
}

fn fields(decision: &Decision, families: HeaderFamilies) -> Vec<String> {
    let mut headers = HeaderMap::new();
    write_fields(decision, families, &mut headers);
    let text = |value: &HeaderValue| value.to_str().expect("a text").to_owned();
    headers.iter().map(|(name, value)| format!("{name}: {}", text(value))).collect()
}

const DEFAULT_FAMILIES: &str = "x-ratelimit draft-11";

/// A unit drains every 1.5 seconds from `slow`; `daily` is far from its limit, `watch` is a shadow rule.
const THREE: &str = "
rules:
  - {rule_id: slow, limit: 40, window: 1m, burst: 10, identifier_type: user_id, algorithm: gcra}
  - {rule_id: daily, limit: 1000, window: 1d, identifier_type: user_id, algorithm: fixed_window}
  - {rule_id: watch, limit: 1, window: 1d, identifier_type: user_id, algorithm: fixed_window, action: log_only}
";

#[test]
fn the_default_fields() {
    check(
        DEFAULT_FAMILIES,
        THREE,
        &[],
        "user_id=u",
        &[
            "x-ratelimit-limit: 10",
            "x-ratelimit-remaining: 9",
            // One and a half seconds after midnight, rounded up.
            "x-ratelimit-reset: 1700006402",
            "x-ratelimit-policy: 10;w=15",
            r#"ratelimit-policy: "slow";q=10;w=15, "daily";q=1000;w=86400"#,
            r#"ratelimit: "slow";r=9;t=2, "daily";r=999;t=86400"#,
        ],
    );
    // A peek at an unused limit: nothing is in use, so there is nothing to wait for.
    check(
        DEFAULT_FAMILIES,
        THREE,
        &[],
        "user_id=u cost=0",
        &[
            "x-ratelimit-limit: 10",
            "x-ratelimit-remaining: 10",
            "x-ratelimit-reset: 1700006400",
            "x-ratelimit-policy: 10;w=15",
            r#"ratelimit-policy: "slow";q=10;w=15, "daily";q=1000;w=86400"#,
            r#"ratelimit: "slow";r=10, "daily";r=1000"#,
        ],
    );
}

/// The fields once reported five times the rate: fifty a second, where ten come back in a second.
#[test]
fn with_a_burst_the_window_is_that_in_which_all_of_it_comes_back() {
    for (quota, expected) in [
        ("limit: 10, window: 1s, burst: 50", "50;w=5"),
        ("limit: 10, window: 1s", "10;w=1"),
        ("limit: 10, window: 1s, burst: 5", "5"),
        ("limit: 7, window: 1s, burst: 10", "10;w=2"),
        ("limit: 60, window: 1m, burst: 1", "1;w=1"),
        ("limit: 1, window: 1d, burst: 3", "3;w=259200"),
        ("limit: 0, window: 1m", "0;w=60"),
    ] {
        let policy =
            format!("rules: [{{rule_id: r, {quota}, identifier_type: user_id, algorithm: gcra}}]");
        let decision = decide(&after(&policy, &[]), "user_id=u cost=0");
        let families =
            "x-ratelimit draft-11".split(' ').map(|name| name.parse().expect("a family"));
        let fields = fields(&decision, HeaderFamilies::new(families).expect("no collision"));
        let expected = [
            format!("x-ratelimit-policy: {expected}"),
            format!("ratelimit-policy: \"r\";q={expected}"),
        ];
        assert!(expected.iter().all(|line| fields.contains(line)), "{quota}: {fields:?}");
    }
}

#[test]
fn a_warning_says_what_is_left() {
    check(
        DEFAULT_FAMILIES,
        THREE,
        &[],
        "user_id=u cost=8",
        &[
            "x-ratelimit-limit: 10",
            "x-ratelimit-remaining: 2",
            "x-ratelimit-reset: 1700006412",
            "x-ratelimit-policy: 10;w=15",
            "x-ratelimit-warning: slow: 2 of 10 left",
            r#"ratelimit-policy: "slow";q=10;w=15, "daily";q=1000;w=86400"#,
            r#"ratelimit: "slow";r=2;t=2, "daily";r=992;t=86400"#,
        ],
    );
    // A rule that does not bind may be the one that warns; a shadow rule never warns.
    let early = "
rules:
  - {rule_id: tight, limit: 10, window: 1m, identifier_type: user_id, algorithm: fixed_window}
  - {rule_id: early, limit: 100, window: 1m, identifier_type: user_id, algorithm: fixed_window, soft: {warn_at: 0.05, clear_at: 0.05}}
  - {rule_id: watch, limit: 1, window: 1m, identifier_type: user_id, algorithm: fixed_window, action: log_only}
";
    let without_warning = [
        "x-ratelimit-limit: 10",
        "x-ratelimit-remaining: 6",
        "x-ratelimit-reset: 1700006460",
        "x-ratelimit-policy: 10;w=60",
    ];
    check("x-ratelimit", early, &[], "user_id=u cost=4", &without_warning);
    check(
        "x-ratelimit",
        early,
        &["0 check user_id=u"],
        "user_id=u cost=4",
        &[
            "x-ratelimit-limit: 10",
            "x-ratelimit-remaining: 5",
            "x-ratelimit-reset: 1700006460",
            "x-ratelimit-policy: 10;w=60",
            "x-ratelimit-warning: early: 95 of 100 left",
        ],
    );
}

#[test]
fn a_refusal_says_when_to_come_back() {
    check(
        DEFAULT_FAMILIES,
        THREE,
        &["0 check user_id=u cost=10"],
        "user_id=u cost=3",
        &[
            "x-ratelimit-limit: 10",
            "x-ratelimit-remaining: 0",
            "x-ratelimit-reset: 1700006415",
            "x-ratelimit-policy: 10;w=15",
            r#"ratelimit-policy: "slow";q=10;w=15, "daily";q=1000;w=86400"#,
            r#"ratelimit: "slow";r=0;t=2, "daily";r=990;t=86400"#,
            "retry-after: 5",
            "cache-control: no-store",
        ],
    );
    // At least a second, however short the wait.
    let quick = "rules: [{rule_id: quick, limit: 100, window: 1s, burst: 1, identifier_type: user_id, algorithm: gcra}]";
    check(
        "",
        quick,
        &["0 check user_id=u"],
        "user_id=u",
        &["retry-after: 1", "cache-control: no-store"],
    );
    // A request that never fits has no Retry-After.
    check("", THREE, &[], "user_id=u cost=11", &["cache-control: no-store"]);
}

/// What is tolerated beyond the limit is back before anything is left to report.
#[test]
fn retry_after_is_not_before_something_is_left() {
    check(
        DEFAULT_FAMILIES,
        "rules: [{rule_id: r, limit: 10, window: 1m, identifier_type: user_id, algorithm: gcra, soft: {grace: 2}}]",
        &["0 check user_id=u cost=12"],
        "user_id=u",
        &[
            "x-ratelimit-limit: 10",
            "x-ratelimit-remaining: 0",
            "x-ratelimit-reset: 1700006472",
            "x-ratelimit-policy: 10;w=60",
            r#"ratelimit-policy: "r";q=10;w=60"#,
            r#"ratelimit: "r";r=0;t=18"#,
            "retry-after: 18",
            "cache-control: no-store",
        ],
    );
}

#[test]
fn other_families_report_the_same_figures() {
    let steps = &["500 check user_id=u cost=4"];
    let cases: [(&str, &[&str]); 4] = [
        (
            "x-ratelimit-delta",
            &[
                "x-ratelimit-limit: 10",
                "x-ratelimit-remaining: 5",
                "x-ratelimit-reset: 8",
                "x-ratelimit-policy: 10;w=15",
            ],
        ),
        (
            "draft-7",
            &[
                "ratelimit-policy: 10;w=15, 1000;w=86400",
                "ratelimit: limit=10, remaining=5, reset=8",
            ],
        ),
        (
            "draft-6",
            &[
                "ratelimit-policy: 10;w=15, 1000;w=86400",
                "ratelimit-limit: 10",
                "ratelimit-remaining: 5",
                "ratelimit-reset: 8",
            ],
        ),
        ("", &[]),
    ];
    for (families, expected) in cases {
        check(families, THREE, steps, "user_id=u", expected);
    }
}

#[test]
fn figures_that_do_not_fit_a_field_are_rounded_capped_or_left_out() {
    let policy = |fields: &str| {
        format!(
            "rules: [{{rule_id: r, identifier_type: user_id, algorithm: fixed_window, {fields}}}]"
        )
    };
    let cases: [(&str, &[&str]); 3] = [
        (
            "limit: 100, window: 100ms",
            &[
                "x-ratelimit-limit: 100",
                "x-ratelimit-remaining: 99",
                "x-ratelimit-reset: 1700006401",
                "x-ratelimit-policy: 100",
                r#"ratelimit-policy: "r";q=100"#,
                r#"ratelimit: "r";r=99;t=1"#,
            ],
        ),
        (
            "limit: 100, window: 1s500ms",
            &[
                "x-ratelimit-limit: 100",
                "x-ratelimit-remaining: 99",
                "x-ratelimit-reset: 1700006402",
                "x-ratelimit-policy: 100;w=2",
                r#"ratelimit-policy: "r";q=100;w=2"#,
                r#"ratelimit: "r";r=99;t=2"#,
            ],
        ),
        (
            "limit: 4000000000000000, window: 1m",
            &[
                "x-ratelimit-limit: 999999999999999",
                "x-ratelimit-remaining: 999999999999999",
                "x-ratelimit-reset: 1700006460",
                "x-ratelimit-policy: 999999999999999;w=60",
                r#"ratelimit-policy: "r";q=999999999999999;w=60"#,
                r#"ratelimit: "r";r=999999999999999;t=60"#,
            ],
        ),
    ];
    for (limit, expected) in cases {
        check(DEFAULT_FAMILIES, &policy(limit), &[], "user_id=u", expected);
    }
}

#[test]
fn a_decision_without_a_rule_has_no_figures() {
    let policy = "
rules:
  - {rule_id: user, limit: 9, window: 1m, identifier_type: user_id, on_store_failure: closed}
  - {rule_id: watch, limit: 9, window: 1m, identifier_type: tenant, action: log_only}
  - {rule_id: key, limit: 9, window: 1m, identifier_type: api_key, on_missing: deny, applies_to: {endpoints: [/api]}}
whitelist: [{identifier_type: ip, identifier: 10.0.0.0/8}]
blacklist: [{identifier_type: ip, identifier: 192.0.2.1}]
";
    let cases: [(&[&str], &str, &[&str]); 6] = [
        (&[], "ip=198.51.100.1", &[]),
        (&[], "ip=10.1.1.1 user_id=u", &[]),
        (&[], "tenant=t", &[]),
        (&[], "ip=192.0.2.1 user_id=u", &["cache-control: no-store"]),
        (&[], "/api user_id=u", &["cache-control: no-store"]),
        (&["down"], "user_id=u", &["retry-after: 5", "cache-control: no-store"]),
    ];
    for (steps, asked, expected) in cases {
        check(DEFAULT_FAMILIES, policy, steps, asked, expected);
    }
}

/// A node that counts locally allows more for a while, but reports what is left of the limit itself.
#[test]
fn no_more_is_left_than_the_limit() {
    check(
        "draft-11",
        "rules: [{rule_id: r, limit: 3, window: 1m, identifier_type: user_id, algorithm: fixed_window}]",
        &["down"],
        "user_id=u",
        &[r#"ratelimit-policy: "r";q=3;w=60"#, r#"ratelimit: "r";r=2;t=60"#],
    );
}

#[test]
fn fields_of_others_are_replaced() {
    let mut headers = HeaderMap::new();
    headers.append("ratelimit", HeaderValue::from_static("\"upstream\";r=1"));
    headers.append("ratelimit", HeaderValue::from_static("\"another\";r=1"));
    headers.append("server", HeaderValue::from_static("them"));
    let decision = decide(&after(THREE, &[]), "user_id=u");
    write_fields(&decision, HeaderFamilies::default(), &mut headers);
    let values: Vec<_> = headers.get_all("ratelimit").iter().collect();
    assert_eq!(values, [r#""slow";r=9;t=2, "daily";r=999;t=86400"#]);
    assert_eq!(headers["server"], "them");
}

proptest! {
    #![proptest_config(config(300))]

    /// For any request: a client that waits as reported passes, and at the reset time the whole limit is
    /// available again.
    #[test]
    fn reported_times_are_exact(
        algorithm in select(&Algorithm::ALL[..]),
        limit in 1..50_u64,
        window_ms in 1..100_000_u64,
        at_ms in 0..100_000_u64,
        spent in 0..100_u64,
        cost in 1..60_u64,
    ) {
        let policy = format!(
            "rules: [{{rule_id: r, limit: {limit}, window: {window_ms}ms, identifier_type: user_id, \
             algorithm: {algorithm}}}]"
        );
        let scene = after(&policy, &[&format!("{at_ms} check user_id=u cost={spent}")]);
        let asked = format!("user_id=u cost={cost}");
        let decision = decide(&scene, &asked);
        let retry_after = retry_after(&decision);
        prop_assert_eq!(retry_after.is_some(), cost <= limit && !decision.is_allowed());
        let written = fields(&decision, HeaderFamilies::none());
        let written = written.iter().find_map(|field| field.strip_prefix("retry-after: "));
        prop_assert_eq!(written.map(str::to_owned), retry_after.map(|seconds| seconds.to_string()));

        let binding = decision.binding().expect("a rule");
        let (reset, full) =
            (reset_at(decision.now(), binding.limit(), &binding.outcome), full_at(decision.now(), &binding.outcome));
        let is_aligned =
            matches!(algorithm, Algorithm::FixedWindow | Algorithm::SlidingWindowCounter);
        let window_end = (decision.now().as_micros() / 1_000 / window_ms + 1) * window_ms;
        prop_assert_eq!(reset, if is_aligned { window_end.div_ceil(1_000) } else { full });
        scene.limiter.clock().set(Timestamp::from_secs(full));
        prop_assert_eq!(decide(&scene, "user_id=u cost=0").remaining(), Some(limit));
        if let Some(seconds) = retry_after {
            prop_assert!(seconds >= 1);
            scene.limiter.clock().set(decision.now().plus(Micros::from_secs(seconds)));
            prop_assert!(decide(&scene, &asked).is_allowed());
        }
    }
}

#[test]
fn lists_of_many_rules_name_the_most_binding_ones() {
    let rule = |at: usize| {
        let limit = if at == 90 { 10 } else { 1_000 + at };
        format!(
            "  - {{rule_id: rule_{at:03}, limit: {limit}, window: 1m, identifier_type: user_id, \
             algorithm: fixed_window}}\n"
        )
    };
    let policy = format!("rules:\n{}", (0..100).map(rule).collect::<String>());
    for (family, count) in [("draft-11", 19), ("draft-7", 19), ("draft-6", 19)] {
        let families = HeaderFamilies::new([family.parse().expect("a family")]).expect("one");
        let decision = decide(&after(&policy, &[]), "user_id=u");
        let fields = fields(&decision, families);
        let of = |name: &str| fields.iter().find_map(|field| field.strip_prefix(name));
        let policies: Vec<&str> = of("ratelimit-policy: ").expect("policies").split(", ").collect();
        // The rule that binds, and the smallest of the others; in the order of reports.
        assert_eq!(policies.len(), count, "{family}");
        assert!(policies.last().is_some_and(|last| last.contains("10;w=60")), "{policies:?}");
        assert!(policies[0].contains("1000;w=60"), "{policies:?}");
        if family == "draft-11" {
            let figures: Vec<&str> = of("ratelimit: ").expect("figures").split(", ").collect();
            let named = |list: &[&str]| {
                let names = list.iter().filter_map(|item| item.split(';').next());
                names.map(str::to_owned).collect::<Vec<_>>()
            };
            assert_eq!(named(&figures), named(&policies), "both lists name the same rules");
        }
        assert!(fields.iter().all(|field| field.len() < 1_100), "{fields:?}");
    }
}
