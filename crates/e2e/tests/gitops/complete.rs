//! Every call of the admin API has a command: the calls that commands make are compared with the description.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::command::{TestServer, run};
use crate::recorder::CallRecorder;

const POLICY: &str = "\
rules:
  - {rule_id: search, limit: 5, window: 300d, identifier_type: user_id, algorithm: fixed_window}
  - {rule_id: login, limit: 0, window: 1h, identifier_type: ip,
     penalty: {after: 1, within_seconds: 600, ban_seconds: 600}}
tiers: [{tier: free, default: true}, {tier: pro}]
";

const CHANGED: &str =
    "rules: [{rule_id: search, limit: 7, window: 300d, identifier_type: user_id}]";

/// Calls that no command makes, each with the reason.
const WITHOUT_COMMAND: &[(&str, &str, &str)] = &[
    ("post", "/api/v1/rules", "`rules apply` writes rules, in one call of PUT /api/v1/policy"),
    (
        "put",
        "/api/v1/rules/{rule_id}",
        "`rules apply` writes rules, in one call of PUT /api/v1/policy",
    ),
    (
        "patch",
        "/api/v1/rules/{rule_id}",
        "`rules apply` writes rules, in one call of PUT /api/v1/policy",
    ),
    (
        "get",
        "/api/v1/events",
        "a stream for programs; `tollgate top` shows what happens by figures",
    ),
];

/// The group of calls that are known by a second path.
const ALIASES: &str = "aliases";

/// Commands that call all the rest, in an order in which all succeed. `DECISION`, `TOKEN` and `KEY` are ids.
const COMMANDS: &[&str] = &[
    "decisions show DECISION",
    "decisions refund DECISION",
    "rules list",
    "rules list --envoy",
    "rules get search",
    "rules preview -f changed.yaml",
    "rules diff 2",
    "rules apply -f changed.yaml --yes",
    "rules history",
    "rules show 2",
    "rules rollback 2 --yes",
    "rules export",
    "recommend --live",
    "lists add blacklist user_id=zoe",
    "lists add whitelist user_id=root",
    "lists list",
    "lists remove blacklist user_id=zoe",
    "lists remove whitelist user_id=root",
    "bans list",
    "bans lift --rule login --yes",
    "tiers list",
    "tiers set free pro gold --default free",
    "clients add tenant=acme --tier gold",
    "clients list",
    "clients remove tenant=acme",
    "overrides set ip=192.0.2.7 --rule login --limit 5",
    "overrides list",
    "overrides remove ip=192.0.2.7 --rule login",
    "users show zoe",
    "users set-tier zoe --tier pro",
    "users clear-tier zoe",
    "users set-override zoe --rule search --limit 9",
    "users clear-override zoe --rule search",
    "keys list",
    "keys delete KEY --yes",
    "tokens list",
    "tokens revoke TOKEN",
    "audit",
    "decisions list",
    "decisions top",
    "reset --user-id zoe",
    "stats",
    "stats history",
    "nodes",
    "rules delete search --yes",
];

/// The calls of the description that need a token, as methods and paths.
fn admin_calls(description: &Value) -> Vec<(String, String)> {
    let mut calls = Vec::new();
    for (path, methods) in description["paths"].as_object().expect("paths") {
        for (method, call) in methods.as_object().expect("calls") {
            // Checks may need none: these calls have an empty alternative.
            let is_admin = call["security"] == json!([{"token": []}]);
            if is_admin && call["tags"][0] != ALIASES {
                calls.push((method.clone(), path.clone()));
            }
        }
    }
    calls
}

/// Whether a path is one of those that a template describes.
fn fits(template: &str, path: &str) -> bool {
    let (mut wanted, mut found) = (template.split('/'), path.split('/'));
    loop {
        match (wanted.next(), found.next()) {
            (None, None) => return true,
            (Some(wanted), Some(found)) if wanted.starts_with('{') || wanted == found => {}
            _ => return false,
        }
    }
}

#[test]
fn every_admin_call_has_a_command_or_a_reason() {
    let server = TestServer::with(POLICY);
    server.file("changed.yaml", CHANGED);
    let recorder = CallRecorder::start(server.server.address);
    let call = |words: &str| {
        let mut command = server.command(words);
        run(command.env("TOLLGATE_SERVER", recorder.url())).expect(0, &[])
    };
    let body = json!({"identifiers": {"user_id": "zoe"}, "endpoint": "/", "method": "GET"});
    let mut decision = Value::Null;
    for _ in 0..60 {
        // As many as `recommend` wants, of the first of which there is something to refund.
        let made = server.server.check(&body.to_string());
        decision = if decision.is_null() { made } else { decision };
    }
    let decision = decision["decision_id"].as_str().expect("an id").to_owned();
    let key = call("keys create --json").json()["key_id"].as_str().expect("an id").to_owned();
    let token = call("tokens create --role viewer --json").json();
    let token = token["token_id"].as_str().expect("an id").to_owned();
    for words in COMMANDS {
        let words = words.replace("DECISION", &decision).replace("TOKEN", &token);
        call(&words.replace("KEY", &key));
    }

    let called = recorder.calls();
    let description = server.server.get("/openapi.json").json();
    let admin = admin_calls(&description);
    assert!(admin.len() > 40, "{admin:?}");
    let is_called = |(method, path): &&(String, String)| {
        called.iter().any(|(by, at)| by == method && fits(path, at))
    };
    let missing: BTreeSet<(&str, &str)> = admin
        .iter()
        .filter(|call| !is_called(call))
        .map(|(method, path)| (&**method, &**path))
        .collect();
    let excused: BTreeSet<(&str, &str)> =
        WITHOUT_COMMAND.iter().map(|(method, path, _)| (*method, *path)).collect();
    assert_eq!(
        missing, excused,
        "calls without a command (left), and those that have a reason (right); a new call needs a command"
    );
    assert!(WITHOUT_COMMAND.iter().all(|(_, _, reason)| reason.len() > 20));
}
