//! Every entry says when it was written last, and by whom.

use serde_json::Value;

use crate::admin::desk::{TestServer, step, text};

const LIST: &str = r#"{"identifier_type":"user_id","identifier":"u1"}"#;

/// An operator's token, and the id by which entries name it.
fn operator(server: &TestServer) -> (String, String) {
    let body = r#"{"role":"operator"}"#;
    let made = server.prepare("POST", "/api/v1/tokens", body);
    (text(&made, "token"), text(&made, "token_id"))
}

#[track_caller]
fn check(entry: &Value, created_by: &str, updated_by: &str) {
    assert_eq!(entry["created_by"], created_by, "{entry}");
    assert_eq!(entry["updated_by"], updated_by, "{entry}");
    let (made, changed) = (text(entry, "created_at"), text(entry, "updated_at"));
    // Both are RFC 3339 in UTC, so they compare as texts.
    assert!(changed >= made && changed.ends_with('Z'), "{entry}");
}

#[test]
fn entries_name_their_last_writer() {
    let server = TestServer::open();
    server.prepare("PUT", "/api/v1/tiers", r#"{"tiers":[{"tier":"pro"}]}"#);
    let rule = r#"{"rule_id":"r","limit":5,"window":"1m","identifier_type":"user_id"}"#;
    server.prepare("POST", "/api/v1/rules", rule);
    let client = r#"{"identifier_type":"user_id","identifier":"u1","tier":"pro"}"#;
    server.prepare("PUT", "/api/v1/clients", client);
    let exception = r#"{"rule_id":"r","identifier_type":"user_id","identifier":"u1","limit":7}"#;
    server.prepare("PUT", "/api/v1/overrides", exception);
    server.prepare("POST", "/api/v1/whitelist", LIST);
    server.prepare("POST", "/api/v1/blacklist", &LIST.replace("u1", "u2"));
    let (token, id) = operator(&server);
    let change = |method: &str, path: &str, body: &str| {
        let answer = server.call(&token, &step(method, path, body));
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        answer.json()
    };
    let written = change("PATCH", "/api/v1/rules/r", r#"{"limit":6}"#);
    assert_eq!(text(&written, "updated_by"), id);
    assert!(text(&written, "updated_at") >= text(&written, "created_at"));
    change("PUT", "/api/v1/tiers", r#"{"tiers":[{"tier":"pro","default":true}]}"#);
    change("PUT", "/api/v1/overrides", &exception.replace('7', "8"));
    let reason = LIST.replace('}', r#","reason":"why"}"#);
    check(&change("POST", "/api/v1/whitelist", &reason), "admin", &id);
    change("POST", "/api/v1/blacklist", &reason.replace("u1", "u2"));

    check(&server.read("/api/v1/rules/r?detail=true"), "admin", &id);
    assert_eq!(server.read("/api/v1/rules/r")["updated_by"], Value::Null);
    // Not the second after the one in which it was written, which the audit log tells exactly.
    let logged = server.read("/api/v1/audit?kind=rule&entry=r&limit=1");
    let exact = logged["records"][0]["at"].as_str().expect("a time");
    let shown = text(&server.read("/api/v1/rules/r?detail=true"), "updated_at");
    assert_eq!(shown[..19], exact[..19], "{logged}");
    for (path, list, by) in [
        ("/api/v1/rules?after=default_per_user&detail=true", "rules", id.as_str()),
        ("/api/v1/tiers?detail=true", "tiers", &id),
        ("/api/v1/overrides?detail=true", "overrides", &id),
        ("/api/v1/whitelist?detail=true", "whitelist", &id),
        ("/api/v1/blacklist?detail=true", "blacklist", &id),
        ("/api/v1/clients?detail=true", "clients", "admin"),
    ] {
        let found = server.read(path);
        let entries = found[list].as_array().expect("a list");
        assert_eq!(entries.len(), 1, "{found}");
        check(&entries[0], "admin", by);
    }
    let tokens = server.read("/api/v1/tokens");
    let mine = tokens["tokens"].as_array().expect("a list").iter().find(|it| it["token_id"] == *id);
    check(mine.expect("the token"), "admin", "admin");
    let key = server.call(&token, &step("POST", "/api/v1/api-keys", r#"{"owner":"u1"}"#));
    check(&key.json(), &id, &id);
    check(&server.read("/api/v1/api-keys")["api_keys"][0], &id, &id);
}

#[test]
fn a_query_of_one_rule_that_makes_no_sense_is_refused() {
    let server = TestServer::open();
    let path = "/api/v1/rules/default_per_ip";
    server.check(&[
        (step("GET", &format!("{path}?detail=maybe"), ""), 400, "`detail` is true or false"),
        (step("GET", &format!("{path}?details=true"), ""), 400, "there are detail"),
    ]);
}
