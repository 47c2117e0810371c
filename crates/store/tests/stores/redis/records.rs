//! All counters of a subject in one record: what a call costs, and what is carried over.

use tollgate_core::{Algorithm, Charge, Micros, Mode, RuleTag};
use tollgate_store::redis::RedisStore;
use tollgate_store::{
    BreakerState, CounterKey, FleetGate, Refund, RemoteSettings, Store as _, StoreErrorKind,
};
use tollgate_testbed::{Redis, Reply};

use crate::redis::stand::{
    LONG, NO_TIME, commands, connect, forget_commands, key, limit, one, patient, remaining,
    script_calls, story, take,
};

const RULES: [(&str, Algorithm); 3] = [
    ("bucket", Algorithm::Gcra),
    ("window", Algorithm::FixedWindow),
    ("sliding", Algorithm::SlidingWindowCounter),
];

/// A limit whose units end within milliseconds, so that no charge needs a later expiry than the one before.
const PLENTY: u64 = 1 << 28;

/// Writes a record.
pub(crate) fn put(redis: &Redis, key: &str, record: &[u8]) {
    let escaped: String = record.iter().map(|byte| format!("\\{byte:03}")).collect();
    let script = format!("redis.call('SET', KEYS[1], '{escaped}', 'KEEPTTL')");
    redis.command(&["EVAL", &script, "1", key]);
}

/// The record of a key, and whether it has these bytes.
pub(crate) fn has(redis: &Redis, key: &str, bytes: &[u8]) -> bool {
    let escaped: String = bytes.iter().map(|byte| format!("\\{byte:03}")).collect();
    let script =
        format!("return string.find(redis.call('GET', KEYS[1]), '{escaped}', 1, true) and 1 or 0");
    redis.command(&["EVAL", &script, "1", key]) == Reply::Integer(1)
}

#[tokio::test(flavor = "multi_thread")]
async fn three_rules_of_a_subject_are_read_once_and_written_once() {
    let redis = Redis::start();
    let store = connect(&redis.url(), patient()).await;
    let limits = RULES.map(|(_, algorithm)| limit(algorithm, PLENTY, LONG));
    let charges: Vec<Charge<'_>> =
        RULES.iter().zip(&limits).map(|((rule, _), limit)| one(key(rule, "x"), limit)).collect();
    store.settle(&charges, NO_TIME).await.expect("an answer");
    assert_eq!(redis.command(&["DBSIZE"]), Reply::Integer(1));
    forget_commands(&redis);
    for _ in 0..10 {
        store.settle(&charges, NO_TIME).await.expect("an answer");
    }
    let commands = commands(&redis);
    let count = |name: &str| commands.get(name).copied().unwrap_or(0);
    assert_eq!((count("mget"), count("setrange"), count("set")), (10, 10, 0), "{commands:?}");
    for ((rule, _), limit) in RULES.iter().zip(&limits) {
        let used = PLENTY - remaining(&store, key(rule, "x"), limit).await;
        // A bucket drains meanwhile.
        assert!(used == 11 || (*rule == "bucket" && used < 11), "{rule}: {used}");
    }
}

/// With what tables of Redis add, these are at most 160 bytes for one rule, and 240 for three.
#[tokio::test(flavor = "multi_thread")]
async fn records_are_small() {
    let redis = Redis::start();
    let store = connect(&redis.url(), patient()).await;
    for algorithm in [Algorithm::Gcra, Algorithm::FixedWindow, Algorithm::SlidingWindowCounter] {
        let limit = limit(algorithm, 50_000, LONG);
        for (rules, most) in [(&["a"][..], 104), (&["a", "b", "c"], 168)] {
            let subject = format!("{algorithm} {}", rules.len());
            let charges: Vec<Charge<'_>> =
                rules.iter().map(|rule| one(key(rule, &subject), &limit)).collect();
            store.settle(&charges, NO_TIME).await.expect("an answer");
            let [record, _] = store.keys_of(&charges[0].key);
            let bytes = redis.command(&["MEMORY", "USAGE", &record]).integer();
            assert!(bytes <= most, "{subject}: {bytes} bytes");
        }
    }
}

