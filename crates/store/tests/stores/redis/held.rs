//! Units that are held (promised, but not charged yet) count as used, whatever counts, and whatever is done to the
//! counter keeps them. The script that places and ends holds does not exist yet: the bytes are written by hand.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tokio::runtime::Runtime;
use tollgate_core::{
    Algorithm, Calendar, CalendarUnit, Charge, Limit, Micros, Mode, Quota, RuleTag, Timestamp,
};
use tollgate_store::redis::RedisStore;
use tollgate_store::{
    DenyCache, IdempotencyKey, KeyContent, Op, OpOutcome, Refund, SettleRequest, Settlement, Store,
};
use tollgate_testbed::{Redis, Reply};

use crate::redis::agreement::SCRIPT;
use crate::redis::mutants::{Mutant, survivors};
use crate::redis::records::{has, put};
use crate::redis::stand::{LONG, connect, key, limit, one, patient, server_time, take};

const HOUR: Micros = Micros::from_secs(3_600);
/// The flag of held units.
const HELD: u8 = 1;
/// A flag that no version knows.
const UNKNOWN: u8 = 0x80;

/// Limits of so many units: by all algorithms, in entries of both widths, and by the calendar.
fn limits(units: u64) -> Vec<Limit> {
    let odd = LONG.plus(Micros::new(1));
    let starts = [0, 1, 1 << 51, 1 << 52].map(Timestamp::from_micros);
    let calendar = Calendar::new(CalendarUnit::Month, "Test/Held", starts).expect("windows");
    let by_calendar = Quota::per_calendar_window(units, Box::leak(Box::new(calendar))).compile();
    Algorithm::ALL
        .into_iter()
        .flat_map(|algorithm| [limit(algorithm, units, LONG), limit(algorithm, units, odd)])
        .chain([by_calendar.expect("a valid quota")])
        .collect()
}

fn bytes_of(redis: &Redis, key: &str) -> Vec<u8> {
    let script = "local bytes = redis.call('GET', KEYS[1])
        local numbers = {}
        for place = 1, #bytes do numbers[place] = string.byte(bytes, place) end
        return numbers";
    let Reply::List(numbers) = redis.command(&["EVAL", script, "1", key]) else { panic!("bytes") };
    let byte = |number: &Reply| u8::try_from(number.integer()).expect("a byte");
    numbers.iter().map(byte).collect()
}

/// What follows an entry with flags: units, when the next of them expires, and two bytes that no version knows.
fn tail(flags: u8, units: u64, next_expiry: Timestamp) -> Vec<u8> {
    let mut tail = vec![16, flags];
    tail.extend(&units.to_le_bytes()[..6]);
    tail.extend(&next_expiry.as_micros().to_le_bytes()[..7]);
    tail.extend([0xaa, 0xbb]);
    tail
}

/// Puts a tail behind the only entry of a record, instead of the one that is there.
fn flag(redis: &Redis, record: &str, tail: &[u8]) {
    let mut bytes = bytes_of(redis, record);
    // Its kind is behind the version and the tag.
    if bytes[4] & 32 != 0 {
        bytes.truncate(bytes.len() - tail.len());
    }
    bytes[4] |= 32;
    bytes.extend(tail);
    put(redis, record, &bytes);
}

/// One counter with held units.
struct Stand<'a> {
    redis: &'a Redis,
    store: &'a RedisStore,
    limit: Limit,
    subject: String,
    record: String,
    tail: Vec<u8>,
}

impl<'a> Stand<'a> {
    /// A counter of which one unit is used, with a tail.
    async fn new(
        redis: &'a Redis,
        store: &'a RedisStore,
        limit: Limit,
        flags: u8,
        units: u64,
    ) -> Self {
        redis.command(&["FLUSHALL"]);
        let subject = format!("{:?} {}", limit.algorithm(), limit.window().get());
        let now = server_time(redis);
        let charge = one(key("a", &subject), &limit);
        store.settle(&[charge], now).await.expect("an answer");
        let [record, _] = store.keys_of(&key("a", &subject));
        let tail = tail(flags, units, now.plus(HOUR));
        flag(redis, &record, &tail);
        Self { redis, store, limit, subject, record, tail }
    }

