//! Fixtures: limits, keys, charges, stores, and statistics of a server.

use std::collections::BTreeMap;
use std::future::Future;
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::time::Duration;

use tollgate_core::{Algorithm, Charge, Key, Limit, Micros, Mode, Quota, Timestamp};
use tollgate_store::redis::RedisStore;
use tollgate_store::{RemoteSettings, Settlement, Store, StoreError};
use tollgate_testbed::{Redis, RedisCluster, Stopwatch, WAIT_TIMEOUT};

pub(crate) use tollgate_testbed::eventually;

/// Long enough that no window ends while a test runs.
pub(crate) const LONG: Micros = Micros::from_secs(3_600 * 24 * 300);

/// The time of a request, which a store with its own clock ignores.
pub(crate) const NO_TIME: Timestamp = Timestamp::EPOCH;

pub(crate) fn key<'a>(rule: &'a str, subject: &'a str) -> Key<'a> {
    let hasher = BuildHasherDefault::<DefaultHasher>::default();
    Key::new(&hasher, rule, subject.as_bytes(), b"")
}

pub(crate) fn limit(algorithm: Algorithm, limit: u64, window: Micros) -> Limit {
    Quota::new(algorithm, limit, window).compile().expect("a valid quota")
}

/// One unit of a counter, enforced.
pub(crate) fn one<'a>(key: Key<'a>, limit: &'a Limit) -> Charge<'a> {
    Charge { key, limit, cost: 1, mode: Mode::Enforce }
}

/// A deadline that is longer than any server takes.
pub(crate) fn patient() -> RemoteSettings {
    RemoteSettings { deadline: WAIT_TIMEOUT, ..RemoteSettings::default() }
}

/// A store whose servers are known.
pub(crate) async fn connect(url: &str, settings: RemoteSettings) -> RedisStore {
    let store = RedisStore::connect(url, settings).expect("a valid URL");
    assert!(store.found(WAIT_TIMEOUT).await, "no server was found");
    store
}

pub(crate) fn cluster_url(cluster: &RedisCluster) -> String {
    let addresses: Vec<String> =
        cluster.nodes().iter().map(|node| node.address().to_string()).collect();
    format!("redis+cluster://{}", addresses.join(","))
}

/// One unit of one counter.
pub(crate) async fn take(
    store: &RedisStore,
    key: Key<'_>,
    limit: &Limit,
) -> Result<Settlement, StoreError> {
    store.settle(&[one(key, limit)], NO_TIME).await
}

/// What is left of a limit.
pub(crate) async fn remaining(store: &RedisStore, key: Key<'_>, limit: &Limit) -> u64 {
    let look = Charge { cost: 0, ..one(key, limit) };
    let settled = store.settle(&[look], NO_TIME).await.expect("a store that answers");
    settled.results[0].report.remaining
}

/// Waits until the store answers about a counter.
pub(crate) async fn until_it_answers(store: &RedisStore, key: Key<'_>) {
    let plenty = limit(Algorithm::Gcra, 1 << 30, LONG);
    eventually("an answer", || async { take(store, key, &plenty).await.ok() }).await;
}

/// The time by the clock of a server.
pub(crate) fn server_time(redis: &Redis) -> Timestamp {
    let time = redis.command(&["TIME"]);
    let part = |place: usize| time.list()[place].text().parse::<u64>().expect("a number");
    Timestamp::from_micros(part(0) * 1_000_000 + part(1))
}

/// How long something takes.
pub(crate) async fn timed<T>(work: impl Future<Output = T>) -> (T, Duration) {
    let began = Stopwatch::start();
    (work.await, began.elapsed())
}

/// How often a server received each command since its statistics were reset.
pub(crate) fn commands(redis: &Redis) -> BTreeMap<String, u64> {
    let count =
        |stats: &str| stats.split(',').find_map(|fact| fact.strip_prefix("calls=")?.parse().ok());
    let facts = redis.info("commandstats");
    let known = facts.iter().filter_map(|(name, stats)| {
        Some((name.strip_prefix("cmdstat_")?.to_owned(), count(stats)?))
    });
    known.collect()
}

/// How often the script was called since the statistics were reset.
pub(crate) fn script_calls(redis: &Redis) -> u64 {
    let commands = commands(redis);
    ["eval", "evalsha"].iter().filter_map(|name| commands.get(*name)).sum()
}

/// Resets the statistics of a server.
pub(crate) fn forget_commands(redis: &Redis) {
    redis.command(&["CONFIG", "RESETSTAT"]);
}

/// An error and what caused it, as people read it.
pub(crate) fn story(error: &StoreError) -> String {
    let source = std::error::Error::source(error).map(ToString::to_string);
    format!("{error}: {}", source.unwrap_or_default())
}
