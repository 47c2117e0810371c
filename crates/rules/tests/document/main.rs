//! Every mistake in a document is reported: in which rule, in which field, where, and what is right.

use tollgate_rules::document::{Action, OnMissing};
use tollgate_rules::{Format, OneOrMany, Position, Problem, Severity, Source};

/// One rule with everything it must have, to which a case adds or from which it takes.
const RULE: &str = "rules:
- rule_id: r
  limit: 5
  window: 1m
  identifier_type: ip
";

/// Checks that `text` has just one problem, described as `path @ line:column message; advice`.
#[track_caller]
fn check(text: &str, expected: &str) {
    let source = Source::parse(text);
    let told = source.problems.iter().map(describe).collect::<Vec<_>>();
    let [problem] = told.as_slice() else { panic!("{text}\nexpected {expected}\ntold {told:#?}") };
    assert!(problem.contains(expected), "{text}\nexpected {expected}\ntold     {problem}");
}

fn describe(problem: &Problem) -> String {
    let Problem { path, message, advice, .. } = problem;
    let place = problem.position.map(|place| format!("{}:{}", place.line, place.column));
    let (place, advice) = (place.unwrap_or_default(), advice.as_deref().unwrap_or_default());
    format!("{path} @ {place} {message}; {advice}")
}

/// Checks one line added to the rule.
#[track_caller]
fn check_field(line: &str, expected: &str) {
    check(&format!("{RULE}  {line}\n"), expected);
}

#[test]
fn a_field_has_the_wrong_type() {
    for (line, expected) in [
        ("name: 5", "rules[0].name @ 6:9 expected text, found 5; put it in quotes: \"5\""),
        ("name: true", "found true; put it in quotes"),
        ("name: [a]", "rules[0].name @ 6:9 expected text, found a list"),
        ("burst: lots", "rules[0].burst @ 6:10 expected a whole number, found \"lots\"; write a"),
        ("burst: '5'", "rules[0].burst @ 6:10 expected a whole number, found \"5\""),
        ("cost: 1.5", "rules[0].cost @ 6:9 expected a whole number, found 1.5; write a number"),
        ("cost: -1", "rules[0].cost @ 6:9 -1 is out of range; write a number from 0 to 922"),
        ("cost: 9223372036854775808", "9223372036854775808 is out of range"),
        ("cost: 1e400", "rules[0].cost @ 6:9 1e400 is out of range"),
        ("cost: .inf", "expected a whole number, found .inf"),
        ("priority: 9223372036854775808", "out of range; write a number from -9223372036854775"),
        ("burst: 0", "rules[0].burst @ 6:10 0 is out of range; write a number from 1 to"),
        ("fallback_factor: 0", "0 is out of range; write a number from 1 to 4294967295"),
        ("enabled: yes", "rules[0].enabled @ 6:12 expected true or false, found \"yes\""),
        ("replaces: other", "rules[0].replaces @ 6:13 expected a list, found \"other\""),
        ("applies_to: []", "rules[0].applies_to @ 6:15 expected a map, found a list; the fields"),
        ("applies_to: {methods: [GET, 5]}", "rules[0].applies_to.methods[1] @ 6:31 expected text"),
        (
            "applies_to: {attributes: {plan: gold}}",
            "rules[0].applies_to.attributes[\"plan\"] @ 6:35 expected a list, found \"gold\"",
        ),
        ("costs: {'POST /a': x}", "rules[0].costs[\"POST /a\"] @ 6:22 expected a whole number"),
        ("costs: [1]", "rules[0].costs @ 6:10 expected a map, found a list"),
        ("soft: {warn_at: 1.5}", "rules[0].soft.warn_at @ 6:19 1.5 is out of range; write a"),
        ("soft: {warn_at: 0.0000001}", "0.0000001 has too many fraction digits; write at most 6"),
        ("soft: {warn_at: high}", "expected a number, found \"high\""),
        ("throttle: {max_delay_ms: -5}", "rules[0].throttle.max_delay_ms @ 6:28 -5 is out of"),
        ("penalty: {after: 5, within_seconds: 0, ban_seconds: 1}", "@ 6:39 0 is out of range"),
        ("refund_on: [700]", "rules[0].refund_on[0] @ 6:15 expected a status, found 700; write"),
        ("refusal: {status: 200}", "rules[0].refusal.status @ 6:21 200 is out of range; write a"),
        ("refund_on: [5XX]", "expected a status, found \"5XX\""),
    ] {
        check_field(line, expected);
    }
}