    fn charge(&self, cost: u64) -> Charge<'_> {
        Charge { cost, ..one(key("a", &self.subject), &self.limit) }
    }

    async fn settle(&self, charge: Charge<'_>) -> Settlement {
        let now = server_time(self.redis);
        self.store.settle(&[charge], now).await.expect("an answer")
    }

    /// Whether so many units are left: they fit, and one more does not, by dry runs.
    async fn check_left(&self, limit: &Limit, left: u64, after: &str) {
        let name = format!("{} after {after}", self.subject);
        for (cost, fits) in [(left, true), (left + 1, false)] {
            let charges = [Charge { cost, limit, ..self.charge(0) }];
            let request = SettleRequest { charges: &charges, idempotency: None, is_dry_run: true };
            let settled = self.store.submit_one(Op::Settle(request), server_time(self.redis)).await;
            let settled = settled.and_then(OpOutcome::settled).expect("an answer");
            let report = settled.results[0].report;
            assert_eq!(settled.passed, fits, "{cost} of {name}");
            assert_eq!(report.remaining, left, "{name}");
        }
        assert!(has(self.redis, &self.record, &self.tail), "what follows is lost: {name}");
    }

    /// Until when the counter is kept.
    async fn kept_until(&self) -> Timestamp {
        let content = self.store.content_at(&self.record).await.expect("an answer");
        let KeyContent::Counters(counters) = content else { panic!("no record: {content:?}") };
        let counter = counters.into_iter().find(|one| one.tag == RuleTag::of("a"));
        counter.expect("the counter").kept_until
    }

    /// For how long a request of this cost is refused.
    async fn wait(&self, cost: u64) -> Option<Micros> {
        let refused = self.settle(self.charge(cost)).await;
        assert!(!refused.passed && refused.has_held_units, "{}", self.subject);
        refused.results[0].report.retry_after
    }
}

async fn check_held(redis: &Redis, store: &RedisStore, limit: Limit) {
    let stand = Stand::new(redis, store, limit, HELD | UNKNOWN, 6).await;
    let ten = &stand.limit;
    stand.check_left(ten, 3, "the hold").await;
    take(store, key("b", &stand.subject), &limit_of_others()).await.expect("an answer");
    stand.check_left(ten, 3, "a charge of another rule").await;

    assert_eq!(stand.wait(11).await, None, "{}: it never fits", stand.subject);
    let wait = stand.wait(4).await.expect("a wait");
    assert!(Micros::ZERO < wait && wait <= HOUR, "{}: {wait:?} until it expires", stand.subject);
    stand.check_left(ten, 3, "a refusal").await;

    assert!(stand.settle(stand.charge(2)).await.passed, "{}", stand.subject);
    stand.check_left(ten, 1, "a charge").await;
    let refund = Refund { key: stand.charge(0).key, limit: ten, units: 3, charged_at: None };
    let before = stand.kept_until().await;
    store.refund(&[refund], server_time(redis)).await.expect("an answer");
    stand.check_left(ten, 4, "a refund").await;
    assert_eq!(stand.kept_until().await, before, "{}: the hold is kept on", stand.subject);

    let debit = Charge { mode: Mode::Debit, ..stand.charge(7) };
    assert!(
        stand.settle(debit).await.passed,
        "{}: a debit is made whatever is held",
        stand.subject
    );
    stand.check_left(ten, 0, "a debit").await;
    store.reset(&[stand.charge(0).key]).await.expect("an answer");
    stand.check_left(ten, 4, "a reset").await;

    // The same call, once.
    let charges = [stand.charge(1)];
    let once = IdempotencyKey { call: [1; 16], body: [2; 16], note: "note", lifetime: HOUR };
    let request = SettleRequest { charges: &charges, idempotency: Some(&once), is_dry_run: false };
    let settled = store.submit_one(Op::Settle(request), server_time(redis)).await;
    let first = settled.and_then(OpOutcome::settled).expect("the first");
    assert_eq!(first.results[0].report.remaining, 3, "{}", stand.subject);
    assert!(stand.settle(stand.charge(2)).await.passed, "{}", stand.subject);
    let copy = store.submit_one(Op::Settle(request), server_time(redis)).await;
    let Ok(OpOutcome::Replayed { settlement, .. }) = copy else { panic!("no copy: {copy:?}") };
    assert_eq!(settlement.results, first.results, "{}: a copy gets the same", stand.subject);
    stand.check_left(ten, 1, "a copy").await;

    // Several requests in one call: 1 unit is left.
    let charge = [stand.charge(1)];
    let batch = store.settle_batch(&[charge.as_slice(); 2], server_time(redis)).await;
    let passed: Vec<bool> = batch.into_iter().map(|one| one.expect("an answer").passed).collect();
    assert_eq!(passed, [true, false], "{}", stand.subject);
    stand.check_left(ten, 0, "a batch").await;
}

/// Units that are used may go before any of the held ones.
async fn check_wait(redis: &Redis, store: &RedisStore, limit: Limit) {
    let stand = Stand::new(redis, store, limit, HELD, 6).await;
    let later = server_time(redis).plus(Micros::new(100 * LONG.get()));
    flag(redis, &stand.record, &tail(HELD, 6, later));
    let wait = stand.wait(4).await.expect("a wait");
    assert!(HOUR < wait && wait.get() < 40 * LONG.get(), "{}: {wait:?}", stand.subject);
    let soon = server_time(redis).plus(Micros::from_secs(60));
    flag(redis, &stand.record, &tail(HELD, 10, soon));
    let wait = stand.wait(4).await.expect("a wait");
    assert!(wait.get() <= 60_000_000, "{}: {wait:?}: all units are held", stand.subject);
}

