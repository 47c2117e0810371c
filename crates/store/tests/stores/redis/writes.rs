//! What a call of the script writes, and by which clock: a failed write is reported, each record is kept for as long as it
//! needs. Mutants of the script break each of these promises.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tokio::runtime::Builder;
use tollgate_core::{Algorithm, Charge, Limit, Micros, Mode, RuleTag, Timestamp};
use tollgate_store::redis::RedisStore;
use tollgate_store::{BreakerState, RemoteSettings, Store as _};
use tollgate_testbed::Redis;

use crate::redis::agreement::SCRIPT;
use crate::redis::mutants::{Mutant, survivors};
use crate::redis::records::{has, put};
use crate::redis::stand::{
    LONG, NO_TIME, forget_commands, key, limit, one, patient, remaining, script_calls, server_time,
    take,
};

const HOUR: Micros = Micros::from_secs(3_600);
const DAY: i64 = 24 * 3_600;

const MUTANTS: &[Mutant] = &[
    (
        "a failed write is not reported",
        "failure = type(written) == 'table' and written.err\n",
        "failure = nil\n",
    ),
    (
        "a failed write in place is not reported",
        "        failure = written.err\n",
        "        failure = nil\n",
    ),
    (
        "all records of a call are kept for as long as the first",
        "local moment = moments[kept]\n",
        "local _, moment = next(moments)\n",
    ),
    (
        "the server's clock has whole seconds",
        "now = time[1] * 1000000 + time[2]\n",
        "now = time[1] * 1000000\n",
    ),
    ("the caller's clock dates every call", "if is_dated == 0 then", "if false then"),
    (
        "a plain record keeps what has expired",
        "is_plain = is_plain and numbers[others[i]] > expired\n",
        "is_plain = is_plain\n",
    ),
    ("a record keeps what has expired", "if e.kept <= expired then", "if false then"),
    ("what has expired is charged", "if passed < 0 or kept <= expired then", "if passed < 0 then"),
];

fn store(redis: &Redis, script: &str) -> RedisStore {
    let settings = RemoteSettings { failures: u32::MAX, ..patient() };
    RedisStore::connect_with_script(&redis.url(), settings, script).expect("a valid URL")
}

/// Everything that this file promises. On a runtime of one thread, operations that are submitted together are one call.
fn check(redis: &Redis, script: &str) {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let store = store(redis, script);
        redis.command(&["FLUSHALL"]);
        nothing_is_written_after_a_failure(redis, &store).await;
        redis.command(&["FLUSHALL"]);
        each_record_has_its_expiry(redis, &store).await;
        a_call_is_dated_by_the_server(redis, &store).await;
        for mode in [Mode::Enforce, Mode::Debit] {
            redis.command(&["FLUSHALL"]);
            what_has_expired_is_not_carried_over(redis, &store, mode).await;
        }
        assert_eq!(store.status()[0].breaker, BreakerState::Closed);
    });
}

