//! Values in Redis that this store did not write: each costs its own counter, for one charge, and
//! nothing else.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::{TestCaseResult, TestRunner};
use tokio::runtime::Runtime;
use tollgate_core::{Algorithm, Charge, Limit, Micros, Timestamp};
use tollgate_store::redis::RedisStore;
use tollgate_store::{BreakerState, Refund, RemoteSettings, Store as _};
use tollgate_testbed::Redis;

use crate::redis::draw::config;
use crate::redis::stand::{NO_TIME, connect, key, limit, one, patient, story};

const WINDOW: Micros = Micros::from_secs(3_600);
const WINDOW_MICROS: &str = "3600000000";
const BYSTANDERS: usize = 60;

/// What is in the key of a counter.
#[derive(Clone, Debug)]
enum Value {
    Text(String),
    List(Vec<String>),
    /// A string of so many digits.
    Digits(usize),
    /// The log of so many entries, all out of view.
    OldLog(usize),
}

/// A store whose breaker opens at the first failure.
async fn strict(redis: &Redis) -> RedisStore {
    connect(&redis.url(), RemoteSettings { failures: 1, ..patient() }).await
}

fn put(redis: &Redis, key: &str, value: &Value) {
    redis.command(&["DEL", key]);
    let script = match value {
        Value::Text(text) => {
            redis.command(&["SET", key, text]);
            return;
        }
        Value::List(items) => {
            let items = items.iter().map(String::as_str);
            redis.command(&["RPUSH", key].into_iter().chain(items).collect::<Vec<_>>());
            return;
        }
        Value::Digits(count) => format!("redis.call('SET', KEYS[1], string.rep('9', {count}))"),
        Value::OldLog(count) => format!(
            "redis.call('RPUSH', KEYS[1], 's:{WINDOW_MICROS}:{count}')
             for first = 1, {count}, 1000 do
               local entries = {{}}
               for at = first, first + 999 do entries[#entries + 1] = at .. '=1' end
               redis.call('RPUSH', KEYS[1], unpack(entries))
             end"
        ),
    };
    redis.command(&["EVAL", &script, "1", key]);
}

/// The key of the only counter of a rule.
fn key_of(redis: &Redis, rule: &str) -> String {
    let keys = redis.command(&["KEYS", &format!("*:{rule}")]);
    keys.list()[0].text().to_owned()
}

/// A counter that holds this is as good as new, and is replaced by the first charge.
async fn check_absent(redis: &Redis, algorithm: Algorithm, value: &Value) {
    let store = strict(redis).await;
    let ten = limit(algorithm, 10, WINDOW);
    redis.command(&["FLUSHALL"]);
    store.settle(&[one(key("spoiled", "x"), &ten)], NO_TIME).await.expect("an answer");
    let place = key_of(redis, "spoiled");
    put(redis, &place, value);

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
    assert!(redis.command(&["PTTL", &place]).integer() > 0, "{} is kept for ever", what());
    let kept = redis.command(&["MEMORY", "USAGE", &place]).integer();
    assert!(kept < 1_000, "{} takes {kept} bytes", what());
}

fn text(text: impl Into<String>) -> Value {
    Value::Text(text.into())
}

fn list<const N: usize>(items: [&str; N]) -> Value {
    Value::List(items.map(|item| item.replace("W", WINDOW_MICROS)).to_vec())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_that_cannot_be_read_costs_its_counter_alone() {
    let redis = Redis::start();
    let now = redis.command(&["TIME"]).list()[0].text().to_owned() + "000000";
    let (huge, window) = ("99999999999999999999999999", WINDOW_MICROS);
    for (algorithm, tag) in Algorithm::ALL.into_iter().zip(["f", "s", "c", "t", "l", "g"]) {
        let mut values = vec![
            text("garbage"),
            text("\0\u{ff}"),
            list(["x"]),
            list(["s:W:5"; 3]),
            text(format!("{tag}:{window}:{now}:{huge}")),
            text(format!("{tag}:{window}:{now}:{huge}:1")),
            text(format!("{tag}:{window}:{now}:1:{huge}")),
            text(format!("{tag}:{window}:{huge}:1:1")),
            text(format!("{tag}:{window}:{now}:")),
            text(format!("{tag}:10:{window}:{huge}:0:{now}")),
            text(format!("{tag}:10:{window}:1:{huge}:{now}")),
            text(format!("{tag}:10:{window}:1:0:{huge}")),
            text(format!("{tag}:{huge}:{window}:1:0:{now}")),
            text(format!("{tag}:0:{window}:1:0:{now}")),
            Value::Digits(64 << 20),
            Value::OldLog(1_000_000),
        ];
        match algorithm {
            Algorithm::FixedWindow => values.push(text(format!("f:{window}:{now}:10:0"))),
            Algorithm::SlidingWindowCounter => values.push(text(format!("c:{window}:{now}:10"))),
            Algorithm::SlidingWindowLog => values.extend([
                list(["s:W:99999999999999999999999999", "1=1"]),
                list(["s:W:10", "x"]),
                list(["s:W:10", "1=1", "x", "9=9"]),
                list(["s:W:10", "1=1", "2=", "=2", "2"]),
                list(["s:W:1", "1=5", "2=5"]),
                list(["s:W:10", "1=99999999999999999999999999"]),
                list(["s:W:10", "99999999999999999999999999=1"]),
                list(["s:W:10", "x", "9000000000000000=1"]),
                // The sum of what is not there.
                list(["s:W:10"]),
                list(["s:W:10", "1=1"]),
            ]),
            _ => {}
        }
        for value in values {
            check_absent(&redis, algorithm, &value).await;
        }
    }
}

/// Text that looks like a state, with a few changes.
fn nearly_a_state() -> impl Strategy<Value = String> {
    let number = prop_oneof![
        Just(WINDOW_MICROS.to_owned()),
        (0_u64..20).prop_map(|number| number.to_string()),
        any::<u64>().prop_map(|number| number.to_string()),
        "[0-9]{0,30}",
        "[0-9a-z=,.+-]{0,5}",
    ];
    let fields = prop::collection::vec(number, 0..7);
    ("[a-z]?", fields).prop_map(|(tag, fields)| format!("{tag}:{}", fields.join(":")))
}

fn value() -> impl Strategy<Value = Value> {
    let number = prop_oneof!["[0-9]{1,30}", (0_u64..20).prop_map(|number| number.to_string())];
    let entry = (number.clone(), number).prop_map(|(at, units)| format!("{at}={units}"));
    let item = prop_oneof![3 => entry, 1 => nearly_a_state()];
    let head = prop_oneof![
        3 => "[0-9]{1,20}".prop_map(|sum| format!("s:{WINDOW_MICROS}:{sum}")),
        1 => nearly_a_state(),
    ];
    let items = (head, prop::collection::vec(item, 0..40));
    prop_oneof![
        1 => nearly_a_state().prop_map(Value::Text),
        1 => items.prop_map(|(head, items)| Value::List([vec![head], items].concat())),
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
        let charge = one(key(limit.algorithm().name(), "x"), limit);
        store.settle(&[charge], NO_TIME).await.expect("an answer");
        put(redis, &key_of(redis, limit.algorithm().name()), value);
    }
    for limit in limits {
        let charge = one(key(limit.algorithm().name(), "x"), limit);
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
    let (redis, runtime) = (Redis::start(), Runtime::new().expect("a runtime"));
    let store = runtime.block_on(strict(&redis));
    let limits = Algorithm::ALL.map(|algorithm| limit(algorithm, 10, WINDOW));
    let found = TestRunner::new(config(200))
        .run(&value(), |value| runtime.block_on(check_answered(&redis, &store, &value, &limits)));
    found.unwrap_or_else(|difference| panic!("{difference}"));
}

/// A user that lacks a permission is refused: its counters must not look unused.
#[tokio::test(flavor = "multi_thread")]
async fn a_value_that_may_not_be_read_does_not_count_as_absent() {
    let redis = Redis::builder().user("blind", "on >secret ~tg:* +@all -getrange").start();
    let store = connect(&format!("redis://blind:secret@{}", redis.address()), patient()).await;
    let ten = limit(Algorithm::Gcra, 10, WINDOW);
    let error =
        store.settle(&[one(key("a", "x"), &ten)], NO_TIME).await.expect_err("no permission");
    assert!(story(&error).contains("can't run this command"), "{}", story(&error));
    assert_eq!(redis.info("keyspace"), BTreeMap::new());
}
