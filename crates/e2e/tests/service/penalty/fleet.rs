//! Two nodes with a catalog in PostgreSQL and counters in Redis: refusals are counted together, and a
//! ban applies on both; without the catalog it applies on the node that made it, until it is written.

use std::time::Duration;

use tollgate::Stopwatch;
use tollgate_testbed::{Postgres, Redis};

use super::{SETTINGS, get_banned, is_banned, lift, listed, login, make_rule, reason};
use tollgate_e2e::server::{Server, Setup};
use tollgate_e2e::until;

/// How soon a ban applies on all nodes, at the latest.
const EVERYWHERE: Duration = Duration::from_secs(1);
/// What a busy machine may add.
const SLACK: Duration = Duration::from_secs(3);

fn start(catalog: &str, store: &str) -> Server {
    let arguments = ["--catalog", catalog, "--store", store];
    Server::start(&Setup { settings: SETTINGS, arguments: &arguments, ..Setup::default() })
}

#[test]
fn refusals_on_both_nodes_ban_on_both() {
    let (database, redis) = (Postgres::start(), Redis::start());
    let nodes = [0, 1].map(|_| start(&database.url(), &redis.url()));
    make_rule(&nodes[0], &login(6, 600));
    until("the rule on both", || {
        let is_there = |node: &Server| node.get_as_admin("/api/v1/rules/login").status == 200;
        nodes.iter().all(is_there).then_some(())
    });
    until("a check on both", || {
        let body = r#"{"rule_id":"login","key_type":"user","key_value":"probe"}"#;
        let knows = |node: &Server| node.post("/api/v1/rate-limit/peek", body).status == 200;
        nodes.iter().all(knows).then_some(())
    });
    assert_eq!(reason(&nodes[0], "ann"), "");
    for refusal in 0..6 {
        assert!(nodes.iter().all(|node| !is_banned(node, "ann")), "after {refusal} refusals");
        assert_eq!(reason(&nodes[refusal % 2], "ann"), "rate_limited");
    }
    let stopwatch = Stopwatch::start();
    let both = |banned: bool| nodes.iter().all(|node| is_banned(node, "ann") == banned);
    until("a ban on both", || both(true).then_some(()));
    assert!(stopwatch.elapsed() < EVERYWHERE + SLACK, "{:?}", stopwatch.elapsed());
    for node in &nodes {
        until("a list", || (listed(node) == ["ann"]).then_some(()));
    }
    assert_eq!(lift(&nodes[1], "ann").status, 204);
    assert!(!is_banned(&nodes[1], "ann"), "at once where it was lifted");
    until("no ban on both", || both(false).then_some(()));
    // Five more refusals are too few, for the first six are forgotten.
    for refusal in 0..5 {
        assert_eq!(reason(&nodes[refusal % 2], "ann"), "rate_limited");
    }
    assert!(both(false));
    // A counter that was reset does not lead to a ban either.
    assert_eq!(listed(&nodes[0]), [""; 0]);
}

#[test]
fn without_the_catalog_a_ban_holds_here_and_is_written_later() {
    let (database, redis) = (Postgres::start(), Redis::start());
    let node = start(&database.url(), &redis.url());
    make_rule(&node, &login(3, 600));
    database.kill();
    get_banned(&node, "ann", 3);
    database.restart();
    until("the ban in the catalog", || {
        let answer = node.get_as_admin(super::BANS);
        (answer.status == 200 && answer.text().contains("\"ann\"")).then_some(())
    });
    assert!(is_banned(&node, "ann"));
    let other = start(&database.url(), &redis.url());
    assert!(is_banned(&other, "ann"), "a node that starts later knows it");
    assert_eq!(lift(&other, "ann").status, 204);
    until("no ban", || (!is_banned(&node, "ann")).then_some(()));
}

#[test]
fn without_the_store_a_node_counts_refusals_itself() {
    let (database, redis) = (Postgres::start(), Redis::start());
    let node = start(&database.url(), &redis.url());
    let mut rule = login(3, 600);
    rule["fallback_factor"] = 1.into();
    make_rule(&node, &rule);
    redis.kill();
    get_banned(&node, "ann", 3);
    until("a list", || (listed(&node) == ["ann"]).then_some(()));
    redis.restart();
    assert!(is_banned(&node, "ann"), "a ban does not depend on the store");
}
