//! The whitelist and the blacklist.

use super::desk::{Step, TestServer, step};

const EXAMPLE: &str = r#"{"identifier_type": "ip", "identifier": "10.0.0.0/8", "reason": "ours"}"#;
const COMPOSITE: &str =
    r#"{"identifier_type": ["tenant", "user_id"], "identifier": ["acme", "wile"]}"#;
const API_KEY: &str = r#"{"identifier_type": "api_key", "identifier": "sk_live_1"}"#;

#[test]
fn entries_are_made_changed_and_removed() {
    for path in [
        "/api/v1/whitelist",
        "/api/v1/blacklist",
        "/admin/api/v1/rate-limits/whitelist",
        "/admin/api/v1/rate-limits/blacklist",
    ] {
        let desk = TestServer::open();
        let with = |query: &str| format!("{path}?{query}");
        let dry_run = with("dry_run=true");
        let of_ip = with("identifier_type=ip&identifier=10.0.0.0%2F8");
        let dry_delete = format!("{of_ip}&dry_run=true");
        let detail = with("detail=true");
        let reason = r#"{"identifier_type": "ip", "identifier": "10.0.0.0/8", "reason": "new"}"#;
        let same = r#"{"identifier": "10.1.2.3/8", "identifier_type": "ip", "reason": "new"}"#;
        let until = r#"{"identifier_type": "user_id", "identifier": "eve", "expires_at": "2090-01-01T00:00:00Z"}"#;
        let of_composite =
            with("identifier_type=user_id&identifier_type=tenant&identifier=wile&identifier=acme");
        #[rustfmt::skip]
        desk.check(&[
            (step("GET", path, ""), 200, "\":[]}"),
            (step("POST", &dry_run, EXAMPLE), 200, "\"action\":\"create\""),
            (step("GET", path, ""), 200, "\":[]}"),
            (step("POST", path, EXAMPLE).when("If-Match", "*"), 404, "unknown_entry"),
            (step("POST", path, EXAMPLE).when("If-None-Match", "*"), 201, "\"created_by\":\"admin\""),
            (step("POST", path, EXAMPLE).when("If-None-Match", "*"), 412, "changed_meanwhile"),
            (step("POST", path, EXAMPLE), 200, "\"reason\":\"ours\""),
            (step("POST", path, EXAMPLE).when("If-Match", "\"1\""), 412, "changed_meanwhile"),
            (step("POST", path, reason).when("If-Match", "\"2\""), 200, "\"version\":3"),
            (step("POST", path, same), 422, "invalid_document"),
            (step("GET", path, ""), 200, "[{\"identifier_type\":\"ip\",\"identifier\":\"10.0.0.0/8\",\"reason\":\"new\"}]"),
            (step("GET", &detail, ""), 200, "\"version\":3,\"created_at\":\""),
            (step("POST", path, COMPOSITE), 201, "\"identifier\":[\"acme\",\"wile\"]"),
            (step("POST", path, until), 201, "\"expires_at\":\"2090-01-01T00:00:00Z\""),
            (step("DELETE", &dry_delete, ""), 200, "\"action\":\"delete\""),
            (step("DELETE", &of_ip, "").when("If-Match", "\"1\""), 412, "changed_meanwhile"),
            (step("DELETE", &of_ip, "").when("If-Match", "\"3\""), 204, ""),
            (step("DELETE", &of_ip, ""), 404, "unknown_entry"),
            (step("DELETE", &of_composite, ""), 204, ""),
            (step("GET", path, ""), 200, "\":[{\"identifier_type\":\"user_id\",\"identifier\":\"eve\""),
        ]);
    }
}

