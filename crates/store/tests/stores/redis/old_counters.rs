//! Counters as they were before records, a text under a key each: what was used is carried over, once.

use std::time::Duration;

use tollgate_core::{Algorithm, Charge, Limit, Micros, State, Timestamp};
use tollgate_store::{AnyStore, Op, RemoteSettings, Store as _, StoreUrl};
use tollgate_testbed::{Redis, RedisCluster, Reply};

use crate::redis::stand::{LONG, cluster_url, key, limit, one, patient, timed};

/// The digest of the subject `abc`, as earlier versions have it in their keys.
const ABC: &str = "{ungWv48Bz-pBQUDeXa4iIw}";
const USED: u64 = 4;
/// Far more than the deadline, which is 50 ms, for a machine that is busy.
const MAX_WAIT: Duration = Duration::from_secs(5);

async fn open(url: &str) -> AnyStore {
    open_with(url, patient()).await
}

async fn open_with(url: &str, settings: RemoteSettings) -> AnyStore {
    let url = StoreUrl::parse(url).expect("a URL");
    let settings = RemoteSettings { deny_cache: Micros::ZERO, ..settings };
    let store = AnyStore::open(&url, 0, &settings).expect("a store");
    if let AnyStore::Redis(store) = &store {
        assert!(store.inner().found(settings.deadline).await, "servers are found");
    }
    store.claim(None, None, true).await.expect("a mark");
    store
}

fn now(redis: &Redis) -> Timestamp {
    let time = redis.command(&["TIME"]);
    let [seconds, micros] = time.list() else { panic!("{time:?}") };
    let number = |reply: &Reply| reply.text().parse::<u64>().expect("a number");
    Timestamp::from_micros(number(seconds) * 1_000_000 + number(micros))
}

/// Writes the counter that an earlier version would have after [`USED`] charges.
fn charge_as_before(redis: &Redis, rule: &str, limit: &Limit) {
    let (mut state, now) = (None, now(redis));
    limit.charge(&mut state, now, USED);
    let (key, text) = (format!("tg:{ABC}:{rule}"), state.expect("a state").to_string());
    if let Some(entries) = text.strip_prefix("s:") {
        let (window, entries) = entries.split_once(':').expect("entries");
        redis.command(&["RPUSH", &key, &format!("s:{window}:{USED}"), entries]);
    } else {
        redis.command(&["SET", &key, &text]);
    }
    redis.command(&["EXPIRE", &key, "3600"]);
}

/// What is left after one more charge.
async fn left(store: &AnyStore, rule: &str, limit: &Limit, now: Timestamp) -> u64 {
    let settlement = store.settle(&[one(key(rule, "abc"), limit)], now).await.expect("settled");
    assert!(settlement.passed, "{rule}");
    settlement.results[0].report.remaining
}

