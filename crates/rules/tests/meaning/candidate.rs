//! Candidates: which ones are refused, what the linter says of others, and how they are explained and promoted.

use tollgate_core::{Mode, Timestamp};
use tollgate_rules::document::RuleDocument;
use tollgate_rules::{
    LintContext, Policy, Problem, Source, candidate_id, candidate_of, lint, to_yaml,
    uncountable_in_redis,
};

use crate::lint::{QUIET, check_rules};
use crate::request::{Request, plan, policy, render};

fn rule(fields: &str) -> String {
    format!("rules:\n- {{rule_id: api, identifier_type: user_id, {fields}}}\n")
}

/// What is wrong with a rule, as `field: message; advice`.
fn problems(fields: &str) -> Vec<String> {
    let Err(problems) = Policy::from_text(&rule(fields)) else { return Vec::new() };
    problems.iter().for_each(|it| assert!(it.position.is_some_and(|it| it.line == 2), "{it}"));
    let shown = |it: &Problem| {
        let advice = it.advice.as_deref().expect("advice");
        format!("{}: {}; {advice}", it.path.trim_start_matches("rules[0]."), it.message)
    };
    problems.iter().map(shown).collect()
}

#[test]
fn a_wrong_candidate_is_refused_with_its_field_and_advice() {
    let minute = "limit: 100, window: 1m";
    let month = "limit: 100, window: 1 month, time_zone: UTC, algorithm: fixed_window";
    let held = "limit: 100, window: 1m, algorithm: gcra, action: throttle";
    let claimed = "limit: 100, window: 1m, limit_from: {claim: rate, ceiling: 200}";
    for (fields, candidate, expected) in [
        (minute, "{limit: 80}", ""),
        (minute, "{limit: 0}", ""),
        (minute, "{window: 30s}", ""),
        (minute, "{window_seconds: 30.5, algorithm: gcra, burst: 7}", ""),
        (month, "{limit: 80}", ""),
        (month, "{window: 1 week}", ""),
        (month, "{window: 7d, algorithm: gcra}", ""),
        (held, "{algorithm: leaky_bucket, burst: 9}", ""),
        (minute, "{}", "candidate: the candidate changes nothing; give a limit"),
        (minute, "80", "candidate: expected a map, found 80; the fields are limit,"),
        (minute, "{limit: -1}", "candidate.limit: -1 is out of range"),
        (minute, "{limit: lots}", "candidate.limit: expected a whole number"),
        (minute, "{limt: 80}", "candidate.limt: there is no such field; did you mean limit?"),
        (minute, "{limit: 80, action: reject}", "candidate.action: there is no such field"),
        (
            minute,
            "{limit: 80, candidate: {limit: 7}}",
            "candidate.candidate: there is no such field",
        ),
        (minute, "{window: soon}", "candidate.window:"),
        (minute, "{window_seconds: 0}", "candidate.window_seconds: 0 is out of range"),
        (minute, "{window: 1h, window_seconds: 9}", "candidate.window: a candidate has one window"),
        (minute, "{window: 1 month}", "candidate.window: such a window begins in the time_zone"),
        (minute, "{burst: 9}", "candidate.burst: "),
        (minute, "{burst: 0, algorithm: gcra}", "candidate.burst: 0 is out of range"),
        (minute, "{algorithm: magic}", "candidate.algorithm: "),
        (minute, "{limit: 20000, algorithm: sliding_window_log}", "candidate.limit: "),
        (month, "{algorithm: gcra}", "candidate.algorithm: "),
        (held, "{algorithm: fixed_window}", "candidate.algorithm: fixed_window knows no turn"),
        (claimed, "{limit: 300}", "candidate.limit: the ceiling is below the limit of the rule"),
    ] {
        let found = problems(&format!("{fields}, candidate: {candidate}"));
        let expected: Vec<&str> = Some(expected).filter(|it| !it.is_empty()).into_iter().collect();
        assert_eq!(found.len(), expected.len(), "{fields}, {candidate}: {found:#?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.starts_with(expected), "{fields}, {candidate}: {found}");
        }
    }
}

