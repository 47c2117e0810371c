//! Eight nodes, one limit: exactly that many pass in every window.
//!
//! Windows really turn over here, by the clock of the store, and each answer says by `reset_at` which
//! window it was counted in: windows are whole seconds, so nothing is lost by rounding. So the test
//! need not know when a window begins. The first and the last window seen are incomplete and are not
//! checked; in all others more is requested than may pass, so exactly the limit has to.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Barrier, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tollgate_testbed::{Postgres, Redis, RedisCluster};

use crate::nodes::{self, check_of, cluster_url, is_soak};
use tollgate_e2e::client::{Connection, request};
use tollgate_e2e::server::{CHECK, JSON, Server};

const NODES: usize = 8;
const CLIENTS_EACH: usize = 2;
const LIMIT: usize = 300;
const WINDOW_SECONDS: u64 = 2;
const WINDOWS_OF_SOAK: usize = 100;

/// How long a client waits after a refusal.
const REST: Duration = Duration::from_millis(1);

/// No request may be admitted without the store, so its deadline is long.
const SETTINGS: &str = "{store_failure: {deadline: 5s}, deny_cache: 1s}";

/// Those with the long window do not turn over during a test.
const ALGORITHMS: [&str; 6] = [
    "fixed_window",
    "sliding_window_log",
    "sliding_window_counter",
    "token_bucket",
    "leaky_bucket",
    "gcra",
];

fn rules() -> String {
    let rule = |name: &str, algorithm: &str, window: &str| {
        format!(
            "- {{rule_id: {name}, algorithm: {algorithm}, limit: {LIMIT}, window: {window}, \
             identifier_type: user_id, on_store_failure: closed}}\n"
        )
    };
    let once = ALGORITHMS.map(|algorithm| rule(algorithm, algorithm, "300d")).concat();
    let window = format!("{WINDOW_SECONDS}s");
    format!("rules:\n{}{once}", rule("turning", "fixed_window", &window))
}

/// Clients of all nodes send checks at once, each over its own connection, until `is_over`. Returns the
/// responses that allowed.
fn hammer(nodes: &[Server], rule: &str, is_over: impl Fn(&Value) -> bool + Sync) -> Vec<Value> {
    let check = request("POST", CHECK, &[JSON], check_of(rule, "everybody").as_bytes());
    let start = Barrier::new(nodes.len() * CLIENTS_EACH);
    let ask = |node: &Server| {
        let mut connection = Connection::open(node.address);
        let mut allowed = Vec::new();
        start.wait();
        loop {
            let answer = connection.ask(&check).json();
            assert_eq!(answer.get("degraded"), None, "the store was there: {answer}");
            let is_last = is_over(&answer);
            if answer["allowed"] == true {
                allowed.push(answer);
            } else {
                thread::sleep(REST);
            }
            if is_last {
                return allowed;
            }
        }
    };
    thread::scope(|scope| {
        let clients = nodes.iter().flat_map(|node| [node; CLIENTS_EACH]);
        let clients: Vec<_> = clients.map(|node| scope.spawn(|| ask(node))).collect();
        clients.into_iter().flat_map(|client| client.join().expect("answers")).collect()
    })
}

fn window_of(answer: &Value) -> u64 {
    answer["reset_at"].as_u64().expect("the end of a window")
}

/// Checks so many windows in which more was requested than the limit. A busy machine may not get to
/// that in each of them.
fn check_windows(nodes: &[Server], windows: usize) {
    let seen = Mutex::new(BTreeMap::new());
    let allowed = hammer(nodes, "turning", |answer| {
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        *seen.entry(window_of(answer)).or_insert(false) |= answer["allowed"] == false;
        full(&seen).count() >= windows || seen.len() > 10 * windows
    });
    let mut by_window: BTreeMap<u64, usize> = BTreeMap::new();
    for answer in &allowed {
        *by_window.entry(window_of(answer)).or_default() += 1;
    }
    assert!(by_window.values().all(|passed| *passed <= LIMIT), "{by_window:?}");
    let seen = seen.into_inner().unwrap_or_else(PoisonError::into_inner);
    let full: Vec<u64> = full(&seen).collect();
    assert!(full.len() >= windows, "clients were too slow: {by_window:?}");
    for window in full {
        let passed = by_window.get(&window).copied().unwrap_or(0);
        assert_eq!(passed, LIMIT, "window {window}: {by_window:?}");
    }
    println!("{LIMIT} of {LIMIT} passed in each of {windows} windows, {} nodes", nodes.len());
}

