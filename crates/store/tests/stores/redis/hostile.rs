//! Values in Redis that this store did not write: each costs its own counter, for one charge, and
//! nothing else.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::{TestCaseResult, TestRunner};
use tokio::runtime::Runtime;
use tollgate_core::{Algorithm, Charge, Limit, Micros, RuleTag, Timestamp};
use tollgate_store::redis::RedisStore;
use tollgate_store::{BreakerState, Refund, RemoteSettings, Store as _};
use tollgate_testbed::Redis;

use crate::redis::draw::config;
use crate::redis::stand::{NO_TIME, connect, key, limit, one, patient, story};

const WINDOW: Micros = Micros::from_secs(3_600);
const WINDOW_MICROS: &str = "3600000000";
const BYSTANDERS: usize = 60;

/// What is in the record of a counter, or in its log.
#[derive(Clone, Debug)]
enum Value {
    Record(Vec<u8>),
    /// A list where the record belongs.
    ListForRecord,
    /// A log.
    Log(Vec<String>),
    /// A string of so many digits where the record belongs.
    Digits(usize),
    /// A record of so many entries of other rules. It kept Redis from all other calls for seconds, each time.
    Crowded(usize),
    /// The log of so many entries, all out of view.
    OldLog(usize),
}

/// A store whose breaker opens at the first failure.
async fn strict(redis: &Redis) -> RedisStore {
    connect(&redis.url(), RemoteSettings { failures: 1, ..patient() }).await
}