#[test]
fn what_is_wrong_with_a_rule_is_not_said_of_its_candidate_again() {
    let found = problems("limit: 100, window: 1m, burst: 7, candidate: {limit: 80}");
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("burst: "), "{found:?}");
    let found = problems("limit: 1, window: 1m, key_pattern: 5, candidate: {burst: 7}");
    assert_eq!(found.len(), 2, "{found:?}");
}

/// An override that the rule could not have once the candidate is promoted.
#[test]
fn overrides_have_to_fit_the_candidate_too() {
    let with = |candidate: &str, own: &str| {
        let rule = rule(&format!("limit: 9, window: 1m, candidate: {candidate}"));
        let text = format!(
            "{rule}overrides: [{{identifier_type: user_id, identifier: u, rule_id: api, {own}}}]"
        );
        let problems = Policy::from_text(&text).err().unwrap_or_default();
        problems.iter().map(|it| it.path.clone()).collect::<Vec<_>>()
    };
    let log = "{algorithm: sliding_window_log}";
    assert_eq!(with(log, "limit: 10000"), [""; 0]);
    assert_eq!(with(log, "limit: 10001"), ["overrides[0].limit"]);
    assert_eq!(with("{limit: 1}", "limit: 10001"), [""; 0]);
    let named = format!(
        "{}overrides: [{{identifier_type: user_id, identifier: u, rule_id: api~candidate, limit: 1}}]",
        rule("limit: 9, window: 1m, candidate: {limit: 1}")
    );
    let problems = Policy::from_text(&named).expect_err("a candidate is no rule");
    assert!(problems[0].message.contains("there is no rule"), "{problems:?}");
}

#[test]
fn candidates_without_effect() {
    let equal = "rules[0].candidate: the limit that the rule has already";
    let looser = "rules[0].candidate: would refuse nothing";
    let minute = "a, limit: 100, window: 1m, ";
    let with = |fields: &str| format!("{minute}{fields}");
    let cases: [(&str, Option<&str>); 16] = [
        ("candidate: {limit: 80}", None),
        ("candidate: {limit: 100}", Some(equal)),
        ("candidate: {window_seconds: 60}", Some(equal)),
        ("candidate: {limit: 120}", Some(looser)),
        ("candidate: {limit: 120, window: 2m}", None),
        ("candidate: {algorithm: gcra}", None),
        // A shadow rule refuses nothing, so that a looser candidate tells something.
        ("action: log_only, candidate: {limit: 120}", None),
        ("action: log_only, candidate: {limit: 100}", Some(equal)),
        ("algorithm: gcra, burst: 200, candidate: {limit: 120}", Some(looser)),
        ("algorithm: gcra, burst: 200, candidate: {burst: 150}", None),
        ("algorithm: gcra, burst: 200, candidate: {burst: 250, limit: 90}", None),
        ("algorithm: gcra, burst: 200, candidate: {window: 30s}", Some(looser)),
        ("algorithm: sliding_window_log, candidate: {window: 30s}", Some(looser)),
        ("algorithm: sliding_window_log, candidate: {window: 90s}", None),
        // A shorter window may see the ends of two longer ones.
        ("algorithm: fixed_window, candidate: {window: 30s}", None),
        ("enabled: false, candidate: {limit: 120}", None),
    ];
    for (fields, expected) in cases {
        let expected: Vec<&str> = expected.into_iter().collect();
        check_rules(QUIET, &[(&[&with(fields)], &expected)]);
    }
    // A candidate is no reason to warn of its rule, or of others.
    check_rules(QUIET, &[(&["a, candidate: {limit: 0}, limit: 100", "b"], &[])]);
}

#[test]
fn redis_has_to_count_candidates_exactly() {
    let text = rule("limit: 100, window: 1m, candidate: {limit: 1099511627777}");
    let source = Source::parse(&text);
    let policy = Policy::compile(&source).expect("a policy");
    let found = uncountable_in_redis(&source, &policy);
    assert_eq!(found.iter().map(|it| &*it.path).collect::<Vec<_>>(), ["rules[0].candidate"]);
    let context = LintContext { redis: true, ..QUIET };
    assert!(lint(&source, &policy, &context).iter().any(|it| it.message.contains("exactly")));
}

