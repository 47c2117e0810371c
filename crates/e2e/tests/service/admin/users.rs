//! One user: its limits, and its overrides.

use serde_json::{Value, json};

use super::desk::{TestServer, step};
use tollgate_e2e::client::request;
use tollgate_e2e::server::{CALLER_TOKEN, CHECK, JSON};

const POLICY: &str = r#"{
  "rules": [
    {"rule_id": "api", "limit": 10, "window": "1h", "identifier_type": "user_id", "algorithm": "fixed_window"},
    {"rule_id": "exports", "limit": 2, "window": "1h", "identifier_type": "user_id", "applies_to": {"endpoints": ["/exports"], "methods": ["POST"]}},
    {"rule_id": "pro", "limit": 100, "window": "1h", "identifier_type": "user_id", "applies_to": {"user_tiers": ["pro"]}},
    {"rule_id": "acme", "limit": 7, "window": "1h", "identifier_type": "user_id", "tenant": "acme"}
  ],
  "tiers": [{"tier": "free", "default": true}, {"tier": "pro"}]
}"#;

fn open() -> TestServer {
    let desk = TestServer::open();
    desk.prepare("PUT", "/api/v1/policy?prune=rules", POLICY);
    desk
}

/// Rule, limit, what is left, and where it comes from.
fn limits(desk: &TestServer, query: &str) -> Value {
    let told = desk.read(&format!("/api/v1/users/alice/limits{query}"));
    let limits = told["limits"].as_array().expect("limits").iter();
    limits.map(|it| json!([it["rule_id"], it["limit"], it["remaining"], it["from"]])).collect()
}

