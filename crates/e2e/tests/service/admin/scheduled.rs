//! Overrides that begin later: in force from that moment on, without a further call.

use serde_json::json;
use tollgate::rules::format_time;
use tollgate::{Clock as _, Micros, SystemClock};

use super::desk::{TestServer, step};
use tollgate_e2e::until;

const CHECK: &str = r#"{"rule_id":"r","key_type":"user","key_value":"u1"}"#;

#[test]
fn an_override_begins_by_itself() {
    let server = TestServer::open();
    let rule = r#"{"rule_id":"r","limit":5000,"window":"1h","identifier_type":"user_id"}"#;
    server.prepare("POST", "/api/v1/rules", rule);
    let start = SystemClock.now().plus(Micros::from_secs(3));
    let body = json!({
        "rule_id": "r", "identifier_type": "user_id", "identifier": "u1", "limit": 9000,
        "starts_at": format_time(start), "expires_at": "2099-01-01T00:00:00Z",
    });
    let made = server.prepare("PUT", "/api/v1/overrides", &body.to_string());
    assert_eq!(made["starts_at"], json!(format_time(start)));
    assert_eq!(server.read("/api/v1/policy")["overrides"][0], body);
    let limit = || server.prepare("POST", "/api/v1/rate-limit/check", CHECK)["limit"].clone();
    let explained = || {
        let body = r#"{"identifiers":{"user_id":"u1"},"endpoint":"/","method":"GET"}"#;
        let explained = server.prepare("POST", "/api/v1/rate-limit/explain", body);
        let rules = explained["rules"].as_array().expect("rules").clone();
        rules.into_iter().find(|it| it["rule_id"] == "r").expect("the rule")["quota"].clone()
    };
    let (seen, quota) = (limit(), explained());
    if SystemClock.now() < start {
        assert_eq!(seen, 5000);
        assert_eq!(quota["next_override_at"], json!(format_time(start)));
    }
    until("the start of the override", || (limit() == 9000).then_some(()));
    assert!(SystemClock.now() >= start);
    let quota = explained();
    assert_eq!(quota["override_starts_at"], json!(format_time(start)));
    assert_eq!(quota["override_expires_at"], "2099-01-01T00:00:00Z");
}

#[test]
fn an_override_that_ends_before_it_starts_is_refused() {
    let server = TestServer::open();
    let body = |start: &str| {
        json!({"rule_id": "default_per_user", "identifier_type": "user_id", "identifier": "u1", "limit": 9,
               "starts_at": start, "expires_at": "2030-01-01T00:00:00Z"})
        .to_string()
    };
    let path = "/api/v1/overrides";
    server.check(&[
        (
            step("PUT", path, &body("2030-01-01T00:00:00Z")),
            422,
            "the override ends before it starts",
        ),
        (step("PUT", path, &body("soon")), 422, "`soon` is not a time"),
        (step("PUT", path, &body("2029-12-31T23:59:59Z")), 201, "starts_at"),
    ]);
}
