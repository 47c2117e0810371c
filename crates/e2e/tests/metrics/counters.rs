//! Metrics of one node with counters in memory: a test makes each of them change.

use std::fs;

use serde_json::json;
use tollgate_testbed::Postgres;

use crate::{grows, value};
use tollgate_e2e::client::request;
use tollgate_e2e::server::{CHECK, JSON, Server, Setup};
use tollgate_e2e::until;

const BATCH: &str = "/api/v1/rate-limit/check/batch";
/// Tests exceed the default limits of the admin API.
const OFTEN: &str = "limits: {admin_reads_per_minute: 1000000, admin_writes_per_minute: 1000000}";

const RULES: &str = "
rules:
  - {rule_id: per_user, limit: 10, window: 300d, identifier_type: user_id, algorithm: fixed_window, soft: {warn_at: 0.5, clear_at: 0.4},
     candidate: {limit: 2}}
  - rule_id: queue
    limit: 1
    window: 1h
    algorithm: leaky_bucket
    burst: 3
    identifier_type: tenant
    action: throttle
    throttle: {max_delay_ms: 31622400000}
";

fn check(server: &Server, name: &str, client: &str) {
    server.check(&json!({"identifiers": {name: client}}).to_string());
}

#[test]
fn what_rules_decide() {
    let server = Server::with_rules(RULES);
    let ask = || check(&server, "user_id", "ann");
    let decisions = "tollgate_decisions_total{rule_id=\"per_user\",outcome=\"allowed\"}";
    grows(&server, decisions, ask);
    let candidate = "tollgate_candidate_decisions_total{rule_id=\"per_user\",outcome=\"";
    grows(&server, &format!("{candidate}allowed\"}}"), ask);
    grows(&server, &format!("{candidate}would_refuse\"}}"), ask);
    (0..2).for_each(|_| ask());
    grows(&server, "tollgate_soft_limit_warnings_total{rule_id=\"per_user\"}", ask);
    check(&server, "tenant", "acme");
    let throttled = "tollgate_throttled_total{rule_id=\"queue\"}";
    grows(&server, throttled, || check(&server, "tenant", "acme"));
    grows(&server, "tollgate_check_duration_seconds_count", ask);
    grows(&server, "tollgate_counters", || check(&server, "user_id", "bob"));
    grows(&server, "tollgate_http_responses_total{status=\"4xx\"}", || {
        assert_eq!(server.get("/nothing").status, 404);
    });
    grows(&server, "tollgate_idempotency_keys", || {
        let key = ("X-Idempotency-Key", "once");
        assert_eq!(server.ask("POST", CHECK, &[JSON, key], "{}").status, 200);
    });
    let version = env!("CARGO_PKG_VERSION");
    assert!(value(&server, &format!("tollgate_build_info{{version=\"{version}\"}}")) > 0.5);
}