#[test]
fn the_limits_of_a_user_are_shown_with_their_origin() {
    let desk = open();
    let told = desk.read("/api/v1/users/alice/limits");
    assert_eq!(told["user_id"], "alice");
    assert_eq!(told["tier"], json!({"name": "free", "from": "default"}));
    assert_eq!(told["listed"], Value::Null);
    assert_eq!(told["limits"][0]["window_seconds"], 3600.0);
    assert_eq!(told["limits"][0]["algorithm"], "fixed_window");
    assert_eq!(limits(&desk, ""), json!([["api", 10, 10, "rule"]]));
    let bearer = format!("Bearer {CALLER_TOKEN}");
    let body = br#"{"identifiers": {"user_id": "alice"}, "cost": 3}"#;
    let check = request("POST", CHECK, &[JSON, ("Authorization", &bearer)], body);
    assert_eq!(desk.server.connect().ask(&check).json()["remaining"], 7);
    for _ in 0..2 {
        assert_eq!(limits(&desk, ""), json!([["api", 10, 7, "rule"]]), "a peek charges nothing");
    }
    let of_exports = "?endpoint=/exports&method=POST";
    let both = json!([["exports", 2, 2, "rule"], ["api", 10, 7, "rule"]]);
    assert_eq!(limits(&desk, of_exports), both);
    let of_tenant = json!([["acme", 7, 7, "rule"], ["api", 10, 7, "rule"]]);
    assert_eq!(limits(&desk, "?tenant=acme"), of_tenant);

    let exception = r#"{"rule_id": "api", "limit": 20}"#;
    desk.prepare("POST", "/api/v1/users/alice/override", exception);
    desk.prepare("PUT", "/api/v1/users/alice/tier", r#"{"tier": "pro"}"#);
    let changed = json!([["pro", 100, 100, "rule"], ["api", 20, 17, "override"]]);
    assert_eq!(limits(&desk, ""), changed);
    let told = desk.read("/api/v1/users/alice/limits");
    assert_eq!(told["tier"], json!({"name": "pro", "from": "client"}));

    let listed = r#"{"identifier_type": "user_id", "identifier": "alice", "reason": "abuse"}"#;
    desk.prepare("POST", "/api/v1/blacklist", listed);
    let told = desk.read("/api/v1/users/alice/limits");
    assert_eq!(told["listed"], json!({"list": "blacklist", "reason": "abuse", "expires_at": null}));
    let other = desk.read("/api/v1/users/b%2Fob%20%C3%BC/limits");
    assert_eq!((&other["user_id"], &other["listed"]), (&json!("b/ob \u{fc}"), &Value::Null));
    #[rustfmt::skip]
    desk.check(&[
        (step("GET", "/api/v1/users/alice/limits?path=/", ""), 400, "no parameter `path`"),
        (step("GET", "/api/v1/users/alice/limits?method=GET&method=PUT", ""), 400, "there twice"),
        (step("GET", "/api/v1/users/%ff/limits", ""), 400, "invalid_path"),
    ]);
}

#[test]
fn tiers_and_exceptions_of_a_user_are_changed() {
    let desk = open();
    let (tier, exception) = ("/api/v1/users/alice/tier", "/api/v1/users/alice/override");
    let of_api = format!("{exception}?rule_id=api");
    let dry_exception = format!("{exception}?dry_run=true");
    let dry_tier = format!("{tier}?dry_run=true");
    let dry_delete = format!("{of_api}&dry_run=true");
    let limit = r#"{"rule_id": "api", "limit": 20, "expires_at": "2090-01-01T00:00:00Z"}"#;
    let long_name = format!("/api/v1/users/{}/tier", "x".repeat(2_000));
    #[rustfmt::skip]
    desk.check(&[
        (step("PUT", &dry_tier, r#"{"tier": "pro"}"#), 200, "\"action\":\"create\""),
        (step("DELETE", tier, ""), 404, "in no tier of its own"),
        (step("PUT", tier, r#"{"tier": "pro"}"#), 201, "\"identifier\":\"alice\",\"tier\":\"pro\""),
        (step("PUT", tier, r#"{"tier": "pro"}"#), 200, "\"tier\":\"pro\""),
        (step("PUT", tier, r#"{"tier": "free"}"#).when("If-Match", "\"1\""), 412, "changed_meanwhile"),
        (step("PUT", tier, r#"{"tier": "gold"}"#), 422, "\"field\":\"tier\""),
        (step("PUT", tier, "{}"), 400, "missing field `tier`"),
        (step("PUT", tier, r#"{"tier": "pro", "user_id": "bob"}"#), 400, "unknown field"),
        (step("PUT", &long_name, r#"{"tier": "pro"}"#), 422, "\"field\":\"identifier\""),
        (step("DELETE", &dry_tier, ""), 200, "\"action\":\"delete\""),
        (step("DELETE", tier, ""), 204, ""),
        (step("POST", &dry_exception, limit), 200, "\"action\":\"create\""),
        (step("POST", exception, limit), 201, "\"identifier_type\":\"user_id\",\"identifier\":\"alice\",\"rule_id\":\"api\""),
        (step("POST", exception, limit), 200, "\"limit\":20"),
        (step("POST", exception, r#"{"rule_id": "api", "multiplier": 1.5} "#), 200, "\"multiplier\":1.5"),
        (step("POST", exception, r#"{"rule_id": "api", "window_seconds": 60, "burst": 5}"#), 422, "burst"),
        (step("POST", exception, r#"{"rule_id": "nope", "limit": 1}"#), 422, "there is no rule `nope`"),
        (step("POST", exception, r#"{"rule_id": "api", "limit": 1, "identifier": "bob"}"#), 422, "identifier"),
        (step("POST", exception, "{\n\"rule_id\": \"api\",\n\"limit\": \"lots\"}"), 422, "\"line\":3"),
        (step("POST", exception, "{}"), 422, "rule_id"),
        (step("POST", exception, "[]"), 422, "invalid_document"),
        (step("POST", exception, "nonsense"), 422, "invalid_document"),
        (step("GET", "/api/v1/overrides", ""), 200, "\"multiplier\":1.5}]"),
        (step("DELETE", exception, ""), 400, "`rule_id` is missing"),
        (step("DELETE", &dry_delete, ""), 200, "\"action\":\"delete\""),
        (step("DELETE", &of_api, "").when("If-Match", "\"1\""), 412, "changed_meanwhile"),
        (step("DELETE", &of_api, ""), 204, ""),
        (step("DELETE", &of_api, ""), 404, "no such override"),
        (step("GET", "/api/v1/clients", ""), 200, "{\"clients\":[]}"),
    ]);
}
