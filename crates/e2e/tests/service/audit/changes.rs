//! The audit log: author, time, address, the entry before and the entry now.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{brief, call, read, records, rule, settled, start};
use tollgate_e2e::server::{ADMIN_TOKEN, CHECK, JSON, Server};

const AUDIT: &str = "/api/v1/audit";

/// A call that changes something, and its record in the log: kind, name and action.
type Made = (&'static str, &'static str, &'static str, &'static str);

/// Every call that changes the catalog. `{key}` and `{token}` are made on the way; `{before}` is the revision before the
/// last change.
#[rustfmt::skip]
const CHANGES: &[Made] = &[
    ("POST", "/api/v1/rules", r#"{"rule_id": "r", "limit": 5, "window": "1h", "identifier_type": "user_id"}"#, "rule r create"),
    ("PATCH", "/api/v1/rules/r", r#"{"limit": 6}"#, "rule r update"),
    ("PUT", "/api/v1/rules/r", r#"{"limit": 7, "window": "1h", "identifier_type": "user_id"}"#, "rule r update"),
    ("POST", "/admin/api/v1/rate-limits/rules", r#"{"rule_id": "s", "limit": 5, "window": "1h", "identifier_type": "ip"}"#, "rule s create"),
    ("PATCH", "/admin/api/v1/rate-limits/rules/s", r#"{"limit": 6}"#, "rule s update"),
    ("PUT", "/admin/api/v1/rate-limits/rules/s", r#"{"limit": 7, "window": "1h", "identifier_type": "ip"}"#, "rule s update"),
    ("DELETE", "/admin/api/v1/rate-limits/rules/s", "", "rule s delete"),
    ("POST", "/api/v1/whitelist", r#"{"identifier_type": "ip", "identifier": "10.0.0.1"}"#, r#"whitelist ["ip","10.0.0.1"] create"#),
    ("DELETE", "/api/v1/whitelist?identifier_type=ip&identifier=10.0.0.1", "", r#"whitelist ["ip","10.0.0.1"] delete"#),
    ("POST", "/api/v1/blacklist", r#"{"identifier_type": "user_id", "identifier": "eve"}"#, r#"blacklist ["user_id","eve"] create"#),
    ("DELETE", "/api/v1/blacklist?identifier_type=user_id&identifier=eve", "", r#"blacklist ["user_id","eve"] delete"#),
    ("POST", "/admin/api/v1/rate-limits/whitelist", r#"{"identifier_type": "ip", "identifier": "10.0.0.1"}"#, r#"whitelist ["ip","10.0.0.1"] create"#),
    ("DELETE", "/admin/api/v1/rate-limits/whitelist?identifier_type=ip&identifier=10.0.0.1", "", r#"whitelist ["ip","10.0.0.1"] delete"#),
    ("POST", "/admin/api/v1/rate-limits/blacklist", r#"{"identifier_type": "user_id", "identifier": "eve"}"#, r#"blacklist ["user_id","eve"] create"#),
    ("DELETE", "/admin/api/v1/rate-limits/blacklist?identifier_type=user_id&identifier=eve", "", r#"blacklist ["user_id","eve"] delete"#),
    ("PUT", "/api/v1/tiers", r#"{"tiers": [{"tier": "pro"}]}"#, "tier pro create"),
    ("PUT", "/api/v1/clients", r#"{"identifier_type": "user_id", "identifier": "ann", "tier": "pro"}"#, r#"client ["user_id","ann"] create"#),
    ("DELETE", "/api/v1/clients?identifier_type=user_id&identifier=ann", "", r#"client ["user_id","ann"] delete"#),
    ("PUT", "/api/v1/overrides", r#"{"rule_id": "r", "identifier_type": "user_id", "identifier": "ann", "limit": 9}"#, r#"override ["r","user_id","ann"] create"#),
    ("DELETE", "/api/v1/overrides?rule_id=r&identifier_type=user_id&identifier=ann", "", r#"override ["r","user_id","ann"] delete"#),
    ("PUT", "/api/v1/users/ann/tier", r#"{"tier": "pro"}"#, r#"client ["user_id","ann"] create"#),
    ("DELETE", "/api/v1/users/ann/tier", "", r#"client ["user_id","ann"] delete"#),
    ("POST", "/api/v1/users/ann/override", r#"{"rule_id": "r", "limit": 9}"#, r#"override ["r","user_id","ann"] create"#),
    ("DELETE", "/api/v1/users/ann/override?rule_id=r", "", r#"override ["r","user_id","ann"] delete"#),
    ("POST", "/api/v1/api-keys", r#"{"key": "sk_live_ossifrage", "owner": "ann"}"#, "api_key {key} create"),
    ("DELETE", "/api/v1/api-keys/{key}", "", "api_key {key} delete"),
    ("POST", "/api/v1/tokens", r#"{"role": "viewer"}"#, "token {token} create"),
    ("DELETE", "/api/v1/tokens/{token}", "", "token {token} delete"),
    ("DELETE", "/api/v1/rules/r", "", "rule r delete"),
    ("PUT", "/api/v1/policy", r#"{"rules": [{"rule_id": "t", "limit": 5, "window": "1h", "identifier_type": "ip"}]}"#, "rule t create"),
    ("POST", "/api/v1/policy/revisions/{before}/rollback", "", "rule t delete"),
];

/// Calls that change something else: counters, and bans, which penalties make.
const OTHERS: [&str; 10] = [
    "/api/v1/preview",
    "/api/v1/rate-limit/check",
    "/api/v1/rate-limit/check/batch",
    "/api/v1/rate-limit/peek",
    "/api/v1/rate-limit/explain",
    "/api/v1/rate-limit/refund",
    "/api/v1/rate-limit/reset",
    "/api/v1/bans",
    "/admin/api/v1/rate-limits/bans",
    "/json",
];

#[test]
fn every_change_is_logged_with_its_author_and_the_entry_before() {
    let server = start("{}", &json!({"rules": []}));
    let (mut key, mut token, mut secret) = (String::new(), String::new(), String::new());
    let mut before = String::new();
    for (method, path, body, told) in CHANGES {
        let fill = |text: &str| text.replace("{key}", &key).replace("{token}", &token);
        let path = fill(path).replace("{before}", &before);
        let answer = call(&server, method, &path, body);
        assert!((200..300).contains(&answer.status), "{method} {path}: {answer:?}");
        let made = if answer.body.is_empty() { Value::Null } else { answer.json() };
        for (name, kept) in [("key_id", &mut key), ("token_id", &mut token), ("token", &mut secret)]
        {
            if let Some(text) = made[name].as_str() {
                text.clone_into(kept);
            }
        }
        if let Some(revision) = made["revision"].as_u64() {
            before = (revision - 1).to_string();
        }
        let fill = |text: &str| text.replace("{key}", &key).replace("{token}", &token);
        let last = records(&server, "/api/v1/audit?limit=1");
        assert_eq!(brief(&last, &["kind", "entry", "action"]), [fill(told)], "{method} {path}");
        assert_eq!(brief(&last, &["actor", "role", "address"]), ["admin admin 127.0.0.1"]);
        let (was, becomes) = (last[0].get("was"), last[0].get("becomes"));
        let is_right = match last[0]["action"].as_str() {
            Some("create") => was.is_none() && becomes.is_some(),
            Some("update") => was.is_some() && becomes.is_some() && was != becomes,
            _ => was.is_some() && becomes.is_none(),
        };
        assert!(is_right, "{last:?}");
    }
    // The state before a change equals the state after the last one.
    let of_r = records(&server, "/api/v1/audit?kind=rule&entry=r");
    assert_eq!(of_r.len(), 4);
    for pair in of_r.windows(2) {
        assert_eq!(pair[0]["was"], pair[1]["becomes"]);
        assert!(pair[0]["at"].as_str() > pair[1]["at"].as_str(), "{pair:?}");
    }
    assert_eq!(of_r[2]["becomes"]["limit"], 6);
    let log = server.get_as_admin("/api/v1/audit?limit=1000").text();
    for hidden in ["digest", "sk_live_ossifrage", ADMIN_TOKEN, secret.as_str()] {
        assert!(!log.contains(hidden), "{hidden} is in {log}");
    }
}

#[test]
fn every_call_that_changes_something_is_tested_here() {
    let server = start("{}", &json!({"rules": []}));
    let description = server.get("/openapi.json").json();
    let plain = |path: &str| {
        let path = path.split('?').next().unwrap_or_default();
        let parts = path.split('/').map(|part| if part.starts_with('{') { "*" } else { part });
        parts.collect::<Vec<_>>().join("/")
    };
    let known: BTreeSet<(String, String)> = CHANGES
        .iter()
        .map(|(method, path, ..)| {
            let path = path.replace("/rules/r", "/rules/{r}").replace("/rules/s", "/rules/{s}");
            (method.to_lowercase(), plain(&path.replace("/ann/", "/{ann}/")))
        })
        .collect();
    for (path, calls) in description["paths"].as_object().expect("paths") {
        let calls = calls.as_object().expect("calls").keys().filter(|call| *call != "get");
        for call in calls.filter(|_| !OTHERS.contains(&path.as_str())) {
            assert!(known.contains(&(call.clone(), plain(path))), "{call} {path} is not tried");
        }
    }
}

#[test]
fn a_call_that_changes_nothing_is_not_logged() {
    let server = start("{}", &json!({"rules": [rule("r", 5)]}));
    let before = records(&server, AUDIT);
    let try_call = |method: &str, path: &str, body: &str, status: u16| {
        assert_eq!(call(&server, method, path, body).status, status, "{method} {path}");
    };
    try_call("PATCH", "/api/v1/rules/r?dry_run=true", r#"{"limit": 9}"#, 200);
    try_call("PATCH", "/api/v1/rules/r", r#"{"limit": 5}"#, 200);
    try_call("PATCH", "/api/v1/rules/r", r#"{"limit": -1}"#, 422);
    try_call("DELETE", "/api/v1/rules/nope", "", 404);
    try_call("PUT", "/api/v1/policy", r#"{"rules": [{"rule_id": "x"}]}"#, 422);
    assert_eq!(records(&server, AUDIT), before);
}

/// Pages of the log, as their `Link` leads from one to the next.
fn walk(server: &Server, first: &str) -> (Vec<Value>, usize) {
    let (mut all, mut pages, mut next) = (Vec::new(), 0, Some(first.to_owned()));
    while let Some(path) = next {
        let answer = server.get_as_admin(&path);
        let mut page = answer.json();
        let Value::Array(records) = page["records"].take() else { panic!("{answer:?}") };
        all.extend(records);
        pages += 1;
        let link = answer.header("link");
        next = link.map(|link| {
            let (path, rest) = link[1..].split_once('>').expect("a link");
            assert_eq!(rest, "; rel=\"next\"");
            path.to_owned()
        });
    }
    (all, pages)
}

#[test]
fn the_log_is_found_by_every_filter_and_read_in_pages() {
    let server = start("{}", &json!({"rules": [rule("a", 5), rule("b", 5)]}));
    assert_eq!(call(&server, "PATCH", "/api/v1/rules/a", r#"{"limit": 6}"#).status, 200);
    let middle =
        records(&server, "/api/v1/audit?limit=1")[0]["at"].as_str().expect("a time").to_owned();
    assert_eq!(call(&server, "PUT", "/api/v1/tiers", r#"{"tiers": [{"tier": "a"}]}"#).status, 200);
    let all = records(&server, "/api/v1/audit?limit=1000");
    for limit in [1, 2, 3, all.len()] {
        let (walked, pages) = walk(&server, &format!("/api/v1/audit?limit={limit}"));
        assert_eq!(walked, all, "{limit} at a time");
        assert_eq!(pages, all.len().div_ceil(limit), "{limit} at a time");
    }
    let check = |query: &str, expected: &[&str]| {
        let found = records(&server, &format!("/api/v1/audit?{query}"));
        assert_eq!(brief(&found, &["kind", "entry", "action"]), expected, "{query}");
    };
    check("entry=a", &["tier a create", "rule a update", "rule a create"]);
    check("entry=a&kind=tier", &["tier a create"]);
    let unknown = server.get_as_admin("/api/v1/audit?actor=unknown");
    assert_eq!((unknown.status, unknown.code().as_str()), (404, "unknown_actor"), "{unknown:?}");
    check("actor=admin&kind=rule&entry=b", &["rule b create"]);
    check(&format!("since={middle}"), &["tier a create", "rule a update"]);
    check(&format!("until={middle}&entry=a"), &["rule a create"]);
    let by_program = records(&server, "/api/v1/audit?actor=first%20start");
    assert!(by_program.iter().all(|record| record["role"] == "program"), "{by_program:?}");
    assert!(!by_program.is_empty());
    let refused = |query: &str, words: &str| {
        let answer = server.get_as_admin(&format!("/api/v1/audit?{query}"));
        assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_query"), "{query}");
        assert!(answer.text().contains(words), "{query}: {answer:?}");
    };
    refused("kind=rules", "`kind` is one of tier, rule");
    refused("before=x", "`before` is no place");
    refused("since=yesterday", "RFC 3339");
    refused("limit=0", "1 to 1000");
    refused("limit=1001", "1 to 1000");
    refused("who=me", "there is no parameter `who`");
    refused("entry=a%00", "NUL byte");
    refused("entry=a&entry=b", "twice");
}

#[test]
fn a_tenant_sees_only_its_own_changes() {
    let own = json!({"rule_id": "own", "limit": 1, "window": "1h", "identifier_type": "user_id", "tenant": "acme"});
    let server = start("{}", &json!({"rules": [own, rule("other", 1)]}));
    let made =
        call(&server, "POST", "/api/v1/tokens", r#"{"role": "tenant-admin", "tenant": "acme"}"#);
    let bearer = format!("Bearer {}", made.json()["token"].as_str().expect("a token"));
    let ask = |path: &str| server.ask("GET", path, &[("Authorization", &bearer)], "");
    for query in ["", "?tenant=other", "?entry=other", "?limit=1000"] {
        let mut seen = ask(&format!("/api/v1/audit{query}")).json();
        let Value::Array(seen) = seen["records"].take() else { panic!("{seen}") };
        for entry in brief(&seen, &["kind", "entry"]) {
            assert!(entry == "rule own" || entry.starts_with("token "), "{query}: {entry}");
        }
    }
    assert!(ask(AUDIT).text().contains("own"));
    for path in ["/api/v1/nodes", "/api/v1/tokens"] {
        assert_eq!(ask(path).status, 403, "{path}");
    }
}

/// They saw none at all.
#[test]
fn a_tenant_sees_its_own_refusals_and_figures() {
    let own = json!({"rule_id": "own", "limit": 0, "window": "1h", "identifier_type": "user_id", "tenant": "acme"});
    let server = start("{}", &json!({"rules": [own, rule("other", 0)]}));
    let made =
        call(&server, "POST", "/api/v1/tokens", r#"{"role": "tenant-admin", "tenant": "acme"}"#);
    let bearer = format!("Bearer {}", made.json()["token"].as_str().expect("a token"));
    let ask = |path: &str| server.ask("GET", path, &[("Authorization", &bearer)], "");
    for identifiers in [
        json!({"user_id": "ann", "tenant": "acme"}),
        json!({"user_id": "bob", "tenant": "beta"}),
        json!({"user_id": "eve"}),
    ] {
        let body = json!({ "identifiers": identifiers });
        assert_eq!(server.post(CHECK, &body.to_string()).json()["allowed"], false);
    }
    assert_eq!(settled(&server, super::DECISIONS, 3).len(), 3);
    for query in ["", "?tenant=beta", "?tenant=acme&limit=1000", "?action=refused"] {
        let mut seen = ask(&format!("{}{query}", super::DECISIONS)).json();
        let Value::Array(seen) = seen["records"].take() else { panic!("{seen}") };
        assert_eq!(brief(&seen, &["client", "tenant"]), ["ann acme"], "{query}");
    }
    let lines = [("Authorization", bearer.as_str()), ("Accept", "application/x-ndjson")];
    let lines = server.ask("GET", super::DECISIONS, &lines, "").text();
    assert!(
        lines.contains("\"ann\"") && !lines.contains("bob") && !lines.contains("eve"),
        "{lines}"
    );
    let stats = ask("/api/v1/stats").json();
    assert_eq!(brief(stats["rules"].as_array().expect("rules"), &["rule_id"]), ["own"]);
    assert_eq!((stats.get("totals"), stats.get("bans")), (None, None));
}

#[test]
fn rules_from_a_file_have_no_log() {
    let server =
        Server::with_rules("rules: [{rule_id: r, limit: 1, window: 1h, identifier_type: user_id}]");
    for path in [AUDIT, super::DECISIONS] {
        let answer = server.get_as_admin(path);
        assert_eq!((answer.status, answer.code().as_str()), (404, "no_log"), "{answer:?}");
    }
    // Statistics need no log.
    super::check(&server, "ann", 2);
    let stats = read(&server, "/api/v1/stats");
    assert_eq!(stats["totals"]["refused"], 1);
    assert_eq!(
        brief(stats["rules"].as_array().expect("rules"), &["rule_id", "admitted", "refused"])[0],
        "r 1 1"
    );
    assert!(stats["uptime_seconds"].as_f64() > Some(0.0), "{stats}");
    let top = tollgate_e2e::until("a ranking", || {
        let top = read(&server, "/api/v1/top?by=rule");
        (top["refused"]["top"] != json!([])).then_some(top)
    });
    assert_eq!(top["refused"]["top"], json!([{"name": "r", "count": 1}]));
}

/// A tenant-admin once saw from which address operators work.
#[test]
fn a_tenant_does_not_see_the_addresses_of_operators() {
    let own = json!({"rule_id": "own", "limit": 1, "window": "1h", "identifier_type": "user_id", "tenant": "acme"});
    let server = start("{}", &json!({"rules": [own]}));
    let made =
        call(&server, "POST", "/api/v1/tokens", r#"{"role": "tenant-admin", "tenant": "acme"}"#);
    let bearer = format!("Bearer {}", made.json()["token"].as_str().expect("a token"));
    let as_tenant = [JSON, ("Authorization", bearer.as_str())];
    let rule = json!({"rule_id": "acme.r", "limit": 1, "window": "1h", "identifier_type": "user_id", "tenant": "acme"});
    let written = server.ask("POST", "/api/v1/rules", &as_tenant, &rule.to_string());
    assert_eq!(written.status, 201, "{written:?}");
    let page = server.ask("GET", AUDIT, &as_tenant, "").json();
    let lines = [("Accept", "application/x-ndjson"), ("Authorization", bearer.as_str())];
    let lines = server.ask("GET", AUDIT, &lines, "").text();
    let lines = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    for seen in [page["records"].as_array().expect("records").clone(), lines] {
        let seen = brief(&seen, &["entry", "role", "address"]);
        assert_eq!(seen, ["acme.r tenant-admin 127.0.0.1", "own admin -"]);
    }
    let by_admin = records(&server, &format!("{AUDIT}?entry=own"));
    assert_eq!(brief(&by_admin, &["address"]), ["127.0.0.1"]);
}

/// A page of 1,000 large changes once had 90 MiB.
#[test]
fn a_page_of_large_changes_is_bounded_in_bytes() {
    let server = start("{}", &json!({"rules": []}));
    for number in 0..100 {
        let rule = json!({"rule_id": "large", "limit": number, "window": "1h",
            "identifier_type": "user_id", "description": "x".repeat(60_000)});
        let written = call(&server, "POST", "/api/v1/rules", &rule.to_string());
        assert!(written.status < 300, "{written:?}");
    }
    let (mut seen, mut pages) = (Vec::new(), 0);
    let mut path = Some(format!("{AUDIT}?entry=large&limit=1000"));
    while let Some(next) = path {
        let answer = server.get_as_admin(&next);
        assert!(answer.body.len() < 5 << 20, "{} bytes", answer.body.len());
        let page = answer.json();
        let limits = page["records"].as_array().expect("records").iter();
        seen.extend(limits.map(|record| record["becomes"]["limit"].as_u64().expect("a limit")));
        let link = answer.header("link").map(str::to_owned);
        path = link.map(|link| link[1..].split('>').next().unwrap_or_default().to_owned());
        pages += 1;
    }
    assert_eq!(seen, (0..100).rev().collect::<Vec<u64>>());
    assert!(pages > 1, "{pages}");
}
