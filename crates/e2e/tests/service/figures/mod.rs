//! The figures behind dashboards: history, previews, and what a tenant sees of them.

mod candidate;
mod history;
mod preview;
mod recommendation;
mod tenants;

use serde_json::{Value, json};
use tollgate_e2e::client::Answer;
use tollgate_e2e::server::{JSON, Server, Setup, bearer_admin};

/// Tests exceed the default limits of the admin API.
const OFTEN: &str = "limits: {admin_reads_per_minute: 1000000, check_calls_per_second: 0}";

/// A server with a catalog that holds only these rules.
fn start(settings: &str, rules: &Value) -> Server {
    let settings = format!("{OFTEN}\n{settings}");
    let server = Server::start(&Setup { settings: &settings, ..Setup::default() });
    let policy = json!({"rules": rules}).to_string();
    let put = server.ask("PUT", "/api/v1/policy?prune=rules", &[JSON, bearer_admin()], &policy);
    assert_eq!(put.status, 200, "{put:?}");
    server
}

/// A rule with a very long window, by user.
fn rule(rule_id: &str, limit: u64) -> Value {
    json!({"rule_id": rule_id, "limit": limit, "window": "300d", "identifier_type": "user_id"})
}

/// Checks of users, so many of each, in one call.
fn check(server: &Server, tenant: Option<&str>, users: &[(&str, usize)]) {
    let check = |(user, count): &(&str, usize)| {
        let identifiers = match tenant {
            Some(tenant) => json!({"user_id": user, "tenant": tenant}),
            None => json!({"user_id": user}),
        };
        vec![json!({"identifiers": identifiers, "endpoint": "/orders"}); *count]
    };
    let body = json!({"checks": users.iter().flat_map(check).collect::<Vec<Value>>()});
    let answer = server.post("/api/v1/rate-limit/check/batch", &body.to_string());
    assert_eq!(answer.status, 200, "{answer:?}");
}

fn read(server: &Server, path: &str) -> Value {
    let answer = server.get_as_admin(path);
    assert_eq!(answer.status, 200, "{path}: {answer:?}");
    answer.json()
}

/// The token of a tenant's administrator.
fn tenant_admin(server: &Server, tenant: &str) -> String {
    let body = json!({"role": "tenant-admin", "tenant": tenant}).to_string();
    let made = server.post_as_admin("/api/v1/tokens", &body);
    assert_eq!(made.status, 201, "{made:?}");
    format!("Bearer {}", made.json()["token"].as_str().expect("a token"))
}

fn as_token(server: &Server, token: &str, method: &str, path: &str, body: &str) -> Answer {
    server.ask(method, path, &[JSON, ("Authorization", token)], body)
}

/// The sum of a list of numbers.
fn sum(list: &Value) -> u64 {
    list.as_array().expect("a list").iter().filter_map(Value::as_u64).sum()
}
