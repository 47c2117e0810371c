//! Refunds that are made once, whichever node makes them.

use std::sync::Arc;

use tokio::task::JoinSet;
use tollgate_core::{Algorithm, Charge, Limit, Micros, Timestamp};
use tollgate_store::postgres::PostgresStore;
use tollgate_store::{
    DenyCache, ExpiringRefund, Op, OpOutcome, Refund, RefundOnce, RemoteSettings, Store, StoreError,
};
use tollgate_testbed::{Postgres, Redis, RedisCluster, eventually};

use crate::lost::{cut_off, one_client_per_server};
use crate::{HOUR, NO_TIME, cluster_url, key, left, limit, one, patient, redis};

#[tokio::test(flavor = "multi_thread")]
async fn a_refund_is_made_once_in_redis() {
    let server = Redis::start();
    all([redis(&server.url(), patient()).await, redis(&server.url(), patient()).await]).await;
    // Every mark has an end.
    let marks = server.command(&["KEYS", "*refunded:*"]);
    assert!(!marks.list().is_empty());
    for name in marks.list().iter().map(tollgate_testbed::Reply::text) {
        let ms = server.command(&["PTTL", name]).integer();
        assert!((1..=366 * 86_400_000).contains(&ms), "{name}: {ms}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refund_is_made_once_in_a_redis_cluster() {
    let cluster = RedisCluster::start(3, 0);
    let url = cluster_url(&cluster);
    all([redis(&url, patient()).await, redis(&url, patient()).await]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refund_is_made_once_in_postgres() {
    let server = Postgres::start();
    let store = || PostgresStore::connect(&server.url(), patient()).expect("a valid URL");
    all([store(), store()]).await;
}

/// What two nodes with one store promise.
pub(crate) async fn all<S: Store + 'static>(stores: [S; 2]) {
    let [a, b] = stores.map(|store| Arc::new(DenyCache::new(store)));
    for (number, algorithm) in (0..).zip(Algorithm::ALL) {
        let clients = ["x", "y", "z"].map(|client| format!("{client} {algorithm}"));
        both_nodes_at_once(&a, &b, algorithm, &clients, number).await;
        only_what_has_not_ended(&a, &b, algorithm, &clients, number).await;
        changed_rules(&a, &b, algorithm, &clients[0], number).await;
        an_expired_mark(&a, algorithm, &clients[0], number).await;
    }
}

/// A refund of all these charges, which end so much later.
async fn refund(
    store: &impl Store,
    charges: &[Charge<'_>],
    charged_at: Timestamp,
    ends: &[Micros],
    mark: [u8; 16],
) -> Result<OpOutcome, StoreError> {
    let refunds: Vec<ExpiringRefund<'_>> = charges
        .iter()
        .zip(ends.iter().cycle())
        .map(|(charge, ends)| ExpiringRefund {
            refund: Refund {
                key: charge.key,
                limit: charge.limit,
                units: charge.cost,
                charged_at: Some(charged_at),
            },
            ends_at: charged_at.plus(*ends),
        })
        .collect();
    store.submit_one(Op::RefundOnce(RefundOnce { refunds: &refunds, mark }), NO_TIME).await
}

async fn charge(store: &impl Store, charges: &[Charge<'_>]) -> Timestamp {
    let settled = store.settle(charges, NO_TIME).await.expect("a store that answers");
    assert!(settled.passed);
    settled.now
}

fn of<'a>(clients: &'a [String], limit: &'a Limit) -> Vec<Charge<'a>> {
    clients.iter().map(|client| Charge { cost: 3, ..one(key("rule", client), limit) }).collect()
}

async fn both_nodes_at_once<S: Store + 'static>(
    a: &Arc<DenyCache<S>>,
    b: &Arc<DenyCache<S>>,
    algorithm: Algorithm,
    clients: &[String],
    number: u8,
) {
    const COPIES: usize = 16;
    let nine = limit(algorithm, 9);
    let charges = of(clients, &nine);
    let (first, second) = (charge(&**a, &charges).await, charge(&**b, &charges).await);
    let mut copies = JoinSet::new();
    for node in [a, b].into_iter().cycle().take(COPIES) {
        let (node, clients) = (Arc::clone(node), clients.to_vec());
        copies.spawn(async move {
            let charges = of(&clients, &nine);
            refund(&*node, &charges, first, &[HOUR], [number; 16]).await.expect("an answer")
        });
    }
    let outcomes = copies.join_all().await;
    let (made, before): (Vec<_>, Vec<_>) =
        outcomes.into_iter().partition(|outcome| *outcome != OpOutcome::RefundedBefore);
    // In a cluster several used to succeed, if each had refunded a slot.
    assert_eq!(made, [OpOutcome::Refunded { counters: clients.len() }], "{algorithm}: one of them");
    assert_eq!(before.len(), COPIES - 1, "{algorithm}");
    assert_eq!(left(&**a, &charges).await, vec![6; clients.len()], "{algorithm}");
    let again = refund(&**b, &charges, first, &[HOUR], [number; 16]).await.expect("an answer");
    assert_eq!(again, OpOutcome::RefundedBefore, "{algorithm}");
    // Another decision has its own mark.
    let other = refund(&**b, &charges, second, &[HOUR], [number + 100; 16]).await;
    assert_eq!(other.expect("an answer"), OpOutcome::Refunded { counters: clients.len() });
    assert_eq!(left(&**a, &charges).await, vec![9; clients.len()], "{algorithm}");
}

async fn only_what_has_not_ended<S: Store>(
    a: &DenyCache<S>,
    b: &DenyCache<S>,
    algorithm: Algorithm,
    clients: &[String],
    number: u8,
) {
    let nine = limit(algorithm, 9);
    let charges = of(clients, &nine);
    let then = charge(a, &charges).await;
    let mark = [number + 50; 16];
    let none = refund(b, &charges, then, &[Micros::ZERO], mark).await.expect("an answer");
    assert_eq!(none, OpOutcome::RefundExpired, "{algorithm}");
    assert_eq!(left(a, &charges).await, [6, 6, 6], "{algorithm}");
    let ends = [HOUR, Micros::ZERO, HOUR];
    let some = refund(b, &charges, then, &ends, mark).await.expect("an answer");
    assert_eq!(some, OpOutcome::Refunded { counters: 2 }, "{algorithm}");
    assert_eq!(left(a, &charges).await, [9, 6, 9], "{algorithm}");
    a.reset(&[charges[1].key]).await.expect("an answer");
}

/// A rule whose limit changed keeps its counter; one with another algorithm or window begins anew.
async fn changed_rules<S: Store>(
    a: &DenyCache<S>,
    b: &DenyCache<S>,
    algorithm: Algorithm,
    client: &str,
    number: u8,
) {
    let (nine, twenty) = (limit(algorithm, 9), limit(algorithm, 20));
    let charges = [Charge { cost: 3, ..one(key("changed", client), &nine) }];
    let then = charge(a, &charges).await;
    let larger = [Charge { limit: &twenty, ..charges[0] }];
    charge(a, &larger).await;
    let before = left(a, &larger).await[0];
    let outcome = refund(b, &charges, then, &[HOUR], [number + 150; 16]).await.expect("an answer");
    assert_eq!(outcome, OpOutcome::Refunded { counters: 1 }, "{algorithm}");
    let after = left(a, &larger).await[0];
    assert!((before + 1..=before + 7).contains(&after), "{algorithm}: {before}, then {after}");
    let other = if algorithm == Algorithm::Gcra { Algorithm::FixedWindow } else { Algorithm::Gcra };
    let other = limit(other, 9);
    let others = [Charge { limit: &other, ..charges[0] }];
    let then = charge(a, &charges).await;
    charge(a, &others).await;
    let before = left(a, &others).await;
    refund(b, &charges, then, &[HOUR], [number + 160; 16]).await.expect("an answer");
    assert_eq!(left(a, &others).await, before, "{algorithm}");
    a.reset(&[charges[0].key]).await.expect("an answer");
}

/// When the charge has ended, so has its mark, and still nothing is refunded.
async fn an_expired_mark<S: Store>(
    store: &DenyCache<S>,
    algorithm: Algorithm,
    client: &str,
    number: u8,
) {
    let nine = limit(algorithm, 9);
    let charges = [one(key("expired", client), &nine)];
    let then = charge(store, &charges).await;
    let soon = Micros::from_millis(20);
    // The store's clock may have passed it already.
    let first = refund(store, &charges, then, &[soon], [number + 170; 16]).await;
    assert!(matches!(first, Ok(OpOutcome::Refunded { .. } | OpOutcome::RefundExpired)));
    let after = left(store, &charges).await;
    eventually("the end", || async {
        let again = refund(store, &charges, then, &[soon], [number + 171; 16]).await;
        (again.expect("an answer") == OpOutcome::RefundExpired).then_some(())
    })
    .await;
    assert!(left(store, &charges).await[0] <= after[0] + 1, "{algorithm}");
    store.reset(&[charges[0].key]).await.expect("an answer");
}

/// A request has one time, and each server of a cluster its own: entries of a log were not found by it.
#[tokio::test(flavor = "multi_thread")]
async fn a_refund_across_slots_finds_the_entries_of_logs() {
    let cluster = RedisCluster::start(3, 0);
    let store = redis(&cluster_url(&cluster), patient()).await;
    let ten = limit(Algorithm::SlidingWindowLog, 10);
    let clients = one_client_per_server(&cluster, &store).await;
    let charges: Vec<_> = clients.iter().map(|client| one(key("r", client), &ten)).collect();
    for _ in 0..20 {
        let charged_at = Some(charge(&store, &charges).await);
        let refunds: Vec<Refund<'_>> = charges
            .iter()
            .map(|it| Refund { key: it.key, limit: &ten, units: 1, charged_at })
            .collect();
        store.refund(&refunds, NO_TIME).await.expect("an answer");
        assert_eq!(left(&store, &charges).await, [10, 10, 10]);
    }
}

/// A refund took the newest entry within a second, so that the refund of that one took a newer one, and the last found
/// none.
#[tokio::test(flavor = "multi_thread")]
async fn refunds_across_slots_go_to_the_nearest_entries_of_logs() {
    let cluster = RedisCluster::start(3, 0);
    let settings = RemoteSettings { uses_callers_clock: true, ..patient() };
    let store = redis(&cluster_url(&cluster), settings).await;
    let ten = limit(Algorithm::SlidingWindowLog, 10);
    let clients = one_client_per_server(&cluster, &store).await;
    let charges: Vec<_> = clients.iter().map(|client| one(key("r", client), &ten)).collect();
    let times = [0, 700, 1_400].map(|ms| Timestamp::from_secs(1_000).plus(Micros::from_millis(ms)));
    for now in times {
        assert!(store.settle(&charges, now).await.expect("an answer").passed);
    }
    for (refunded, charged_at) in (1..).zip(times) {
        let refunds: Vec<Refund<'_>> = charges
            .iter()
            .map(|it| Refund { key: it.key, limit: &ten, units: 1, charged_at: Some(charged_at) })
            .collect();
        store.refund(&refunds, times[2]).await.expect("an answer");
        let peeks: Vec<_> = charges.iter().map(|it| Charge { cost: 0, ..*it }).collect();
        let read = store.settle(&peeks, times[2]).await.expect("an answer");
        let left: Vec<_> = read.results.iter().map(|it| it.report.remaining).collect();
        assert_eq!(left, [7 + refunded; 3], "after {refunded} of 3");
    }
}

/// The first call was executed, and its response was lost: the retry says that it was made.
#[tokio::test(flavor = "multi_thread")]
async fn a_refund_whose_response_was_lost_is_reported_as_made() {
    let server = Redis::start();
    let (address, is_to_cut) = cut_off(server.address()).await;
    let store = redis(&format!("redis://{address}"), patient()).await;
    let ten = limit(Algorithm::SlidingWindowLog, 10);
    let charges = [one(key("rule", "client"), &ten)];
    let then = charge(&store, &charges).await;
    is_to_cut.store(true, std::sync::atomic::Ordering::SeqCst);
    let outcome = refund(&store, &charges, then, &[HOUR], [1; 16]).await.expect("an answer");
    assert_eq!(outcome, OpOutcome::Refunded { counters: 1 });
    assert_eq!(left(&store, &charges).await, [10]);
    let again = refund(&store, &charges, then, &[HOUR], [1; 16]).await.expect("an answer");
    assert_eq!(again, OpOutcome::RefundedBefore);
}

/// One server of a cluster refuses: a repeated call refunds the rest, and says so.
#[tokio::test(flavor = "multi_thread")]
async fn a_refund_that_failed_in_one_slot_can_be_repeated() {
    let cluster = RedisCluster::start(3, 0);
    let settings = RemoteSettings { failures: 100, ..patient() };
    let store = redis(&cluster_url(&cluster), settings).await;
    let ten = limit(Algorithm::TokenBucket, 10);
    let clients = one_client_per_server(&cluster, &store).await;
    let charges: Vec<_> = clients.iter().map(|client| one(key("r", client), &ten)).collect();
    let then = charge(&store, &charges).await;
    cluster.nodes()[1].command(&["CONFIG", "SET", "maxmemory", "1"]);
    let failed = refund(&store, &charges, then, &[HOUR], [1; 16]).await;
    failed.expect_err("a server without memory");
    cluster.nodes()[1].command(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(left(&store, &charges).await, [10, 9, 9]);
    let rest = refund(&store, &charges, then, &[HOUR], [1; 16]).await.expect("an answer");
    assert_eq!(rest, OpOutcome::Refunded { counters: 3 });
    assert_eq!(left(&store, &charges).await, [10, 10, 10]);
    let again = refund(&store, &charges, then, &[HOUR], [1; 16]).await.expect("an answer");
    assert_eq!(again, OpOutcome::RefundedBefore);
}
