//! The record of an idempotency key is found and forgotten from any node, by the request that wrote it.

use tollgate_core::{Algorithm, Charge, Limit};
use tollgate_store::postgres::PostgresStore;
use tollgate_store::{DenyCache, MemoryStore, Op, OpOutcome, RecordRef, Store};
use tollgate_testbed::{Postgres, Redis, RedisCluster};

use crate::{NO_TIME, call, cluster_url, first, key, left, limit, one, patient, redis, settle};

#[tokio::test(flavor = "multi_thread")]
async fn a_record_is_forgotten_in_redis() {
    let server = Redis::start();
    all([redis(&server.url(), patient()).await, redis(&server.url(), patient()).await]).await;
    what_is_no_record_is_not_there(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_is_forgotten_in_a_redis_cluster() {
    let cluster = RedisCluster::start(3, 0);
    let url = cluster_url(&cluster);
    all([redis(&url, patient()).await, redis(&url, patient()).await]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_is_forgotten_in_postgres() {
    let server = Postgres::start();
    let store = || PostgresStore::connect(&server.url(), patient()).expect("a valid URL");
    all([store(), store()]).await;
}

#[tokio::test]
async fn counters_in_memory_have_no_records() {
    let store = MemoryStore::with_bytes(1 << 20);
    let ten = limit(Algorithm::Gcra, 10);
    let charges = [one(key("r", "x"), &ten)];
    first(settle(&store, &charges, &call("k", 1, "d1 0")).await);
    assert!(!find(&store, &charges, "d1").await);
}

fn record<'a>(charges: &[Charge<'a>], note: &'a str) -> RecordRef<'a> {
    RecordRef { call: call("k", 1, "").call, note, beside: charges[0].key }
}

async fn ask(store: &impl Store, op: Op<'_>) -> bool {
    match store.submit_one(op, NO_TIME).await {
        Ok(OpOutcome::Record { is_there }) => is_there,
        other => panic!("{other:?}"),
    }
}

async fn find(store: &impl Store, charges: &[Charge<'_>], note: &str) -> bool {
    ask(store, Op::FindRecord(record(charges, note))).await
}

async fn forget(store: &impl Store, charges: &[Charge<'_>], note: &str) -> bool {
    ask(store, Op::ForgetRecord(record(charges, note))).await
}

/// What two nodes with one store promise.
async fn all<S: Store + 'static>(stores: [S; 2]) {
    let [a, b] = stores.map(DenyCache::new);
    let limits: [Limit; 2] = [limit(Algorithm::Gcra, 10), limit(Algorithm::SlidingWindowLog, 10)];
    for clients in [["x", "x"], ["y", "z"]] {
        // In a cluster, different clients are in different slots.
        let charges: Vec<Charge<'_>> = clients
            .iter()
            .zip(["one rule", "other"])
            .zip(&limits)
            .map(|((client, rule), limit)| one(key(rule, client), limit))
            .collect();
        assert!(!find(&a, &charges, "d1").await);
        first(settle(&a, &charges, &call("k", 1, "d1 0123")).await);
        for store in [&a, &b] {
            assert!(find(store, &charges, "d1").await);
            for other in ["d", "d12", "d2", "", "0123", "d1 0123"] {
                assert!(!find(store, &charges, other).await, "{other}");
                assert!(!forget(store, &charges, other).await, "{other}");
            }
        }
        let copy = settle(&b, &charges, &call("k", 1, "d2 0123")).await;
        assert!(matches!(&copy, OpOutcome::Replayed { note, .. } if note == "d1 0123"), "{copy:?}");
        assert!(forget(&b, &charges, "d1").await);
        assert!(!find(&a, &charges, "d1").await && !forget(&a, &charges, "d1").await);
        // The next one is charged, and may have another body.
        first(settle(&a, &charges, &call("k", 2, "d3 0123")).await);
        assert_eq!(left(&b, &charges).await, [8, 8]);
        assert!(!forget(&b, &charges, "d1").await, "the key is of another request");
        assert!(find(&b, &charges, "d3").await);
        assert!(forget(&a, &charges, "d3").await);
    }
}

/// Any program that may write to Redis can write there.
async fn what_is_no_record_is_not_there(server: &Redis) {
    let store = redis(&server.url(), patient()).await;
    let ten = limit(Algorithm::Gcra, 10);
    let charges = [one(key("r", "x"), &ten)];
    first(settle(&store, &charges, &call("k", 1, "d1 0")).await);
    let names = server.command(&["KEYS", "*once:*"]);
    let names: Vec<&str> = names.list().iter().map(tollgate_testbed::Reply::text).collect();
    let [name] = names[..] else { panic!("{names:?}") };
    let long = "x".repeat(1 << 20);
    for text in ["x", "\u{1}", long.as_str()] {
        server.command(&["SET", name, text]);
        assert!(!forget(&store, &charges, "d1").await, "{}", text.len());
    }
    server.command(&["DEL", name]);
    server.command(&["RPUSH", name, "d1"]);
    assert!(!forget(&store, &charges, "d1").await);
}
