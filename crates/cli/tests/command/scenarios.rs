//! `tollgate test`: what passes, what fails and why, and what cannot be read.

use std::fs;
use std::path::PathBuf;

use super::{Ran, tollgate};

const POLICY: &str = "\
rules:
  - {rule_id: login, limit: 2, window: 1m, algorithm: fixed_window, identifier_type: ip}
  - {rule_id: paced, limit: 1, window: 1s, algorithm: leaky_bucket, burst: 3, identifier_type: user_id}
";

fn run(scenarios: &str, arguments: &[&str]) -> Ran {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| -> PathBuf { folder.path().join(name) };
    fs::write(file("policy.yaml"), POLICY).expect("written");
    fs::write(file("a.test.yaml"), scenarios).expect("written");
    let path = file("a.test.yaml");
    let path = path.to_str().expect("a path");
    let mut ran = tollgate(&[&["test"], arguments, &[path]].concat(), "");
    for text in [&mut ran.stdout, &mut ran.stderr] {
        *text = text.replace(folder.path().to_str().expect("a path"), "FOLDER");
    }
    ran
}

const MIXED: &str = "\
policy: policy.yaml
scenarios:
  - name: Two logins <a minute>
    request: {ip: 192.0.2.1}
    steps:
      - {times: 2, every: 10s, expect: {outcome: allowed, rule: login}}
      - {expect: {outcome: refused, rule: login, remaining: 0, retry_after: 50s}}
      - {at: 1m, expect: {outcome: allowed, remaining: 1}}
  - name: 'Wrong # on purpose'
    request: {ip: 192.0.2.1}
    steps:
      - {times: 3, expect: allowed}
      - {times: 2, expect: {allowed: 1, refused: 1}}
      - {after: 1m, expect: {remaining: 7, rule: paced}}
";

