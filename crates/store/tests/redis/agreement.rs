//! The script counts as `tollgate_core` does: same verdicts, same figures, same states.

use std::sync::atomic::{AtomicU32, Ordering};

use proptest::test_runner::{Config, TestError};
use tokio::runtime::Runtime;
use tollgate_store::RemoteSettings;
use tollgate_store::redis::RedisStore;
use tollgate_testbed::{PATIENCE, Redis, RedisCluster};

use crate::draw::{Reach, Trace, config};
use crate::stand::{cluster_url, patient};
use crate::suite::differ;

/// The script as it should be.
pub(crate) const SCRIPT: &str = include_str!("../../src/redis/settle.lua");

/// What doubles can hold.
pub(crate) const REACH: Reach =
    Reach { largest_limit: RedisStore::LARGEST_LIMIT, latest: 1 << 51, one_subject: false };

/// Looks for a trace on which a script and `tollgate_core` differ.
pub(crate) fn disagree(
    config: Config,
    reach: Reach,
    url: &str,
    script: &str,
) -> Result<(), TestError<Trace>> {
    let runtime = Runtime::new().expect("a runtime");
    let _inside = runtime.enter();
    let settings = RemoteSettings { uses_callers_clock: true, ..patient() };
    let run = AtomicU32::new(0);
    let make = || {
        // Each trace begins with nothing counted.
        let url = format!("{url}?prefix=run{}:", run.fetch_add(1, Ordering::Relaxed));
        let store = RedisStore::connect_with_script(&url, settings.clone(), script);
        let store = store.expect("a sound URL");
        assert!(runtime.block_on(store.found(PATIENCE)), "no server was found");
        store
    };
    differ(config, reach, make, |store, key| runtime.block_on(store.state_text(key)))
}

fn check(cases: u32, reach: Reach, url: &str) {
    if let Err(difference) = disagree(config(cases), reach, url, SCRIPT) {
        panic!("{difference}");
    }
}

#[test]
fn one_server_counts_as_memory_does() {
    let redis = Redis::start();
    check(200, REACH, &redis.url());
}

#[test]
fn a_cluster_counts_as_memory_does() {
    let cluster = RedisCluster::start(3, 0);
    check(100, Reach { one_subject: true, ..REACH }, &cluster_url(&cluster));
}