fn put(redis: &Redis, [record, log]: &[String; 2], value: &Value) {
    let (key, script) = match value {
        Value::Record(bytes) => {
            let escaped: String = bytes.iter().map(|byte| format!("\\{byte:03}")).collect();
            (record, format!("redis.call('SET', KEYS[1], '{escaped}')"))
        }
        Value::ListForRecord => (record, "redis.call('RPUSH', KEYS[1], 'x')".to_owned()),
        Value::Log(items) => {
            redis.command(&["DEL", log]);
            let items = items.iter().map(String::as_str);
            redis.command(&["RPUSH", log].into_iter().chain(items).collect::<Vec<_>>());
            return;
        }
        Value::Digits(count) => {
            (record, format!("redis.call('SET', KEYS[1], string.rep('9', {count}))"))
        }
        Value::Crowded(count) => (
            record,
            format!(
                "local heads = {{}}
                 for i = 1, {count} do
                   local bits = i < {count} and 128 or 0
                   heads[i] = struct.pack('<I3BI6', i, 4 + bits, {WINDOW_MICROS})
                 end
                 local numbers = struct.pack('<I4I7', 4294967295, 1) .. string.rep(struct.pack('<I6', 1), {count})
                 redis.call('SET', KEYS[1], '\\1' .. table.concat(heads) .. numbers)"
            ),
        ),
        Value::OldLog(count) => (
            log,
            format!(
                "redis.call('RPUSH', KEYS[1], 's:{WINDOW_MICROS}:{count}')
                 for first = 1, {count}, 1000 do
                   local entries = {{}}
                   for at = first, first + 999 do entries[#entries + 1] = at .. '=1' end
                   redis.call('RPUSH', KEYS[1], unpack(entries))
                 end"
            ),
        ),
    };
    redis.command(&["DEL", key]);
    redis.command(&["EVAL", &script, "1", key]);
}

/// A counter that holds this is as good as new, and is replaced by the first charge.
async fn check_absent(redis: &Redis, algorithm: Algorithm, value: &Value) {
    let store = strict(redis).await;
    let ten = limit(algorithm, 10, WINDOW);
    redis.command(&["FLUSHALL"]);
    store.settle(&[one(key("spoiled", "x"), &ten)], NO_TIME).await.expect("an answer");
    let places = store.keys_of(&key("spoiled", "x"));
    put(redis, &places, value);

    let names: Vec<String> = (0..BYSTANDERS).map(|number| format!("client {number}")).collect();
    let mut charges = vec![[one(key("spoiled", "x"), &ten)]];
    charges.extend(names.iter().map(|name| [one(key("other", name), &ten)]));
    let requests: Vec<&[Charge<'_>]> = charges.iter().map(<[_; 1]>::as_slice).collect();
    let what =
        || format!("{algorithm:?}, {}", format!("{value:?}").chars().take(80).collect::<String>());
    for left in [9, 8] {
        for settled in store.settle_batch(&requests, NO_TIME).await {
            let settled = settled.unwrap_or_else(|error| panic!("{}: {}", what(), story(&error)));
            assert_eq!(
                (settled.passed, settled.results[0].report.remaining),
                (true, left),
                "{}",
                what()
            );
        }
    }
    let status = &store.status()[0];
    assert_eq!((status.breaker, status.failures), (BreakerState::Closed, 0), "{}", what());
    for place in &places[..1 + usize::from(algorithm == Algorithm::SlidingWindowLog)] {
        assert!(redis.command(&["PTTL", place]).integer() > 0, "{} is kept for ever", what());
        let kept = redis.command(&["MEMORY", "USAGE", place]).integer();
        assert!(kept < 1_000, "{} takes {kept} bytes", what());
    }
}

fn log<const N: usize>(items: [&str; N]) -> Value {
    Value::Log(items.map(|item| item.replace('W', WINDOW_MICROS)).to_vec())
}

/// Numbers of so many bytes.
type Numbers<'a> = &'a [(u64, usize)];

fn bytes(numbers: Numbers<'_>) -> Vec<u8> {
    numbers.iter().flat_map(|(number, width)| number.to_le_bytes()[..*width].to_vec()).collect()
}

/// The head of the rule `spoiled`, with what it has of a limit.
fn head(kind: u8, constants: Numbers<'_>) -> Vec<u8> {
    [RuleTag::of("spoiled").bytes().as_slice(), &[kind], &bytes(constants)].concat()
}

/// The record of the rule `spoiled`, kept for long, of this time and with these numbers.
fn record(kind: u8, constants: Numbers<'_>, time: u64, numbers: Numbers<'_>) -> Value {
    let time = bytes(&[(u64::MAX, 4), (time, 7)]);
    Value::Record([vec![1], head(kind, constants), time, bytes(numbers)].concat())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_that_cannot_be_read_costs_its_counter_alone() {
    check_values(&Redis::start(), |_| true).await;
}

/// A few of them.
#[tokio::test(flavor = "multi_thread")]
async fn a_value_that_the_oldest_server_has_costs_its_counter_alone() {
    let redis = Redis::builder().oldest().start();
    let is_large = |value: &Value| matches!(value, Value::Digits(_) | Value::OldLog(_));
    check_values(&redis, |value| !is_large(value)).await;
}

/// Those of all algorithms that are wanted.
async fn check_values(redis: &Redis, is_wanted: impl Fn(&Value) -> bool) {
    let now = redis.command(&["TIME"]).list()[0].text().to_owned() + "000000";
    let now: u64 = now.parse().expect("a number");
    let (window, huge) = (WINDOW.get(), u64::MAX);
    for (algorithm, kind) in Algorithm::ALL.into_iter().zip([4, 6, 5, 1, 2, 3]) {
        let mut values = vec![
            Value::Record(b"garbage".to_vec()),
            Value::Record(vec![0, 0xff]),
            Value::Record(vec![1]),
            Value::Record([&[1][..], &[0xff; 300]].concat()),
            Value::Record([vec![16], head(kind, &[(window, 6)]), vec![0xff; 40]].concat()),
            // An entry of an unknown kind, one that is cut, one that nothing follows, and a log without a time of its own.
            record(8, &[(window, 6)], now, &[(9, 6)]),
            Value::Record([vec![1], head(kind, &[(window, 3)])].concat()),
            Value::Record([vec![1], head(kind + 128, &[(window, 6), (1, 6)])].concat()),
            record(6, &[(window, 6)], now, &[]),
            Value::ListForRecord,
            Value::Crowded(30_000),
            Value::Digits(64 << 20),
        ];
        match algorithm {
            Algorithm::FixedWindow => values.extend([
                record(4, &[(window + 1, 6)], now, &[(10, 6)]),
                record(4, &[(window, 6)], huge, &[(10, 6)]),
                record(12, &[(3_601, 3)], now, &[(10, 4)]),
                record(12, &[(3_600, 3)], huge, &[(10, 4)]),
                record(13, &[(3_600, 3)], now, &[(10, 4), (10, 4)]),
                record(7, &[(window, 6), (1, 7)], now, &[(now, 7), (10, 6)]),
            ]),
            Algorithm::SlidingWindowCounter => values.extend([
                record(5, &[(window + 1, 6)], now, &[(10, 6), (10, 6)]),
                record(5, &[(window, 6)], huge, &[(10, 6), (10, 6)]),
                record(13, &[(3_601, 3)], now, &[(10, 4), (10, 4)]),
                record(13, &[(3_600, 3)], huge, &[(10, 4), (10, 4)]),
                record(12, &[(3_600, 3)], now, &[(10, 4)]),
            ]),
            Algorithm::SlidingWindowLog => values.extend([
                Value::OldLog(1_000_000),
                log(["x"]),
                log(["s:W:5"; 3]),
                log(["s:W:99999999999999999999999999", "1=1"]),
                log(["s:W:10", "x"]),
                log(["s:W:10", "1=1", "x", "9=9"]),
                log(["s:W:10", "1=1", "2=", "=2", "2"]),
                log(["s:W:1", "1=5", "2=5"]),
                log(["s:W:10", "1=99999999999999999999999999"]),
                log(["s:W:10", "99999999999999999999999999=1"]),
                log(["s:W:10", "x", "9000000000000000=1"]),
                // The sum of what is not there.
                log(["s:W:10"]),
                log(["s:W:10", "1=1"]),
            ]),
            _ => values.extend([
                record(kind, &[(10, 6), (window + 1, 6)], now, &[(10, 7), (0, 6)]),
                record(kind, &[(0, 6), (window, 6)], now, &[(10, 7), (0, 6)]),
                record(kind, &[(huge, 6), (window, 6)], now, &[(10, 7), (0, 6)]),
                record(kind, &[(10, 6), (window, 6)], now, &[(huge, 7), (0, 6)]),
                record(kind, &[(10, 6), (window, 6)], now, &[(10, 7), (window, 6)]),
                record(kind, &[(10, 6), (window, 6)], huge, &[(10, 7), (0, 6)]),
                record(1 + kind % 3, &[(10, 6), (window, 6)], now, &[(10, 7), (0, 6)]),
                record(kind + 8, &[(10, 2), (3_601, 3)], now, &[(10 * window, 7)]),
                record(kind + 8, &[(0, 2), (3_600, 3)], now, &[(10 * window, 7)]),
                record(kind + 8, &[(10, 2), (0, 3)], now, &[(10 * window, 7)]),
                record(kind + 8, &[(10, 2), (3_600, 3)], now, &[(huge, 7)]),
                record(kind + 8, &[(10, 2), (3_600, 3)], huge, &[(10 * window, 7)]),
                record(9 + kind % 3, &[(10, 2), (3_600, 3)], now, &[(10 * window, 7)]),
            ]),
        }
        for value in values.iter().filter(|value| is_wanted(value)) {
            check_absent(redis, algorithm, value).await;
        }
    }
}

/// How long a head is behind the tag and the kind, by kind; of unknown kinds, anything.
const CONSTANTS: [usize; 15] = [0, 12, 12, 12, 6, 6, 6, 13, 9, 5, 5, 5, 3, 3, 1];

/// Heads that are mostly well formed, followed by numbers of any length; or any bytes.
fn nearly_a_record() -> impl Strategy<Value = Vec<u8>> {
    let number = prop_oneof![Just(WINDOW.get()), Just(3_600), 0_u64..20, any::<u64>()];
    let constants = (number.clone(), number.clone());
    let heads = prop::collection::vec((0..14_u8, 0..16_u8, constants), 1..4);
    let numbers = prop::collection::vec((number, 1..=7_usize), 0..14);
    let record = (heads, numbers, any::<bool>()).prop_map(|(heads, numbers, is_kept)| {
        let mut record = vec![1];
        for (place, (kind, bits, (first, second))) in heads.iter().enumerate() {
            let is_followed = (place + 1 < heads.len()) != (*bits == 15);
            let bits = if *bits < 8 { bits % 4 * 32 } else { 0 } | u8::from(is_followed) << 7;
            let constants = [first.to_le_bytes(), second.to_le_bytes()].concat();
            let constants = &constants[..CONSTANTS[usize::from(*kind)]];
            record.extend(head(kind | bits, &[]).into_iter().chain(constants.iter().copied()));
        }
        record.extend(if is_kept { vec![0xff; 4] } else { vec![] });
        record.extend(bytes(&numbers));
        record
    });
    // Those of later versions are left as they are.
    let is_of_later_version = |bytes: &[u8]| matches!(bytes, [2..=15, ..]);
    let any = prop::collection::vec(any::<u8>(), 0..120)
        .prop_filter("a later version", move |bytes| !is_of_later_version(bytes));
    prop_oneof![3 => record, 1 => any]
}

fn value() -> impl Strategy<Value = Value> {
    let number = prop_oneof!["[0-9]{1,30}", (0_u64..20).prop_map(|number| number.to_string())];
    let entry = (number.clone(), number).prop_map(|(at, units)| format!("{at}={units}"));
    let item = prop_oneof![3 => entry, 1 => "[0-9a-z=:,.+-]{0,20}"];
    let head = prop_oneof![
        3 => "[0-9]{1,20}".prop_map(|sum| format!("s:{WINDOW_MICROS}:{sum}")),
        1 => "[0-9a-z:]{0,30}",
    ];
    let items = (head, prop::collection::vec(item, 0..40));
    prop_oneof![
        1 => nearly_a_record().prop_map(Value::Record),
        1 => items.prop_map(|(head, items)| Value::Log([vec![head], items].concat())),
    ]
}

/// Every request gets a decision, whatever the value is.
async fn check_answered(
    redis: &Redis,
    store: &RedisStore,
    value: &Value,
    limits: &[Limit],
) -> TestCaseResult {
    redis.command(&["FLUSHALL"]);
    for limit in limits {
        let charge = one(key("spoiled", limit.algorithm().name()), limit);
        store.settle(&[charge], NO_TIME).await.expect("an answer");
        put(redis, &store.keys_of(&charge.key), value);
    }
    for limit in limits {
        let charge = one(key("spoiled", limit.algorithm().name()), limit);
        let charged_at = Some(Timestamp::from_secs(1));
        let refund = Refund { key: charge.key, limit, units: 3, charged_at };
        for cost in [0, 1, 20] {
            let settled = store.settle(&[Charge { cost, ..charge }], NO_TIME).await;
            prop_assert!(settled.is_ok(), "{:?}: {:?}", limit.algorithm(), settled);
            prop_assert!(store.refund(&[refund], NO_TIME).await.is_ok());
            let refund = Refund { charged_at: None, ..refund };
            prop_assert!(store.refund(&[refund], NO_TIME).await.is_ok());
        }
    }
    prop_assert_eq!(store.status()[0].failures, 0);
    Ok(())
}

#[test]
fn any_counter_value_gets_a_decision() {
    check_any_value(&Redis::start(), 200);
    check_any_value(&Redis::builder().oldest().start(), 20);
}

fn check_any_value(redis: &Redis, cases: u32) {
    let runtime = Runtime::new().expect("a runtime");
    let store = runtime.block_on(strict(redis));
    let limits = Algorithm::ALL.map(|algorithm| limit(algorithm, 10, WINDOW));
    let found = TestRunner::new(config(cases))
        .run(&value(), |value| runtime.block_on(check_answered(redis, &store, &value, &limits)));
    found.unwrap_or_else(|difference| panic!("{difference}"));
}

/// A user that lacks a permission is refused: its counters must not look unused.
#[tokio::test(flavor = "multi_thread")]
async fn a_value_that_may_not_be_read_does_not_count_as_absent() {
    let redis = Redis::builder().user("blind", "on >secret ~tg:* +@all -mget").start();
    let store = connect(&format!("redis://blind:secret@{}", redis.address()), patient()).await;
    let ten = limit(Algorithm::Gcra, 10, WINDOW);
    let error =
        store.settle(&[one(key("a", "x"), &ten)], NO_TIME).await.expect_err("no permission");
    assert!(story(&error).contains("can't run this command"), "{}", story(&error));
    assert_eq!(redis.info("keyspace"), BTreeMap::new());
}
