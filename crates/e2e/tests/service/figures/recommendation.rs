//! Limits that a server proposes by its recent requests refuse what was promised.

use serde_json::{Value, json};
use tollgate_e2e::server::{ADMIN_TOKEN, Server, tollgate};

use super::{as_token, read, rule, start, tenant_admin};

const PATH: &str = "/api/v1/recommendation";

/// Requests of users, keys and addresses, some of them greedy, on three endpoints.
fn world(tenant: Option<&str>) -> Vec<Value> {
    let mut checks = Vec::new();
    let mut send = |identifiers: Value, method: &str, endpoint: &str, count: usize| {
        let mut identifiers = identifiers;
        if let Some(tenant) = tenant {
            identifiers["tenant"] = json!(tenant);
        }
        let check = json!({"identifiers": identifiers, "method": method, "endpoint": endpoint});
        checks.extend(vec![check; count]);
    };
    for user in 0..40 {
        send(json!({"user_id": format!("user-{user}")}), "GET", "/items/7", 5 + user % 7);
    }
    send(json!({"user_id": "greedy"}), "GET", "/items/9", 150);
    for key in 0..10 {
        send(json!({"api_key": format!("key-{key}")}), "POST", "/orders", 8);
    }
    for address in 0..30 {
        send(json!({"ip": format!("192.0.2.{address}")}), "POST", "/login", 4 + address % 3);
    }
    checks
}

fn send(server: &Server, checks: &[Value]) {
    for some in checks.chunks(500) {
        let body = json!({"checks": some}).to_string();
        let answer = server.post("/api/v1/rate-limit/check/batch", &body);
        assert_eq!(answer.status, 200, "{answer:?}");
    }
}

/// The proposed rules as a policy.
fn policy(recommendation: &Value) -> Value {
    let rule = |it: &Value| {
        let mut applies_to = json!({});
        if let Some(endpoint) = it["endpoint"].as_str() {
            applies_to["endpoints"] = json!([endpoint]);
            applies_to["methods"] = it["methods"].clone();
        }
        let mut rule = json!({
            "rule_id": it["rule_id"], "limit": it["limit"], "window": it["window"], "algorithm": it["algorithm"],
            "identifier_type": it["identifier_type"], "applies_to": applies_to, "replaces": it["replaces"],
        });
        if !it["tenant"].is_null() {
            rule["tenant"] = it["tenant"].clone();
        }
        rule
    };
    let rules: Vec<Value> =
        recommendation["rules"].as_array().expect("rules").iter().map(rule).collect();
    json!({"rules": rules})
}

#[test]
fn a_preview_of_the_proposed_policy_refuses_the_share_that_was_promised() {
    let server = start("", &json!([rule("few", 5)]));
    let checks = world(None);
    send(&server, &checks);
    let mut limits = Vec::new();
    for (query, most) in [
        ("", 0.1),
        ("?refuse_at_most=0&headroom=0", 0.0),
        ("?refuse_at_most=5%25&headroom=0%25", 5.0),
        ("?refuse_at_most=20&headroom=50&window=1h&endpoints=1", 20.0),
    ] {
        let proposed = read(&server, &format!("{PATH}{query}"));
        assert_eq!(proposed["requests"], checks.len(), "{proposed}");
        assert_eq!((&proposed["one_in"], &proposed["cut"]), (&json!(1), &json!(false)));
        assert_eq!(proposed["clients"], 81, "{proposed}");
        let refused = proposed["refused"].as_u64().expect("a number");
        assert!(refused as f64 * 100.0 <= most * checks.len() as f64, "{query}: {proposed}");
        let body = json!({"policy": policy(&proposed), "remove": ["few"]}).to_string();
        let preview = server.post_as_admin("/api/v1/preview", &body);
        assert_eq!(preview.status, 200, "{preview:?}");
        let preview = preview.json();
        assert_eq!(preview["requests"], proposed["requests"], "{query}");
        assert_eq!(preview["then"]["refused"], refused, "{query}: {proposed}");
        assert_eq!(preview["then"]["clients"], proposed["clients_refused"], "{query}: {proposed}");
        assert_eq!((&preview["from"], &preview["until"]), (&proposed["from"], &proposed["until"]));
        let text = proposed.to_string();
        assert!(!text.contains("key-") && !text.contains("greedy"), "no client is named: {text}");
        let users = proposed["rules"].as_array().expect("rules").iter();
        limits.push(
            users.filter(|it| it["rule_id"] == "per_user").map(|it| it["limit"].clone()).next(),
        );
    }
    assert_eq!(limits[1], Some(json!(150)), "what the greediest user needed");
    assert!(limits[2].as_ref().and_then(Value::as_u64) < Some(150), "{limits:?}");
}

