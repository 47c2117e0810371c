//! The bodies of refusals, byte by byte.

use crate::http::{after, decide};
use tollgate::http::refusal_body;

fn check(policy: &str, steps: &[&str], asked: &str, status: u16, expected: &str) {
    let scene = after(policy, steps);
    let mut body = Vec::new();
    let answered = refusal_body(&decide(&scene, asked), "d-1", &mut body);
    assert_eq!(String::from_utf8_lossy(&body), expected, "{asked} after {steps:?} under {policy}");
    assert_eq!(answered, status, "{asked} after {steps:?} under {policy}");
}

const TWO: &str = "
rules:
  - {rule_id: user, limit: 2, window: 1m, identifier_type: user_id, algorithm: fixed_window}
  - {rule_id: tenant, limit: 3, window: 1h, identifier_type: tenant, algorithm: fixed_window}
  - {rule_id: watch, limit: 1, window: 1d, identifier_type: user_id, algorithm: fixed_window, action: log_only}
";

#[test]
fn a_limit_responds_429() {
    check(TWO, &[], "user_id=u tenant=t", 200, "");
    check(
        TWO,
        &["59500 check user_id=u cost=2"],
        "user_id=u tenant=t",
        429,
        r#"{"error":{"code":"RATE_LIMIT_EXCEEDED","message":"Rule user has 0 of 2 left, and this request costs 1. Try again in 1 s.","retry_after":1,"rule_id":"user","decision_id":"d-1"},"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,"violated-policies":["user"]}"#,
    );
    // Every rule that refuses is named; the one with the longest wait speaks.
    check(
        TWO,
        &["0 check user_id=u tenant=t cost=2"],
        "user_id=u tenant=t cost=2",
        429,
        r#"{"error":{"code":"RATE_LIMIT_EXCEEDED","message":"Rule tenant has 1 of 3 left, and this request costs 2. Try again in 3600 s.","retry_after":3600,"rule_id":"tenant","decision_id":"d-1"},"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,"violated-policies":["user","tenant"]}"#,
    );
}

#[test]
fn a_request_that_never_passes_says_so() {
    check(
        TWO,
        &[],
        "user_id=u cost=9",
        429,
        r#"{"error":{"code":"RATE_LIMIT_EXCEEDED","message":"Rule user has 2 of 2 left, and this request costs 9: it can never pass.","retry_after":null,"rule_id":"user","decision_id":"d-1"},"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,"violated-policies":["user"]}"#,
    );
}

#[test]
fn a_client_that_is_not_welcome_gets_403() {
    let policy = "
rules: [{rule_id: keyed, limit: 9, window: 1m, identifier_type: [tenant, api_key], on_missing: deny}]
blacklist: [{identifier_type: ip, identifier: 10.6.6.0/24, reason: owes us money}]
";
    check(
        policy,
        &[],
        "ip=10.6.6.6 tenant=t api_key=k",
        403,
        r#"{"error":{"code":"ACCESS_DENIED","message":"This client is not allowed here.","decision_id":"d-1"},"type":"about:blank","title":"Forbidden","status":403}"#,
    );
    check(
        policy,
        &[],
        "tenant=t",
        403,
        r#"{"error":{"code":"ACCESS_DENIED","message":"Rule keyed needs to know who is asking: tenant, api_key.","rule_id":"keyed","decision_id":"d-1"},"type":"about:blank","title":"Forbidden","status":403}"#,
    );
}

#[test]
fn an_unavailable_store_responds_503() {
    check(
        "rules: [{rule_id: strict, limit: 9, window: 1m, identifier_type: user_id, on_store_failure: closed}]",
        &["down"],
        "user_id=u",
        503,
        r#"{"error":{"code":"STORE_UNAVAILABLE","message":"The limit cannot be checked at the moment.","retry_after":5,"rule_id":"strict","decision_id":"d-1"},"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"Request cannot be satisfied due to temporary server capacity constraints","status":503}"#,
    );
}

#[test]
fn a_body_is_appended_and_its_texts_are_escaped() {
    let scene = after(TWO, &["0 check user_id=u cost=2"]);
    let mut body = b"before ".to_vec();
    refusal_body(&decide(&scene, "user_id=u"), "a\"b\n", &mut body);
    let text = String::from_utf8(body).expect("a text");
    let body = text.strip_prefix("before ").expect("what was there");
    let body: serde_json::Value = serde_json::from_str(body).expect("JSON");
    assert_eq!(body["error"]["decision_id"], "a\"b\n");
}
