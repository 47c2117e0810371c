//! Lost responses: a retry with the same idempotency key is charged once, on any node.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy};
use tokio::net::{TcpListener, TcpStream};
use tollgate_core::Algorithm;
use tollgate_store::redis::RedisStore;
use tollgate_store::{OpOutcome, RemoteSettings, Store as _, StoreErrorKind};
use tollgate_testbed::{Fault, FaultProxy, Redis, RedisCluster, WAIT_TIMEOUT};

use crate::{
    NO_TIME, call, cluster_url, first, key, left, limit, one, patient, redis, settle, try_settle,
};
use tollgate_testbed::eventually;

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_after_a_lost_response_is_charged_once() {
    let server = Redis::start();
    let proxy = FaultProxy::start(server.address());
    let (other, through) =
        (redis(&server.url(), patient()).await, format!("redis://{}", proxy.address()));
    let hasty = RemoteSettings { deadline: Duration::from_millis(200), ..patient() };
    let hasty = redis(&through, hasty).await;
    let ten = limit(Algorithm::SlidingWindowLog, 10);
    let charges = [one(key("rule", "client"), &ten)];
    // Wait for the connection.
    eventually("an answer", || async { hasty.settle(&charges, NO_TIME).await.ok() }).await;
    let before = left(&other, &charges).await[0];

    proxy.set(Fault::Latency { to_server: Duration::ZERO, to_client: WAIT_TIMEOUT });
    let lost = try_settle(&hasty, &charges, &call("lost", 1, "one")).await;
    assert_eq!(lost.expect_err("no answer").kind(), StoreErrorKind::Timeout);
    eventually("the charge", || async {
        (left(&other, &charges).await == [before - 1]).then_some(())
    })
    .await;
    let again = settle(&other, &charges, &call("lost", 1, "two")).await;
    assert!(matches!(&again, OpOutcome::Replayed { note, .. } if note == "one"), "{again:?}");
    assert_eq!(left(&other, &charges).await, [before - 1]);
}

/// A proxy that can be made to close the connection instead of passing on the next response.
pub(crate) async fn cut_off(server: SocketAddr) -> (SocketAddr, Arc<AtomicBool>) {
    let is_to_cut = Arc::new(AtomicBool::new(false));
    (scissors(server, Arc::clone(&is_to_cut)).await, is_to_cut)
}

async fn scissors(server: SocketAddr, is_to_cut: Arc<AtomicBool>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let Ok(server) = TcpStream::connect(server).await else { return };
            let is_to_cut = Arc::clone(&is_to_cut);
            tokio::spawn(async move {
                let (mut from_client, mut to_client) = client.into_split();
                let (mut from_server, mut to_server) = server.into_split();
                let there =
                    tokio::spawn(async move { copy(&mut from_client, &mut to_server).await });
                let mut bytes = [0; 4_096];
                while let Ok(count @ 1..) = from_server.read(&mut bytes).await {
                    if is_to_cut.swap(false, Ordering::SeqCst)
                        || to_client.write_all(&bytes[..count]).await.is_err()
                    {
                        break;
                    }
                }
                there.abort();
            });
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_ends_is_made_again_within_the_deadline() {
    let server = Redis::start();
    let (address, is_to_cut) = cut_off(server.address()).await;
    let store = redis(&format!("redis://{address}"), patient()).await;
    let ten = limit(Algorithm::Gcra, 10);
    let charges = [one(key("rule", "client"), &ten)];
    store.settle(&charges, NO_TIME).await.expect("an answer");

    is_to_cut.store(true, Ordering::SeqCst);
    let settled = settle(&store, &charges, &call("cut", 1, "one")).await;
    assert!(matches!(&settled, OpOutcome::Replayed { note, .. } if note == "one"), "{settled:?}");
    assert_eq!(left(&store, &charges).await, [8]);
    // Without an idempotency key there is no retry.
    is_to_cut.store(true, Ordering::SeqCst);
    store.settle(&charges, NO_TIME).await.expect_err("no answer");
    assert_eq!(left(&store, &charges).await, [7]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unavailable_slot_leaves_no_charge_in_the_others() {
    let cluster = RedisCluster::start(3, 0);
    let settings = RemoteSettings { deadline: WAIT_TIMEOUT, failures: 100, ..patient() };
    let store = redis(&cluster_url(&cluster), settings).await;
    let ten = limit(Algorithm::FixedWindow, 10);
    let by_server = one_client_per_server(&cluster, &store).await;
    let charges: Vec<_> = by_server.iter().map(|client| one(key("r", client), &ten)).collect();
    assert_eq!(charges.len(), 3);
    let settled = first(settle(&store, &charges, &call("whole", 1, "one")).await);
    assert!(settled.passed);
    let again = settle(&store, &charges, &call("whole", 1, "two")).await;
    assert_eq!(again, OpOutcome::Replayed { settlement: settled, note: "one".to_owned() });

    // The server that has the record. The others keep running.
    for node in cluster.nodes() {
        node.command(&["CONFIG", "SET", "cluster-require-full-coverage", "no"]);
    }
    cluster.kill_node(0);
    let failed = try_settle(&store, &charges, &call("away", 1, "one")).await;
    failed.expect_err("a server is away");
    for charge in &charges[1..] {
        assert_eq!(left(&store, &[*charge]).await, [9]);
    }
}

/// A client on each server, in their order.
pub(crate) async fn one_client_per_server(
    cluster: &RedisCluster,
    store: &RedisStore,
) -> Vec<String> {
    let ten = limit(Algorithm::FixedWindow, 10);
    let clients: Vec<String> = (0..64).map(|number| format!("client {number}")).collect();
    let mut by_server = Vec::new();
    for node in cluster.nodes() {
        node.command(&["FLUSHALL"]);
        for client in &clients {
            settle(store, &[one(key("find", client), &ten)], &call(client, 1, "")).await;
            if node.command(&["DBSIZE"]).integer() > 0 {
                by_server.push(client.clone());
                break;
            }
        }
        cluster.nodes().iter().for_each(|node| drop(node.command(&["FLUSHALL"])));
    }
    by_server
}
