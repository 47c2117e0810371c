//! States of the memory of counters: nearly full, and full of counters of clients at their limit.

use serde_json::json;

use crate::timeline::Timeline;
use crate::{USUAL_CHECKS, check, clients};
use tollgate_e2e::client::request;
use tollgate_e2e::server::{JSON, Server, Setup};
use tollgate_e2e::until;

const BATCH: &str = "/api/v1/rate-limit/check/batch";

fn start(limit: u64) -> Server {
    let rule =
        json!({"rule_id": "r", "limit": limit, "window": "300d", "identifier_type": "user_id"});
    let rules = json!({ "rules": [rule] }).to_string();
    Server::start(&Setup { rules: Some(&rules), settings: "memory: 1MiB", ..Setup::default() })
}

/// Checks clients that were not seen before until something has happened.
fn flood(server: &Server, what: &str, has_happened: impl Fn() -> bool) {
    let mut connection = server.connect();
    let mut round = 0;
    until(what, || {
        let checks: Vec<_> = clients(&format!("{what}-{round}"), 1_000)
            .map(|client| json!({"rule_id": "r", "key_type": "user", "key_value": client}))
            .collect();
        let body = json!({ "checks": checks }).to_string();
        let answer = connection.ask(&request("POST", BATCH, &[JSON], body.as_bytes()));
        assert_eq!(answer.status, 200, "{answer:?}");
        round += 1;
        has_happened().then_some(())
    });
}

#[test]
fn memory_is_nearly_full() {
    let server = start(9);
    let mut timeline = Timeline::of(&server);
    timeline.lasts(20, || check(&server, "user_id", clients("user", USUAL_CHECKS)));
    flood(&server, "full", || {
        server.figure("tollgate_memory_bytes") > 0.95 * server.figure("tollgate_memory_max_bytes")
    });
    timeline.lasts(9, || check(&server, "user_id", clients("more", USUAL_CHECKS)));
    timeline.fires(&["TollgateMemoryNearCap"]);
}

#[test]
fn memory_is_full_of_exhausted_counters() {
    let server = start(1);
    let evicted = || server.figure("tollgate_evictions_exhausted_total");
    let mut timeline = Timeline::of(&server);
    timeline.lasts(20, || check(&server, "user_id", clients("user", USUAL_CHECKS)));
    flood(&server, "exhausted", || evicted() > 0.0);
    let before = evicted();
    timeline.lasts(9, || flood(&server, "further", || evicted() > before));
    timeline.fires(&["TollgateExhaustedCountersEvicted", "TollgateMemoryNearCap"]);
}