/// Rules that only some requests of a subject charge are set apart once, and from then on nothing moves.
#[tokio::test(flavor = "multi_thread")]
async fn requests_that_charge_different_rules_of_a_subject_write_in_place() {
    let redis = Redis::start();
    let store = connect(&redis.url(), patient()).await;
    let rules = [("a", Algorithm::FixedWindow), ("b", Algorithm::SlidingWindowCounter), RULES[1]];
    let limits = rules.map(|(_, algorithm)| limit(algorithm, PLENTY, LONG));
    let charges: Vec<Charge<'_>> =
        rules.iter().zip(&limits).map(|((rule, _), limit)| one(key(rule, "x"), limit)).collect();
    let (all, first, last) = (&charges[..], &charges[..1], &charges[1..]);
    for requests in [[all, first, last], [last, all, first]] {
        store.settle_batch(&requests, NO_TIME).await;
    }
    forget_commands(&redis);
    for request in [first, all, last, all, all, first] {
        store.settle(request, NO_TIME).await.expect("an answer");
    }
    let commands = commands(&redis);
    let count = |name: &str| commands.get(name).copied().unwrap_or(0);
    assert_eq!((count("mget"), count("setrange"), count("set")), (6, 6, 0), "{commands:?}");
    for (charge, used) in charges.iter().zip([5 + 4, 4 + 4, 4 + 4]) {
        let left = remaining(&store, charge.key, charge.limit).await;
        assert_eq!(PLENTY - left, used, "{}", charge.key.rule);
    }
}

/// Requests about one subject that are sent together write its record once in each call.
#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_many_requests_charge_is_written_once() {
    let redis = Redis::start();
    let store = connect(&redis.url(), patient()).await;
    let plenty = limit(Algorithm::TokenBucket, PLENTY, LONG);
    take(&store, key("a", "x"), &plenty).await.expect("an answer");
    forget_commands(&redis);
    let charge = [one(key("a", "x"), &plenty)];
    let settled = store.settle_batch(&[charge.as_slice(); 20], NO_TIME).await;
    let left: Vec<u64> = settled
        .into_iter()
        .map(|settled| settled.expect("an answer").results[0].report.remaining)
        .collect();
    assert!(left.is_sorted_by(|before, after| before - after == 1), "{left:?}");
    let (calls, commands) = (script_calls(&redis), commands(&redis));
    assert_eq!(commands.get("setrange"), Some(&calls), "{commands:?}");
}

/// Nodes with other rules find what they counted.
#[tokio::test(flavor = "multi_thread")]
async fn entries_of_rules_that_a_node_does_not_know_are_carried_over_until_they_expire() {
    let redis = Redis::start();
    let store = connect(&redis.url(), patient()).await;
    let lasting = limit(Algorithm::FixedWindow, 10, LONG);
    let short = limit(Algorithm::FixedWindow, 10, Micros::from_millis(100));
    take(&store, key("old", "x"), &lasting).await.expect("an answer");
    take(&store, key("short", "x"), &short).await.expect("an answer");
    for (number, algorithm) in Algorithm::ALL.into_iter().enumerate() {
        let rule = format!("new {number}");
        for _ in 0..3 {
            take(&store, key(&rule, "x"), &limit(algorithm, 10, LONG)).await.expect("an answer");
        }
        store.reset(&[key(&rule, "x")]).await.expect("an answer");
    }
    assert_eq!(remaining(&store, key("old", "x"), &lasting).await, 9);
    let tag = RuleTag::of("short").bytes();
    let [record, _] = store.keys_of(&key("old", "x"));
    crate::redis::stand::eventually("a record without what has expired", || async {
        take(&store, key("another", "x"), &lasting).await.expect("an answer");
        store.reset(&[key("another", "x")]).await.expect("an answer");
        (!has(&redis, &record, &tag)).then_some(())
    })
    .await;
    assert_eq!(remaining(&store, key("old", "x"), &lasting).await, 9);
}

