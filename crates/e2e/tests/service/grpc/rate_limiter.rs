//! `tollgate.v1.RateLimiter`: its calls, and how each of them fails.

use serde_json::{Value, json};

use tollgate_e2e::grpc::{
    CHECK_BATCH, CHECK_RATE_LIMIT, Client, GET_REMAINING_QUOTA, REFUND, RESET_LIMIT,
};
use tollgate_e2e::server::{ADMIN_TOKEN, Server};

const RULES: &str = "
rules:
  - {rule_id: per_user, limit: 5, window: 300d, identifier_type: user_id}
  - {rule_id: per_tenant, limit: 100, window: 300d, identifier_type: tenant, algorithm: gcra}
  - {rule_id: per_plan, limit: 7, window: 300d, identifier_type: 'attribute:plan'}
  - {rule_id: per_endpoint, limit: 9, window: 300d, identifier_type: path, applies_to: {methods: [PUT]}}
  - {rule_id: blocked, limit: 0, window: 1s, identifier_type: api_key}
  - {rule_id: watched, limit: 1, window: 300d, identifier_type: ip, action: log_only}
blacklist: [{identifier_type: user_id, identifier: mallory, reason: abuse}]
";

/// Parts of a response, as one text: whether it passed, what is left, and by which rule.
fn brief(answer: &Value) -> String {
    let allowed = answer["allowed"].as_bool().expect("a verdict");
    let left = answer["remaining"].as_str().unwrap_or("-");
    format!("{allowed} {left} {}", answer["rule_id"].as_str().expect("a rule"))
}

