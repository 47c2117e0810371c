//! `tollgate simulate --fail-if`: the exit code, the figure, and advice for what cannot be read.

use super::{log, tollgate};

/// 34 requests of 3 clients, 20 of which are refused, all of one client.
const RULE: [&str; 2] = ["--rule", r#"{"limit":10,"window":"1m"}"#];

#[test]
fn the_exit_code_says_whether_a_condition_holds() {
    let check = |condition: &str, code: i32, said: &str| {
        let ran =
            tollgate(&[&["simulate"], &RULE[..], &["--fail-if", condition, "-"]].concat(), &log());
        assert_eq!(ran.code, code, "{condition}: {}", ran.stderr);
        assert!(ran.stderr.contains(said), "{condition}: {}", ran.stderr);
        assert!(ran.stdout.contains("34"), "the report is printed: {}", ran.stdout);
    };
    check("refused > 1%", 1, "refused > 1% holds: 20 of 34 requests refused, 58.82 %");
    check("refused > 58.823529%", 1, "58.82 %");
    check("refused > 58.823530%", 0, "");
    check("refused >= 20", 1, "");
    check("refused > 20", 0, "");
    check("refused <= 20", 1, "");
    check("refused < 20", 0, "");
    check("clients_refused > 33%", 1, "1 of 3 clients refused, 33.33 %");
    check("clients_refused > 33.4%", 0, "");
    check("refused(inline) >= 20", 1, "20 of 34 requests exceeded inline, 58.82 %");
    check("clients_refused(inline) >= 1", 1, "1 of 3 clients exceeded inline");
    check("throttled > 0", 0, "");
    check("unmatched > 0", 0, "");
}

#[test]
fn a_condition_on_a_rule_that_applied_to_no_request_is_an_error() {
    let rule = r#"{"rule_id":"u","limit":10,"window":"1m","identifier_type":"user_id"}"#;
    let run = |conditions: &[&str]| {
        let conditions = conditions.iter().flat_map(|it| ["--fail-if", *it]);
        let arguments = ["simulate", "--rule", rule].into_iter().chain(conditions).chain(["-"]);
        tollgate(&arguments.collect::<Vec<_>>(), &log())
    };
    for condition in ["refused(u) > 1%", "refused(u) <= 0", "clients_refused(u) < 3"] {
        let ran = run(&[condition]);
        assert_eq!(ran.code, 2, "{condition}: {}", ran.stderr);
        let said = format!("{condition} cannot be judged: u applied to none of 34 requests");
        assert!(ran.stderr.contains(&said), "{condition}: {}", ran.stderr);
    }
    let ran = run(&["refused(u) > 1%", "unmatched > 1%"]);
    assert_eq!(ran.code, 1, "a condition holds: {}", ran.stderr);
    assert!(ran.stdout.contains("Access logs seldom have hosts, and no users"), "{}", ran.stdout);
    assert!(ran.stderr.contains("cannot be judged") && ran.stderr.contains(" holds: "));
}

#[test]
fn each_condition_that_holds_is_reported() {
    let conditions =
        ["--fail-if", "refused > 1%", "--fail-if", "throttled > 0", "--fail-if", "refused < 100"];
    let arguments = [&["simulate", "--json"], &RULE[..], &conditions[..], &["-"]].concat();
    let ran = tollgate(&arguments, &log());
    assert_eq!(ran.code, 1);
    assert_eq!(ran.stderr.matches(" holds: ").count(), 2, "{}", ran.stderr);
    assert_eq!(ran.stdout.lines().count(), 34, "decisions are still printed");
}

#[test]
fn a_wrong_condition_is_reported_with_place_and_advice_before_anything_is_read() {
    let check = |condition: &str, said: &[&str]| {
        let arguments =
            [&["simulate"], &RULE[..], &["--fail-if", condition, "no-such.log"]].concat();
        let ran = tollgate(&arguments, "");
        assert_eq!(ran.code, 2, "{condition}");
        for part in said {
            assert!(ran.stderr.contains(part), "{condition}: {}", ran.stderr);
        }
    };
    check("refused = 1%", &["expected a comparison, found \"=\"", "        ^ column 9", "write >"]);
    check("refusd > 1%", &["did you mean refused?"]);
    check("refused(inlin) > 1", &["did you mean inline?", "^ column 9"]);
    check("\u{1b}[2J", &["expected a figure"]);
    let ran = tollgate(&["simulate", RULE[0], RULE[1], "--fail-if", "\u{1b}[2J > 1", "-"], "");
    assert!(!ran.stderr.contains('\u{1b}'), "{:?}", ran.stderr);
}