#[test]
fn a_candidate_is_planned_beside_its_rule() {
    let policy = policy(
        "rules:
- {rule_id: low, limit: 9, window: 1m, identifier_type: ip, candidate: {limit: 1}}
- {rule_id: api, limit: 9, window: 1m, identifier_type: user_id, priority: 5, cost: 3, candidate: {limit: 5},
   on_missing: deny}
",
    );
    assert_eq!(policy.rules().len(), 2, "candidates aside");
    let ids: Vec<&str> = policy.rules().iter().map(|rule| &*rule.id).collect();
    assert_eq!(ids, ["api", "api~candidate", "low", "low~candidate"]);
    let planned = plan(&policy, &[Request::parse("user_id=u ip=1.1.1.1")], Timestamp::EPOCH);
    let charges: Vec<_> = planned.charges(policy.rules()).collect();
    let [api, tried, ..] = charges.as_slice() else { panic!("{charges:?}") };
    assert_eq!((tried.key.subject, tried.key.group), (api.key.subject, api.key.group));
    assert_eq!((tried.cost, tried.mode, tried.limit.limit()), (3, Mode::Shadow, 5));
    assert_ne!(tried.key.fingerprint, api.key.fingerprint, "counters of its own");
    assert_eq!(
        (policy.rules().find("api~candidate").map(|it| &it.id), candidate_of("api~candidate")),
        (None, Some("api"))
    );
    let found = policy.rules().find_counter(&candidate_id("api")).expect("the candidate");
    assert_eq!((&**found.written_id(), found.is_candidate()), ("api", true));
    assert!(policy.rules().find_counter("none~candidate").is_none());
    // The rule refuses a request without its identifier; the candidate refuses nothing.
    let missing = plan(&policy, &[Request::parse("ip=1.1.1.1")], Timestamp::EPOCH);
    assert!(render(&missing, &policy).contains("missing:api"), "{}", render(&missing, &policy));
    let explained = policy.explain(&Request::parse("user_id=u ip=1.1.1.1"), Timestamp::EPOCH);
    let shown: Vec<_> = explained
        .rules
        .iter()
        .map(|it| (&*it.rule_id, it.candidate_of.as_deref(), it.log_only, it.quota.limit))
        .collect();
    assert_eq!(
        shown,
        [
            ("api", None, false, 9),
            ("api~candidate", Some("api"), true, 5),
            ("low", None, false, 9),
            ("low~candidate", Some("low"), true, 1),
        ]
    );
}

#[test]
fn a_promoted_rule_has_the_limit_of_its_candidate() {
    let rule_of = |fields: &str| Source::parse(&rule(fields)).document.rules[0].clone();
    let shown = |rule: &RuleDocument| to_yaml(rule).expect("YAML");
    for (before, after) in [
        ("limit: 9, window: 1m, candidate: {limit: 5}", "limit: 5, window: 1m"),
        (
            "limit: 9, window: 1m, cost: 2, candidate: {window_seconds: 30}",
            "limit: 9, window_seconds: 30, cost: 2",
        ),
        (
            "limit: 9, window_seconds: 60, algorithm: gcra, burst: 20, candidate: {window: 1h, burst: 7}",
            "limit: 9, window: 1h, algorithm: gcra, burst: 7",
        ),
        // A window has no burst, and one of equal length no time zone.
        (
            "limit: 9, window: 1m, algorithm: gcra, burst: 20, candidate: {algorithm: fixed_window}",
            "limit: 9, window: 1m, algorithm: fixed_window",
        ),
        (
            "limit: 9, window: 1 day, time_zone: UTC, algorithm: fixed_window, candidate: {window: 1d}",
            "limit: 9, window: 1d, algorithm: fixed_window",
        ),
        (
            "limit: 9, window: 1 day, time_zone: UTC, algorithm: fixed_window, candidate: {window: 1 week}",
            "limit: 9, window: 1 week, time_zone: UTC, algorithm: fixed_window",
        ),
    ] {
        let promoted = rule_of(before).promoted().expect("a candidate");
        assert_eq!(shown(&promoted), shown(&rule_of(after)));
        assert_eq!(promoted.promoted(), None, "it has no candidate any more");
    }
}