/// Policies with such rules are refused where they are loaded; a program that does without counted both as one, and was
/// not told.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_not_counted_if_two_of_its_rules_have_one_counter() {
    let redis = Redis::start();
    let store = connect(&redis.url(), RemoteSettings { failures: 1, ..patient() }).await;
    let ten = limit(Algorithm::Gcra, 10, LONG);
    let names = ["rule-1223!penalty", "rule-1733!penalty"];
    assert_eq!(RuleTag::of(names[0]), RuleTag::of(names[1]));
    let charges = [key("other", "x"), key(names[0], "x"), key(names[1], "x")];
    let charges = charges.map(|key| one(key, &ten));
    let error = store.settle(&charges, NO_TIME).await.expect_err("one counter");
    assert!(names.iter().all(|name| story(&error).contains(name)), "{}", story(&error));
    assert_eq!(redis.command(&["DBSIZE"]), Reply::Integer(0));
    // Of another client, and in another group, they are other counters.
    let apart = [key(names[0], "x"), key(names[1], "y"), key(names[1], "x").in_group(7)];
    let apart = apart.map(|key| one(key, &ten));
    assert!(store.settle(&apart, NO_TIME).await.is_ok_and(|settled| settled.passed));
    assert_eq!(store.status()[0].failures, 0);
}

/// A node of an earlier version wiped what a later one had counted, by its next charge.
#[tokio::test(flavor = "multi_thread")]
async fn a_record_of_a_later_version_is_left_as_it_is() {
    let redis = Redis::start();
    let store = connect(&redis.url(), RemoteSettings { failures: 1, ..patient() }).await;
    for algorithm in Algorithm::ALL {
        redis.command(&["FLUSHALL"]);
        let ten = limit(algorithm, 10, LONG);
        let rule = algorithm.name();
        let [later, other] = ["later", "other"].map(|subject| one(key(rule, subject), &ten));
        store.settle(&[later], NO_TIME).await.expect("an answer");
        let [record, _] = store.keys_of(&later.key);
        // Of any length, and of that of a record of this version.
        let same = redis.command(&["STRLEN", &record]).integer();
        for length in [1, usize::try_from(same).expect("a length"), 200] {
            let bytes = [vec![2], vec![7; length - 1]].concat();
            put(&redis, &record, &bytes);
            let debit = [Charge { mode: Mode::Debit, ..later }];
            let look = [Charge { cost: 0, ..later }];
            let both = [other, later];
            let requests: [&[Charge<'_>]; 5] = [&[other], &[later], &debit, &look, &both];
            let settled = store.settle_batch(&requests, NO_TIME).await;
            assert!(settled[0].is_ok(), "{rule}: {settled:?}");
            for failed in &settled[1..] {
                let error = failed.as_ref().expect_err("a later version");
                assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{rule}");
                assert!(story(error).contains("a later version"), "{}", story(error));
            }
            let refund = Refund { key: later.key, limit: &ten, units: 1, charged_at: None };
            store.refund(&[refund], NO_TIME).await.expect_err("a later version");
            store.reset(&[later.key]).await.expect_err("a later version");
            assert!(has(&redis, &record, &bytes), "{rule}: it was changed");
            let now = redis.command(&["STRLEN", &record]).integer();
            assert_eq!(usize::try_from(now), Ok(bytes.len()), "{rule}");
        }
        // Each time one unit, and none with the record that was left.
        assert_eq!(remaining(&store, other.key, &ten).await, 7, "{rule}");
    }
    let status = &store.status()[0];
    assert_eq!((status.breaker, status.openings), (BreakerState::Closed, 0));
}

/// Hashing all addresses does not tell whose a record is.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_with_another_key_count_elsewhere() {
    let redis = Redis::start();
    let ten = limit(Algorithm::Gcra, 10, LONG);
    let gates = [None, Some("one"), Some("two")].map(|secret| {
        let gate = FleetGate::default();
        gate.set_counter_key(secret.map(|secret: &str| CounterKey::new(secret.as_bytes())));
        gate
    });
    for (number, gate) in gates.iter().enumerate() {
        let settings = RemoteSettings { gate: gate.clone(), ..patient() };
        let store: RedisStore = connect(&redis.url(), settings).await;
        assert_eq!(remaining(&store, key("a", "10.0.0.1"), &ten).await, 10, "{number}");
        take(&store, key("a", "10.0.0.1"), &ten).await.expect("an answer");
    }
    let settings = RemoteSettings { gate: gates[1].clone(), ..patient() };
    let same: RedisStore = connect(&redis.url(), settings).await;
    assert_eq!(remaining(&same, key("a", "10.0.0.1"), &ten).await, 9);
}