#[test]
fn the_command_shows_what_the_server_proposes() {
    let server = start("", &json!([rule("few", 5)]));
    send(&server, &world(None));
    let url = server.url("");
    let run = |arguments: &[&str]| {
        let output = tollgate()
            .args(["recommend", "--live", "--server", url.trim_end_matches('/')])
            .args(arguments)
            .env("TOLLGATE_TOKEN", ADMIN_TOKEN)
            .output()
            .expect("the binary runs");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("readable output");
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let proposed = read(&server, &format!("{PATH}?refuse_at_most=5"));
    let (code, stdout, stderr) = run(&["--json", "--refuse-at-most", "5%"]);
    assert_eq!(code, Some(0), "{stderr}");
    let shown: Value = serde_json::from_str(&stdout).expect("an object");
    for name in ["requests", "refused", "clients", "clients_refused", "rules"] {
        assert_eq!(shown[name], proposed[name], "{name}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("proposed.yaml");
    let path = file.to_str().expect("a path");
    let (code, stdout, stderr) = run(&["--refuse-at-most", "5%", "-o", path]);
    assert_eq!(code, Some(0), "{stderr}");
    for part in [
        "requests (recent ones of one node)",
        "headroom 20 %, at most 5 %",
        "per_user",
        "replayed: ",
    ] {
        assert!(stdout.contains(part), "{part}: {stdout}");
    }
    // What stays beside the proposed rules refuses too: a number of these, and the way without them.
    assert!(stderr.contains("1 rule in force on this server would stay beside"), "{stderr}");
    assert!(stdout.contains("tollgate rules apply --prune --file"), "{stdout}");
    assert_eq!(proposed["other_rules"], 1, "{proposed}");
    let linted = tollgate().args(["rules", "lint", "--strict", path]).output().expect("it runs");
    let policy = std::fs::read_to_string(&file).expect("a policy");
    assert!(linted.status.success(), "{policy}\n{linted:?}");
    assert!(policy.contains("by the busiest client"), "{policy}");
    assert!(policy.contains("#   tollgate rules apply --prune --file"), "{policy}");
    let applied = tollgate()
        .args(["rules", "apply", "--prune", "--yes", "--file", path])
        .args(["--server", url.trim_end_matches('/')])
        .env("TOLLGATE_TOKEN", ADMIN_TOKEN)
        .output()
        .expect("it runs");
    assert!(applied.status.success(), "{applied:?}");
    let (code, _, stderr) = run(&["--refuse-at-most", "5%"]);
    assert_eq!((code, stderr.contains("would stay")), (Some(0), false), "{stderr}");
    // A log and a server at once, or neither, is a mistake.
    for arguments in [&["access.log"][..], &["--window", "x"]] {
        assert_eq!(run(arguments).0, Some(2), "{arguments:?}");
    }
    let neither = tollgate().arg("recommend").output().expect("it runs");
    assert_eq!(neither.status.code(), Some(2), "{neither:?}");
}

#[test]
fn a_tenant_gets_limits_of_its_own_by_its_requests() {
    let server = start("", &json!([rule("few", 5)]));
    let (own, other) = (world(Some("acme")), world(Some("globex")));
    send(&server, &own);
    send(&server, &other);
    let token = tenant_admin(&server, "acme");
    let proposed = as_token(&server, &token, "GET", PATH, "").json();
    assert_eq!(proposed["requests"], own.len(), "{proposed}");
    let rules = proposed["rules"].as_array().expect("rules");
    assert!(rules.iter().all(|rule| rule["tenant"] == "acme"), "{proposed}");
    assert_eq!(proposed["other_rules"], 0, "it does not learn how many rules operators have");
    let body = json!({"policy": policy(&proposed)}).to_string();
    let preview = as_token(&server, &token, "POST", "/api/v1/preview", &body);
    assert_eq!(preview.status, 200, "{preview:?}");
    assert_eq!(read(&server, PATH)["requests"], own.len() + other.len());
}

#[test]
fn what_cannot_be_proposed_is_refused_with_a_reason() {
    let server = start("", &json!([rule("few", 5)]));
    let refused = |server: &Server, query: &str, status: u16, code: &str| {
        let answer = server.get_as_admin(&format!("{PATH}{query}"));
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{query}: {answer:?}");
    };
    refused(&server, "", 404, "no_recent_traffic");
    // A check of one rule says nothing about others.
    server.check(r#"{"rule_id":"few","key_type":"user_id","key_value":"ann"}"#);
    refused(&server, "", 404, "no_recent_traffic");
    server.check(r#"{"endpoint":"/a"}"#);
    refused(&server, "", 404, "no_recent_traffic");
    for query in [
        "?headroom=many",
        "?refuse_at_most=101",
        "?window=1+year+or+so",
        "?endpoints=101",
        "?limit=1",
    ] {
        refused(&server, query, 400, "invalid_query");
    }
    let server = start("recent_traffic: 0", &json!([rule("few", 5)]));
    server.check(r#"{"identifiers":{"user_id":"ann"}}"#);
    refused(&server, "", 404, "no_recent_traffic");
}
