//! A change is in force on the node that was called when the call returns.

use serde_json::{Value, json};

use super::desk::{TestServer, step, text};
use tollgate_e2e::client::request;
use tollgate_e2e::server::{AUTHORIZE, CALLER_TOKEN, CHECK, JSON};

fn check(desk: &TestServer, user: &str) -> Value {
    let bearer = format!("Bearer {CALLER_TOKEN}");
    let body = json!({"identifiers": {"user_id": user}}).to_string();
    let headers = [JSON, ("Authorization", bearer.as_str())];
    let answer = desk.server.connect().ask(&request("POST", CHECK, &headers, body.as_bytes()));
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

fn is_allowed(desk: &TestServer, user: &str) -> bool {
    check(desk, user)["allowed"] == true
}

fn open() -> TestServer {
    let desk = TestServer::open();
    let policy = json!({
        "rules": [
            {"rule_id": "api", "limit": 1, "window": "30d", "identifier_type": "user_id"},
            {"rule_id": "pro", "limit": 3, "window": "30d", "identifier_type": "user_id",
             "applies_to": {"user_tiers": ["pro"]}, "replaces": ["api"]},
        ],
        "tiers": [{"tier": "pro"}],
    });
    desk.prepare("PUT", "/api/v1/policy?prune=rules", &policy.to_string());
    desk
}

#[test]
fn a_raised_limit_lets_the_next_check_pass() {
    let desk = open();
    for round in 0..3 {
        let limit = round + 1;
        desk.prepare("PATCH", "/api/v1/rules/api", &json!({"limit": limit}).to_string());
        assert!(is_allowed(&desk, "alice"), "round {round}");
        assert!(!is_allowed(&desk, "alice"), "round {round}");
    }
    // An override, and a tier.
    assert!(!is_allowed(&desk, "alice"));
    let exception = r#"{"rule_id": "api", "limit": 4}"#;
    desk.prepare("POST", "/api/v1/users/alice/override", exception);
    assert!(is_allowed(&desk, "alice") && !is_allowed(&desk, "alice"));
    desk.prepare("DELETE", "/api/v1/users/alice/override?rule_id=api", "");
    assert_eq!(check(&desk, "alice")["limit"], 3);
    desk.prepare("PUT", "/api/v1/users/alice/tier", r#"{"tier": "pro"}"#);
    assert_eq!(check(&desk, "alice")["rule_id"], "pro");
    desk.prepare("DELETE", "/api/v1/users/alice/tier", "");
    assert_eq!(check(&desk, "alice")["rule_id"], "api");
    desk.prepare("DELETE", "/api/v1/rules/pro", "");
    desk.prepare("DELETE", "/api/v1/rules/api", "");
    assert_eq!(check(&desk, "alice")["rule_id"], Value::Null);
}

#[test]
fn a_listed_client_is_refused_or_passes_at_the_next_check() {
    let desk = open();
    let listed = r#"{"identifier_type": "user_id", "identifier": "mallory", "reason": "abuse"}"#;
    let query = "identifier_type=user_id&identifier=mallory";
    let allowed = |expected: [bool; 3]| {
        let answers = [0, 1, 2].map(|_| is_allowed(&desk, "mallory"));
        assert_eq!(answers, expected);
    };
    for family in ["/api/v1", "/admin/api/v1/rate-limits"] {
        desk.prepare("POST", &format!("{family}/blacklist"), listed);
        allowed([false; 3]);
        assert_eq!(check(&desk, "mallory")["reason"], "denied");
        desk.prepare("DELETE", &format!("{family}/blacklist?{query}"), "");
        desk.prepare("POST", &format!("{family}/whitelist"), listed);
        allowed([true; 3]);
        desk.prepare("DELETE", &format!("{family}/whitelist?{query}"), "");
    }
    allowed([true, false, false]);
    desk.prepare("POST", "/api/v1/blacklist?dry_run=true", listed);
    assert_eq!(check(&desk, "mallory")["reason"], "rate_limited", "a dry run changes nothing");
}

#[test]
fn a_revoked_token_is_refused_at_the_next_call() {
    let desk = open();
    for role in ["admin", "operator", "viewer", "caller", "tenant-admin"] {
        let tenant = (role == "tenant-admin").then_some("acme");
        let body = json!({"role": role, "tenant": tenant}).to_string();
        let made = desk.prepare("POST", "/api/v1/tokens", &body);
        let path = if role == "caller" { CHECK } else { "/api/v1/rules" };
        let call = if role == "caller" {
            step("POST", path, r#"{"identifiers": {"user_id": "bob"}}"#)
        } else {
            step("GET", path, "")
        };
        assert_eq!(desk.call(&text(&made, "token"), &call).status, 200, "{role}");
        desk.prepare("DELETE", &format!("/api/v1/tokens/{}", text(&made, "token_id")), "");
        let refused = desk.call(&text(&made, "token"), &call);
        assert_eq!((refused.status, refused.code().as_str()), (401, "wrong_token"), "{role}");
    }
}

/// The token was looked at before the body was read, and a body may take half a minute.
#[test]
fn a_token_that_is_revoked_while_a_body_arrives_changes_nothing() {
    let desk = open();
    let calls = [
        ("POST", "/api/v1/tokens", r#"{"role": "admin"}"#),
        ("PUT", "/api/v1/policy?prune=rules", r#"{"rules": []}"#),
        ("POST", "/api/v1/rate-limit/reset", r#"{"identifiers": {"user_id": "bob"}}"#),
    ];
    for (method, path, body) in calls {
        let made = desk.prepare("POST", "/api/v1/tokens", r#"{"role": "admin"}"#);
        let bearer = format!("Bearer {}", text(&made, "token"));
        let sent = request(method, path, &[JSON, ("Authorization", &bearer)], body.as_bytes());
        let (begin, end) = sent.split_at(sent.len() - 3);
        let mut connection = desk.server.connect();
        connection.send(begin).expect("sent");
        // A second call: once it has its response, the server has the head of the first.
        let rules = desk.as_admin("GET", "/api/v1/rules", "").text();
        desk.prepare("DELETE", &format!("/api/v1/tokens/{}", text(&made, "token_id")), "");
        connection.send(end).expect("sent");
        let refused = connection.answer().expect("a response");
        assert_eq!((refused.status, refused.code().as_str()), (401, "wrong_token"), "{path}");
        assert_eq!(desk.as_admin("GET", "/api/v1/rules", "").text(), rules, "{path}");
    }
}

#[test]
fn an_api_key_is_known_to_the_next_call_of_a_proxy() {
    let desk = open();
    let ask = |key: &str| {
        let headers = [
            ("X-Tollgate-Token", CALLER_TOKEN),
            ("X-API-Key", key),
            ("X-Original-URI", "/"),
            ("X-Original-Method", "GET"),
        ];
        let answer = desk.server.ask("GET", AUTHORIZE, &headers, "");
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.header("x-ratelimit-limit").map(str::to_owned)
    };
    let body = r#"{"owner": "carol", "tier": "pro"}"#;
    assert_eq!(ask("sk_live_1"), None, "no client has the key yet");
    let made = desk.prepare("POST", "/api/v1/api-keys", body);
    let key = text(&made, "key");
    assert_eq!(ask(&key).as_deref(), Some("3"));
    desk.prepare("DELETE", &format!("/api/v1/api-keys/{}", text(&made, "key_id")), "");
    assert_eq!(ask(&key), None);
    let given = json!({"key": "sk_live_1", "owner": "dave"}).to_string();
    desk.prepare("POST", "/api/v1/api-keys", &given);
    assert_eq!(ask("sk_live_1").as_deref(), Some("1"));
}
