//! The script counts as `tollgate_core` does: same verdicts, same figures, same states.

use std::sync::atomic::{AtomicU32, Ordering};

use proptest::test_runner::{Config, TestError};
use tokio::runtime::Runtime;
use tollgate_core::Key;
use tollgate_store::RemoteSettings;
use tollgate_store::redis::RedisStore;
use tollgate_testbed::{Redis, RedisCluster, WAIT_TIMEOUT};

use crate::redis::draw::{Reach, Trace};
use crate::redis::stand::{cluster_url, commands, patient};
use crate::redis::suite::{check_store, differ};

/// The script as it should be.
pub(crate) const SCRIPT: &str = RedisStore::SCRIPT;

/// What a script can count, whose numbers are doubles.
pub(crate) const DOUBLE_BOUNDS: Reach =
    Reach { largest_limit: RedisStore::MAX_LIMIT, latest: 1 << 51, ..Reach::ALL };

/// By the clock of the server, as in production: only then are records written in place, and forgotten once they have
/// expired.
pub(crate) const BY_SERVERS_CLOCK: Reach = Reach { by_stores_clock: true, ..DOUBLE_BOUNDS };

/// Where stores come from, each with nothing counted yet.
struct Source<'a> {
    runtime: Runtime,
    url: &'a str,
    script: &'a str,
    uses_callers_clock: bool,
    made: AtomicU32,
}

impl<'a> Source<'a> {
    fn new(url: &'a str, script: &'a str, reach: Reach) -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let uses_callers_clock = !reach.by_stores_clock;
        Self { runtime, url, script, uses_callers_clock, made: AtomicU32::new(0) }
    }

    fn make(&self) -> RedisStore {
        let url = format!("{}?prefix=run{}:", self.url, self.made.fetch_add(1, Ordering::Relaxed));
        let uses_callers_clock = self.uses_callers_clock;
        let settings = RemoteSettings { uses_callers_clock, ..patient() };
        let store = RedisStore::connect_with_script(&url, settings, self.script);
        let store = store.expect("a valid URL");
        assert!(self.runtime.block_on(store.found(WAIT_TIMEOUT)), "no server was found");
        store
    }

    fn text(&self, store: &RedisStore, key: &Key<'_>) -> Option<String> {
        self.runtime.block_on(store.state_text(key))
    }
}

fn check(name: &str, cases: u32, reach: Reach, url: &str) {
    let source = Source::new(url, SCRIPT, reach);
    let _inside = source.runtime.enter();
    check_store(name, cases, reach, || source.make(), |store, key| source.text(store, key));
}

/// Looks for a trace on which another script differs.
pub(crate) fn disagree(
    config: Config,
    reach: Reach,
    url: &str,
    script: &str,
) -> Result<(), TestError<Trace>> {
    let source = Source::new(url, script, reach);
    let _inside = source.runtime.enter();
    differ(config, reach, || source.make(), |store, key| source.text(store, key))
}

#[test]
fn one_server_counts_as_memory_does() {
    let redis = Redis::start();
    check("Redis", 200, DOUBLE_BOUNDS, &redis.url());
}

/// With a clock of its own, no trace wrote a record in place.
#[test]
fn one_server_counts_as_memory_does_by_its_own_clock() {
    let redis = Redis::start();
    check("Redis by its clock", 100, BY_SERVERS_CLOCK, &redis.url());
    let written = commands(&redis);
    assert!(written.get("setrange").is_some_and(|count| *count > 100), "{written:?}");
}

#[test]
fn the_oldest_server_counts_as_memory_does() {
    let redis = Redis::builder().oldest().start();
    assert!(redis.info("server")["redis_version"].starts_with("6.2."));
    check("Redis 6.2", 50, DOUBLE_BOUNDS, &redis.url());
}

#[test]
fn a_cluster_counts_as_memory_does() {
    let cluster = RedisCluster::start(3, 0);
    let reach = Reach { one_subject: true, ..DOUBLE_BOUNDS };
    check("Redis Cluster", 100, reach, &cluster_url(&cluster));
}
