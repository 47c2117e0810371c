//! Requests that are charged once, against real servers: whichever node a copy reaches, it gets the
//! result of the first.

mod hostile;
mod lost;
mod mutants;
mod oldest;
mod promises;
mod records;
mod refunds;
mod together;

use std::hash::{BuildHasherDefault, DefaultHasher};

use tollgate_core::{Algorithm, Charge, Key, Limit, Micros, Mode, Quota, Timestamp};
use tollgate_store::redis::RedisStore;
use tollgate_store::{
    IdempotencyKey, Op, OpOutcome, RemoteSettings, SettleRequest, Settlement, Store, StoreError,
};
use tollgate_testbed::{RedisCluster, WAIT_TIMEOUT};

/// The time of a request, which a store with its own clock ignores.
const NO_TIME: Timestamp = Timestamp::EPOCH;

/// Longer than any test.
const HOUR: Micros = Micros::from_secs(3_600);

fn key<'a>(rule: &'a str, subject: &'a str) -> Key<'a> {
    let hasher = BuildHasherDefault::<DefaultHasher>::default();
    Key::new(&hasher, rule, subject.as_bytes(), b"")
}

/// So many per year, so that nothing refills while a test runs.
fn limit(algorithm: Algorithm, limit: u64) -> Limit {
    let year = Micros::from_secs(366 * 86_400);
    Quota::new(algorithm, limit, year).compile().expect("a valid quota")
}

fn one<'a>(key: Key<'a>, limit: &'a Limit) -> Charge<'a> {
    Charge { key, limit, cost: 1, mode: Mode::Enforce }
}

/// A call with that key, and a body that is known by a number.
fn call<'a>(key: &str, body: u8, note: &'a str) -> IdempotencyKey<'a> {
    let mut call = [0; 16];
    for (place, byte) in key.bytes().enumerate() {
        call[place % 16] ^= byte.rotate_left(u32::try_from(place / 16).unwrap_or(0));
    }
    IdempotencyKey { call, body: [body; 16], note, lifetime: HOUR }
}

async fn settle(store: &impl Store, charges: &[Charge<'_>], key: &IdempotencyKey<'_>) -> OpOutcome {
    try_settle(store, charges, key).await.expect("a store that answers")
}

async fn try_settle(
    store: &impl Store,
    charges: &[Charge<'_>],
    key: &IdempotencyKey<'_>,
) -> Result<OpOutcome, StoreError> {
    let request = SettleRequest { charges, idempotency: Some(key), is_dry_run: false };
    store.submit_one(Op::Settle(request), NO_TIME).await
}

/// The settlement of a request that is not a copy.
fn first(settled: OpOutcome) -> Settlement {
    match settled {
        OpOutcome::Settled(settlement) => settlement,
        other => panic!("not the first: {other:?}"),
    }
}

/// What is left of each limit.
async fn left(store: &impl Store, charges: &[Charge<'_>]) -> Vec<u64> {
    let looks: Vec<Charge<'_>> =
        charges.iter().map(|charge| Charge { cost: 0, ..*charge }).collect();
    let looked = store.settle(&looks, NO_TIME).await.expect("a store that answers");
    looked.results.iter().map(|line| line.report.remaining).collect()
}

/// A deadline that is longer than any server takes.
fn patient() -> RemoteSettings {
    RemoteSettings { deadline: WAIT_TIMEOUT, ..RemoteSettings::default() }
}

/// A store whose servers are known.
async fn redis(url: &str, settings: RemoteSettings) -> RedisStore {
    let store = RedisStore::connect(url, settings).expect("a valid URL");
    assert!(store.found(WAIT_TIMEOUT).await, "no server was found");
    store
}

fn cluster_url(cluster: &RedisCluster) -> String {
    let nodes = cluster.nodes().iter();
    let addresses: Vec<String> = nodes.map(|node| node.address().to_string()).collect();
    format!("redis+cluster://{}", addresses.join(","))
}
