//! The logs of changes and decisions, and how they are read: filters, figures, rankings and events.

mod away;
mod changes;
mod decisions;
mod entrances;
mod events;
mod export;
mod flood;
mod left;
mod resets;
mod retention;
mod top;
mod watching;

use std::path::Path;

use serde_json::{Value, json};
use tollgate_catalog::{Catalog, CatalogUrl, PolicyBounds};

use tollgate_e2e::client::Answer;
use tollgate_e2e::server::{CHECK, JSON, Server, Setup, bearer_admin};
use tollgate_e2e::until;

/// Tests exceed the default limits of the admin API.
const OFTEN: &str = "limits: {admin_reads_per_minute: 1000000, admin_writes_per_minute: 1000000, check_calls_per_second: 0}";

const DECISIONS: &str = "/api/v1/audit/decisions";

/// A server with a catalog that holds only this policy.
fn start(audit: &str, policy: &Value) -> Server {
    let settings = format!("{OFTEN}\naudit: {audit}");
    let server = Server::start(&Setup { settings: &settings, ..Setup::default() });
    put_policy(&server, policy);
    server
}

fn put_policy(server: &Server, policy: &Value) {
    let put = call(server, "PUT", "/api/v1/policy?prune=rules", &policy.to_string());
    assert_eq!(put.status, 200, "{put:?}");
}

/// A rule with a very long window, by user.
fn rule(rule_id: &str, limit: u64) -> Value {
    json!({"rule_id": rule_id, "limit": limit, "window": "300d", "identifier_type": "user_id"})
}

fn call(server: &Server, method: &str, path: &str, body: &str) -> Answer {
    server.ask(method, path, &[JSON, bearer_admin()], body)
}

fn read(server: &Server, path: &str) -> Value {
    let answer = server.get_as_admin(path);
    assert_eq!(answer.status, 200, "{path}: {answer:?}");
    answer.json()
}

fn records(server: &Server, path: &str) -> Vec<Value> {
    let mut answer = read(server, path);
    let Value::Array(records) = answer["records"].take() else { panic!("no records: {answer}") };
    records
}

/// The records, once there are so many. They are written within seconds.
fn settled(server: &Server, path: &str, count: usize) -> Vec<Value> {
    until("records of decisions", || (outcomes(server)[0] >= count as u64).then_some(()));
    records(server, path)
}

/// Checks for a user, so many times.
fn check(server: &Server, user: &str, times: usize) {
    let body = json!({"identifiers": {"user_id": user}, "endpoint": "/orders", "method": "GET"});
    let body = body.to_string();
    for _ in 0..times {
        let answer = server.post(CHECK, &body);
        assert_eq!(answer.status, 200, "{answer:?}");
    }
}

/// Fields of records, as one text each.
fn brief(records: &[Value], fields: &[&str]) -> Vec<String> {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Null => "-".to_owned(),
        other => other.to_string(),
    };
    let one = |record: &Value| {
        fields.iter().map(|field| text(&record[*field])).collect::<Vec<_>>().join(" ")
    };
    records.iter().map(one).collect()
}

/// The decisions that were written, lost and given up so far.
fn outcomes(server: &Server) -> [u64; 3] {
    ["written", "lost", "failed"].map(|outcome| {
        server.figure(&format!("tollgate_audit_decisions_total{{outcome=\"{outcome}\"}}")) as u64
    })
}

/// The catalog of a server whose files are there.
fn catalog(folder: &Path) -> Catalog {
    Catalog::new(CatalogUrl::Sqlite(folder.join("tollgate.db")), PolicyBounds::default())
}

fn wait_for<T>(answer: impl Future<Output = T>) -> T {
    tokio::runtime::Runtime::new().expect("threads").block_on(answer)
}