#[test]
fn a_name_is_not_known() {
    for (line, expected) in [
        ("burts: 5", "rules[0].burts @ 6:3 there is no such field; did you mean burst?"),
        ("mode: x", "rules[0].mode @ 6:3 there is no such field; the fields are rule_id, name,"),
        (
            "applies_to: {method: []}",
            "rules[0].applies_to.method @ 6:16 there is no such field; did",
        ),
        ("'a b': x", "rules[0][\"a b\"] @ 6:3 there is no such field"),
        (
            "algorithm: tokenbucket",
            "rules[0].algorithm @ 6:14 expected one of fixed_window, sliding_window_log, \
             sliding_window_counter, token_bucket, leaky_bucket, gcra, found \"tokenbucket\"; \
             did you mean token_bucket?",
        ),
        ("action: drop", "expected one of reject, throttle, log_only, found \"drop\"; write one"),
        ("action: 5", "expected one of reject, throttle, log_only, found 5"),
        ("action: queue", "queue is not supported yet; write one of reject, throttle, log_only"),
        ("consistency: leased", "leased is not supported yet; write one of strict, local"),
        ("on_missing: allow", "expected one of skip, deny, found \"allow\""),
        ("on_store_failure: close", "found \"close\"; did you mean closed?"),
    ] {
        check_field(line, expected);
    }
}

#[test]
fn fields_contradict_each_other() {
    check_field("limit: 6", "rules[0].limit @ 6:3 given twice, first at line 3, column 3; remove");
    check_field("costs: {a: 1, a: 2}", "rules[0].costs[\"a\"] @ 6:17 given twice, first at line 6");
    check_field("window_seconds: 60", "rules[0].window @ 4:11 window_seconds is given too; give");
}

#[test]
fn a_window_must_be_exact_and_bounded() {
    for (window, expected) in [
        ("window_seconds: 0.0005", "rules[0].window_seconds @ 3:19 0.0005 has too many fraction"),
        ("window_seconds: 0", "0 is out of range; write a number from 0.001 to 31622400"),
        ("window_seconds: 31622400.001", "31622400.001 is out of range; write a number from 0.001"),
        ("window_seconds: -1", "-1 is out of range; write a number from 0.001 to 31622400"),
        ("window_seconds: 1m", "expected a number, found \"1m\""),
        (
            "window: 60",
            "rules[0].window @ 3:11 expected a window with its unit, found 60; did you mean 60s?",
        ),
        ("window: ''", "\"\" is not a window with its unit"),
        ("window: 1.5h", "\"1.5h\" is not a window with its unit; write a whole number and a unit"),
        ("window: 5 m", "\"5 m\" is not a window with its unit; did you mean 5m? write a"),
        ("window: 1M", "\"1M\" is not a window with its unit; write a whole number"),
        ("window: 3 months", "\"3 months\" is not a window with its unit; write a whole number"),
        ("window: 1 months", "\"1 months\" is not a window with its unit; did you mean 1 month?"),
        ("window: 1min", "\"1min\" is not a window with its unit; did you mean 1m? write a"),
        ("window: 2 Weeks", "did you mean 14d? write a"),
        ("window: '60'", "did you mean 60s? write a"),
        (
            "window: 1month",
            "\"1month\" is not a window with its unit; did you mean 1 month? write a",
        ),
        ("window: 3 Fortnights", "\"3 Fortnights\" is not a window with its unit; write a"),
        ("window: m", "\"m\" is not a window"),
        ("window: 30m1h", "\"30m1h\" is not a window"),
        ("window: 1h1h", "\"1h1h\" is not a window"),
        ("window: 0s", "the window \"0s\" must be between 1ms and 366d"),
        ("window: 367d", "the window \"367d\" must be between 1ms and 366d"),
        ("window: 99999999999999999999d", "must be between 1ms and 366d"),
        (
            "window_seconds: null",
            "rules[0].window_seconds @ 2:3 window_seconds or window is missing",
        ),
    ] {
        let rule = "- rule_id: r\n  WINDOW\n  limit: 5\n  identifier_type: ip\n";
        check(&format!("rules:\n{}", rule.replace("WINDOW", window)), expected);
    }
}