/// Held units stay when the limit becomes another one; what is used does not, or as much as that algorithm keeps.
async fn check_change(redis: &Redis, store: &RedisStore, before: Limit, after: Limit) {
    let stand = Stand::new(redis, store, before, HELD, 6).await;
    stand.check_left(&after, 4, "a change of the limit").await;
    let charge = Charge { limit: &after, ..stand.charge(3) };
    assert!(stand.settle(charge).await.passed, "{}", stand.subject);
    stand.check_left(&after, 1, "a charge under another limit").await;
}

/// A flag that is not known says nothing about held units.
async fn check_unknown_flag(redis: &Redis, store: &RedisStore, limit: Limit) {
    let stand = Stand::new(redis, store, limit, UNKNOWN, 6).await;
    let ten = &stand.limit;
    stand.check_left(ten, 9, "an unknown flag").await;
    assert!(stand.settle(stand.charge(9)).await.passed, "{}", stand.subject);
    stand.check_left(ten, 0, "a charge").await;
    assert!(!stand.settle(stand.charge(1)).await.has_held_units, "{}", stand.subject);
    store.reset(&[stand.charge(0).key]).await.expect("an answer");
    stand.check_left(ten, 10, "a reset").await;
}

/// The limit of a rule beside the one with held units.
fn limit_of_others() -> Limit {
    limit(Algorithm::FixedWindow, 10, LONG)
}

/// Checks all limits on a server, with any script.
fn check(redis: &Redis, script: &str) {
    let runtime = Runtime::new().expect("a runtime");
    let _inside = runtime.enter();
    let store = RedisStore::connect_with_script(&redis.url(), patient(), script);
    let store = store.expect("a valid URL");
    runtime.block_on(async {
        let all = limits(10);
        for (place, limit) in all.iter().enumerate() {
            check_held(redis, &store, *limit).await;
            check_wait(redis, &store, *limit).await;
            check_unknown_flag(redis, &store, *limit).await;
            // The next of another algorithm.
            let other =
                all.iter().cycle().skip(place).find(|other| other.algorithm() != limit.algorithm());
            check_change(redis, &store, *limit, *other.expect("another")).await;
        }
    });
}

#[test]
fn held_units_count_as_used_and_are_kept_by_every_algorithm() {
    for redis in [Redis::start(), Redis::builder().oldest().start()] {
        check(&redis, SCRIPT);
    }
}

const MUTANTS: &[Mutant] = &[
    ("held units do not count in buckets", "exceeds(c.whole + c.held,", "exceeds(c.whole,"),
    ("held units do not count in windows", "c.current + c.cost + c.held", "c.current + c.cost"),
    ("held units do not count in logs", "c.used + c.cost + c.held <=", "c.used + c.cost <="),
    ("any flag means held units", "byte(e.tail, 2) % 2 == 1 and", ""),
    (
        "a reset forgets held units",
        "if e.tail ~= '' then\n        e.kind",
        "if false then\n        e.kind",
    ),
    (
        "a charge forgets held units",
        "body = body, tail = e and e.tail or '',",
        "body = body, tail = '',",
    ),
    ("an entry loses its flag", "(e.tail ~= '' and FLAGGED or 0)", "0"),
    (
        "what follows is cut",
        "e.tail = sub(text, place, place + length)",
        "e.tail = sub(text, place, place + 13)",
    ),
    (
        "a hold is kept as long as what is used",
        "(e.tail ~= '' or c.limit.algorithm == LOG)",
        "c.limit.algorithm == LOG",
    ),
    ("a copy shows held units as free", "once.tails[name] = c.entry.tail", "local _ = name"),
    ("a log does not say that a hold is in the way", "l.room - c.cost - c.held", "l.room - c.cost"),
];

#[test]
fn a_script_that_loses_held_units_is_caught() {
    let redis = Redis::start();
    let survivors = survivors(MUTANTS, |script| {
        catch_unwind(AssertUnwindSafe(|| check(&redis, script))).is_ok()
    });
    assert!(survivors.is_empty(), "not caught: {survivors:#?}");
}

/// A release ends a refusal early, on any node: it is not cached. One that no release ends is.
#[tokio::test(flavor = "multi_thread")]
async fn refusals_beside_held_units_are_asked_for_again() {
    let redis = Redis::start();
    let cache = DenyCache::new(connect(&redis.url(), patient()).await);
    for limit in limits(10) {
        let stand = Stand::new(&redis, cache.inner(), limit, HELD, 9).await;
        let now = server_time(&redis);
        let charges = [stand.charge(1)];
        let hits = cache.hits();
        let passes = || async {
            let settled = cache.settle(&charges, now).await;
            settled.expect("an answer").passed
        };
        assert!(!passes().await && !passes().await, "{}: 9 are held", stand.subject);
        assert_eq!(cache.hits(), hits, "{}: Redis is asked again", stand.subject);
        flag(&redis, &stand.record, &tail(HELD, 0, Timestamp::EPOCH));
        assert!(passes().await, "{}: the hold has ended", stand.subject);
        assert!(stand.settle(stand.charge(8)).await.passed, "{}", stand.subject);
        assert!(!passes().await && !passes().await, "{}: 10 are used", stand.subject);
        assert_eq!(cache.hits(), hits + 1, "{}: the second refusal is cached", stand.subject);
    }
}
