//! Rules one by one, and the whole policy at once.

use super::desk::{TestServer, step};

const RULES: &str = "/api/v1/rules";
const POLICY: &str = "/api/v1/policy";

const API: &str =
    r#"{"rule_id": "api", "limit": 10, "window": "1h", "identifier_type": "user_id"}"#;

#[test]
fn rules_are_made_changed_and_removed() {
    for path in [RULES, "/admin/api/v1/rate-limits/rules"] {
        let desk = TestServer::open();
        let one = format!("{path}/api");
        let (dry_post, dry_one) = (format!("{path}?dry_run=true"), format!("{one}?dry_run=true"));
        let off = format!("{path}?enabled=false");
        let unnamed = r#"{"limit": 20, "window": "1h", "identifier_type": "user_id"}"#;
        #[rustfmt::skip]
        desk.check(&[
            (step("GET", &one, ""), 404, "unknown_rule"),
            (step("POST", &dry_post, API), 200, "\"dry_run\":true"),
            (step("GET", &one, ""), 404, "unknown_rule"),
            (step("PATCH", &one, r#"{"limit": 1}"#), 404, "unknown_rule"),
            (step("DELETE", &one, ""), 404, "unknown_rule"),
            (step("PUT", &one, API).when("If-Match", "*"), 404, "unknown_rule"),
            (step("POST", path, API).when("If-None-Match", "*"), 201, "\"status\":\"active\""),
            (step("POST", path, API).when("If-None-Match", "*"), 412, "changed_meanwhile"),
            (step("POST", path, API), 200, "\"version\":2"),
            (step("PUT", &one, unnamed).when("If-Match", "\"1\""), 412, "it is at version 2"),
            (step("PUT", &one, unnamed).when("If-Match", "\"2\""), 200, "\"version\":3"),
            (step("PUT", &one, &API.replace("api", "other")), 422, "another one than in the path"),
            (step("PATCH", &dry_one, r#"{"limit": 30}"#), 200, "\"becomes\":{"),
            (step("PATCH", &one, r#"{"limit": 30, "name": "All calls"}"#), 200, "\"version\":4"),
            (step("GET", &one, ""), 200, "\"name\":\"All calls\",\"limit\":30"),
            (step("PATCH", &one, r#"{"name": null, "enabled": false}"#), 200, "\"status\":\"disabled\""),
            (step("GET", &off, ""), 200, "[{\"rule_id\":\"api\",\"limit\":30"),
            (step("PATCH", &one, r#"{"rule_id": "other"}"#), 422, "invalid_document"),
            (step("PATCH", &one, r#"{"limit": "lots"}"#), 422, "\"field\":\"limit\""),
            (step("PATCH", &one, "[]"), 400, "invalid_body"),
            (step("POST", path, "{}"), 422, "\"field\":\"rule_id\""),
            (step("POST", path, &API.replace("1h", "1x")), 422, "\"field\":\"window\""),
            (step("POST", path, &API.replace("\"limit\": 10", "\"limit\": 10, \"replaces\": [\"nope\"]")), 422, "nope"),
            (step("GET", &format!("{path}?color=red"), ""), 400, "no parameter `color`"),
            (step("DELETE", &dry_one, ""), 200, "\"action\":\"delete\""),
            (step("DELETE", &one, "").when("If-Match", "\"4\""), 412, "changed_meanwhile"),
            (step("DELETE", &one, ""), 204, ""),
            (step("DELETE", &one, ""), 404, "unknown_rule"),
        ]);
    }
}

/// The field was not named, and the column was that of the merged entry, which the caller never sent.
#[test]
fn a_problem_of_a_rule_names_the_field_and_its_place_in_the_body() {
    let desk = TestServer::open();
    let rule = |more: &str| {
        format!("{{\"limit\": 20,\n \"window\": \"1h\", \"identifier_type\": \"ip\"{more}}}")
    };
    desk.prepare("PUT", "/api/v1/rules/api", &rule(""));
    for (method, body, expected) in [
        (
            "PATCH",
            r#"{"limt":5}"#.to_owned(),
            "line 1, column 2: rule api, limt: there is no such field",
        ),
        (
            "PATCH",
            r#"{"name":"n", "applies_to":{"methods":["GET",5]}}"#.to_owned(),
            "line 1, column 45: rule api, applies_to.methods[1]: expected text, found 5",
        ),
        // What is wrong was not sent, so it has no place: the rule has another window already.
        (
            "PATCH",
            r#"{"window_seconds":5}"#.to_owned(),
            "rule api, window: window_seconds is given too",
        ),
        ("PUT", rule(", \"limt\": 5"), "line 2, column 43: rule api, limt: there is no such field"),
    ] {
        let answer = desk.as_admin(method, "/api/v1/rules/api", &body);
        assert_eq!(answer.status, 422, "{body}: {answer:?}");
        let problem = answer.json();
        let detail = problem["detail"].as_str().expect("a detail");
        assert!(detail.contains(expected), "{body}: {detail}");
    }
}

#[test]
fn a_policy_is_put_in_force_as_a_whole_or_not_at_all() {
    let desk = TestServer::open();
    let before = desk.read(POLICY);
    assert_eq!(before["rules"].as_array().map(Vec::len), Some(4), "{before}");
    let only = format!(r#"{{"rules": [{API}]}}"#);
    let listed =
        r#"{"rules": [], "blacklist": [{"identifier_type": "user_id", "identifier": "eve"}]}"#;
    let one_wrong = only.replace("]}", r#", {"rule_id": "b", "limit": -1}]}"#);
    #[rustfmt::skip]
    desk.check(&[
        (step("PUT", POLICY, &one_wrong), 422, "\"rule_id\":\"b\""),
        (step("PUT", "/api/v1/policy?prune=rules&dry_run=true", &only), 200, "\"action\":\"delete\""),
        (step("PUT", "/api/v1/policy?prune=shoes", &only), 400, "`prune` takes lists"),
        (step("PUT", POLICY, "nonsense"), 422, "invalid_document"),
    ]);
    assert_eq!(desk.read(POLICY), before, "nothing was changed");
    #[rustfmt::skip]
    desk.check(&[
        (step("PUT", POLICY, &only), 200, "\"entry\":\"api\",\"action\":\"create\""),
        (step("PUT", POLICY, &only), 200, "\"changes\":[]"),
        (step("PUT", POLICY, listed), 200, "\"kind\":\"blacklist\""),
        (step("PUT", "/api/v1/policy?prune=rules", &only), 200, "\"action\":\"delete\""),
        (step("GET", POLICY, ""), 200, "\"blacklist\":[{\"identifier_type\":\"user_id\",\"identifier\":\"eve\"}]"),
        (step("PUT", "/api/v1/policy?prune=blacklist", &only), 200, "\"action\":\"delete\""),
    ]);
    let all = desk.read(POLICY);
    assert_eq!(all["rules"].as_array().map(Vec::len), Some(1), "{all}");
    // A policy that was read can be written back.
    let again = desk.prepare("PUT", "/api/v1/policy?prune=rules", &all.to_string());
    assert_eq!(again["changes"].as_array().map(Vec::len), Some(0), "{again}");
}
