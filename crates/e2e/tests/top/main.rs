//! `tollgate top` as operators meet it: the real command in a real terminal, against real servers that come and go.

mod fleet;
mod once;
mod terminal;
mod view;

use std::process::Command;

use serde_json::{Value, json};
use tollgate_e2e::server::{ADMIN_TOKEN, JSON, Server, Setup, bearer_admin, tollgate};

/// Tests exceed the default limits of the admin API.
const OFTEN: &str = "limits: {admin_reads_per_minute: 1000000, check_calls_per_second: 0}";

/// A user passes twice; a shadow rule would allow once; the second request is at the limit.
fn rules() -> Value {
    json!([
        {"rule_id": "search", "limit": 2, "window": "300d", "identifier_type": "user_id"},
        {"rule_id": "trial", "limit": 1, "window": "300d", "identifier_type": "user_id", "action": "log_only"},
        {"rule_id": "acme.own", "tenant": "acme", "limit": 9, "window": "300d", "identifier_type": "user_id"}
    ])
}

/// A server with a catalog that has only these rules.
fn start() -> Server {
    let server = Server::start(&Setup { settings: OFTEN, ..Setup::default() });
    let policy = json!({ "rules": rules() }).to_string();
    let put = server.ask("PUT", "/api/v1/policy?prune=rules", &[JSON, bearer_admin()], &policy);
    assert_eq!(put.status, 200, "{put:?}");
    server
}

/// Checks for a user, so many.
fn check(server: &Server, user: &str, tenant: Option<&str>, times: usize) {
    let identifiers = match tenant {
        Some(tenant) => json!({"user_id": user, "tenant": tenant}),
        None => json!({ "user_id": user }),
    };
    let check = json!({"identifiers": identifiers, "endpoint": "/orders", "method": "GET"});
    let body = json!({ "checks": vec![check; times] }).to_string();
    let answer = server.post("/api/v1/rate-limit/check/batch", &body);
    assert_eq!(answer.status, 200, "{answer:?}");
}

/// The command, with the token of an administrator; its words are separated by spaces.
fn top(server: &Server, words: &str) -> Command {
    let mut command = tollgate();
    command.arg("top").args(words.split_whitespace()).current_dir(server.folder());
    command.env("TOLLGATE_SERVER", server.url("")).env("TOLLGATE_TOKEN", ADMIN_TOKEN);
    command
}