/// A batch of checks of these clients.
fn batch(clients: impl Iterator<Item = String>) -> Vec<u8> {
    let check = |client| format!(r#"{{"rule_id":"r","key_type":"user","key_value":"{client}"}}"#);
    let checks: Vec<String> = clients.map(check).collect();
    let body = format!(r#"{{"checks":[{}]}}"#, checks.join(","));
    request("POST", BATCH, &[JSON], body.as_bytes())
}

/// Checks clients not seen before, 1,000 at a time, until something has happened.
fn flood(server: &Server, what: &str, mut has_happened: impl FnMut() -> bool) {
    let mut connection = server.connect();
    let mut first = 0;
    until(what, || {
        for _ in 0..10 {
            let clients = (first..first + 1_000).map(|at| format!("{what} {at}"));
            let answer = connection.ask(&batch(clients));
            assert_eq!(answer.status, 200, "{answer:?}");
            first += 1_000;
        }
        has_happened().then_some(())
    });
}

#[test]
fn counters_that_find_no_room() {
    let rules = "rules: [{rule_id: r, limit: 9, window: 300d, identifier_type: user_id}]";
    let settings = "memory: 1MiB";
    let server = Server::start(&Setup { rules: Some(rules), settings, ..Setup::default() });
    let before = value(&server, "tollgate_memory_bytes");
    flood(&server, "counters that are evicted", || {
        value(&server, "tollgate_evictions_total") > 0.0
    });
    assert!(value(&server, "tollgate_memory_bytes") > before);
    let share =
        value(&server, "tollgate_memory_bytes") / value(&server, "tollgate_memory_max_bytes");
    assert!((0.9..1.1).contains(&share), "memory is full, and {share} of its cap");
    assert!(value(&server, "tollgate_evictions_exhausted_total") < 0.5);
}

#[test]
fn counters_of_used_up_limits_that_find_no_room() {
    let rules = "rules: [{rule_id: r, limit: 1, window: 300d, identifier_type: user_id}]";
    let settings = "memory: 1MiB";
    let server = Server::start(&Setup { rules: Some(rules), settings, ..Setup::default() });
    flood(&server, "used-up counters that are evicted", || {
        value(&server, "tollgate_evictions_exhausted_total") > 0.0
    });
    until("a warning in the log", || {
        server
            .process
            .errors()
            .contains("memory is full of counters that are used up")
            .then_some(())
    });
}

/// The client with most refusals is counted, not named.
#[test]
fn refusals_of_one_client() {
    let rules = "rules: [{rule_id: r, limit: 1, window: 300d, identifier_type: user_id}]";
    let server = Server::with_rules(rules);
    let refused = "tollgate_top_client_refused";
    check(&server, "user_id", "mallory");
    (0..3).for_each(|_| check(&server, "user_id", "bob"));
    until("two refusals", || (value(&server, refused) > 1.5).then_some(()));
    (0..4).for_each(|_| check(&server, "user_id", "mallory"));
    until("four refusals", || (value(&server, refused) > 3.5).then_some(()));
    assert!(value(&server, refused) < 4.5);
    assert!(!server.get("/metrics").text().contains("mallory"));
}

/// The counter that most requests charge is measured, not named, also if all of them pass.
#[test]
fn requests_of_one_counter() {
    let rules = "rules: [{rule_id: r, limit: 1000, window: 300d, identifier_type: user_id}]";
    let server = Server::with_rules(rules);
    let (rate, share) = ("tollgate_hot_key_requests_per_second", "tollgate_hot_key_ratio");
    assert!(value(&server, rate) < 0.01 && value(&server, share) < 0.01);
    check(&server, "user_id", "bob");
    (0..3).for_each(|_| check(&server, "user_id", "mallory"));
    until("three of four requests", || {
        ((0.74..0.76).contains(&value(&server, share)) && value(&server, rate) > 0.0).then_some(())
    });
    assert!(!server.get("/metrics").text().contains("mallory"));
}

/// A rule that refuses everything, and bans after so many refusals.
fn banning(after: u64) -> String {
    let rule = json!({
        "rule_id": "r", "limit": 0, "window": "300d", "identifier_type": "user_id",
        "penalty": {"after": after, "within_seconds": 600, "ban_seconds": 600},
    });
    json!({ "rules": [rule] }).to_string()
}

#[test]
fn bans_that_are_made_and_those_that_are_too_many() {
    let server = Server::with_rules(&banning(1));
    let moves = |sample: &'static str| value(&server, sample) > 0.0;
    flood(&server, "bans", || moves("tollgate_bans") && moves("tollgate_bans_made_total"));
    flood(&server, "bans that are too many", || moves("tollgate_bans_not_made_total"));
}

#[test]
fn a_ban_that_the_catalog_refuses() {
    let postgres = Postgres::start();
    let catalog = postgres.url();
    let arguments = ["--catalog", catalog.as_str()];
    let server = Server::start(&Setup { arguments: &arguments, ..Setup::default() });
    let rule: serde_json::Value = serde_json::from_str(&banning(1)).expect("JSON");
    let made = server.post_as_admin("/api/v1/rules", &rule["rules"][0].to_string());
    assert_eq!(made.status, 201, "{made:?}");
    postgres.query("ALTER TABLE tollgate_bans ADD CHECK (identifier NOT LIKE '%mallory%')");
    grows(&server, "tollgate_bans_not_kept_total", || check(&server, "user_id", "mallory"));
}

#[test]
fn rules_that_change() {
    let server = Server::start(&Setup { settings: OFTEN, ..Setup::default() });
    until("some age", || (value(&server, "tollgate_policy_age_seconds") > 0.0).then_some(()));
    let make = |rule_id: &str| {
        let rule =
            json!({"rule_id": rule_id, "limit": 1, "window": "1h", "identifier_type": "user_id"});
        let made = server.post_as_admin("/api/v1/rules", &rule.to_string());
        assert_eq!(made.status, 201, "{made:?}");
    };
    grows(&server, "tollgate_policy_rules", || make("one"));
    grows(&server, "tollgate_policy_revision", || make("two"));
    let ask = || check(&server, "user_id", "ann");
    ask();
    grows(&server, "tollgate_audit_decisions_total{outcome=\"written\"}", ask);
    grows(&server, "tollgate_audit_resets_total{outcome=\"written\"}", || {
        let body = json!({"identifiers": {"user_id": "ann"}}).to_string();
        let reset = server.post_as_admin("/api/v1/rate-limit/reset", &body);
        assert_eq!(reset.status, 200, "{reset:?}");
    });
}

#[test]
fn a_rules_file_with_a_mistake() {
    let server = Server::with_rules(RULES);
    grows(&server, "tollgate_config_errors_total", || {
        fs::write(server.rules_file(), "rules: [{}]").expect("written");
        server.process.signal("HUP");
    });
    // There was no gauge, so that an alert ended although the file stayed broken.
    let is_in_force = || value(&server, "tollgate_rules_file_last_reload_successful") > 0.5;
    assert!(!is_in_force());
    grows(&server, "tollgate_rules_file_last_reload_success_timestamp_seconds", || {
        fs::write(server.rules_file(), RULES).expect("written");
        server.process.signal("HUP");
    });
    assert!(is_in_force());
}

/// Rules that may be out of date: the catalog is unavailable, and the last ones stay in force.
#[test]
fn a_catalog_that_is_away() {
    let postgres = Postgres::start();
    let url = postgres.url();
    let arguments = ["--catalog", url.as_str()];
    let server = Server::start(&Setup { arguments: &arguments, ..Setup::default() });
    grows(&server, "tollgate_config_errors_total", || postgres.kill());
    until("a line of the log", || {
        server.process.errors().contains("the last good rules stay in force").then_some(())
    });
    let silence = || value(&server, "tollgate_catalog_last_sync_age_seconds");
    until("silence", || (silence() > 2.0).then_some(()));
    postgres.restart();
    until("the catalog again", || (silence() < 1.0).then_some(()));
}

#[test]
fn a_server_that_shuts_down() {
    let settings = "limits: {shutdown_delay: 20s}";
    let server = Server::start(&Setup { rules: Some(RULES), settings, ..Setup::default() });
    assert!(value(&server, "tollgate_ready") > 0.5);
    server.process.signal("TERM");
    until("word that it shuts down", || (value(&server, "tollgate_ready") < 0.5).then_some(()));
}
