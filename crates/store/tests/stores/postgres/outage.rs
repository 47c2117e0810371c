//! A database that is killed, hangs, or starts late: callers get an error in time, and requests succeed
//! again when it is back.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use sqlx::{Connection as _, PgConnection};
use tokio::time::timeout;
use tollgate_core::Algorithm;
use tollgate_store::postgres::PostgresStore;
use tollgate_store::{BreakerState, RemoteSettings, StoreErrorKind};
use tollgate_testbed::{Fault, FaultProxy, Postgres, Stopwatch, WAIT_TIMEOUT, until};

use crate::postgres::{charge, draw, key, limit, patient};
use tollgate_testbed::eventually;

const DEADLINE: Duration = Duration::from_millis(100);
const PROBE_AFTER: Duration = Duration::from_millis(150);
/// What a busy machine may add to a deadline.
const LENIENCE: Duration = Duration::from_secs(4);

/// Connections to a stopped database are refused at once, or late on a busy machine.
const AWAY: [StoreErrorKind; 2] = [StoreErrorKind::Unavailable, StoreErrorKind::Timeout];

/// How many connections a store may have: one for each batch and one to sweep.
const CONNECTIONS: usize = 5;

fn hasty(url: &str) -> PostgresStore {
    let settings = RemoteSettings {
        deadline: DEADLINE,
        failures: 3,
        probe_after: PROBE_AFTER,
        ..RemoteSettings::default()
    };
    PostgresStore::connect(url, settings).expect("a valid URL")
}

/// Charges one of very many units; what went wrong if it did, and in time.
async fn ask(store: &PostgresStore) -> Option<StoreErrorKind> {
    let before = Stopwatch::start();
    let settled = charge(store, "client", &limit(Algorithm::Gcra, 1_000_000_000)).await;
    let took = before.elapsed();
    assert!(took < DEADLINE + LENIENCE, "{settled:?} took {took:?}");
    settled.err().map(|error| error.kind())
}

/// Sends requests until the circuit breaker opens.
async fn fail_until_open(store: &PostgresStore, kinds: &[StoreErrorKind]) {
    let openings = store.status()[0].openings;
    for _ in 0..3 {
        let kind = ask(store).await.expect("a failure");
        assert!(kinds.contains(&kind), "{kind:?}");
    }
    let status = &store.status()[0];
    assert_eq!((status.breaker, status.openings), (BreakerState::Open, openings + 1));
    // From now on no request waits: that would be a timeout. A probe may be due by now.
    let probes = store.status()[0].failures;
    let kind = ask(store).await;
    let is_probe = store.status()[0].failures > probes;
    assert!(is_probe || kind == Some(StoreErrorKind::Unavailable), "{kind:?}");
}

/// Sends requests until one succeeds.
async fn succeed_again(store: &PostgresStore) {
    eventually("an answer", || async { ask(store).await.is_none().then_some(()) }).await;
    assert_eq!(store.status()[0].breaker, BreakerState::Closed);
}

fn connections(postgres: &Postgres) -> usize {
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tollgate'";
    postgres.query(sql).parse().expect("a number")
}

