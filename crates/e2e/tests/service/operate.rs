//! Calls of operators: peek, refund, reset, explain.

use serde_json::json;

use tollgate_e2e::server::{CHECK, PEEK, Server};

const REFUND: &str = "/api/v1/rate-limit/refund";
const RESET: &str = "/api/v1/rate-limit/reset";

const RULES: &str = "
rules:
  - {rule_id: per_user, limit: 5, window: 300d, identifier_type: user_id}
  - {rule_id: per_tenant, limit: 100, window: 300d, identifier_type: tenant, algorithm: gcra}
";
const ALICE: &str = r#"{"identifiers":{"user_id":"alice","tenant":"acme"}}"#;

/// What Alice has left of her own limit.
fn remaining(server: &Server) -> u64 {
    let answer = server.post(PEEK, r#"{"identifiers":{"user_id":"alice"}}"#);
    assert_eq!(answer.json()["allowed"], true, "a peek is always allowed: {answer:?}");
    answer.json()["remaining"].as_u64().expect("a number")
}

#[test]
fn a_decision_is_refunded_once() {
    let server = Server::with_rules(RULES);
    let decision = server.check(ALICE)["decision_id"].clone();
    server.check(ALICE);
    assert_eq!(remaining(&server), 3);

    let body = json!({ "decision_id": decision }).to_string();
    let refunded = server.post_as_admin(REFUND, &body);
    assert_eq!((refunded.status, &refunded.json()["counters"]), (200, &json!(2)), "{refunded:?}");
    assert_eq!(remaining(&server), 4);
    let again = server.post_as_admin(REFUND, &body);
    assert_eq!((again.status, again.code().as_str()), (409, "already_given_back"));
    assert_eq!(remaining(&server), 4);

    for _ in 0..4 {
        server.check(ALICE);
    }
    let refused = server.check(ALICE);
    assert_eq!(refused["allowed"], false);
    let body = json!({ "decision_id": refused["decision_id"] }).to_string();
    let nothing = server.post_as_admin(REFUND, &body);
    assert_eq!((nothing.status, nothing.code().as_str()), (409, "nothing_charged"));
    for unknown in ["d00000000-a1", "nonsense", ""] {
        let body = json!({ "decision_id": unknown }).to_string();
        let answer = server.post_as_admin(REFUND, &body);
        assert_eq!((answer.status, answer.code().as_str()), (404, "unknown_decision"), "{unknown}");
    }
}

/// Problems named the fields of a check, and an empty body was one.
#[test]
fn a_refund_names_the_fields_that_it_takes() {
    let server = Server::with_rules(RULES);
    for (body, expected) in [
        ("{}", "missing field `decision_id`, or the check"),
        (r#"{"decision":"d00000000-a1"}"#, "`decision_id` alone"),
        (r#"{"decision_id":null}"#, "decision_id: invalid type: null"),
        (
            r#"{"decision_id":"d00000000-a1","reason":"x"}"#,
            "unknown field `reason`, expected `decision_id`",
        ),
        (r#"{"cost":"x"}"#, "`decision_id` alone"),
        ("[]", "invalid type"),
        ("", "the body is empty"),
    ] {
        let answer = server.post_as_admin(REFUND, body);
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (400, "invalid_body"),
            "{body}: {answer:?}"
        );
        assert!(answer.text().contains(expected), "{body}: {answer:?}");
    }
}

/// It was allowed, and nothing was charged.
#[test]
fn a_check_by_rule_without_its_identifier_is_refused() {
    let server = Server::with_rules(RULES);
    for body in [
        r#"{"rule_id":"per_user"}"#,
        r#"{"rule_id":"per_user","identifiers":{"tenant":"acme"}}"#,
        r#"{"rule_id":"per_user","attributes":{"user_id":"alice"}}"#,
    ] {
        let batch = ("/api/v1/rate-limit/check/batch", format!("{{\"checks\":[{body}]}}"));
        let calls = [CHECK, PEEK, RESET, REFUND].map(|path| (path, body.to_owned()));
        for (path, body) in calls.into_iter().chain([batch]) {
            let answer = server.post_as_admin(path, &body);
            let seen = (answer.status, answer.code());
            assert_eq!(seen, (422, "invalid_check".to_owned()), "{path} {body}: {answer:?}");
            assert!(answer.text().contains("counts by user_id"), "{path} {body}: {answer:?}");
        }
    }
}

#[test]
fn a_check_is_refunded_and_reset() {
    let server = Server::with_rules(RULES);
    for _ in 0..3 {
        server.check(ALICE);
    }
    assert_eq!(server.post_as_admin(REFUND, ALICE).json(), json!({"counters": 2}));
    assert_eq!(remaining(&server), 3);
    let by_rule = r#"{"rule_id":"per_user","key_type":"user","key_value":"alice"}"#;
    assert_eq!(server.post_as_admin(RESET, by_rule).json(), json!({"counters": 1}));
    assert_eq!(remaining(&server), 5);
    server.check(ALICE);
    assert_eq!(server.post_as_admin(RESET, ALICE).json(), json!({"counters": 2}));
    assert_eq!(remaining(&server), 5);
    // It used to count all rules that apply.
    assert_eq!(server.post_as_admin(RESET, ALICE).json(), json!({"counters": 0}));
}

#[test]
fn a_decision_is_explained_even_if_it_was_refunded() {
    let server = Server::with_rules(RULES);
    let allowed = server.check(ALICE);
    let refused = server.check(r#"{"identifiers":{"user_id":"alice"},"cost":6}"#);
    let explain = |decision: &serde_json::Value| {
        let id = decision["decision_id"].as_str().expect("an id");
        server.get_as_admin(&format!("/api/v1/decisions/{id}"))
    };
    let explained = explain(&allowed).json();
    assert_eq!(explained["answer"]["allowed"], true);
    assert_eq!(explained["rules"].as_array().map(Vec::len), Some(2));
    assert_eq!(explained["answer"]["remaining"], allowed["remaining"]);
    let explained = explain(&refused).json();
    assert_eq!(explained["answer"]["allowed"], false);
    assert!(explained["because"].as_str().is_some_and(|text| text.contains("per_user")));

    let body = json!({ "decision_id": allowed["decision_id"] }).to_string();
    assert_eq!(server.post_as_admin(REFUND, &body).status, 200);
    // It used to be a 409.
    let refunded = explain(&allowed).json();
    let because = refunded["because"].as_str().expect("a reason");
    assert!(because.ends_with("; it was refunded"), "{refunded}");
    assert_eq!(refunded["answer"]["remaining"], allowed["remaining"]);
}

#[test]
fn a_batch_is_answered_in_order_and_checked_before_anything_is_charged() {
    let server = Server::with_rules(RULES);
    let batch = "/api/v1/rate-limit/check/batch";
    let check = |cost: u32| format!(r#"{{"identifiers":{{"user_id":"alice"}},"cost":{cost}}}"#);
    let post =
        |checks: &[String]| server.post(batch, &format!("{{\"checks\":[{}]}}", checks.join(",")));
    let bad = post(&[check(1), r#"{"rule_id":"nope"}"#.to_owned()]);
    assert_eq!((bad.status, bad.code().as_str()), (404, "unknown_rule"));
    assert!(bad.text().contains("checks[1]"), "{bad:?}");
    assert_eq!(remaining(&server), 5, "nothing was charged");
    let answers = post(&[check(4), check(2), check(1)]).json();
    let allowed: Vec<_> = answers["results"]
        .as_array()
        .expect("results")
        .iter()
        .map(|one| one["allowed"].clone())
        .collect();
    assert_eq!(allowed, [json!(true), json!(false), json!(true)]);
    let many: Vec<_> = (0..1_001).map(|_| check(0)).collect();
    assert_eq!(post(&many).status, 413);
    assert_eq!(post(&many[..1_000]).json()["results"].as_array().map(Vec::len), Some(1_000));
    assert_eq!(post(&[]).status, 422);
    assert_eq!(server.post(CHECK, "{\"checks\":[]}").status, 400);
}
