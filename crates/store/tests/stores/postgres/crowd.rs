//! Concurrent requests: a limit admits exactly what it says, no transactions deadlock, and requests
//! share transactions.

use std::sync::Arc;

use tokio::task::JoinSet;
use tollgate_core::{Algorithm, Charge, Limit, Timestamp};
use tollgate_store::postgres::PostgresStore;
use tollgate_store::{Settlement, Store as _, StoreError};
use tollgate_testbed::Postgres;

use crate::postgres::{charge, draw, limit, one, patient};

const ASKERS: u64 = 8;

/// Runs `ask` `times` times in each task of each node, concurrently, and counts admissions.
async fn admitted<F>(
    nodes: &[Arc<PostgresStore>],
    times: u64,
    ask: impl Fn(Arc<PostgresStore>, u64) -> F + Copy + Send + 'static,
) -> usize
where
    F: Future<Output = Result<Settlement, StoreError>> + Send,
{
    let mut askers = JoinSet::new();
    for (number, node) in (0..ASKERS).zip(nodes.iter().cycle()) {
        let node = Arc::clone(node);
        askers.spawn(async move {
            let mut admitted = 0;
            for _ in 0..times {
                let settled = ask(Arc::clone(&node), number).await;
                admitted += usize::from(settled.expect("a database that answers").passed);
            }
            admitted
        });
    }
    askers.join_all().await.into_iter().sum()
}

fn nodes(postgres: &Postgres) -> [Arc<PostgresStore>; 2] {
    // Nothing may depend on what transactions are by default.
    postgres.query("ALTER DATABASE postgres SET default_transaction_isolation = 'serializable'");
    [(); 2].map(|()| Arc::new(patient(&postgres.url())))
}

#[tokio::test(flavor = "multi_thread")]
async fn two_nodes_admit_exactly_the_limit() {
    let postgres = Postgres::start();
    let nodes = nodes(&postgres);
    let rounds = draw::config(1).cases;
    for round in 0..rounds {
        for algorithm in Algorithm::ALL {
            // The costs exceed the limit.
            let (most, times) = (100, 25);
            let ask = move |node: Arc<PostgresStore>, _| async move {
                let subject = format!("{algorithm:?} {round}");
                charge(&node, &subject, &limit(algorithm, most)).await
            };
            let admitted = admitted(&nodes, times, ask).await;
            assert_eq!(admitted as u64, most, "{algorithm:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_in_another_order_do_not_deadlock() {
    let postgres = Postgres::start();
    let nodes = nodes(&postgres);
    let times = 50 * u64::from(draw::config(1).cases);
    let ask = |node: Arc<PostgresStore>, number: u64| async move {
        let (wide, narrow) = (limit(Algorithm::Gcra, 1_000_000), limit(Algorithm::FixedWindow, 60));
        let mut charges = [one("a", &wide), one("b", &narrow), one("c", &wide), one("d", &wide)];
        if number % 4 < 2 {
            charges.reverse();
        }
        node.settle(&charges, Timestamp::EPOCH).await
    };
    assert_eq!(admitted(&nodes, times, ask).await, 60);
    // A request that one counter refuses takes from no other.
    for subject in ["a", "c", "d"] {
        let wide = limit(Algorithm::Gcra, 1_000_000);
        let look = [Charge { cost: 0, ..one(subject, &wide) }];
        let looked = nodes[0].settle(&look, Timestamp::EPOCH).await.expect("an answer");
        assert_eq!(looked.results[0].report.remaining, 1_000_000 - 60, "{subject}");
    }
    assert_eq!(
        postgres.query("SELECT deadlocks FROM pg_stat_database WHERE datname='postgres'"),
        "0"
    );
}

/// How many transactions have written something so far. Asking is one more.
fn transactions(postgres: &Postgres) -> u64 {
    postgres.query("SELECT txid_current()").parse().expect("a number")
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_requests_share_transactions() {
    let postgres = Postgres::start();
    let store = Arc::new(patient(&postgres.url()));
    let large = limit(Algorithm::TokenBucket, 1_000);
    charge(&store, "first", &large).await.expect("a database that answers");

    let before = transactions(&postgres);
    let mut askers = JoinSet::new();
    for number in 0..64 {
        let store = Arc::clone(&store);
        askers.spawn(async move { charge(&store, &format!("client {number}"), &large).await });
    }
    assert!(askers.join_all().await.iter().all(|settled| settled.as_ref().is_ok_and(|s| s.passed)));
    let used = transactions(&postgres) - before;
    assert!(used <= 16, "64 requests took {used} transactions");

    let before = transactions(&postgres);
    batch_of(&store, &large, 200).await;
    let used = transactions(&postgres) - before;
    assert!(used <= 6, "a batch of 200 took {used} transactions");
}

/// A batch that asks for one counter again and again, of which all but one pass.
async fn batch_of(store: &PostgresStore, large: &Limit, requests: usize) {
    let small = limit(Algorithm::SlidingWindowLog, requests as u64 - 1);
    let charges = [one("often", &small), one("also", large)];
    let settled = store.settle_batch(&vec![charges.as_slice(); requests], Timestamp::EPOCH).await;
    let remaining = settled.iter().map(|settled| {
        let settled = settled.as_ref().expect("a database that answers");
        (settled.passed, settled.results[0].report.remaining)
    });
    let expected = (0..requests as u64 - 1).rev().map(|left| (true, left)).chain([(false, 0)]);
    assert!(remaining.eq(expected), "{settled:?}");
}
