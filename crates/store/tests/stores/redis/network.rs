//! A network that is slow, silent or cut between the store and a healthy server.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::interval;
use tollgate_core::{Algorithm, Limit};
use tollgate_store::redis::RedisStore;
use tollgate_store::{RemoteSettings, Store as _, StoreErrorKind};
use tollgate_testbed::{Fault, FaultProxy, Redis, WAIT_TIMEOUT};

use crate::redis::stand::{
    LONG, NO_TIME, connect, eventually, key, limit, one, remaining, story, take, until_it_answers,
};

/// The default.
const DEADLINE: Duration = Duration::from_millis(50);
const LIMIT: u64 = 1_000;

fn most() -> Limit {
    limit(Algorithm::Gcra, LIMIT, LONG)
}

/// A round trip takes that long, half of it on each way.
fn latency(millis: u64) -> Fault {
    let half = Duration::from_micros(millis * 500);
    Fault::Latency { to_server: half, to_client: half }
}

/// A server behind a network.
struct Remote {
    redis: Redis,
    proxy: FaultProxy,
}

impl Remote {
    fn start() -> Self {
        let redis = Redis::start();
        let proxy = FaultProxy::start(redis.address());
        Self { redis, proxy }
    }

    /// A store that reaches the server through the network. Choosing a database takes a round trip
    /// before the first request can be sent.
    async fn store(&self, deadline: Duration) -> RedisStore {
        // The circuit breaker never opens: only single requests are tested.
        let settings = RemoteSettings { deadline, failures: u32::MAX, ..RemoteSettings::default() };
        connect(&format!("redis://{}/1", self.proxy.address()), settings).await
    }

    /// How many connections there have been, including the one of this command.
    fn connections_so_far(&self) -> u32 {
        let stats = self.redis.info("stats");
        stats["total_connections_received"].parse().expect("a number")
    }
}

/// What a fault does to a request, and that the store recovers.
async fn check(fault: Fault, deadline: Duration, expected: Result<(), StoreErrorKind>) {
    let remote = Remote::start();
    let store = remote.store(deadline).await;
    until_it_answers(&store, key("a", "before")).await;
    remote.proxy.set(fault);
    for _ in 0..3 {
        let answer = take(&store, key("a", "during"), &most()).await;
        let answer = answer.map(drop).map_err(|error| error.kind());
        assert_eq!(answer, expected, "{fault:?}");
    }
    remote.proxy.set(Fault::Pass);
    until_it_answers(&store, key("a", "after")).await;
    eventually("one connection", || async { (remote.proxy.connections() == 1).then_some(()) })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_network_passes_or_is_a_timeout() {
    check(latency(30), WAIT_TIMEOUT, Ok(())).await;
    check(latency(200), DEADLINE, Err(StoreErrorKind::Timeout)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_half_open_is_replaced() {
    check(Fault::Silence, DEADLINE, Err(StoreErrorKind::Timeout)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_reset_is_replaced() {
    check(Fault::Refuse, WAIT_TIMEOUT, Err(StoreErrorKind::Unavailable)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connecting_may_take_longer_than_a_request_may() {
    let remote = Remote::start();
    // One round trip is in time on a busy machine too; connecting takes two.
    remote.proxy.set(latency(300));
    let store = remote.store(Duration::from_millis(550)).await;
    until_it_answers(&store, key("a", "x")).await;
    // Not only after the start.
    remote.proxy.set(Fault::Refuse);
    remote.proxy.set(latency(300));
    until_it_answers(&store, key("a", "x")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_requests_share_one_connection_attempt() {
    let remote = Remote::start();
    remote.proxy.set(latency(20));
    let before = remote.connections_so_far();
    let store = remote.store(Duration::from_secs(5)).await;
    let limit = most();
    let charge = [one(key("a", "x"), &limit)];
    let requests: Vec<&[_]> = vec![&charge; 200];
    let settled = store.settle_batch(&requests, NO_TIME).await;
    let problem = settled.iter().find_map(|answer| answer.as_ref().err().map(story));
    assert_eq!(problem, None);
    assert_eq!(remote.connections_so_far() - before, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_not_sent_in_time_is_never_charged() {
    let remote = Remote::start();
    // Connecting takes longer than the deadline of a request.
    remote.proxy.set(latency(700));
    let store = remote.store(Duration::from_millis(100)).await;
    let mut crowd = JoinSet::new();
    // So that some wait for the connection, and some for their turn to wait for it.
    let mut pace = interval(Duration::from_millis(5));
    for _ in 0..12 {
        pace.tick().await;
        let store = store.clone();
        crowd.spawn(async move { take(&store, key("a", "x"), &most()).await });
    }
    for answer in crowd.join_all().await {
        let error = answer.expect_err("no connection in time");
        assert_eq!(error.kind(), StoreErrorKind::Timeout, "{}", story(&error));
    }
    // Once it is connected, no request waits any more.
    eventually("a connection that has chosen its database", || async {
        remote.redis.command(&["CLIENT", "LIST"]).text().contains("db=1").then_some(())
    })
    .await;
    remote.proxy.set(Fault::Pass);
    until_it_answers(&store, key("a", "y")).await;
    assert_eq!(remaining(&store, key("a", "x"), &most()).await, LIMIT);
}