/// Callers that left before the timeout of the store never opened the circuit breaker.
#[tokio::test(flavor = "multi_thread")]
async fn callers_that_wait_less_than_the_store_open_the_circuit_breaker_too() {
    let postgres = Postgres::start();
    let store = hasty(&postgres.url());
    succeed_again(&store).await;
    postgres.pause();
    eventually("a circuit breaker that opens", || async {
        let asked = timeout(DEADLINE / 10, ask(&store)).await;
        assert!(!matches!(asked, Ok(None)), "nothing answers");
        (store.status()[0].openings > 0).then_some(())
    })
    .await;
    postgres.resume();
    succeed_again(&store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_killed_and_comes_back() {
    let postgres = Postgres::start();
    let store = hasty(&postgres.url());
    succeed_again(&store).await;
    postgres.kill();
    fail_until_open(&store, &AWAY).await;
    postgres.restart();
    succeed_again(&store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_between_two_requests_goes_unnoticed() {
    let postgres = Postgres::start();
    let store = patient(&postgres.url());
    for _ in 0..3 {
        let settled = charge(&store, "client", &limit(Algorithm::Gcra, 10)).await;
        assert!(settled.expect("an answer").passed);
        postgres.query(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                        WHERE application_name = 'tollgate'",
        );
    }
    postgres.restart();
    let settled = charge(&store, "client", &limit(Algorithm::Gcra, 10)).await;
    assert!(settled.expect("an answer").passed);
    assert_eq!(store.status()[0].failures, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_starts_later_than_the_store() {
    let postgres = Postgres::start();
    postgres.kill();
    let store = hasty(&postgres.url());
    fail_until_open(&store, &AWAY).await;
    postgres.restart();
    succeed_again(&store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_stands_still_again_and_again() {
    let postgres = Postgres::start();
    let store = hasty(&postgres.url());
    succeed_again(&store).await;
    for _ in 0..10 * draw::config(1).cases {
        postgres.pause();
        let kinds = [StoreErrorKind::Timeout, StoreErrorKind::Unavailable];
        fail_until_open(&store, &kinds).await;
        postgres.resume();
        succeed_again(&store).await;
    }
    until("no more connections than needed", || {
        (connections(&postgres) <= CONNECTIONS).then_some(())
    });
    drop(store);
    until("the end of all connections", || (connections(&postgres) == 0).then_some(()));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_one_request_tries_a_database_that_stands_still() {
    let postgres = Postgres::start();
    let store = hasty(&postgres.url());
    succeed_again(&store).await;
    postgres.pause();
    fail_until_open(&store, &[StoreErrorKind::Timeout]).await;
    let (before, failures) = (Stopwatch::start(), store.status()[0].failures);
    while store.status()[0].failures == failures {
        assert!(before.elapsed() < WAIT_TIMEOUT, "{:?}", store.status());
        let answers: [_; 3] = tokio::join!(ask(&store), ask(&store), ask(&store)).into();
        let late = answers.iter().filter(|answer| **answer == Some(StoreErrorKind::Timeout));
        assert!(late.count() <= 1, "{answers:?}");
    }
    assert_eq!(store.status()[0].failures, failures + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_charge_that_came_too_late_is_not_made() {
    let postgres = Postgres::start();
    let store = hasty(&postgres.url());
    succeed_again(&store).await;
    let mut locker = PgConnection::connect(&postgres.url()).await.expect("a connection");
    let lock = sqlx::raw_sql("BEGIN; LOCK TABLE tollgate_counters").execute(&mut locker).await;
    lock.expect("a lock");
    let late = charge(&store, "late", &limit(Algorithm::FixedWindow, 1)).await;
    assert_eq!(late.map_err(|error| error.kind()), Err(StoreErrorKind::Timeout));
    locker.close().await.expect("the end of the lock");
    assert_eq!(patient(&postgres.url()).state_text(&key("late")).await, None);
    succeed_again(&store).await;
}

/// How many transactions wait for a lock.
fn blocked(postgres: &Postgres) -> bool {
    let sql = "SELECT count(*) FROM pg_stat_activity
               WHERE application_name = 'tollgate' AND wait_event_type = 'Lock'";
    postgres.query(sql) != "0"
}

/// Waits until no transaction of a store is under way.
fn until_idle(postgres: &Postgres) {
    until("the end of all transactions", || {
        let sql = "SELECT count(*) FROM pg_stat_activity
                   WHERE application_name = 'tollgate' AND state <> 'idle'";
        (postgres.query(sql) == "0").then_some(())
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_left_while_its_rows_were_locked_is_not_charged() {
    let postgres = Postgres::start();
    let store = Arc::new(patient(&postgres.url()));
    charge(&store, "warm up", &limit(Algorithm::FixedWindow, 1)).await.expect("an answer");
    let mut locker = PgConnection::connect(&postgres.url()).await.expect("a connection");
    let lock = sqlx::raw_sql("BEGIN; LOCK TABLE tollgate_counters").execute(&mut locker).await;
    lock.expect("a lock");
    // They share a transaction, which is far from its deadline when one of them leaves.
    let settle = |subject: &'static str| {
        let store = Arc::clone(&store);
        tokio::spawn(
            async move { charge(&store, subject, &limit(Algorithm::FixedWindow, 1)).await },
        )
    };
    let leaves = settle("leaves");
    until("a transaction that waits", || blocked(&postgres).then_some(()));
    let stays = settle("stays");
    leaves.abort();
    assert!(leaves.await.is_err_and(|error| error.is_cancelled()));
    locker.close().await.expect("the end of the lock");
    assert!(stays.await.expect("no panic").expect("an answer").passed);
    until_idle(&postgres);
    assert_eq!(store.state_text(&key("leaves")).await, None);
    assert!(store.state_text(&key("stays")).await.is_some());
    assert_eq!(store.status()[0].failures, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_arrives_after_the_deadline_is_not_made() {
    let postgres = Postgres::start();
    let proxy = FaultProxy::start((Ipv4Addr::LOCALHOST, postgres.port()).into());
    let settings = RemoteSettings {
        deadline: Duration::from_millis(400),
        failures: u32::MAX,
        ..RemoteSettings::default()
    };
    let url = format!("postgres://postgres@{}/postgres", proxy.address());
    let store = PostgresStore::connect(&url, settings).expect("a valid URL");
    // Until each of its connections knows the statements.
    for _ in 0..2 * CONNECTIONS {
        succeed_again(&store).await;
    }
    // BEGIN, SELECT, INSERT and COMMIT together take as long as a caller waits.
    let to_server = Duration::from_millis(100);
    proxy.set(Fault::Latency { to_server, to_client: Duration::ZERO });
    let late = charge(&store, "late", &limit(Algorithm::FixedWindow, 1)).await;
    assert_eq!(late.map_err(|error| error.kind()), Err(StoreErrorKind::Timeout));
    proxy.set(Fault::Pass);
    until_idle(&postgres);
    assert_eq!(patient(&postgres.url()).state_text(&key("late")).await, None);
    succeed_again(&store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_refuses_says_why() {
    let postgres = Postgres::start();
    let store = patient(&postgres.url().replace("/postgres", "/unknown"));
    let error = charge(&store, "client", &limit(Algorithm::Gcra, 1)).await.expect_err("an error");
    assert_eq!(error.kind(), StoreErrorKind::Refused);
    let why = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
    assert!(why.contains("\"unknown\" does not exist"), "{why}");
}

#[tokio::test]
async fn secrets_are_not_shown() {
    let store = hasty("postgres://me:hunter2@127.0.0.1:1/limits");
    assert_eq!(store.status()[0].server, "127.0.0.1:1/limits");
    let error = charge(&store, "client", &limit(Algorithm::Gcra, 1)).await.expect_err("an error");
    let shown = format!("{store:?} {error} {error:?}");
    assert!(!shown.contains("hunter2") && !shown.contains("me@"), "{shown}");
}

#[test]
fn without_a_runtime_there_is_no_store() {
    let refused = PostgresStore::connect("postgres://127.0.0.1/limits", RemoteSettings::default());
    assert!(refused.is_err_and(|problem| problem.contains("Tokio runtime")));
}
