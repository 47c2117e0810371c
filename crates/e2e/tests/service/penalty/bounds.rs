//! Bounds of bans under load: not too early, not too late, and in bounded memory.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use serde_json::{Value, json};

use super::{SETTINGS, ask, count, is_banned, listed, login, make_rule};
use tollgate_e2e::client::request;
use tollgate_e2e::server::{CHECK, JSON, Server, Setup};
use tollgate_e2e::until;

#[test]
fn sixty_four_connections_are_banned_after_so_many_refusals() {
    const AFTER: u64 = 40;
    let server = Server::start(&Setup { settings: SETTINGS, ..Setup::default() });
    make_rule(&server, &login(AFTER, 600));
    let check = json!({"rule_id": "login", "key_type": "user", "key_value": "ann"}).to_string();
    let check = request("POST", CHECK, &[JSON], check.as_bytes());
    let (refused, banned) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..64 {
            scope.spawn(|| {
                let mut connection = server.connect();
                until("a ban", || {
                    let answer = connection.ask(&check).json();
                    match answer["reason"].as_str() {
                        Some("rate_limited") => refused.fetch_add(1, Ordering::SeqCst),
                        Some("banned") => {
                            banned.fetch_add(1, Ordering::SeqCst);
                            return Some(());
                        }
                        _ => 0,
                    };
                    None
                });
            });
        }
    });
    assert_eq!(banned.into_inner(), 64, "every connection is banned");
    let refused = refused.into_inner();
    assert!(refused >= AFTER, "banned after {refused} refusals");
    assert_eq!(count(&server, "tollgate_bans_made_total"), 1);
    let lost = count(&server, "tollgate_penalty_refusals_lost_total");
    assert!(lost < refused, "{lost} of {refused}");
}

#[test]
fn a_flood_of_invented_clients_stays_within_bounds() {
    const CLIENTS: usize = 20_000;
    let mut rule = login(1, 600);
    rule["limit"] = json!(0);
    let rules = json!({ "rules": [rule] }).to_string();
    let server =
        Server::start(&Setup { rules: Some(&rules), settings: SETTINGS, ..Setup::default() });
    let before = server.process.peak_memory();
    let mut connection = server.connect();
    for first in (0..CLIENTS).step_by(1_000) {
        let checks: Vec<Value> = (first..first + 1_000)
            .map(
                |at| json!({"rule_id": "login", "key_type": "user", "key_value": format!("c{at}")}),
            )
            .collect();
        let body = json!({ "checks": checks }).to_string();
        let path = "/api/v1/rate-limit/check/batch";
        let answer = connection.ask(&request("POST", path, &[JSON], body.as_bytes()));
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    // Every refusal was counted and banned its client, or was dropped by the full queue.
    until("everything counted", || {
        let figures = ["tollgate_bans_made_total", "tollgate_penalty_refusals_lost_total"];
        let sum: u64 = figures.iter().map(|name| count(&server, name)).sum();
        (sum >= CLIENTS as u64).then_some(())
    });
    let made = count(&server, "tollgate_bans_made_total");
    assert!(made >= 1_000, "{made}");
    assert_eq!(count(&server, "tollgate_bans"), made);
    assert_eq!(listed(&server).len(), 100, "a page");
    let grown = server.process.peak_memory() - before;
    assert!(grown < 100 << 20, "{grown} bytes for {made} bans");
    assert_eq!(ask(&server, "another client")["reason"], "rate_limited");
    until("the next ban", || is_banned(&server, "another client").then_some(()));
}