#[test]
fn a_required_field_is_missing() {
    for (field, expected) in [
        ("rule_id: r", "rules[0].rule_id @ 2:3 this required field is missing; add rule_id: Names"),
        ("limit: 5", "rules[0].limit @ 2:3 this required field is missing; add limit: Units per"),
        ("window: 1m", "rules[0].window_seconds @ 2:3 window_seconds or window is missing; give"),
        ("identifier_type: ip", "NAME` or `attribute:NAME`; a list makes a composite key"),
    ] {
        check(&RULE.replace(field, "enabled: true"), expected);
    }
    check(
        &RULE.replace("limit: 5", "limit:"),
        "rules[0].limit @ 3:8 expected a whole number, found",
    );
    check("tiers: [{default: true}]", "tiers[0].tier @ 1:9 this required field is missing");
    check(
        "clients: [{identifier_type: ip, tier: a}]",
        "clients[0].identifier @ 1:11 this required",
    );
    check(
        "overrides: [{identifier_type: ip, identifier: a, limit: 5}]",
        "overrides[0].rule_id @ 1:13 this required field is missing",
    );
    check("whitelist: [{identifier: a}]", "whitelist[0].identifier_type @ 1:13 this required");
    check("blacklist: [{identifier_type: ip}]", "blacklist[0].identifier @ 1:13 this required");
}

#[test]
fn an_identifier_is_not_well_formed() {
    let advice = "there is no type composite; list its parts, as in [user_id, endpoint]";
    check(
        &RULE.replace(": ip", ": composite"),
        &format!("rules[0].identifier_type @ 5:20 {advice}"),
    );
    for list in ["whitelist", "blacklist"] {
        let text = format!("{list}: [{{identifier_type: composite, identifier: a}}]");
        check(&text, &format!("{list}[0].identifier_type @ 1:31 {advice}"));
    }
    check(&RULE.replace(": ip", ": []"), "rules[0].identifier_type @ 5:20 the list is empty");
    check(&RULE.replace(": ip", ": [ip, {}]"), "rules[0].identifier_type[1] @ 5:25 expected text");
    check(
        "whitelist: [{identifier_type: user_id, identifier: 0815}]",
        "whitelist[0].identifier @ 1:52 expected text, found 0815; put it in quotes: \"0815\"",
    );
}

#[test]
fn the_text_is_no_document() {
    for (text, expected) in [
        ("", " @ 1:1 the document is empty; for a policy without rules, write rules: []"),
        ("# nothing\n", "the document is empty"),
        ("null", " @ 1:1 the document is empty"),
        ("- a\n", " @ 1:1 expected a map, found a list; the fields are rules, tiers, clients"),
        ("rules: []\nrule: []\n", "rule @ 2:1 there is no such field; did you mean rules?"),
        ("rules: {}\n", "rules @ 1:8 expected a list, found a map"),
        ("rules: [5]\n", "rules[0] @ 1:9 expected a map, found 5"),
        ("rules: []\n---\nrules: []\n", " @ 2:1 there is more than one document"),
        ("rules: []\nrules: []\n", "rules @ 2:1 given twice, first at line 1, column 1"),
        ("a: &a {b: 1}\nrules: [{<<: *a}]\n", " @ 2:10 merge keys are not supported; write"),
        ("rules: !!seq []\n", " @ 1:8 tags are not supported"),
        ("rules: *a\n", "this is not YAML"),
        ("rules: &a [*a]\n", " @ 1:12 the alias refers to nothing before it"),
        ("{[a]: b}", "a key must be a text"),
        ("rules:\n\t- a\n", " @ 2:2 this is not YAML"),
        ("rules: [", "this is not YAML"),
        (
            "rules: [{applies_to: {endpoints: [/a, /users/{id}]}}]\n",
            "; put a text with braces in quotes: \"/users/{id}\"",
        ),
        ("rules: 'a", "this is not YAML"),
    ] {
        check(text, expected);
    }
}