#[tokio::test(flavor = "multi_thread")]
async fn what_earlier_versions_counted_is_carried_over() {
    check_carried_over(&Redis::start()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_earlier_versions_counted_in_the_oldest_server_is_carried_over() {
    check_carried_over(&Redis::builder().oldest().start()).await;
}

async fn check_carried_over(redis: &Redis) {
    let limits = Algorithm::ALL.map(|algorithm| (algorithm, limit(algorithm, 10, LONG)));
    for (algorithm, limit) in &limits {
        charge_as_before(redis, algorithm.name(), limit);
    }
    let stores = [open(&redis.url()).await, open(&redis.url()).await];
    for (algorithm, limit) in &limits {
        let rule = algorithm.name();
        assert_eq!(left(&stores[0], rule, limit, now(redis)).await, 10 - USED - 1, "{rule}");
        // Another node does not debit it again.
        assert_eq!(left(&stores[1], rule, limit, now(redis)).await, 10 - USED - 2, "{rule}");
        assert_eq!(left(&stores[0], rule, limit, now(redis)).await, 10 - USED - 3, "{rule}");
    }
    // A counter that is reset stays reset.
    let (algorithm, limit) = &limits[0];
    let rule = algorithm.name();
    stores[0].submit(&[Op::Reset(&[key(rule, "abc")])], now(redis)).await;
    let third = open(&redis.url()).await;
    assert_eq!(left(&third, rule, limit, now(redis)).await, 9);
    // The old counter is as it was, for nodes of earlier versions.
    let text = redis.command(&["GET", &format!("tg:{ABC}:{}", Algorithm::Gcra.name())]);
    assert!(text.text().parse::<State>().is_ok(), "{text:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_earlier_versions_counted_in_a_cluster_is_carried_over() {
    let cluster = RedisCluster::start(3, 0);
    let ten = limit(Algorithm::Gcra, 10, LONG);
    for node in cluster.nodes() {
        // Every server has something, as after a while of use.
        for number in 0..100 {
            let _ = node.try_command(&["SET", &format!("other:{number}"), "1"]);
        }
    }
    let owner = cluster.nodes().iter().find(|node| {
        let key = format!("tg:{ABC}:r");
        node.try_command(&["GET", &key]).is_ok_and(|reply| !matches!(reply, Reply::Error(_)))
    });
    charge_as_before(owner.expect("a server has the slot"), "r", &ten);
    let store = open(&cluster_url(&cluster)).await;
    assert_eq!(left(&store, "r", &ten, now(&cluster.nodes()[0])).await, 10 - USED - 1);
    assert_eq!(left(&store, "r", &ten, now(&cluster.nodes()[0])).await, 10 - USED - 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn old_counters_are_looked_for_only_while_they_matter() {
    let ten = limit(Algorithm::FixedWindow, 10, LONG);
    let reads = |redis: &Redis| {
        let calls = redis.info("commandstats").get("cmdstat_getrange").cloned().unwrap_or_default();
        calls.strip_prefix("calls=").and_then(|it| it.split(',').next()?.parse().ok()).unwrap_or(0)
    };
    let day = Duration::from_hours(24);
    let long = 800 * day;
    // Later than that, and in a server that was empty, nothing is looked for.
    for (is_empty, carry_over, later, expected) in [
        (false, day, 0, 1_u64),
        (false, day, 86_000, 1),
        (false, day, 86_400 + 1, 0),
        (false, Duration::ZERO, 0, 0),
        (false, long, 600 * 86_400 - 400, 1),
        (false, long, 600 * 86_400 + 1, 0),
        (true, day, 0, 0),
    ] {
        let redis = Redis::start();
        if !is_empty {
            redis.command(&["SET", "other", "1"]);
        }
        let store = open_with(&redis.url(), RemoteSettings { carry_over, ..patient() }).await;
        let now = now(&redis).plus(Micros::from_secs(later));
        redis.command(&["CONFIG", "RESETSTAT"]);
        for _ in 0..3 {
            store.settle(&[one(key("r", "abc"), &ten)], now).await.expect("settled");
        }
        assert_eq!(reads(&redis), expected, "empty {is_empty}, {carry_over:?}, {later} s later");
    }
}

/// All who can write to Redis could block a client by its old name, for ever if they moved the first meeting.
#[tokio::test(flavor = "multi_thread")]
async fn forged_counters_matter_for_a_limited_time() {
    let redis = Redis::start();
    let ten = limit(Algorithm::FixedWindow, 10, LONG);
    charge_as_before(&redis, "r", &ten);
    let met =
        |days: u64| now(&redis).plus(Micros::from_secs(days * 86_400)).as_micros().to_string();
    redis.command(&["SET", "tg:records", &met(2)]);
    let store = open(&redis.url()).await;
    assert_eq!(left(&store, "r", &ten, now(&redis)).await, 9);
    let begun = open(&redis.url()).await;
    let in_two_days = now(&redis).plus(Micros::from_secs(2 * 86_400));
    assert_eq!(left(&begun, "r", &ten, in_two_days).await, 10 - USED - 2, "that would be its day");
}

/// Values that are no counters of earlier versions count as none.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_old_counter_is_not_carried_over() {
    let redis = Redis::start();
    let limits = [Algorithm::Gcra, Algorithm::SlidingWindowLog].map(|it| limit(it, 10, LONG));
    let old = format!("tg:{ABC}:r");
    let values: [&[&str]; 5] = [
        &["SET", &old, "g:10:3600000000:99999999999999999999:0:1"],
        &["SET", &old, "f:3600000000:1:5"],
        &["RPUSH", &old, "s:1:1", "x"],
        &["HSET", &old, "a", "b"],
        &["SET", &old, ""],
    ];
    for value in values {
        for limit in &limits {
            redis.command(&["FLUSHALL"]);
            redis.command(value);
            let store = open(&redis.url()).await;
            assert_eq!(left(&store, "r", limit, now(&redis)).await, 9, "{value:?}");
        }
    }
}

/// Each counter used to be looked for in turn, with a deadline of its own, also while the circuit breaker was open.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_hangs_delays_no_check_by_more_than_the_deadline() {
    let redis = Redis::start();
    redis.command(&["SET", "other", "1"]);
    let store = open_with(&redis.url(), RemoteSettings::default()).await;
    let ten = limit(Algorithm::Gcra, 10, LONG);
    let subjects: Vec<String> = (0..200).map(|number| format!("client {number}")).collect();
    let charges: Vec<_> = subjects.iter().map(|it| [one(key("r", it), &ten)]).collect();
    let batch: Vec<&[Charge<'_>]> = charges.iter().map(<[_; 1]>::as_slice).collect();
    let now = now(&redis);
    redis.pause();
    let (settled, took) = timed(store.settle_batch(&batch, now)).await;
    assert!(settled.iter().all(Result::is_err));
    assert!(took < MAX_WAIT, "{took:?}");
    for charge in &charges[..10] {
        let (settled, took) = timed(store.settle(charge, now)).await;
        assert!(settled.is_err() && took < MAX_WAIT, "{took:?}");
    }
    redis.resume();
}

/// A batch used to spend its deadline on old counters, one after the other.
#[tokio::test(flavor = "multi_thread")]
async fn a_large_batch_is_settled_although_old_counters_are_looked_for() {
    let redis = Redis::start();
    redis.command(&["SET", "other", "1"]);
    let store = open(&redis.url()).await;
    let ten = limit(Algorithm::Gcra, 10, LONG);
    let subjects: Vec<String> = (0..1_000).map(|number| format!("client {number}")).collect();
    let charges: Vec<_> = subjects.iter().map(|it| [one(key("r", it), &ten)]).collect();
    let batch: Vec<&[Charge<'_>]> = charges.iter().map(<[_; 1]>::as_slice).collect();
    redis.command(&["CONFIG", "RESETSTAT"]);
    let settled = store.settle_batch(&batch, now(&redis)).await;
    assert!(settled.iter().all(Result::is_ok));
    let reads = redis.info("commandstats").get("cmdstat_getrange").cloned().unwrap_or_default();
    assert!(reads.starts_with("calls=64,"), "{reads}");
}
