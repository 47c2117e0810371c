//! Servers that no request calls: probes say whether they could be called.

use std::time::Duration;

use tollgate_core::Algorithm;
use tollgate_store::{BreakerState, RemoteSettings};
use tollgate_testbed::{Redis, RedisCluster};

use crate::redis::stand::{LONG, cluster_url, connect, key, limit, patient, take};

/// Three failures open the circuit breaker, which is probed again at once.
fn settings() -> RemoteSettings {
    RemoteSettings { failures: 3, probe_after: Duration::ZERO, ..patient() }
}

#[tokio::test(flavor = "multi_thread")]
async fn probes_close_and_open_the_circuit_breaker() {
    let redis = Redis::start();
    let store = connect(&redis.url(), settings()).await;
    let status = || store.status().remove(0);
    assert!(!store.probe_idle().await);
    assert_eq!((status().failure.is_some(), status().calls), (false, 0));
    redis.kill();
    assert!(store.probe_idle().await && store.probe_idle().await, "not open yet");
    assert_eq!((status().failure.is_some(), status().breaker), (true, BreakerState::Closed));
    assert!(!store.probe_idle().await);
    assert_eq!((status().openings, status().breaker), (1, BreakerState::Open));
    assert!(!store.probe_idle().await);
    assert_eq!((status().openings, status().breaker), (1, BreakerState::Open));
    redis.restart();
    assert!(!store.probe_idle().await);
    assert_eq!((status().failure.is_some(), status().breaker), (false, BreakerState::Closed));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_calls_is_not_probed() {
    let redis = Redis::start();
    let store = connect(&redis.url(), settings()).await;
    let ten = limit(Algorithm::Gcra, 10, LONG);
    take(&store, key("a", "x"), &ten).await.expect("a server that responds");
    redis.kill();
    assert!(
        !store.probe_idle().await && store.status()[0].failure.is_none(),
        "the call was enough"
    );
    assert!(store.probe_idle().await && store.status()[0].failure.is_some());
}

/// It takes no writes, so no request could be counted there.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_fails_its_probe() {
    let (redis, master) = (Redis::start(), Redis::start());
    let store = connect(&redis.url(), settings()).await;
    assert!(!store.probe_idle().await);
    redis.command(&["REPLICAOF", "127.0.0.1", &master.port().to_string()]);
    assert!(store.probe_idle().await && store.status()[0].failure.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_of_a_cluster_are_probed_whichever_has_the_key() {
    let cluster = RedisCluster::start(3, 0);
    let store = connect(&cluster_url(&cluster), settings()).await;
    let calls = || store.status().iter().map(|status| status.calls).collect::<Vec<_>>();
    let before = calls();
    // What discovered the servers counts as a call.
    store.probe_idle().await;
    assert!(!store.probe_idle().await);
    assert_eq!((store.status().len(), calls()), (3, before));
    assert!(store.status().iter().all(|status| status.failure.is_none() && status.failures == 0));
}
