//! Refusals with a status and body of the service.

use http::StatusCode;
use tollgate::http::{RefusalFormat, RefusalTemplate};

use crate::http::{after, decide};

const POLICY: &str = "
blacklist: [{identifier_type: user_id, identifier: eve}]
rules: [{rule_id: per_user, limit: 2, window: 1m, identifier_type: user_id, algorithm: fixed_window}]
";

/// Status, content type and body of a refusal.
fn refusal(format: &RefusalFormat, asked: &str) -> (u16, String, String) {
    let decision = decide(&after(POLICY, &["0 check user_id=u cost=2"]), asked);
    let mut body = Vec::new();
    let (status, content_type) = format.write(&decision, "d1-r0", &mut body);
    let content_type = content_type.to_str().expect("a text").to_owned();
    (status.as_u16(), content_type, String::from_utf8(body).expect("a text"))
}

fn check(template: &str, content_type: &str, asked: &str, expected: &str) {
    let template = RefusalTemplate::parse(template, content_type)
        .unwrap_or_else(|error| panic!("{template}: {error}"));
    let format = RefusalFormat::default().status(StatusCode::SERVICE_UNAVAILABLE).body(template);
    let expected = (503, content_type.to_owned(), expected.to_owned());
    assert_eq!(refusal(&format, asked), expected);
}

#[test]
fn figures_are_filled_in_and_escaped_for_the_content_type() {
    let json = "application/json";
    check(
        r#"{"rule":"{rule_id}","id":{decision_id},"of":[{limit},{remaining}],"at":{reset_at},"s":{status}}"#,
        json,
        "user_id=u",
        r#"{"rule":"per_user","id":"d1-r0","of":[2,0],"at":1700006460,"s":503}"#,
    );
    // It can never pass: there is no time to wait.
    let never = r#"{"wait":{retry_after},"text":"in {retry_after} s: \"{code}\""}"#;
    let expected = r#"{"wait":null,"text":"in  s: \"RATE_LIMIT_EXCEEDED\""}"#;
    check(never, "application/vnd.api+json", "user_id=u cost=3", expected);
    check("{} {a b} {retry_after} s", "text/plain", "user_id=u", "{} {a b} 60 s");
    check(
        "<p title=\"{rule_id}\">{message}</p>",
        "text/html; charset=utf-8",
        "user_id=u",
        "<p title=\"per_user\">Rule per_user has 0 of 2 left, and this request costs 1. Try again in 60 s.</p>",
    );
}

#[test]
fn the_flat_body_is_ready_made() {
    let flat = RefusalFormat::default().body(RefusalTemplate::flat());
    let body = r#"{"error":"Rate limit exceeded","retry_after":60}"#.to_owned();
    let expected = (429, "application/json".to_owned(), body);
    assert_eq!(refusal(&flat, "user_id=u"), expected);
}

#[test]
fn a_problem_document_has_the_status_that_is_sent() {
    let teapot = RefusalFormat::default().status(StatusCode::IM_A_TEAPOT);
    let (status, content_type, body) = refusal(&teapot, "user_id=u");
    assert_eq!((status, &*content_type), (418, "application/problem+json"));
    assert!(body.contains(r#""status":418"#), "{body}");
}

/// Of two rules that refuse, the one that binds speaks: its status and body, and what it leaves out is as in general.
#[test]
fn a_rule_has_its_own_refusal() {
    let general = RefusalFormat::default()
        .status(StatusCode::SERVICE_UNAVAILABLE)
        .body(RefusalTemplate::parse("general", "text/plain").expect("a template"));
    for (by_rule, expected) in [
        ("status: 402", (402, "text/plain", "general")),
        ("body: '{\"by\":{rule_id}}'", (503, "application/json", r#"{"by":"minute"}"#)),
        (
            "status: 418, body: '{status} {limit}', content_type: text/css",
            (418, "text/css", "418 1"),
        ),
    ] {
        let policy = format!(
            "rules:
             - {{rule_id: minute, limit: 1, window: 1m, identifier_type: user_id, refusal: {{{by_rule}}}}}
             - {{rule_id: second, limit: 1, window: 1s, identifier_type: user_id, refusal: {{status: 400}}}}"
        );
        let decision = decide(&after(&policy, &["0 check user_id=u"]), "user_id=u");
        let mut body = Vec::new();
        let (status, content_type) = general.write(&decision, "d1-r0", &mut body);
        let content_type = content_type.to_str().expect("a text");
        let body = String::from_utf8(body).expect("a text");
        assert_eq!((status.as_u16(), content_type, &*body), expected, "{by_rule}");
    }
    let policy = "rules: [{rule_id: r, limit: 0, window: 1m, identifier_type: global, refusal: {body: problem}}]";
    let mut body = Vec::new();
    let (status, content_type) =
        general.write(&decide(&after(policy, &[]), ""), "d1-r0", &mut body);
    assert_eq!((status.as_u16(), content_type.as_bytes()), (503, &b"application/problem+json"[..]));
}

/// A text about limits would be wrong for a client that is on a list.
#[test]
fn only_limits_and_bans_use_the_format() {
    let flat = RefusalFormat::default()
        .status(StatusCode::SERVICE_UNAVAILABLE)
        .body(RefusalTemplate::flat());
    let (status, content_type, body) = refusal(&flat, "user_id=eve");
    assert_eq!((status, &*content_type), (403, "application/problem+json"));
    assert!(body.contains("ACCESS_DENIED"), "{body}");
}

#[test]
fn a_template_that_would_fail_is_refused() {
    let check = |template: &str, content_type: &str, expected: &str| {
        let error = RefusalTemplate::parse(template, content_type).expect_err(template);
        assert!(error.to_string().contains(expected), "{template}: {error}");
    };
    check("{seconds}", "text/plain", "there is no {seconds}; there are {rule_id}, {limit}");
    check("wait", "application/json", "no JSON: expected value at line 1 column 1");
    check(r#"{"a":{message}"#, "application/json", "no JSON: EOF");
    check("wait", "plain", "`plain` is not a content type");
    check("wait", "text/plain\n", "is not a content type");
    check(&"a".repeat(16_385), "text/plain", "it has 16385 bytes; 16384 are allowed");
}