#[test]
fn a_check_is_decided_as_over_http() {
    let server = Server::with_rules(RULES);
    let mut client = Client::of(&server);
    let answer = client.call(CHECK_RATE_LIMIT, &json!({"identifier": "ann", "cost": "2"}));
    assert_eq!(brief(&answer), "true 3 per_user");
    assert_eq!((&answer["current_count"], &answer["limit"]), (&json!("2"), &json!("5")));
    assert_eq!((&answer["state"], &answer["reason"]), (&json!("normal"), &json!("")));
    assert_eq!((&answer["retry_after"], &answer["rules"]), (&Value::Null, &json!([])));
    assert_eq!((&answer["delay_ms"], &answer["degraded"]), (&json!("0"), &json!("")));
    let id = answer["decision_id"].as_str().expect("an id");
    assert_eq!(server.get_as_admin(&format!("/api/v1/decisions/{id}")).status, 200);
    let over_http = server.check(r#"{"identifiers":{"user_id":"ann"}}"#);
    assert_eq!(over_http["remaining"], 2, "both ways lead to one counter");
    assert_eq!(answer["reset_at"].as_str(), Some(over_http["reset_at"].to_string().as_str()));

    let refused = client.call(CHECK_RATE_LIMIT, &json!({"identifier": "ann", "cost": "3"}));
    assert_eq!(brief(&refused), "false 2 per_user");
    assert_eq!(refused["reason"], "rate_limited");
    let wait: Option<u64> = refused["retry_after"].as_str().and_then(|wait| wait.parse().ok());
    assert!(wait.is_some_and(|wait| wait > 0), "{refused}");
    let never = client.call(CHECK_RATE_LIMIT, &json!({"identifier": "ann", "cost": "6"}));
    assert_eq!((brief(&never).as_str(), &never["retry_after"]), ("false 2 per_user", &Value::Null));
}

#[test]
fn a_decision_or_a_check_is_refunded() {
    let server = Server::with_rules(RULES);
    let mut client = Client::of(&server);
    let ann = json!({"identifier": "ann", "cost": "2"});
    let id = client.call(CHECK_RATE_LIMIT, &ann)["decision_id"].clone();
    client.call(CHECK_RATE_LIMIT, &ann);
    let refund = json!({ "decision_id": id });
    let refunded = client.try_call_as(ADMIN_TOKEN, REFUND, &refund).expect("a refund");
    assert_eq!(refunded, json!({"counters": "1"}));
    assert_eq!(client.call(GET_REMAINING_QUOTA, &ann)["remaining"], "3");
    let refunded = client.try_call_as(ADMIN_TOKEN, REFUND, &json!({"check": ann}));
    assert_eq!(refunded.expect("a refund"), json!({"counters": "1"}));
    assert_eq!(client.call(GET_REMAINING_QUOTA, &ann)["remaining"], "5");

    let mut check = |token: &str, message: &Value, code: &str, expected: &str| {
        let failure = client.try_call_as(token, REFUND, message).expect_err("no refund");
        assert_eq!(failure.code, code, "{message}: {failure:?}");
        assert!(failure.detail.contains(expected), "{message}: {failure:?}");
    };
    check(ADMIN_TOKEN, &refund, "FAILED_PRECONDITION", "refunded already");
    check(ADMIN_TOKEN, &json!({}), "INVALID_ARGUMENT", "give decision_id, or the check");
    check(ADMIN_TOKEN, &json!({"decision_id": "x"}), "NOT_FOUND", "is not a decision id");
    let unknown = json!({"check": {"identifier": "a", "rule_id": "none"}});
    check(ADMIN_TOKEN, &unknown, "NOT_FOUND", "none");
    let keyed = json!({"check": {"identifier": "a", "idempotency_key": "k"}});
    check(ADMIN_TOKEN, &keyed, "INVALID_ARGUMENT", "idempotency_key");
    check("wrong", &refund, "UNAUTHENTICATED", "");
}

#[test]
fn every_field_of_a_check_counts() {
    let server = Server::with_rules(RULES);
    let mut client = Client::of(&server);
    let mut check = |message: Value, expected: &str| {
        assert_eq!(brief(&client.call(CHECK_RATE_LIMIT, &message)), expected, "{message}");
    };
    check(json!({"identifier": "ann"}), "true 4 per_user");
    check(json!({"identifier": "ann", "dimension": "user", "cost": "0"}), "true 4 per_user");
    check(json!({"identifier": "acme", "dimension": "tenant"}), "true 99 per_tenant");
    check(json!({"identifier": "key", "dimension": "api_key"}), "false 0 blocked");
    check(json!({"identifiers": {"user_id": "ann", "tenant": "acme"}}), "true 3 per_user");
    check(json!({"attributes": {"plan": "gold"}}), "true 6 per_plan");
    check(json!({"endpoint": "/a", "method": "PUT"}), "true 8 per_endpoint");
    check(
        json!({"identifier": "/a", "dimension": "endpoint", "method": "PUT"}),
        "true 7 per_endpoint",
    );
    check(json!({"endpoint": "/a", "method": "GET"}), "true - ");
    check(json!({}), "true - ");
    check(json!({"identifier": "mallory"}), "false - ");
    check(json!({"identifier": "bob", "rule_id": "per_user", "cost": "4"}), "true 1 per_user");
    check(
        json!({"identifier": "gold", "dimension": "custom", "rule_id": "per_plan"}),
        "true 5 per_plan",
    );
    let denied = client.call(CHECK_RATE_LIMIT, &json!({"identifier": "mallory"}));
    assert_eq!(denied["reason"], "denied");
    let both = json!({"identifiers": {"user_id": "eve", "tenant": "t", "ip": "192.0.2.1"}, "detail": true});
    client.call(CHECK_RATE_LIMIT, &both);
    let answer = client.call(CHECK_RATE_LIMIT, &both);
    let rules = answer["rules"].as_array().expect("rules");
    let rule = |id: &str| rules.iter().find(|rule| rule["rule_id"] == id).expect("the rule");
    assert_eq!(rules.len(), 3, "{answer}");
    assert_eq!(
        (&rule("watched")["shadow"], &rule("watched")["allowed"]),
        (&json!(true), &json!(false))
    );
    assert_eq!(rule("per_user")["remaining"], "3");
    assert_eq!(rule("per_tenant")["window_seconds"], 300.0 * 86_400.0);
}

#[test]
fn invalid_checks_are_errors() {
    let server = Server::with_rules(RULES);
    let mut client = Client::of(&server);
    let mut check = |message: Value, code: &str, expected: &str| {
        for method in [CHECK_RATE_LIMIT, GET_REMAINING_QUOTA] {
            let failure = client.fail(method, &message);
            assert_eq!(failure.code, code, "{method} {message}: {failure:?}");
            assert!(failure.detail.contains(expected), "{method} {message}: {failure:?}");
        }
        let failure = client.try_call_as(ADMIN_TOKEN, RESET_LIMIT, &message).expect_err("no reset");
        assert_eq!(failure.code, code, "{message}: {failure:?}");
        let batch = json!({"checks": [{"identifier": "ann"}, message]});
        let failure = client.fail(CHECK_BATCH, &batch);
        assert_eq!(failure.code, code, "{batch}: {failure:?}");
        assert!(failure.detail.contains("checks[1]"), "{batch}: {failure:?}");
    };
    let wrong = "INVALID_ARGUMENT";
    let none = "rule `per_user` counts by user_id, which this check does not have";
    check(json!({"rule_id": "per_user"}), wrong, "identifier: it is empty");
    check(json!({"rule_id": "per_user", "identifiers": {"ip": "192.0.2.7"}}), wrong, none);
    check(json!({"rule_id": "per_user", "attributes": {"user_id": "a"}}), wrong, none);
    check(json!({"identifier": "a", "dimension": "banana"}), wrong, "dimension: write user");
    check(json!({"dimension": "ip"}), wrong, "that is empty");
    check(json!({"identifier": "a", "dimension": "custom"}), wrong, "add rule_id");
    check(
        json!({"identifier": "a", "identifiers": {"user_id": "b"}}),
        wrong,
        "in another field too",
    );
    check(json!({"identifier": "a", "rule_id": "nope"}), "NOT_FOUND", "nope");
    assert_eq!(
        brief(&client.call(CHECK_RATE_LIMIT, &json!({"identifier": "ann"}))),
        "true 4 per_user"
    );
}

#[test]
fn a_peek_charges_nothing_and_a_reset_clears_the_counter() {
    let server = Server::with_rules(RULES);
    let mut client = Client::of(&server);
    let ann = json!({"identifiers": {"user_id": "ann", "tenant": "acme"}});
    client.call(CHECK_RATE_LIMIT, &ann);
    for _ in 0..3 {
        let quota = client.call(GET_REMAINING_QUOTA, &ann);
        assert_eq!((&quota["limit"], &quota["remaining"]), (&json!("5"), &json!("4")), "{quota}");
        assert_eq!(quota["rule_id"], "per_user");
        assert_eq!(quota["rules"].as_array().map(Vec::len), Some(2));
        assert!(quota["reset_at"].is_string(), "{quota}");
    }
    let nothing = client.call(GET_REMAINING_QUOTA, &json!({}));
    assert_eq!((&nothing["limit"], &nothing["rule_id"]), (&Value::Null, &json!("")));

    let failure = client.fail(RESET_LIMIT, &ann);
    assert_eq!(failure.code, "UNAUTHENTICATED", "{failure:?}");
    assert!(failure.metadata["www-authenticate"].is_string(), "{failure:?}");
    let reset = client.try_call_as(ADMIN_TOKEN, RESET_LIMIT, &ann).expect("forgotten");
    assert_eq!(reset, json!({"counters": "2"}));
    assert_eq!(client.call(GET_REMAINING_QUOTA, &ann)["remaining"], "5");
}

#[test]
fn a_batch_is_answered_in_order() {
    let server = Server::with_rules(RULES);
    let mut client = Client::of(&server);
    let ann = json!({"identifier": "ann", "cost": "2"});
    let keyed = json!({"identifier": "ann", "cost": "1", "idempotency_key": "once"});
    let other = json!({"identifier": "bob", "detail": true});
    let batch = json!({"checks": [ann, other, ann, keyed, keyed, ann, other]});
    let answer = client.call(CHECK_BATCH, &batch);
    let results = answer["results"].as_array().expect("results");
    let results: Vec<_> = results.iter().map(|result| brief(&result["response"])).collect();
    let expected = ["true 3", "true 4", "true 1", "true 0", "true 0", "false 0", "true 3"];
    assert_eq!(results, expected.map(|text| format!("{text} per_user")));
    assert_eq!(answer["results"][1]["response"]["rules"].as_array().map(Vec::len), Some(1));

    // A reused idempotency key fails only its own check.
    let abused = json!({"identifier": "bob", "idempotency_key": "once"});
    let answer = client.call(CHECK_BATCH, &json!({"checks": [other, abused, other]}));
    assert_eq!(brief(&answer["results"][0]["response"]), "true 2 per_user");
    assert_eq!(brief(&answer["results"][2]["response"]), "true 1 per_user");
    let error = &answer["results"][1]["error"];
    assert!(error["code"].as_str().is_some_and(|code| !code.is_empty()), "{answer}");
    assert!(error["detail"].as_str().is_some_and(|detail| detail.len() > 10), "{answer}");

    for count in [0, 1_001] {
        let failure = client.fail(CHECK_BATCH, &json!({"checks": vec![json!({}); count]}));
        assert_eq!(failure.code, "INVALID_ARGUMENT");
        assert!(failure.detail.contains(&format!("this one has {count}")), "{failure:?}");
    }
    let full = client.call(CHECK_BATCH, &json!({"checks": vec![json!({}); 1_000]}));
    assert_eq!(full["results"].as_array().map(Vec::len), Some(1_000));
}

/// Idempotency keys were once a few characters shorter than over HTTP.
#[test]
fn keys_are_as_long_as_over_http() {
    let server = Server::with_rules(RULES);
    let mut client = Client::of(&server);
    let keyed = |length| json!({"identifier": "ann", "idempotency_key": "k".repeat(length)});
    assert_eq!(client.call(CHECK_RATE_LIMIT, &keyed(255))["allowed"], true);
    let failure = client.fail(CHECK_RATE_LIMIT, &keyed(256));
    assert_eq!(failure.code, "INVALID_ARGUMENT", "{failure:?}");
    assert!(failure.detail.contains("1 to 255 characters"), "{failure:?}");
}

#[test]
fn a_repeated_call_is_charged_once() {
    let server = Server::with_rules(RULES);
    let mut client = Client::of(&server);
    let keyed = json!({"identifier": "ann", "cost": "2", "idempotency_key": "once"});
    let first = client.call(CHECK_RATE_LIMIT, &keyed);
    for _ in 0..3 {
        assert_eq!(client.call(CHECK_RATE_LIMIT, &keyed), first);
    }
    assert_eq!(client.call(GET_REMAINING_QUOTA, &json!({"identifier": "ann"}))["remaining"], "3");
    let other = json!({"identifier": "ann", "cost": "1", "idempotency_key": "once"});
    let failure = client.fail(CHECK_RATE_LIMIT, &other);
    assert_eq!(failure.code, "INVALID_ARGUMENT", "{failure:?}");
    // A refusal is not recorded: the same call may pass later.
    let dear = json!({"identifier": "ann", "cost": "4", "idempotency_key": "later"});
    assert_eq!(client.call(CHECK_RATE_LIMIT, &dear)["allowed"], false);
    client.try_call_as(ADMIN_TOKEN, RESET_LIMIT, &json!({"identifier": "ann"})).expect("forgotten");
    assert_eq!(client.call(CHECK_RATE_LIMIT, &dear)["allowed"], true);
}

#[test]
fn the_clock_of_a_caller_only_measures_skew() {
    let server = Server::with_rules(RULES);
    let mut client = Client::of(&server);
    let mut check = |timestamp: &str, is_ahead: bool, left: &str| {
        let message = json!({"identifier": "ann", "timestamp": timestamp});
        let answer = client.call(CHECK_RATE_LIMIT, &message);
        assert_eq!(brief(&answer), format!("true {left} per_user"), "{timestamp}");
        let skew = server.figure("tollgate_caller_skew_seconds");
        assert!(if is_ahead { skew > 1e9 } else { skew < -1e8 }, "{timestamp}: {skew}");
    };
    check("2020-01-01T00:00:00.5Z", false, "4");
    check("9999-12-31T23:59:59.999999999Z", true, "3");
    check("0001-01-01T00:00:00Z", false, "2");
}
