//! Nodes that share counters admit exactly what a limit says, by the clock of the server, and ask the
//! server as seldom as they can.

use tokio::task::JoinSet;
use tollgate_core::{Algorithm, Charge, Key};
use tollgate_store::Store as _;
use tollgate_testbed::{Redis, RedisCluster};

use crate::redis::stand::{
    LONG, NO_TIME, cluster_url, connect, forget_commands, key, limit, one, patient, remaining,
    script_calls,
};

const NODES: usize = 4;
const TASKS_EACH: usize = 8;
const LIMIT: u64 = 500;

/// Tasks of several nodes charge more than the limit; together they get all of it, and no more.
async fn check_shared(url: &str, algorithm: Algorithm, costs: &'static [u64]) {
    let name: &'static str = algorithm.name();
    let limit = limit(algorithm, LIMIT, LONG);
    let mut attackers = JoinSet::new();
    for node in 0..NODES {
        let store = connect(url, patient()).await;
        for task in 0..TASKS_EACH {
            let store = store.clone();
            attackers.spawn(async move {
                // What is left when the larger costs no longer fit is asked for one by one.
                let mixed = costs.iter().copied().cycle().skip(node + task).take(20);
                let mut admitted = 0;
                for cost in mixed.chain([1; 30]) {
                    let charge = Charge { cost, ..one(key(name, "shared"), &limit) };
                    let settled = store.settle(&[charge], NO_TIME).await.expect("an answer");
                    admitted += if settled.passed { cost } else { 0 };
                }
                admitted
            });
        }
    }
    let admitted: u64 = attackers.join_all().await.into_iter().sum();
    assert_eq!(admitted, LIMIT, "{name}, costs {costs:?}");
    let store = connect(url, patient()).await;
    assert_eq!(remaining(&store, key(name, "shared"), &limit).await, 0, "{name}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_admit_exactly_what_a_limit_says() {
    let (redis, cluster) = (Redis::start(), RedisCluster::start(3, 0));
    for url in [redis.url(), cluster_url(&cluster)] {
        for algorithm in Algorithm::ALL {
            check_shared(&format!("{url}?prefix=ones:"), algorithm, &[1]).await;
            check_shared(&format!("{url}?prefix=mixed:"), algorithm, &[1, 7, 3]).await;
        }
    }
}

/// One request about these counters costs so many calls, whichever servers they reach.
async fn check_calls(url: &str, servers: &[Redis], keys: &[Key<'_>], expected: u64) {
    let store = connect(url, patient()).await;
    let limit = limit(Algorithm::Gcra, LIMIT, LONG);
    let charges: Vec<Charge<'_>> = keys.iter().map(|key| one(*key, &limit)).collect();
    // The first time, a server has to be given the script.
    store.settle(&charges, NO_TIME).await.expect("an answer");
    servers.iter().for_each(forget_commands);
    store.settle(&charges, NO_TIME).await.expect("an answer");
    let calls: u64 = servers.iter().map(script_calls).sum();
    assert_eq!(calls, expected, "{keys:?} at {url}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_costs_one_call_for_each_slot_that_it_needs() {
    let (redis, cluster) = (Redis::start(), RedisCluster::start(3, 0));
    let rules_of_one = [key("a", "one"), key("b", "one"), key("c", "one")];
    let three = [key("a", "one"), key("a", "two"), key("a", "three")];
    let two_and_one = [key("a", "one"), key("a", "two"), key("b", "one")];
    let (url, server) = (redis.url(), std::slice::from_ref(&redis));
    check_calls(&url, server, &rules_of_one, 1).await;
    check_calls(&url, server, &three, 1).await;
    let (url, servers) = (cluster_url(&cluster), cluster.nodes());
    check_calls(&url, servers, &rules_of_one, 1).await;
    check_calls(&url, servers, &three, 3).await;
    check_calls(&url, servers, &two_and_one, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_wait_go_together() {
    let redis = Redis::start();
    let store = connect(&redis.url(), patient()).await;
    let limit = limit(Algorithm::Gcra, 1_000_000, LONG);
    store.settle(&[one(key("a", "first"), &limit)], NO_TIME).await.expect("an answer");
    forget_commands(&redis);
    let mut requests = JoinSet::new();
    for number in 0..256 {
        let store = store.clone();
        requests.spawn(async move {
            let subject = format!("client {number}");
            store.settle(&[one(key("a", &subject), &limit)], NO_TIME).await.is_ok()
        });
    }
    assert!(requests.join_all().await.into_iter().all(|is_settled| is_settled));
    let calls = script_calls(&redis);
    println!("256 requests at once took {calls} calls");
    assert!(calls <= 64, "{calls} calls");

    let subjects: Vec<String> = (0..256).map(|number| format!("client {number}")).collect();
    let charges: Vec<_> = subjects.iter().map(|subject| [one(key("a", subject), &limit)]).collect();
    let requests: Vec<&[Charge<'_>]> = charges.iter().map(<[_; 1]>::as_slice).collect();
    forget_commands(&redis);
    let settled = store.settle_batch(&requests, NO_TIME).await;
    assert!(settled.len() == 256 && settled.iter().all(Result::is_ok));
    let calls = script_calls(&redis);
    println!("256 requests in a batch took {calls} calls");
    assert!(calls <= 16, "{calls} calls");
}