#[test]
fn entries_are_found_by_their_fields() {
    let desk = TestServer::open();
    let path = "/api/v1/blacklist";
    for body in [
        EXAMPLE,
        COMPOSITE,
        r#"{"identifier_type": "ip", "identifier": "2001:db8::1"}"#,
        r#"{"identifier_type": "user_id", "identifier": "eve"}"#,
        r#"{"identifier_type": ["tenant", "user_id"], "identifier": ["globex", "wile"]}"#,
    ] {
        desk.prepare("POST", path, body);
    }
    let check = |query: &str, expected: &[&str]| {
        let found = desk.read(&format!("{path}?{query}"));
        let found = found["blacklist"].as_array().expect("entries");
        let told: Vec<String> = found.iter().map(|it| it["identifier"].to_string()).collect();
        assert_eq!(told, expected, "{query}");
    };
    check("identifier_type=user_id", &["\"eve\""]);
    check("identifier=eve", &["\"eve\""]);
    check("identifier=unknown", &[]);
    check("identifier_type=ip&identifier=2001:DB8:0::1", &["\"2001:db8::1\""]);
    check("tenant=acme", &["[\"acme\",\"wile\"]"]);
    check("tenant=acme&identifier_type=user_id", &[]);
    let both = "identifier_type=user_id&identifier=wile&identifier_type=tenant&identifier=globex";
    check(both, &["[\"globex\",\"wile\"]"]);
}

#[test]
fn invalid_list_entries_are_errors() {
    let desk = TestServer::open();
    let path = "/api/v1/whitelist";
    let post = |body: &'static str| step("POST", path, body);
    #[rustfmt::skip]
    let cases: &[(Step<'_>, u16, &str)] = &[
        (post("{}"), 422, "identifier_type"),
        (post("[]"), 422, "invalid_document"),
        (post("nonsense"), 422, "invalid_document"),
        (post(""), 422, "invalid_document"),
        (post(r#"{"identifier_type": "ip"}"#), 422, "\"field\":\"identifier\""),
        (post(r#"{"identifier_type": "ip", "identifier": "10.0.0.0/99"}"#), 422, "\"field\":\"identifier\""),
        (post(r#"{"identifier_type": "shoe", "identifier": "42"}"#), 422, "\"field\":\"identifier_type\""),
        (post(r#"{"identifier_type": "ip", "identifier": "10.0.0.1", "why": "x"}"#), 422, "why"),
        (post(r#"{"identifier_type": "ip", "identifier": "10.0.0.1", "expires_at": "soon"}"#), 422, "\"field\":\"expires_at\""),
        (post(r#"{"identifier_type": ["ip", "user_id"], "identifier": "10.0.0.1"}"#), 422, "\"field\":\"identifier\""),
        (step("DELETE", path, ""), 400, "invalid_query"),
        (step("DELETE", "/api/v1/whitelist?identifier_type=ip", ""), 400, "invalid_query"),
        (step("DELETE", "/api/v1/whitelist?identifier_type=ip&identifier=10.0.0.1&now=1", ""), 400, "no parameter `now`"),
        (step("GET", "/api/v1/whitelist?limit=0", ""), 400, "from 1 to 1000"),
        (step("GET", "/api/v1/whitelist?limit=1001", ""), 400, "from 1 to 1000"),
        (step("GET", "/api/v1/whitelist?rule_id=a", ""), 400, "no parameter `rule_id`"),
        (step("GET", "/api/v1/whitelist?detail=maybe", ""), 400, "true or false"),
        (step("GET", "/api/v1/whitelist?identifier_type=ip&identifier=x", ""), 400, "invalid_query"),
        (step("POST", "/api/v1/whitelist?dry_run=maybe", EXAMPLE), 400, "true or false"),
        (post(EXAMPLE).when("If-None-Match", "\"1\""), 400, "invalid_condition"),
        (step("GET", path, ""), 200, "\"whitelist\":[]"),
    ];
    desk.check(cases);
    let plain = desk.server.ask("POST", path, &[tollgate_e2e::server::bearer_admin()], EXAMPLE);
    assert_eq!((plain.status, plain.code().as_str()), (415, "not_json"));
}

#[test]
fn api_keys_on_a_list_stay_out_of_the_log() {
    let desk = TestServer::open();
    let with_end =
        r#"{"identifier_type": "api_key", "identifier": "sk_live_1", "expires_at": "x"}"#;
    let of_key = "/api/v1/blacklist?identifier_type=api_key&identifier=sk_live_1";
    #[rustfmt::skip]
    desk.check(&[
        (step("POST", "/api/v1/blacklist", with_end), 422, "expires_at"),
        (step("POST", "/api/v1/blacklist", API_KEY), 201, ""),
        (step("DELETE", of_key, ""), 204, ""),
        (step("DELETE", of_key, ""), 404, "this client is not on the list"),
    ]);
    let log = desk.server.process.errors();
    assert!(!log.contains("sk_live_1"), "{log}");
}