#[test]
fn names_in_errors_do_nothing_to_a_terminal() {
    let ran = run(r#"{"policy": "a\u001b[31mb\u202e.yaml", "scenarios": []}"#, &[]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    let shown = ran.stderr.contains("a\u{fffd}[31mb\u{fffd}.yaml");
    assert!(shown && !ran.stderr.contains(['\u{1b}', '\u{202e}']), "{:?}", ran.stderr);
}

#[test]
fn scenarios_pass_or_fail_with_place_and_figures() {
    let ran = run(MIXED, &[]);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    let expected = "\
FOLDER/a.test.yaml
  ok      Two logins <a minute> (4 requests)
  FAILED  Wrong # on purpose (6 requests)
          line 12, step 1, request 3 of 3, at 0 s:
            expected allowed, got refused (refused by login, remaining 0, retry_after 1 min)
          line 13, step 2, 2 requests:
            expected 1 allowed, got 0; expected 1 refused, got 2
          line 14, step 3, at 1 min:
            expected rule paced, got login; expected remaining 7, got 1 (allowed by login, remaining 1)

2 scenarios, 10 requests: 1 passed, 1 failed
";
    assert_eq!(ran.stdout, expected);
}

#[test]
fn delays_are_on_the_virtual_clock() {
    let ran = run(
        "policy: policy.yaml
scenarios:
  - name: One a second
    request: {user_id: ann}
    steps:
      - {expect: {outcome: allowed, rule: paced}}
      - {expect: {outcome: throttled, delay: 1s}}
      - {expect: {outcome: throttled, delay: 2s, state: throttled}}
      - {expect: {outcome: refused, retry_after: 1s}}
      - {after: 1h, expect: allowed}
",
        &[],
    );
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
}

#[test]
fn results_are_written_as_tap() {
    let ran = run(MIXED, &["--format", "tap"]);
    assert_eq!(ran.code, 1);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(lines[..2], ["TAP version 14", "1..2"]);
    assert_eq!(lines[2], "ok 1 - FOLDER/a.test.yaml: Two logins <a minute>");
    assert_eq!(lines[3], "not ok 2 - FOLDER/a.test.yaml: Wrong \\# on purpose");
    assert_eq!(lines[4..6], ["  ---", "  failures:"]);
    assert_eq!(lines[6], "    - at: \"FOLDER/a.test.yaml:12\"");
    assert_eq!(*lines.last().unwrap(), "  ...");
}

#[test]
fn results_are_written_as_junit() {
    let ran = run(MIXED, &["--format", "junit"]);
    assert_eq!(ran.code, 1);
    for part in [
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>",
        "<testsuites name=\"tollgate test\" tests=\"2\" failures=\"1\" errors=\"0\">",
        "<testsuite name=\"FOLDER/a.test.yaml\" tests=\"2\" failures=\"1\"",
        "name=\"Two logins &lt;a minute&gt;\" file=\"FOLDER/a.test.yaml\" line=\"3\"/>",
        "<failure message=\"expected allowed, got refused (refused by login,",
    ] {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
    }
    assert_eq!(ran.stdout.matches("<failure ").count(), 3);
    assert_eq!(ran.stdout.matches("</failure>").count(), 3);
}

#[test]
fn a_file_that_cannot_be_used_is_reported_with_place_and_advice() {
    let check = |scenarios: &str, said: &[&str]| {
        let ran = run(scenarios, &[]);
        assert_eq!(ran.code, 2, "{scenarios}\n{}", ran.stdout);
        assert!(ran.stdout.is_empty(), "{}", ran.stdout);
        for part in said {
            assert!(ran.stderr.contains(part), "{scenarios}\n{part}:\n{}", ran.stderr);
        }
    };
    let step = |step: &str| {
        format!("policy: policy.yaml\nscenarios:\n  - name: a\n    steps:\n      - {step}\n")
    };
    check("scenarios: [", &["a.test.yaml:"]);
    check("policy: policy.yaml\n", &["scenarios: this required field is missing"]);
    check("policy: policy.yaml\nscenarios: [{name: a, steps: []}]\n", &["there are no steps"]);
    check("scenarios: []\n", &["the file names no policy", "use --rules FILE"]);
    check("policy: no.yaml\nscenarios: []\n", &["cannot read FOLDER/no.yaml"]);
    check(&step("{expct: allowed}"), &["a.test.yaml:5:10", "did you mean expect?"]);
    check(&step("{expect: allow}"), &["expected one of allowed, throttled, refused"]);
    check(&step("{expect: {rule: logn}}"), &["a.test.yaml:5:25", "did you mean login?"]);
    check(&step("{expect: {outcome: allowed, refused: 1}}"), &["outcome is given too"]);
    check(&step("{at: 1s, after: 1s}"), &["at is given too"]);
    check(&step("{every: 5}"), &["expected a time with its unit", "500ms"]);
    check(&step("{times: 0}"), &["0 is out of range"]);
    check(&step("{request: {user_id: 7}}"), &["put it in quotes"]);
    check(&step("{request: {usr: a}}"), &["there is no such field"]);
    check(&(step("{at: 5s}") + "      - {at: 4s}\n"), &["before the last request"]);
    let late = step("{}").replace("name: a", "name: a\n    start: yesterday");
    check(&late, &["expected an RFC 3339 time"]);
    let ran = run(&step("{}"), &["--rules", "no-such.yaml"]);
    assert_eq!(ran.code, 2, "{}", ran.stdout);
}

#[test]
fn rules_can_be_chosen_by_an_option() {
    let folder = tempfile::tempdir().expect("a folder");
    let policy = folder.path().join("strict.yaml");
    fs::write(&policy, POLICY.replace("limit: 2", "limit: 1")).expect("written");
    let ran = run(MIXED, &["--rules", policy.to_str().expect("a path")]);
    assert_eq!(ran.code, 1);
    assert!(ran.stdout.contains("0 passed, 2 failed"), "{}", ran.stdout);
}

/// An empty suite passed: in a pipeline that is a mistake nothing reports.
#[test]
fn a_file_without_scenarios_is_a_mistake() {
    for text in ["policy: policy.yaml\nscenarios: []\n", "policy: policy.yaml\n"] {
        let ran = run(text, &[]);
        assert_eq!(ran.code, 2, "{text}: {}{}", ran.stdout, ran.stderr);
        assert!(ran.stderr.contains("scenarios"), "{text}: {}", ran.stderr);
        assert_eq!(ran.stdout, "", "{text}");
    }
}
