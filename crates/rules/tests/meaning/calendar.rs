//! Rules by days, weeks and months of the calendar: what they mean, and the advice for those that mean nothing.

use tollgate_core::{CalendarUnit, Timestamp};
use tollgate_rules::Policy;

use crate::request::{Request, plan, policy};

const MONTHLY: &str =
    "rule_id: r, limit: 10, algorithm: fixed_window, window: 1 month, time_zone: Europe/Berlin";

fn rules(fields: &str) -> String {
    format!("rules: [{{{fields}, identifier_type: user_id}}]")
}

fn moment(text: &str) -> Timestamp {
    tollgate_rules::parse_time(text).expect("a time")
}

#[test]
fn a_rule_counts_by_the_calendar_of_its_zone() {
    let policy = policy(&rules(MONTHLY));
    let rule = policy.rules().find("r").expect("the rule");
    let calendar = rule.limit.calendar().expect("a calendar");
    assert_eq!((calendar.unit(), calendar.zone()), (CalendarUnit::Month, "Europe/Berlin"));
    let window = calendar.window_at(moment("2026-03-15T12:00:00Z"));
    assert_eq!(window, (moment("2026-02-28T23:00:00Z"), moment("2026-03-31T22:00:00Z")));
}

/// `1d` is what it always was: 24 hours since the Unix epoch.
#[test]
fn a_window_of_one_length_has_no_calendar() {
    let policy = policy(&rules("rule_id: r, limit: 10, algorithm: fixed_window, window: 1d"));
    let rule = policy.rules().find("r").expect("the rule");
    assert_eq!((rule.limit.calendar(), rule.limit.window().as_secs_ceil()), (None, 86_400));
}

/// The problems of a rule, with their advice.
fn advice(fields: &str) -> Vec<String> {
    let problems = Policy::from_text(&rules(fields)).expect_err("a problem");
    let shown = problems.iter().map(|it| {
        format!("{}: {}; {}", it.path, it.message, it.advice.as_deref().unwrap_or_default())
    });
    shown.collect()
}

#[test]
fn what_is_not_a_window_of_the_calendar_gets_advice() {
    let rest = "rule_id: r, limit: 10, algorithm: fixed_window";
    for (fields, expected) in [
        (
            format!("{rest}, window: 1 day"),
            "rules[0].time_zone: 1 day of the calendar begins in a time zone; add time_zone: UTC, or one like \
             Europe/Berlin; for 24 hours write window: 1d",
        ),
        (
            format!("{rest}, window: 1 week"),
            "rules[0].time_zone: 1 week of the calendar begins in a time zone; add time_zone: UTC, or one like \
             Europe/Berlin; for 7 times 24 hours write window: 7d",
        ),
        (
            format!("{rest}, window: 1d, time_zone: UTC"),
            "rules[0].time_zone: only days, weeks and months of the calendar have a time zone; write window: 1 day, \
             1 week or 1 month, or remove time_zone",
        ),
        (
            format!("{rest}, window: 1 month, time_zone: Europe/Berln"),
            "rules[0].time_zone: there is no time zone \"Europe/Berln\"; did you mean Europe/Berlin?",
        ),
        (
            MONTHLY.replace("fixed_window", "gcra"),
            "rules[0].algorithm: only fixed_window counts by days, weeks and months of the calendar; write \
             algorithm: fixed_window, or a window of one length like 1d",
        ),
        (
            format!("{rest}, window: month, time_zone: UTC"),
            "rules[0].window: \"month\" is not a window with its unit; did you mean 1 month? write a whole number and \
             a unit: 500ms, 10s, 5m, 1h, 1d, 1h30m; or 1 day, 1 week, 1 month of the calendar, with a time_zone",
        ),
    ] {
        assert_eq!(advice(&fields), [expected], "{fields}");
    }
}

#[test]
fn an_override_changes_the_limit_and_not_the_calendar() {
    let of = |exception: &str| {
        let exception =
            format!("identifier_type: user_id, identifier: ann, rule_id: r, {exception}");
        format!("{}\noverrides: [{{{exception}}}]", rules(MONTHLY))
    };
    let policy = policy(&of("limit: 25"));
    let plan = plan(&policy, &[Request::parse("user_id=ann")], Timestamp::EPOCH);
    let limit = plan.charges(policy.rules()).next().expect("a charge").limit;
    assert_eq!(
        (limit.limit(), limit.calendar().map(tollgate_core::Calendar::zone)),
        (25, Some("Europe/Berlin"))
    );
    let problems = Policy::from_text(&of("window_seconds: 60")).expect_err("a problem");
    assert_eq!(problems[0].path, "overrides[0].window_seconds");
    assert_eq!(problems[0].message, "a window of the calendar has no other length");
}

#[test]
fn an_explanation_names_the_calendar_and_the_length_of_its_window() {
    let policy = policy(&rules(MONTHLY));
    let at = moment("2026-03-15T12:00:00Z");
    let quota = policy.explain(&Request::parse("user_id=ann"), at).rules[0].quota.clone();
    assert_eq!(quota.calendar.as_deref(), Some("month (Europe/Berlin)"));
    assert_eq!(quota.window_ms, (31 * 24 - 1) * 3_600_000);
}