/// The windows in which a request was refused, without the first and the last, which are incomplete.
fn full(seen: &BTreeMap<u64, bool>) -> impl Iterator<Item = u64> {
    let whole = seen.iter().skip(1).take(seen.len().saturating_sub(2));
    whole.filter(|(_, is_refused)| **is_refused).map(|(window, _)| *window)
}

/// Checks limits that do not refill during the test.
fn check_algorithms(nodes: &[Server]) {
    for algorithm in ALGORITHMS {
        let refused = AtomicU64::new(0);
        let enough = (NODES * CLIENTS_EACH) as u64;
        let allowed = hammer(nodes, algorithm, |answer| {
            let is_refused = u64::from(answer["allowed"] == false);
            refused.fetch_add(is_refused, Ordering::SeqCst) + is_refused >= enough
        });
        assert_eq!(allowed.len(), LIMIT, "{algorithm}");
    }
}

/// How often scripts were called since [`forget_calls`].
fn script_calls(redis: &Redis) -> u64 {
    let facts = redis.info("commandstats");
    let calls = ["cmdstat_eval", "cmdstat_evalsha"].into_iter().filter_map(|name| {
        let facts = facts.get(name)?.split(',');
        facts.into_iter().find_map(|fact| fact.strip_prefix("calls=")?.parse::<u64>().ok())
    });
    calls.sum()
}

fn forget_calls(redis: &Redis) {
    redis.command(&["CONFIG", "RESETSTAT"]);
}

/// Checks that all counters of a client are charged by one call, and none once it is known to be
/// refused. Nodes call scripts in the background too, so what counts is the client with the fewest calls.
fn check_calls(servers: &[Redis], node: &Server) {
    let ask = |client: usize, cost: usize| {
        servers.iter().for_each(forget_calls);
        let body = format!(r#"{{"identifiers":{{"user_id":"client-{client}"}},"cost":{cost}}}"#);
        let answer = node.check(&body);
        (answer["allowed"].as_bool(), servers.iter().map(script_calls).sum::<u64>())
    };
    let calls_of = |client| {
        // Servers that have not seen the script take a second call.
        ask(client, 1);
        [1, LIMIT, LIMIT].map(|cost| ask(client, cost))
    };
    let calls: Vec<_> = (0..5).map(calls_of).collect();
    let expected = [(Some(true), 1), (Some(false), 1), (Some(false), 0)];
    assert!(calls.contains(&expected), "{calls:?}");
}

#[test]
fn exactly_the_limit_passes_in_redis() {
    let redis = Redis::start();
    let nodes = nodes::start(NODES, &redis.url(), &rules(), SETTINGS);
    check_windows(&nodes, if is_soak() { WINDOWS_OF_SOAK } else { 3 });
    check_algorithms(&nodes);
    check_calls(&[redis], &nodes[0]);
}

#[test]
fn exactly_the_limit_passes_in_a_cluster() {
    let cluster = RedisCluster::start(3, 0);
    let nodes = nodes::start(NODES, &cluster_url(&cluster), &rules(), SETTINGS);
    check_windows(&nodes, 2);
    check_calls(cluster.nodes(), &nodes[0]);
}

#[test]
fn exactly_the_limit_passes_in_postgres() {
    let postgres = Postgres::start();
    let nodes = nodes::start(NODES, &postgres.url(), &rules(), SETTINGS);
    check_windows(&nodes, 2);
}
