//! All counters of a subject in one record: what a call costs, and what is carried over.

use tollgate_core::{Algorithm, Charge, Micros, RuleTag};
use tollgate_store::redis::RedisStore;
use tollgate_store::{CounterKey, FleetGate, RemoteSettings, Store as _};
use tollgate_testbed::{Redis, Reply};

use crate::redis::stand::{
    LONG, NO_TIME, commands, connect, forget_commands, key, limit, one, patient, remaining,
    script_calls, take,
};

const RULES: [(&str, Algorithm); 3] = [
    ("bucket", Algorithm::Gcra),
    ("window", Algorithm::FixedWindow),
    ("sliding", Algorithm::SlidingWindowCounter),
];

/// A limit whose units end within milliseconds, so that no charge needs a later expiry than the one before.
const PLENTY: u64 = 1 << 28;

/// Writes a record.
fn put(redis: &Redis, key: &str, record: &[u8]) {
    let escaped: String = record.iter().map(|byte| format!("\\{byte:03}")).collect();
    let script = format!("redis.call('SET', KEYS[1], '{escaped}', 'KEEPTTL')");
    redis.command(&["EVAL", &script, "1", key]);
}

/// The record of a key, and whether it has these bytes.
fn has(redis: &Redis, key: &str, bytes: &[u8]) -> bool {
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

#[tokio::test(flavor = "multi_thread")]
async fn held_units_count_as_used_and_flagged_bytes_are_kept() {
    let redis = Redis::start();
    let store = connect(&redis.url(), patient()).await;
    for algorithm in [Algorithm::Gcra, Algorithm::FixedWindow] {
        let ten = limit(algorithm, 10, LONG);
        let subject = algorithm.name();
        take(&store, key("a", subject), &ten).await.expect("an answer");
        let [record, _] = store.keys_of(&key("a", subject));
        // Six units are held until long from now, beside an unknown flag, and two unknown bytes follow.
        let tail = [16, 0x81, 6, 0, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 0, 0xaa, 0xbb];
        put(&redis, &record, &hold(&redis, &record, &tail));
        take(&store, key("b", subject), &ten).await.expect("an answer");
        assert!(has(&redis, &record, &tail), "{algorithm:?}: a charge of another rule");
        let charge = |cost| Charge { cost, ..one(key("a", subject), &ten) };
        let settle = |cost| {
            let store = &store;
            async move { store.settle(&[charge(cost)], NO_TIME).await.expect("an answer").passed }
        };
        assert!(!settle(4).await, "{algorithm:?}: 1 is used and 6 are held, 3 are free");
        assert!(settle(3).await && !settle(1).await, "{algorithm:?}");
        assert!(has(&redis, &record, &tail), "{algorithm:?}: a charge keeps what follows");
        store.reset(&[key("a", subject)]).await.expect("an answer");
        assert!(has(&redis, &record, &tail), "{algorithm:?}: a reset forgets nothing that is held");
        assert!(!settle(5).await && settle(4).await, "{algorithm:?}: after a reset");
        assert_eq!(remaining(&store, key("b", subject), &ten).await, 9, "{algorithm:?}");
    }
}

/// The record of one rule, with a tail.
fn hold(redis: &Redis, key: &str, tail: &[u8]) -> Vec<u8> {
    let script = "local bytes = redis.call('GET', KEYS[1])
        local numbers = {}
        for place = 1, #bytes do numbers[place] = string.byte(bytes, place) end
        return numbers";
    let Reply::List(numbers) = redis.command(&["EVAL", script, "1", key]) else { panic!("bytes") };
    let mut bytes: Vec<u8> =
        numbers.iter().map(|number| u8::try_from(number.integer()).expect("a byte")).collect();
    // Its kind is behind the version and the tag.
    bytes[4] |= 32;
    bytes.extend(tail);
    bytes
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