#[test]
fn advice_on_braces_sends_no_control_characters() {
    let source = Source::parse("rules: [/a{\u{1b}}]\n");
    let shown = source.problems.iter().map(ToString::to_string).collect::<String>();
    assert!(shown.contains("braces") && !shown.contains('\u{1b}'), "{shown:?}");
}

#[test]
fn json_is_read_strictly_on_request() {
    for (text, expected) in [
        ("", "1:1 this is not JSON: expected a value, found the end of the text"),
        ("{\"rules\": [],}", "1:14 this is not JSON: expected a key in double quotes, found '}'"),
        ("{\"rules\" []}", "1:10 this is not JSON: expected a colon, found '['"),
        ("{\"rules\": [1 2]}", "1:14 this is not JSON: expected a comma or a closing bracket"),
        ("{\"rules\": []\n \"a\": 1}", "2:2 this is not JSON: expected a comma or a closing brace"),
        ("{\"rules\": []} x", "1:15 this is not JSON: expected the end of the document, found 'x'"),
        ("{\"rules\": \"a", "1:11 this is not JSON: the text has no closing quote"),
        ("{\"rules\": \"\\q\"}", "1:11 this is not JSON: \"\\\"\\\\q\\\"\" is no JSON text"),
        ("{\"rules\": \"\\ud800\"}", "1:11 this is not JSON"),
        ("{\"rules\": 01}", "1:11 this is not JSON: \"01\" is no JSON number"),
        ("{\"rules\": 1.}", "\"1.\" is no JSON number"),
        ("{\"rules\": 1e}", "\"1e\" is no JSON number"),
        ("{\"rules\": -}", "\"-\" is no JSON number"),
        ("{\"rules\": nul}", "1:11 this is not JSON: expected a value, found 'n'"),
        ("{\"é\": 1}\r\n,", "2:1 this is not JSON: expected the end of the document, found ','"),
        ("{\"rules\":\r[1]}", "rules[0] @ 2:2 expected a map, found 1"),
        ("{\"rules\": [], \"rules\": []}", "rules @ 1:15 given twice, first at line 1, column 2"),
        ("null", "1:1 the document is empty"),
    ] {
        let source = Source::parse_as(text, Format::Json);
        let told = source.problems.iter().map(describe).collect::<Vec<_>>();
        assert!(matches!(told.as_slice(), [one] if one.contains(expected)), "{text}\n{told:#?}");
    }
}

#[test]
fn a_text_in_braces_may_be_either_format() {
    let yaml = "{rules: [{rule_id: r, limit: 5, window: 1m, identifier_type: ip}]}";
    let json = r#"{"rules": [{"rule_id":"r","limit":5,"window":"1m","identifier_type":"ip"}]}"#;
    let block = Source::parse(RULE);
    assert_eq!(block.problems, []);
    for text in [yaml, json, &format!("\u{feff}  {json}"), &format!("\u{feff}{RULE}")] {
        let source = Source::parse(text);
        assert_eq!(source.problems, [], "{text}");
        assert_eq!(source.document, block.document, "{text}");
    }
    // If it is neither, how it starts tells what its author meant.
    check("{rules: [{rule_id: r, limit: }", "this is not YAML");
    check("{\"rules\": [\"a\": }", "this is not JSON");
}

