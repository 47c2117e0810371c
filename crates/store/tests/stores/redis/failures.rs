//! A server that is unavailable, slow, empty or full, and what callers see of it: a clear error in
//! time, and nothing at all once it is back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{interval, timeout};
use tollgate_core::{Algorithm, Charge, Limit};
use tollgate_store::redis::RedisStore;
use tollgate_store::{BreakerState, RemoteSettings, Store as _, StoreErrorKind};
use tollgate_testbed::{Redis, RedisCluster, Stopwatch, WAIT_TIMEOUT};

use crate::redis::stand::{
    LONG, NO_TIME, cluster_url, connect, eventually, key, limit, one, patient, remaining, story,
    take, timed, until_it_answers,
};

/// What a busy machine may add to a deadline: far less than the pause of a stopped server.
const SCHEDULING: Duration = Duration::from_millis(2_500);

fn plenty() -> Limit {
    limit(Algorithm::Gcra, 1_000_000, LONG)
}

/// The circuit breaker never opens.
fn stubborn() -> RemoteSettings {
    RemoteSettings { failures: u32::MAX, ..patient() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_comes_later_is_found() {
    let redis = Redis::start();
    redis.kill();
    let store = connect(&redis.url(), RemoteSettings::default()).await;
    let error = take(&store, key("a", "x"), &plenty()).await.expect_err("no server");
    assert_eq!(error.kind(), StoreErrorKind::Unavailable);
    assert!(story(&error).contains("refused"), "{}", story(&error));
    redis.restart();
    until_it_answers(&store, key("a", "x")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_starts_later_is_found_without_requests() {
    let cluster = RedisCluster::start(3, 0);
    cluster.nodes().iter().for_each(Redis::kill);
    let store = RedisStore::connect(&cluster_url(&cluster), patient()).expect("a valid URL");
    assert!(!store.found(Duration::from_millis(200)).await);
    cluster.nodes().iter().for_each(Redis::restart);
    cluster.wait_until_whole();
    assert!(store.found(WAIT_TIMEOUT).await, "not found although it is there");
    until_it_answers(&store, key("a", "x")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_request_after_a_restart_counts_anew() {
    let redis = Redis::start();
    let store = connect(&redis.url(), RemoteSettings { failures: 1, ..patient() }).await;
    let limit = limit(Algorithm::FixedWindow, 10, LONG);
    for left in [9, 8] {
        let settled = take(&store, key("a", "x"), &limit).await.expect("an answer");
        assert_eq!(settled.results[0].report.remaining, left);
    }
    // A connection that ended while idle causes no error, and neither does a server that has never
    // seen the script.
    redis.restart();
    let settled = take(&store, key("a", "x"), &limit).await;
    let settled = settled.unwrap_or_else(|error| panic!("{}", story(&error)));
    assert_eq!(settled.results[0].report.remaining, 9);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flushed_script_cache_fails_no_request() {
    let redis = Redis::start();
    let store = connect(&redis.url(), RemoteSettings { failures: 1, ..patient() }).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let mut crowd = JoinSet::new();
    for number in 0..8 {
        let (store, is_over) = (store.clone(), Arc::clone(&is_over));
        crowd.spawn(async move {
            let subject = format!("client {number}");
            while !is_over.load(Ordering::Relaxed) {
                let settled = take(&store, key("a", &subject), &plenty()).await;
                assert!(settled.is_ok_and(|settled| settled.passed));
            }
        });
    }
    let missed = || redis.info("errorstats").get("errorstat_NOSCRIPT").cloned();
    // A few times at least, under load.
    eventually("requests without a script", || async {
        redis.command(&["SCRIPT", "FLUSH"]);
        let missed = missed()?.strip_prefix("count=")?.parse::<u32>().ok()?;
        (missed > 20).then_some(())
    })
    .await;
    is_over.store(true, Ordering::Relaxed);
    crowd.join_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_server_opens_the_breaker() {
    let redis = Redis::start();
    let settings = RemoteSettings::default();
    let (deadline, probe_after) = (settings.deadline, settings.probe_after);
    let store = connect(&redis.url(), settings).await;
    until_it_answers(&store, key("a", "x")).await;
    redis.pause();
    let (mut kinds, mut longest) = (Vec::new(), Duration::ZERO);
    let before = store.status()[0].clone();
    // One after the other, so that each failure is a call.
    for _ in 0..5 {
        let (answer, time) = timed(take(&store, key("a", "x"), &plenty())).await;
        kinds.push(answer.expect_err("a stopped server").kind());
        longest = longest.max(time);
    }
    assert_eq!(kinds, [StoreErrorKind::Timeout; 5]);
    assert_eq!(store.status()[0].breaker, BreakerState::Open);
    // Then as many as there are, for three seconds.
    let mut crowd = JoinSet::new();
    for _ in 0..8 {
        let store = store.clone();
        crowd.spawn(async move {
            let (mut times, began) = (Vec::new(), Stopwatch::start());
            let mut pace = interval(Duration::from_millis(5));
            while began.elapsed() < Duration::from_secs(3) {
                pace.tick().await;
                let (answer, time) = timed(take(&store, key("a", "x"), &plenty())).await;
                let kind = answer.expect_err("a stopped server").kind();
                times.push((kind, time));
            }
            times
        });
    }
    let (times, duration) = timed(crowd.join_all()).await;
    let times: Vec<_> = times.into_iter().flatten().collect();
    let probes = times.iter().filter(|(kind, _)| *kind == StoreErrorKind::Timeout).count() as u64;
    let at_once = times.iter().filter(|(kind, _)| *kind == StoreErrorKind::Unavailable);
    let mut at_once: Vec<Duration> = at_once.map(|(_, time)| *time).collect();
    at_once.sort_unstable();
    let usual_at_once = at_once[at_once.len() / 2];
    longest = times.iter().map(|(_, time)| *time).fold(longest, Duration::max);
    println!("paused: {} requests, {probes} of them probes", times.len());
    println!("longest answer {longest:?}; with an open breaker {usual_at_once:?} in the middle");
    assert!(longest < deadline + SCHEDULING, "{longest:?}");
    assert!(usual_at_once < deadline, "{usual_at_once:?}");
    let status = store.status()[0].clone();
    assert_eq!(status.openings, before.openings + 1);
    // One probe after each pause, and not one call besides.
    assert_eq!(status.calls - before.calls, 5 + probes);
    let most = duration.div_duration_f64(probe_after).ceil();
    assert!(probes > 0 && probes as f64 <= most, "{probes} probes in {duration:?}");
    redis.resume();
    let (_, time) = timed(until_it_answers(&store, key("a", "x"))).await;
    println!("answered {time:?} after it went on");
    // The first probe may be late on a busy machine, but not the second as well.
    assert!(time < (probe_after + deadline) * 2 + SCHEDULING, "{time:?}");
    assert_eq!(store.status()[0].breaker, BreakerState::Closed);
}

/// A full server fails requests that need a write, and answers those that do not.
async fn check_full(redis: &Redis, store: &RedisStore, algorithm: Algorithm) {
    let name = algorithm.name();
    let (one_unit, ten) = (limit(algorithm, 1, LONG), limit(algorithm, 10, LONG));
    let used_up = take(store, key(name, "used up"), &one_unit).await;
    assert!(used_up.expect("an answer").passed);
    take(store, key(name, "in use"), &ten).await.expect("an answer");
    redis.command(&["CONFIG", "SET", "maxmemory", "1"]);
    for subject in ["fresh", "in use"] {
        let error = take(store, key(name, subject), &ten).await.expect_err(name);
        assert_eq!(error.kind(), StoreErrorKind::Refused, "{name}");
        assert!(story(&error).contains("OOM"), "{name}: {}", story(&error));
    }
    let refused = take(store, key(name, "used up"), &one_unit).await;
    assert!(!refused.expect("an answer").passed, "{name}");
    // In one call as well.
    let charges = [[one(key(name, "used up"), &one_unit)], [one(key(name, "fresh"), &ten)]];
    let requests: Vec<&[Charge<'_>]> = charges.iter().map(<[_; 1]>::as_slice).collect();
    let settled = store.settle_batch(&requests, NO_TIME).await;
    assert!(settled[0].as_ref().is_ok_and(|settled| !settled.passed), "{name}: {settled:?}");
    assert!(settled[1].is_err(), "{name}: {settled:?}");
    // Nothing half written.
    redis.command(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(remaining(store, key(name, "fresh"), &ten).await, 10, "{name}");
    assert_eq!(remaining(store, key(name, "in use"), &ten).await, 9, "{name}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_server_is_an_error_and_still_refuses_what_is_over_a_limit() {
    let redis = Redis::start();
    let store = connect(&redis.url(), stubborn()).await;
    for algorithm in Algorithm::ALL {
        check_full(&redis, &store, algorithm).await;
    }
}

/// Its answers to requests over their limits closed the circuit breaker, which the next request that needed
/// a write opened again.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_server_does_not_close_the_breaker_by_what_it_still_refuses() {
    let redis = Redis::start();
    let probe_after = Duration::from_millis(1);
    let store =
        connect(&redis.url(), RemoteSettings { failures: 3, probe_after, ..patient() }).await;
    let one_unit = limit(Algorithm::Gcra, 1, LONG);
    until_it_answers(&store, key("a", "fresh")).await;
    assert!(take(&store, key("a", "used up"), &one_unit).await.is_ok_and(|settled| settled.passed));
    redis.command(&["CONFIG", "SET", "maxmemory", "1"]);
    eventually("an open circuit breaker", || async {
        take(&store, key("a", "fresh"), &plenty()).await.expect_err("a full server");
        (store.status()[0].breaker == BreakerState::Open).then_some(())
    })
    .await;
    let before = store.status()[0].clone();
    let reads = AtomicU32::new(0);
    eventually("reads let through by the breaker", || async {
        let read = take(&store, key("a", "used up"), &one_unit).await;
        let so_far = reads.fetch_add(u32::from(read.is_ok()), Ordering::Relaxed);
        take(&store, key("a", "fresh"), &plenty()).await.expect_err("a full server");
        (so_far > 20).then_some(())
    })
    .await;
    assert_eq!(store.status()[0].openings, before.openings);
    redis.command(&["CONFIG", "SET", "maxmemory", "0"]);
    until_it_answers(&store, key("a", "fresh")).await;
    assert_eq!(store.status()[0].breaker, BreakerState::Closed);
}

/// Envoy waits for 20 ms by default, the store for 50: all callers left before a call had failed, so the
/// circuit breaker stayed closed and no limit held.
#[tokio::test(flavor = "multi_thread")]
async fn callers_that_wait_less_than_the_store_open_the_circuit_breaker_too() {
    let redis = Redis::start();
    let store = connect(&redis.url(), RemoteSettings::default()).await;
    until_it_answers(&store, key("a", "x")).await;
    redis.pause();
    let impatient = Duration::from_millis(5);
    eventually("a circuit breaker that opens", || async {
        let asked = timeout(impatient, take(&store, key("a", "x"), &plenty())).await;
        assert!(!matches!(asked, Ok(Ok(_))), "nothing answers");
        (store.status()[0].openings > 0).then_some(())
    })
    .await;
    redis.resume();
    until_it_answers(&store, key("a", "x")).await;
    assert_eq!(store.status()[0].breaker, BreakerState::Closed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_is_no_place_to_count() {
    let master = Redis::start();
    let place = format!("127.0.0.1 {}", master.port());
    let replica = Redis::builder().setting("replicaof", &place).start();
    let store = connect(&replica.url(), stubborn()).await;
    for algorithm in Algorithm::ALL {
        let limit = limit(algorithm, 10, LONG);
        let error = eventually("a replica that is ready to refuse", || async {
            let answer = take(&store, key(algorithm.name(), "x"), &limit).await;
            let error = answer.expect_err("a replica");
            story(&error).contains("READONLY").then_some(error)
        })
        .await;
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{algorithm:?}");
    }
}

/// One batch that took longer than the deadline used to open the circuit breaker for all clients of a node.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_misses_its_deadline_is_one_failure() {
    let redis = Redis::start();
    let settings =
        RemoteSettings { deadline: Duration::from_millis(50), ..RemoteSettings::default() };
    let store = connect(&redis.url(), settings).await;
    until_it_answers(&store, key("a", "x")).await;
    let plenty = plenty();
    let charge = [one(key("a", "x"), &plenty)];
    redis.pause();
    let settled = store.settle_batch(&[charge.as_slice(); 100], NO_TIME).await;
    redis.resume();
    assert!(settled.iter().all(Result::is_err));
    let [status] = &store.status()[..] else { panic!("one server") };
    assert_eq!((status.breaker, status.openings), (BreakerState::Closed, 0), "{status:?}");
}
