//! Tiers, their clients, and overrides of rules.

use serde_json::json;

use super::desk::{TestServer, step};

const TIERS: &str = "/api/v1/tiers";
const CLIENTS: &str = "/api/v1/clients";
const OVERRIDES: &str = "/api/v1/overrides";

const TWO: &str = r#"{"tiers": [{"tier": "free", "default": true}, {"tier": "pro"}]}"#;
const SWAPPED: &str = r#"{"tiers": [{"tier": "free"}, {"tier": "pro", "default": true}]}"#;

#[test]
fn tiers_are_replaced_all_at_once() {
    let desk = TestServer::open();
    let rule = r#"{"rule_id": "gold_only", "limit": 1, "window": "1h", "identifier_type": "user_id",
        "applies_to": {"user_tiers": ["gold"]}}"#;
    let pro = r#"{"identifier_type": "user_id", "identifier": "alice", "tier": "pro"}"#;
    #[rustfmt::skip]
    desk.check(&[
        (step("GET", TIERS, ""), 200, "{\"tiers\":[]}"),
        (step("PUT", "/api/v1/tiers?dry_run=true", TWO), 200, "\"dry_run\":true"),
        (step("GET", TIERS, ""), 200, "{\"tiers\":[]}"),
        (step("PUT", TIERS, TWO), 200, "\"entry\":\"pro\",\"action\":\"create\""),
        (step("PUT", TIERS, TWO), 200, "\"changes\":[]"),
        (step("GET", TIERS, ""), 200, r#"{"tiers":[{"tier":"free","default":true},{"tier":"pro"}]}"#),
        (step("PUT", TIERS, SWAPPED), 200, "\"action\":\"update\""),
        (step("GET", TIERS, ""), 200, r#"{"tiers":[{"tier":"free"},{"tier":"pro","default":true}]}"#),
        (step("PUT", TIERS, TWO), 200, "\"action\":\"update\""),
        (step("PUT", TIERS, r#"{"tiers": [{"tier": "a", "default": true}, {"tier": "b", "default": true}]}"#), 422, "invalid_document"),
        (step("PUT", TIERS, r#"{"tiers": [{"tier": "a"}, {"tier": "a"}]}"#), 422, "invalid_document"),
        (step("PUT", TIERS, r#"{"tiers": [{"name": "a"}]}"#), 422, "\"field\":\"tiers[0]"),
        (step("PUT", TIERS, "{}"), 422, "send all tiers and nothing else"),
        (step("PUT", TIERS, r#"{"tiers": null}"#), 422, "send all tiers and nothing else"),
        (step("PUT", TIERS, r#"{"rules": []}"#), 422, "send all tiers and nothing else"),
        (step("PUT", TIERS, r#"{"tiers": [], "rules": []}"#), 422, "send all tiers and nothing else"),
        (step("PUT", TIERS, r#"[{"tier": "a"}]"#), 422, "invalid_document"),
        (step("PUT", "/api/v1/tiers?prune=tiers", TWO), 400, "invalid_query"),
        (step("GET", "/api/v1/tiers?limit=1", ""), 400, "there are detail"),
        // An entry that is still referenced stays.
        (step("PUT", CLIENTS, pro), 201, ""),
        (step("PUT", TIERS, r#"{"tiers": [{"tier": "free"}]}"#), 409, "still_in_use"),
        (step("POST", "/api/v1/rules", rule), 422, "gold"),
        (step("GET", TIERS, ""), 200, r#"{"tiers":[{"tier":"free","default":true},{"tier":"pro"}]}"#),
        (step("DELETE", "/api/v1/clients?identifier_type=user_id&identifier=alice", ""), 204, ""),
        (step("PUT", TIERS, r#"{"tiers": []}"#), 200, "\"action\":\"delete\""),
        (step("GET", TIERS, ""), 200, "{\"tiers\":[]}"),
    ]);
}

#[test]
fn clients_are_put_into_tiers() {
    let desk = TestServer::open();
    desk.prepare("PUT", TIERS, TWO);
    let pro = r#"{"identifier_type": "tenant", "identifier": "acme", "tier": "pro"}"#;
    let free = r#"{"identifier_type": "tenant", "identifier": "acme", "tier": "free"}"#;
    let address = r#"{"identifier_type": "ip", "identifier": "2001:db8::1", "tier": "pro"}"#;
    let of_acme = "/api/v1/clients?identifier_type=tenant&identifier=acme";
    let dry_delete = format!("{of_acme}&dry_run=true");
    #[rustfmt::skip]
    desk.check(&[
        (step("GET", CLIENTS, ""), 200, "{\"clients\":[]}"),
        (step("PUT", "/api/v1/clients?dry_run=true", pro), 200, "\"action\":\"create\""),
        (step("PUT", CLIENTS, pro), 201, "\"version\":3"),
        (step("PUT", CLIENTS, pro), 200, "\"version\":3"),
        (step("PUT", CLIENTS, free).when("If-Match", "\"1\""), 412, "changed_meanwhile"),
        (step("PUT", CLIENTS, free).when("If-Match", "\"3\""), 200, "\"tier\":\"free\",\"version\":4"),
        (step("PUT", CLIENTS, address), 201, ""),
        (step("GET", "/api/v1/clients?tier=free", ""), 200, r#"{"clients":[{"identifier_type":"tenant","identifier":"acme","tier":"free"}]}"#),
        (step("GET", "/api/v1/clients?tier=gold", ""), 200, "{\"clients\":[]}"),
        (step("GET", "/api/v1/clients?identifier_type=ip", ""), 200, "2001:db8::1"),
        (step("GET", of_acme, ""), 200, "\"identifier\":\"acme\""),
        (step("GET", "/api/v1/clients?tenant=acme", ""), 400, "no parameter `tenant`"),
        (step("PUT", CLIENTS, r#"{"identifier_type": "tenant", "identifier": "acme"}"#), 422, "\"field\":\"tier\""),
        (step("PUT", CLIENTS, r#"{"identifier_type": "tenant", "identifier": "acme", "tier": "gold"}"#), 422, "\"field\":\"tier\""),
        (step("PUT", CLIENTS, r#"{"identifier_type": "endpoint", "identifier": "/a", "tier": "pro"}"#), 422, "\"field\":\"identifier_type\""),
        (step("PUT", CLIENTS, "[]"), 422, "invalid_document"),
        (step("DELETE", &dry_delete, ""), 200, "\"action\":\"delete\""),
        (step("DELETE", of_acme, "").when("If-Match", "\"3\""), 412, "changed_meanwhile"),
        (step("DELETE", of_acme, ""), 204, ""),
        (step("DELETE", of_acme, ""), 404, "in no tier of its own"),
        (step("DELETE", CLIENTS, ""), 400, "invalid_query"),
    ]);
}

#[test]
fn exceptions_are_made_from_rules() {
    let desk = TestServer::open();
    let rule = json!({"rule_id": "api", "limit": 10, "window": "1h", "identifier_type": "user_id"});
    desk.prepare("POST", "/api/v1/rules", &rule.to_string());
    let with = |fields: &str| {
        format!(
            r#"{{"rule_id": "api", "identifier_type": "user_id", "identifier": "alice"{fields}}}"#
        )
    };
    let (more, less) = (with(r#", "limit": 20"#), with(r#", "multiplier": 0.5"#));
    let foreign = more.replace("user_id", "tenant");
    let of_alice = "/api/v1/overrides?rule_id=api&identifier_type=user_id&identifier=alice";
    let dry_delete = format!("{of_alice}&dry_run=true");
    #[rustfmt::skip]
    desk.check(&[
        (step("GET", OVERRIDES, ""), 200, "{\"overrides\":[]}"),
        (step("PUT", "/api/v1/overrides?dry_run=true", &more), 200, "\"action\":\"create\""),
        (step("PUT", OVERRIDES, &more), 201, "\"limit\":20,\"version\":3"),
        (step("PUT", OVERRIDES, &more), 200, "\"version\":3"),
        (step("PUT", OVERRIDES, &less).when("If-None-Match", "*"), 412, "changed_meanwhile"),
        (step("PUT", OVERRIDES, &less), 200, "\"multiplier\":0.5"),
        (step("GET", of_alice, ""), 200, "\"multiplier\":0.5}]"),
        (step("GET", "/api/v1/overrides?rule_id=other", ""), 200, "{\"overrides\":[]}"),
        (step("GET", "/api/v1/overrides?tier=pro", ""), 400, "no parameter `tier`"),
        (step("PUT", OVERRIDES, &with("")), 422, "invalid_document"),
        (step("PUT", OVERRIDES, &with(r#", "limit": 2, "multiplier": 2"#)), 422, "invalid_document"),
        (step("PUT", OVERRIDES, &with(r#", "limit": -1"#)), 422, "\"field\":\"limit\""),
        (step("PUT", OVERRIDES, &with(r#", "limit": 1, "expires_at": "never"}"#)), 422, "invalid_document"),
        (step("PUT", OVERRIDES, &more.replace("api", "nope")), 422, "there is no rule `nope`"),
        // It would never apply.
        (step("PUT", OVERRIDES, &foreign), 422, "\"field\":\"identifier_type\""),
        (step("PUT", OVERRIDES, &foreign), 422, "api does not count by tenant"),
        (step("PUT", "/api/v1/overrides?dry_run=true", &foreign), 422, "api does not count by tenant"),
        (step("PUT", "/api/v1/policy", &format!(r#"{{"overrides": [{foreign}]}}"#)), 422, "api does not count by tenant"),
        (step("DELETE", "/api/v1/rules/api", ""), 409, "still_in_use"),
        (step("DELETE", "/api/v1/overrides?identifier_type=user_id&identifier=alice", ""), 400, "`rule_id` is missing"),
        (step("DELETE", "/api/v1/overrides?rule_id=api", ""), 400, "invalid_query"),
        (step("DELETE", &dry_delete, ""), 200, "\"action\":\"delete\""),
        (step("DELETE", of_alice, ""), 204, ""),
        (step("DELETE", of_alice, ""), 404, "no such override"),
        (step("DELETE", "/api/v1/rules/api", ""), 204, ""),
    ]);
}