/// A full server refuses what needs memory: new records, and those that are written in place.
async fn nothing_is_written_after_a_failure(redis: &Redis, store: &RedisStore) {
    let ten = limit(Algorithm::FixedWindow, 10, LONG);
    for subject in ["used", "in place"] {
        take(store, key("a", subject), &ten).await.expect("an answer");
    }
    redis.command(&["CONFIG", "SET", "maxmemory", "1"]);
    for subjects in [&["fresh"][..], &["in place"], &["in place", "fresh", "used"]] {
        forget_commands(redis);
        let charges: Vec<_> = subjects.iter().map(|it| [one(key("a", it), &ten)]).collect();
        let requests: Vec<&[Charge<'_>]> = charges.iter().map(<[_; 1]>::as_slice).collect();
        let settled = store.settle_batch(&requests, NO_TIME).await;
        assert_eq!(script_calls(redis), 1);
        assert!(settled.iter().all(Result::is_err), "{subjects:?}: {settled:?}");
    }
    redis.command(&["CONFIG", "SET", "maxmemory", "0"]);
    for (subject, left) in [("used", 9), ("in place", 9), ("fresh", 10)] {
        assert_eq!(remaining(store, key("a", subject), &ten).await, left, "{subject}");
    }
}

async fn each_record_has_its_expiry(redis: &Redis, store: &RedisStore) {
    let (short, long) = (limit(Algorithm::FixedWindow, 10, HOUR), limit(Algorithm::Gcra, 1, LONG));
    for first in [true, false] {
        let charges = [one(key("short", "x"), &short), one(key("long", "y"), &long)];
        let charges = charges.map(|charge| [charge]);
        let mut requests: Vec<&[Charge<'_>]> = charges.iter().map(<[_; 1]>::as_slice).collect();
        if first {
            requests.reverse();
        }
        redis.command(&["FLUSHALL"]);
        for settled in store.settle_batch(&requests, NO_TIME).await {
            assert!(settled.is_ok_and(|settled| settled.passed));
        }
        let seconds = charges.map(|[charge]| {
            let [record, _] = store.keys_of(&charge.key);
            redis.command(&["TTL", &record]).integer()
        });
        assert!((0..DAY).contains(&seconds[0]) && seconds[1] > 299 * DAY, "{seconds:?}");
    }
}

async fn a_call_is_dated_by_the_server(redis: &Redis, store: &RedisStore) {
    let ten = limit(Algorithm::Gcra, 10, LONG);
    let before = server_time(redis);
    let settled = take(store, key("a", "dated"), &ten).await.expect("an answer");
    let after = server_time(redis);
    assert!((before..=after).contains(&settled.now), "{before:?} {:?} {after:?}", settled.now);
}

/// An entry of a rule that is not charged any more, and one that is charged again after it has expired.
async fn what_has_expired_is_not_carried_over(redis: &Redis, store: &RedisStore, mode: Mode) {
    let hourly = limit(Algorithm::FixedWindow, 10, HOUR);
    let [record, _] = store.keys_of(&key("kept", "x"));
    // So that the key has an expiry.
    take(store, key("kept", "x"), &hourly).await.expect("an answer");
    let now = server_time(redis);
    let lasting = now.as_micros() / 1_000_000 + 3_600;
    put(redis, &record, &windows(now, &[("kept", lasting, 3), ("gone", 1, 4)]));
    let charge = Charge { mode, ..one(key("kept", "x"), &hourly) };
    let settled = store.settle(&[charge], NO_TIME).await.expect("an answer");
    assert_eq!(settled.results[0].report.remaining, 6);
    assert!(!has(redis, &record, &RuleTag::of("gone").bytes()), "{mode:?}: it is still there");
    put(redis, &record, &windows(now, &[("kept", 1, 3), ("other", lasting, 4)]));
    let settled = store.settle(&[charge], NO_TIME).await.expect("an answer");
    assert_eq!(settled.results[0].report.remaining, 9, "{mode:?}");
    assert_eq!(remaining(store, key("other", "x"), &hourly).await, 6, "{mode:?}");
}

/// A record with entries of small windows of an hour, each apart: rule, second until which it is kept, count.
fn windows(now: Timestamp, entries: &[(&str, u64, u32)]) -> Vec<u8> {
    const SMALL_WINDOW_APART: u8 = 12 | 64;
    const FOLLOWED: u8 = 128;
    let mut entries: Vec<_> =
        entries.iter().map(|(rule, kept, count)| (RuleTag::of(rule), kept, count)).collect();
    entries.sort_by_key(|(tag, ..)| tag.number());
    let mut bytes = vec![1];
    for (place, (tag, ..)) in entries.iter().enumerate() {
        bytes.extend(tag.bytes());
        let is_followed = place + 1 < entries.len();
        bytes.push(SMALL_WINDOW_APART | if is_followed { FOLLOWED } else { 0 });
        bytes.extend(&3_600_u32.to_le_bytes()[..3]);
    }
    for (_, kept, count) in entries {
        bytes.extend(&kept.to_le_bytes()[..4]);
        bytes.extend(&now.as_micros().to_le_bytes()[..7]);
        bytes.extend(count.to_le_bytes());
    }
    bytes
}

#[test]
fn a_call_writes_what_it_has_to_or_says_that_it_failed() {
    check(&Redis::start(), SCRIPT);
}

#[test]
fn a_script_that_writes_wrong_is_caught() {
    let redis = Redis::start();
    let survivors = survivors(MUTANTS, |script| {
        redis.command(&["CONFIG", "SET", "maxmemory", "0"]);
        catch_unwind(AssertUnwindSafe(|| check(&redis, script))).is_ok()
    });
    assert!(survivors.is_empty(), "not caught: {survivors:#?}");
}

/// A limit that is known to be of this kind in records that are written by hand here.
#[test]
fn records_that_are_written_by_hand_are_those_of_this_version() {
    let redis = Redis::start();
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let hourly: Limit = limit(Algorithm::FixedWindow, 10, HOUR);
    runtime.block_on(async {
        let store = store(&redis, SCRIPT);
        let now = server_time(&redis);
        let [record, _] = store.keys_of(&key("a", "x"));
        let lasting = now.as_micros() / 1_000_000 + 3_600;
        put(&redis, &record, &windows(now, &[("a", lasting, 3), ("b", lasting, 4)]));
        assert_eq!(remaining(&store, key("a", "x"), &hourly).await, 7);
        assert_eq!(remaining(&store, key("b", "x"), &hourly).await, 6);
    });
}