#[test]
fn all_problems_are_reported_at_once() {
    let text = "rules:
- rule_id: first
  limit: five
  window: 1m
  identifier_type: composite
  burts: 5
- rule_id: second
  limit: 5
  window: 1m
  identifier_type: ip
- limit: 6
  window_seconds: 0.0001
  identifier_type: ip
  action: queue
tiers: {}
clients: [{identifier_type: ip, identifier: a, tier: 5}]
";
    let source = Source::parse(text);
    let told =
        source.problems.iter().map(|problem| (problem.rule.as_deref(), problem.path.as_str()));
    let expected = [
        (Some("first"), "rules[0].limit"),
        (Some("first"), "rules[0].identifier_type"),
        (Some("first"), "rules[0].burts"),
        (None, "rules[2].rule_id"),
        (None, "rules[2].window_seconds"),
        (None, "rules[2].action"),
        (None, "tiers"),
        (None, "clients[0].tier"),
    ];
    assert_eq!(told.collect::<Vec<_>>(), expected);
    assert!(source.problems.iter().all(|problem| problem.severity == Severity::Error));
    assert_eq!(source.unread_rules().collect::<Vec<_>>(), ["first"]);

    // The good rule is read, and problems found in it later are placed where it stands in the text.
    let [rule] = source.document.rules.as_slice() else { panic!("only one rule is readable") };
    assert_eq!(rule.rule_id, "second");
    let problem = source.problem("rules[0].limit", "too small").with_advice("be generous");
    assert_eq!(problem.path, "rules[1].limit");
    assert_eq!(problem.position, Some(Position { line: 8, column: 10 }));
    let expected = "line 8, column 10: rule second, limit: too small; be generous";
    assert_eq!(problem.to_string(), expected);
}

#[test]
fn a_later_problem_is_placed_at_the_nearest_thing_written() {
    let text = format!("{RULE}  costs: {{'POST /a': 5, \"b\\\"[c].d\": 6}}\n");
    let source = Source::parse(&text);
    for (path, line, column) in [
        ("", 1, 1),
        ("rules", 2, 3),
        ("rules[0]", 2, 3),
        ("rules[0].limit", 3, 10),
        ("rules[0].burst", 2, 3),
        ("rules[0].costs[\"POST /a\"]", 6, 22),
        ("rules[0].costs[\"b\\\"[c].d\"]", 6, 37),
        ("rules[0].costs[\"none\"]", 6, 10),
        ("rules[7].limit", 2, 3),
        ("rules[x].limit", 2, 3),
        ("rules[0", 2, 3),
        ("clients[0].tier", 1, 1),
    ] {
        let problem = source.problem(path, "wrong");
        assert_eq!(problem.position, Some(Position { line, column }), "{path}");
    }
    let without_text = Source::from_document(source.document);
    let problem = without_text.problem("rules[0].limit", "wrong").into_warning();
    assert_eq!(problem.position, None);
    assert_eq!(problem.to_string(), "rule r, limit: wrong");
    assert_eq!(problem.render("db", ""), "warning: rule r, limit: wrong\n --> db\n");
}

#[test]
fn a_problem_is_shown_with_its_line() {
    let text =
        "rules:\n- rule_id: r\n  limit: 5\r\n  window: 1m\n  identifier_type:\tfive\n  x: 1\n";
    let source = Source::parse(&text.replace("five", "[]"));
    let rendered = source.problems.iter().map(|problem| problem.render("a.yaml", text));
    let expected = "error: rule r, identifier_type: the list is empty
 --> a.yaml:5:20
  |
5 |   identifier_type: five
  |                    ^
  = help: write a text, or a list of at least one
error: rule r, x: there is no such field
 --> a.yaml:6:3
  |
6 |   x: 1
  |   ^
  = help: the fields are ";
    let rendered = rendered.collect::<String>();
    assert!(rendered.starts_with(expected), "{rendered}");
    let expected = "error: rule r, identifier_type: the list is empty
 --> a.yaml:5:20
  = help: write a text, or a list of at least one
";
    assert_eq!(source.problems[0].render_without_line("a.yaml"), expected);
}

