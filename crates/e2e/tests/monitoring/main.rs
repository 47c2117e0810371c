//! The monitoring kit in `deploy/monitoring`: each alert fires on figures of a real server in the state that it is for,
//! and on no other, also for outages of seconds; the dashboard is generated, and a real Prometheus answers all of its
//! queries.
//!
//! `UPDATE_MONITORING=1 cargo test --test monitoring` writes the dashboard anew.

mod alerts;
mod dashboard;
mod evaluation;
mod families;
mod kit;
mod memory_states;
mod policy_states;
mod queries;
mod short_outages;
mod store_states;
mod timeline;
mod traffic_states;

use serde_json::json;

use tollgate_e2e::server::Server;

/// How many checks a healthy server gets between two scrapes: less than the alert for a drop of traffic looks at.
const USUAL_CHECKS: usize = 10;

/// Checks these clients, one after the other.
fn check(server: &Server, identifier: &str, clients: impl IntoIterator<Item = String>) {
    for client in clients {
        server.check(&json!({"identifiers": {identifier: client}}).to_string());
    }
}

/// So many clients that were not seen before by this name.
fn clients(name: &str, count: usize) -> impl Iterator<Item = String> + '_ {
    (0..count).map(move |number| format!("{name}-{number}"))
}
