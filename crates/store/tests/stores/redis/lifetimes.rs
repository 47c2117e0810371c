//! No key outlives its use by much, and none is gone too early: by the clock of the server, after
//! whatever was done to it.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestCaseResult, TestError, TestRunner};
use tokio::runtime::Runtime;
use tollgate_core::{Algorithm, Charge, Limit, MAX_WINDOW, Micros, Mode, Quota, Timestamp};
use tollgate_store::redis::RedisStore;
use tollgate_store::{Refund, Store as _};
use tollgate_testbed::{Redis, until};

use crate::redis::agreement::SCRIPT;
use crate::redis::draw::config;
use crate::redis::stand::{NO_TIME, key, one, patient};

/// What a key may be kept beyond its use, besides a quarter of that.
const SLACK: Micros = Micros::from_secs(69);
/// No key is kept for longer.
const MAX_LIFETIME: Micros = Micros::from_secs(10 * 365 * 24 * 3_600);

const NEVER: Timestamp = Timestamp::from_micros(u64::MAX);
const SHORT_WINDOW: Micros = Micros::from_millis(300);

const RULES: [&str; 4] = ["first", "second", "third", "fourth"];

#[derive(Clone, Debug)]
pub(crate) struct Step {
    rule: usize,
    limit: usize,
    units: u64,
    action: Action,
}

#[derive(Clone, Copy, Debug)]
enum Action {
    Charge(Mode),
    Refund,
    Reset,
}

fn limits(longest_window: Micros) -> impl Strategy<Value = Vec<Limit>> {
    // Entries of windows in whole seconds are smaller.
    let seconds = (1_000..=longest_window.get()).prop_map(|window| match window / 1_000_000 {
        0 => window,
        seconds => seconds * 1_000_000,
    });
    let windows = prop_oneof![1_000..=SHORT_WINDOW.get(), 1_000..=longest_window.get(), seconds];
    let quota = (select(Algorithm::ALL.to_vec()), 1..=50_u64, windows, 0..=5_u64);
    let limit = quota.prop_map(|(algorithm, limit, window, grace)| {
        let quota = Quota { grace, ..Quota::new(algorithm, limit, Micros::new(window)) };
        quota.compile().expect("a valid quota")
    });
    vec(limit, 3)
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let action = prop_oneof![
        4 => Just(Action::Charge(Mode::Enforce)),
        1 => Just(Action::Charge(Mode::Shadow)),
        1 => Just(Action::Charge(Mode::Debit)),
        2 => Just(Action::Refund),
        1 => Just(Action::Reset),
    ];
    let step = (0..RULES.len(), 0..3_usize, 0..=60_u64, action);
    vec(step.prop_map(|(rule, limit, units, action)| Step { rule, limit, units, action }), 1..20)
}

/// When a server forgets a key, if it has it: by its own clock, and maybe never.
fn expiry_of(redis: &Redis, key: &str) -> Option<Timestamp> {
    match redis.command(&["PEXPIRETIME", key]).integer() {
        -2 => None,
        -1 => Some(NEVER),
        millis => Some(Timestamp::from_millis(u64::try_from(millis).expect("a moment"))),
    }
}

/// When a server forgets a counter, if it has it: its record, and its log if it is one.
fn expiry(redis: &Redis, [record, log]: &[String; 2], algorithm: Algorithm) -> Option<Timestamp> {
    let record = expiry_of(redis, record)?;
    if algorithm == Algorithm::SlidingWindowLog {
        return Some(record.min(expiry_of(redis, log)?));
    }
    Some(record)
}

/// For how long a state may matter at most that is written now.
fn longest_use(limit: &Limit, now: Timestamp, reset_after: Micros) -> Micros {
    let window = limit.window().get();
    let left = Micros::new(window - now.as_micros() % window);
    match limit.algorithm() {
        Algorithm::TokenBucket | Algorithm::LeakyBucket | Algorithm::Gcra => reset_after,
        Algorithm::FixedWindow => left,
        Algorithm::SlidingWindowCounter => left.plus(limit.window()),
        Algorithm::SlidingWindowLog => limit.window(),
    }
}

async fn run(
    redis: &Redis,
    store: &RedisStore,
    limits: &[Limit],
    steps: &[Step],
) -> TestCaseResult {
    for step in steps {
        let (rule, limit) = (RULES[step.rule], &limits[step.limit]);
        // Each has a record of its own.
        let charge = Charge { cost: step.units, ..one(key(rule, rule), limit) };
        let keys = store.keys_of(&charge.key);
        let mut is_written = false;
        match step.action {
            Action::Charge(mode) => {
                let settled = store.settle(&[Charge { mode, ..charge }], NO_TIME).await;
                is_written = settled.expect("an answer").results[0].written;
            }
            Action::Refund => {
                let refund = Refund { key: charge.key, limit, units: step.units, charged_at: None };
                store.refund(&[refund], NO_TIME).await.expect("an answer");
            }
            Action::Reset => {
                store.reset(&[charge.key]).await.expect("an answer");
                prop_assert_eq!(keys.each_ref().map(|key| expiry_of(redis, key)), [None, None]);
            }
        }
        let look = store.settle(&[Charge { cost: 0, ..charge }], NO_TIME).await;
        let look = look.expect("an answer");
        let reset_after = look.results[0].report.reset_after.min(MAX_LIFETIME);
        let end = look.now.plus(reset_after);
        match expiry(redis, &keys, limit.algorithm()) {
            Some(expiry) => {
                prop_assert!(expiry >= end, "{expiry:?} is before {end:?} after {step:?}");
                let used = longest_use(limit, look.now, reset_after);
                let latest = look.now.plus(used).plus(Micros::new(used.get() / 4)).plus(SLACK);
                prop_assert!(
                    (!is_written && expiry < NEVER) || expiry <= latest,
                    "{expiry:?} is after {latest:?} after {step:?}"
                );
            }
            None => prop_assert_eq!(reset_after, Micros::ZERO, "gone too early after {:?}", step),
        }
    }
    Ok(())
}

/// Limits, and what is done about them.
type Drawn = (Vec<Limit>, Vec<Step>);

/// Looks for a trace after which a key is kept too long or not long enough.
pub(crate) fn lifetimes_differ(
    config: Config,
    redis: &Redis,
    longest_window: Micros,
    script: &str,
) -> Result<(), TestError<Drawn>> {
    let runtime = Runtime::new().expect("a runtime");
    let _inside = runtime.enter();
    let store = RedisStore::connect_with_script(&redis.url(), patient(), script);
    let store = store.expect("a valid URL");
    TestRunner::new(config).run(&(limits(longest_window), steps()), |(limits, steps)| {
        redis.command(&["FLUSHALL"]);
        runtime.block_on(run(redis, &store, &limits, &steps))
    })
}

fn check(cases: u32, redis: &Redis, longest_window: Micros) {
    let found = lifetimes_differ(config(cases), redis, longest_window, SCRIPT);
    found.unwrap_or_else(|difference| panic!("{difference}"));
}

#[test]
fn keys_are_kept_as_long_as_they_matter_and_not_much_longer() {
    check(150, &Redis::start(), MAX_WINDOW);
}

#[test]
fn no_key_is_left_when_all_windows_have_passed() {
    let redis = Redis::start();
    check(50, &redis, SHORT_WINDOW);
    until("a server that has forgotten everything", || {
        (redis.command(&["DBSIZE"]).integer() == 0).then_some(())
    });
}
