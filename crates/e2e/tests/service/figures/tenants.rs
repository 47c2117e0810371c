//! An administrator of a tenant sees the figures of that tenant, and nothing of others.

use serde_json::{Value, json};
use tollgate_e2e::server::Server;
use tollgate_e2e::until;

use super::{as_token, check, start, tenant_admin};

fn rule(rule_id: &str, tenant: Option<&str>, limit: u64) -> Value {
    let mut rule = super::rule(rule_id, limit);
    if let Some(tenant) = tenant {
        rule["tenant"] = json!(tenant);
    }
    rule
}

fn world() -> (Server, String) {
    let rules = json!([
        rule("shared", None, 2),
        rule("acme_api", Some("acme"), 3),
        rule("globex_api", Some("globex"), 3)
    ]);
    let server = start("", &rules);
    check(&server, Some("acme"), &[("wile", 5)]);
    check(&server, Some("globex"), &[("hank", 9)]);
    check(&server, None, &[("mallory", 9)]);
    let token = tenant_admin(&server, "acme");
    (server, token)
}

#[test]
fn a_tenant_sees_its_own_figures_only() {
    let (server, token) = world();
    let read = |path: &str| {
        let answer = as_token(&server, &token, "GET", path, "");
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        let text = answer.text();
        for secret in ["globex", "hank", "mallory", "shared"] {
            assert!(!text.contains(secret), "{path} tells of {secret}: {text}");
        }
        answer.json()
    };
    let top = read("/api/v1/top");
    assert_eq!(top["busiest"]["top"][0]["name"], "wile");
    assert_eq!(top["busiest"]["top"][0]["count"], 5);
    assert_eq!(top["refused"]["top"][0]["count"], 3);
    let mut other = read("/api/v1/top?tenant=globex");
    // Of another moment.
    other["as_of"] = top["as_of"].clone();
    assert_eq!(other, top, "the tenant is not chosen by the caller");
    read("/api/v1/top?by=endpoint");
    let rules = read("/api/v1/top?by=rule&limit=1");
    assert_eq!(rules["refused"]["top"], json!([]), "a rule of the operators refused");
    let stats = read("/api/v1/stats");
    assert_eq!((&stats["totals"], &stats["bans"]), (&Value::Null, &Value::Null));
    assert_eq!(stats["rules"].as_array().map(Vec::len), Some(1));
    assert_eq!(stats["rules"][0]["rule_id"], "acme_api");
    let history = until("a history", || {
        let history = read("/api/v1/history?range=5m");
        history["rules"].as_array().is_some_and(|rules| !rules.is_empty()).then_some(history)
    });
    assert_eq!((&history["node"], &history["revisions"]), (&Value::Null, &json!([])));
    assert_eq!(history["rules"][0]["rule_id"], "acme_api");
    let decisions = until("decisions in the log", || {
        let log = read("/api/v1/audit/decisions?tenant=globex");
        log["records"].as_array().filter(|records| records.len() == 3).cloned()
    });
    for decision in &decisions {
        assert_eq!(
            (&decision["client"], &decision["reason"]),
            (&json!("wile"), &json!("rate_limited"))
        );
        for figure in ["rule_id", "limit", "remaining", "retry_after"] {
            assert_eq!(decision[figure], Value::Null, "{decision}");
        }
    }
    // A rule of others is not found, as one that does not exist.
    for foreign in ["shared", "globex_api", "nowhere"] {
        let found = read(&format!("/api/v1/audit/decisions?rule_id={foreign}"));
        assert_eq!(found["records"], json!([]), "{foreign}");
    }
    let lines = [("Accept", "application/x-ndjson"), ("Authorization", token.as_str())];
    let export = server.ask("GET", "/api/v1/audit/decisions", &lines, "").text();
    assert!(export.contains("wile") && !export.contains("shared"), "{export}");
    let of_all = super::read(&server, "/api/v1/audit/decisions?rule_id=shared").to_string();
    assert!(of_all.contains("\"retry_after\""), "operators see them: {of_all}");
    assert_eq!(as_token(&server, &token, "GET", "/api/v1/nodes", "").status, 403);
}

#[test]
fn a_tenant_tries_changes_of_its_own_rules_on_its_own_requests() {
    let (server, token) = world();
    let preview =
        |body: &Value| as_token(&server, &token, "POST", "/api/v1/preview", &body.to_string());
    let own = preview(&json!({"rule": rule("acme_api", Some("acme"), 1)}));
    assert_eq!(own.status, 200, "{own:?}");
    assert_eq!((&own.json()["requests"], &own.json()["then"]["refused"]), (&json!(5), &json!(4)));
    assert!(!own.text().contains("hank") && !own.text().contains("mallory"), "{own:?}");
    let mut replaces = rule("acme.strict", Some("acme"), 1);
    assert_eq!(preview(&json!({"rule": replaces})).status, 200);
    let mut replacing = |rule_id: &str| {
        replaces["replaces"] = json!([rule_id]);
        json!({"rule": replaces})
    };
    assert_eq!(preview(&replacing("acme_api")).status, 200);
    let mut answers = Vec::new();
    for body in [
        json!({"rule": rule("shared", None, 1)}),
        json!({"rule": rule("shared", Some("acme"), 1)}),
        json!({"rule": rule("globex_api", Some("globex"), 1)}),
        json!({"remove": ["globex_api"]}),
        // Others' rules look like those that do not exist.
        json!({"remove": ["nowhere"]}),
        json!({"rule": rule("nowhere", Some("acme"), 1)}),
        replacing("globex_api"),
        replacing("shared"),
        replacing("nowhere"),
        json!({"policy": {"rules": [], "whitelist": [{"identifier_type": "user_id", "identifier": "wile"}]}}),
    ] {
        let answer = preview(&body);
        assert_eq!((answer.status, answer.code().as_str()), (403, "other_tenant"), "{body}");
        answers.push(answer.json()["detail"].clone());
    }
    assert!(answers.iter().all(|it| *it == answers[0]), "{answers:?}");
}