#[test]
fn what_is_shown_of_a_long_or_hostile_line_is_short_and_printable() {
    let text = format!("rules: [{}{{\"\\e[31m\": 5, rule_id: \"\\e\"}}]", " ".repeat(10_000));
    for problem in Source::parse(&text).problems {
        let shown = problem.to_string() + &problem.render("a.yaml", &text);
        assert!(shown.chars().all(|c| c == '\n' || !c.is_control()), "{shown:?}");
        assert!(shown.len() < 3_000, "{shown}");
        assert!(shown.contains("{\"\\e[31m\": 5"), "the place is in view: {shown}");
    }
}

#[test]
fn one_rule_can_stand_alone() {
    let text = r#"{"algorithm":"gcra","limit":5,"window_seconds":1}"#;
    let source = Source::parse_rule(text, "inline", "global");
    assert_eq!(source.problems, []);
    let [rule] = source.document.rules.as_slice() else { panic!("there is one rule") };
    assert_eq!((rule.rule_id.as_str(), rule.limit), ("inline", 5));
    assert_eq!(rule.identifier_type, OneOrMany::one("global"));

    let source = Source::parse_rule("rule_id: a\nlimt: 5\nwindow: 1s", "inline", "global");
    let told = source.problems.iter().map(ToString::to_string).collect::<Vec<_>>();
    let expected = [
        "line 1, column 1: rule a, limit: this required field is missing; \
         add limit: Units per window; 0 blocks",
        "line 2, column 1: rule a, limt: there is no such field; did you mean limit?",
    ];
    assert_eq!(told, expected);
    assert_eq!(Source::parse_rule("[]", "a", "b").problems.len(), 1);
    assert_eq!(Source::parse_rule("", "a", "b").problems.len(), 1);
}

#[test]
fn what_is_left_out_has_its_default() {
    let source = Source::parse(&format!("{RULE}  soft: {{}}\n  burst: null\n  cost: ~\n"));
    assert_eq!(source.problems, []);
    let [rule] = source.document.rules.as_slice() else { panic!("there is one rule") };
    assert_eq!(rule.algorithm.0.name(), "sliding_window_counter");
    assert_eq!((rule.cost, rule.fallback_factor, rule.priority), (1, 2, 0));
    assert_eq!((rule.key_pattern.as_str(), rule.enabled), ("*", true));
    assert_eq!((rule.action, rule.on_missing), (Action::Reject, OnMissing::Skip));
    let soft = rule.soft.as_ref().expect("soft is given");
    assert_eq!((soft.warn_at.millionths(), soft.clear_at.millionths()), (800_000, 700_000));
}

#[test]
fn yaml_is_read_by_the_core_schema() {
    let text = "tiers:
- {tier: 'null', default: True}
- {tier: no, default: FALSE}
- {tier: 1.2.3, default: ~}
- tier: |
    block
";
    let source = Source::parse(text);
    assert_eq!(source.problems, []);
    let tiers = source.document.tiers.iter().map(|tier| (tier.tier.as_str(), tier.default));
    let expected = [("null", true), ("no", false), ("1.2.3", false), ("block\n", false)];
    assert_eq!(tiers.collect::<Vec<_>>(), expected);

    for (written, expected) in
        [("0x1F", 31), ("0o17", 15), ("+5", 5), ("010", 10), ("1e3", 1000), ("5.0", 5), ("5.", 5)]
    {
        let source = Source::parse(&RULE.replace("limit: 5", &format!("limit: {written}")));
        assert_eq!(source.problems, [], "{written}");
        assert_eq!(source.document.rules[0].limit, expected, "{written}");
    }
}

#[test]
fn anchors_repeat_values() {
    let text = "rules:
- {rule_id: a, limit: 5, window: 1m, identifier_type: ip, applies_to: &to {methods: [GET]}}
- {rule_id: b, limit: 5, window: 1m, identifier_type: ip, applies_to: *to}
";
    let source = Source::parse(text);
    assert_eq!(source.problems, []);
    assert_eq!(source.document.rules[1].applies_to.methods, ["GET"]);
}
