//! Outages leave nothing behind: no connection, no task, no memory.

use std::process::Command;
use std::time::Duration;
use std::{env, fs};

use tokio::runtime::{Handle, Runtime};
use tollgate_core::Algorithm;
use tollgate_store::redis::RedisStore;
use tollgate_store::{BreakerState, RemoteSettings};
use tollgate_testbed::{Redis, RedisCluster};

use crate::redis::stand::{
    LONG, cluster_url, connect, eventually, key, limit, take, until_it_answers,
};

/// What ten outages may add to the memory of a process: less than one kept connection each.
const MAX_GROWTH_BYTES: u64 = 1 << 20;
const BYTES_OF_A_PAGE: u64 = 4_096;
/// Set where a test is alone in its process.
const ALONE: &str = "TOLLGATE_TEST_ALONE";

fn tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

/// Connections of clients, without the one that asks.
fn connections(redis: &Redis) -> usize {
    redis.command(&["CLIENT", "LIST", "TYPE", "NORMAL"]).text().lines().count() - 1
}

fn memory() -> u64 {
    let sizes = fs::read_to_string("/proc/self/statm").expect("/proc can be read");
    let pages = sizes.split(' ').nth(1).expect("what is resident");
    pages.parse::<u64>().expect("a number") * BYTES_OF_A_PAGE
}

/// Sends requests until the circuit breaker opens, and then a few more.
async fn outlive(redis: &Redis, store: &RedisStore) {
    redis.kill();
    let some = limit(Algorithm::Gcra, 1_000, LONG);
    eventually("an open breaker", || async {
        assert!(take(store, key("a", "x"), &some).await.is_err(), "no server");
        (store.status()[0].breaker == BreakerState::Open).then_some(())
    })
    .await;
    for _ in 0..1_000 {
        assert!(take(store, key("a", "x"), &some).await.is_err(), "no server");
    }
    redis.restart();
    until_it_answers(store, key("a", "x")).await;
}

/// Alone in its process, because memory is shared by all tests of one: this program runs it again.
#[test]
fn outages_leave_nothing_behind() {
    if env::var_os(ALONE).is_some() {
        return Runtime::new().expect("a runtime").block_on(ten_outages());
    }
    let program = env::current_exe().expect("this program");
    let test = ["--exact", "redis::leaks::outages_leave_nothing_behind", "--nocapture"];
    let mut again = Command::new(program);
    let output = again.args(test).env(ALONE, "1").output().expect("this program again");
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{said}");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}{errors}");
}

async fn ten_outages() {
    let redis = Redis::start();
    let probe_after = Duration::from_millis(50);
    let settings = RemoteSettings { probe_after, ..RemoteSettings::default() };
    let store = connect(&redis.url(), settings).await;
    let mut sizes = Vec::new();
    // The first outages allocate memory that is reused.
    for _ in 0..13 {
        outlive(&redis, &store).await;
        eventually("one connection and its task", || async {
            (connections(&redis) == 1 && tasks() == 2).then_some(())
        })
        .await;
        sizes.push(memory());
    }
    println!("resident after each outage: {sizes:?}");
    assert!(sizes[12] < sizes[2] + MAX_GROWTH_BYTES, "{sizes:?}");
}

/// A store that is dropped ends what it began.
async fn check_dropped(url: &str, servers: &[Redis]) {
    let before = tasks();
    let store = connect(url, RemoteSettings::default()).await;
    for number in 0..20 {
        until_it_answers(&store, key("a", &format!("client {number}"))).await;
    }
    assert!(tasks() > before && servers.iter().any(|server| connections(server) > 0), "{url}");
    drop(store);
    eventually("the end of all tasks and connections", || async {
        (tasks() == before && servers.iter().all(|server| connections(server) == 0)).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_dropped_ends_its_tasks_and_connections() {
    let (redis, cluster) = (Redis::start(), RedisCluster::start(3, 0));
    check_dropped(&redis.url(), std::slice::from_ref(&redis)).await;
    check_dropped(&cluster_url(&cluster), cluster.nodes()).await;
}
