//! A network that is slow, silent or cut between the store and a server that is well.

use std::time::Duration;

use tollgate_core::{Algorithm, Limit};
use tollgate_store::redis::RedisStore;
use tollgate_store::{RemoteSettings, Store as _, StoreErrorKind};
use tollgate_testbed::{Fault, FaultProxy, Redis};

use crate::stand::{
    LONG, NO_MOMENT, connect, eventually, key, limit, one, remaining, story, take, until_it_answers,
};

const MOST: u64 = 1_000;

fn most() -> Limit {
    limit(Algorithm::Gcra, MOST, LONG)
}

/// A round trip takes that long, half of it on each way.
fn latency(millis: u64) -> Fault {
    let half = Duration::from_micros(millis * 500);
    Fault::Latency { to_server: half, to_client: half }
}

/// A server behind a network, and a store that reaches it through that.
async fn behind_a_network(path: &str) -> (Redis, FaultProxy, RedisStore) {
    let redis = Redis::start();
    let proxy = FaultProxy::start(redis.address());
    // Only what happens to a request is looked at, so no server is ever left alone.
    let settings = RemoteSettings { failures: u32::MAX, ..RemoteSettings::default() };
    let store = connect(&format!("redis://{}{path}", proxy.address()), settings).await;
    (redis, proxy, store)
}

/// What a fault does to a request, and that the store gets over it.
async fn check(fault: Fault, expected: Result<(), StoreErrorKind>) {
    let (_redis, proxy, store) = behind_a_network("").await;
    until_it_answers(&store, key("a", "before")).await;
    proxy.set(fault);
    for _ in 0..3 {
        let answer = take(&store, key("a", "during"), &most()).await;
        let answer = answer.map(drop).map_err(|error| error.kind());
        assert_eq!(answer, expected, "{fault:?}");
    }
    proxy.set(Fault::Pass);
    until_it_answers(&store, key("a", "after")).await;
    eventually("one connection", || async { (proxy.connections() == 1).then_some(()) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_network_passes_or_is_told_of() {
    check(latency(30), Ok(())).await;
    check(latency(200), Err(StoreErrorKind::Timeout)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_half_open_is_replaced() {
    check(Fault::Silence, Err(StoreErrorKind::Timeout)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_reset_is_replaced() {
    check(Fault::Refuse, Err(StoreErrorKind::Unavailable)).await;
}

/// Choosing a database takes a round trip before the first request can be sent.
#[tokio::test(flavor = "multi_thread")]
async fn connecting_may_take_longer_than_a_request_may() {
    let (_redis, proxy, store) = behind_a_network("/1").await;
    proxy.set(latency(40));
    until_it_answers(&store, key("a", "x")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_who_wait_for_a_connection_wait_for_the_same() {
    let (_redis, proxy, store) = behind_a_network("/1").await;
    proxy.set(latency(10));
    let limit = most();
    let charge = [one(key("a", "x"), &limit)];
    let requests: Vec<&[_]> = vec![&charge; 200];
    let settled = store.settle_batch(&requests, NO_MOMENT).await;
    let problem = settled.iter().find_map(|answer| answer.as_ref().err().map(story));
    assert_eq!(problem, None);
    assert_eq!(proxy.connections(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_not_sent_in_time_is_never_charged() {
    let (redis, proxy, store) = behind_a_network("/1").await;
    // The connection takes longer than whoever waits for it does.
    proxy.set(latency(150));
    for _ in 0..5 {
        let error = take(&store, key("a", "x"), &most()).await.expect_err("no connection in time");
        assert_eq!(error.kind(), StoreErrorKind::Timeout);
    }
    // Once it is there, nobody waits any more.
    eventually("a connection that has chosen its database", || async {
        redis.command(&["CLIENT", "LIST"]).text().contains("db=1").then_some(())
    })
    .await;
    proxy.set(Fault::Pass);
    eventually("an answer", || async { take(&store, key("a", "y"), &most()).await.ok() }).await;
    assert_eq!(remaining(&store, key("a", "x"), &most()).await, MOST);
}
