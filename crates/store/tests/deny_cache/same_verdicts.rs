//! With a deny cache or without one: every verdict is the same, and so are the counters.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::hash::{BuildHasherDefault, DefaultHasher};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestCaseResult, TestError, TestRunner};
use tollgate_core::{Algorithm, Charge, Key, Limit, Micros, Mode, Quota, Timestamp};
use tollgate_store::{DenyCache, MemoryStore, Refund, Settlement, Store};

use crate::remote_store::at_once;
use crate::script::MIDNIGHT;

const CASES: u32 = 1_500;
/// Few, so that most of them are exhausted most of the time.
const COUNTERS: usize = 3;

/// The limits a counter may meet: its usual one, the same with other figures, and one that counts in
/// another way.
type Limits = [Limit; 3];

#[derive(Clone, Debug)]
struct Step {
    pause: Micros,
    action: Action,
}

#[derive(Clone, Debug)]
enum Action {
    Settle(Vec<Item>),
    Batch(Vec<Vec<Item>>),
    /// Tied to the time of the step so many steps ago, or to none.
    Refund(Item, Option<usize>),
    Reset(usize),
}

/// Some units of one counter.
#[derive(Clone, Copy, Debug)]
struct Item {
    counter: usize,
    variant: usize,
    units: u64,
    mode: Mode,
}

fn quota() -> impl Strategy<Value = Quota> {
    let algorithm = select(Algorithm::ALL.to_vec());
    let limit = prop_oneof![1 => Just(0), 8 => 1..=10_u64, 1 => 1..=1_000_000_u64];
    let window = prop_oneof![Just(1_000_000), 1_000..=20_000_u64, 1_000_000..=60_000_000_u64];
    let burst = prop::option::of(1..=12_u64);
    let grace = prop_oneof![3 => Just(0), 1 => 1..=3_u64];
    let delay = prop_oneof![2 => Just(0), 1 => 0..=2_000_000_u64];
    (algorithm, limit, window, burst, grace, delay).prop_map(
        |(algorithm, limit, window, burst, grace, delay)| {
            let delay = if algorithm.is_bucket() { delay } else { 0 };
            let burst = burst.filter(|_| algorithm.is_bucket());
            let quota = Quota::new(algorithm, limit, Micros::new(window));
            Quota { burst, grace, max_delay: Micros::new(delay), ..quota }
        },
    )
}

fn limits() -> impl Strategy<Value = Limits> {
    (quota(), quota()).prop_map(|(usual, other)| {
        let burst = usual.burst.and(other.burst);
        let changed = Quota { limit: other.limit, burst, grace: other.grace, ..usual };
        [usual, changed, other].map(|quota| quota.compile().expect("a valid quota"))
    })
}

fn item() -> impl Strategy<Value = Item> {
    let variant = prop_oneof![12 => Just(0_usize), 1 => Just(1), 1 => Just(2)];
    let units = prop_oneof![12 => 1..=6_u64, 2 => 0..=15_u64, 1 => any::<u64>()];
    let mode =
        prop_oneof![10 => Just(Mode::Enforce), 1 => Just(Mode::Shadow), 1 => Just(Mode::Debit)];
    (0..COUNTERS, variant, units, mode).prop_map(|(counter, variant, units, mode)| Item {
        counter,
        variant,
        units,
        mode,
    })
}

fn step() -> impl Strategy<Value = Step> {
    let pause = prop_oneof![
        3 => Just(0),
        3 => 1..=100_u64,
        3 => 1..=200_000_u64,
        1 => 1..=3_000_000_u64,
    ];
    let action = prop_oneof![
        12 => vec(item(), 1..=3).prop_map(Action::Settle),
        3 => vec(vec(item(), 0..=2), 0..=5).prop_map(Action::Batch),
        1 => (item(), prop::option::of(0..6_usize)).prop_map(|(item, ago)| Action::Refund(item, ago)),
        1 => (0..COUNTERS).prop_map(Action::Reset),
    ];
    (pause, action).prop_map(|(pause, action)| Step { pause: Micros::new(pause), action })
}

struct Run<'a> {
    cached: DenyCache<MemoryStore>,
    bare: MemoryStore,
    limits: &'a [Limits],
    keys: [Key<'static>; COUNTERS],
}

impl Run<'_> {
    fn steps(&self, steps: &[Step]) -> TestCaseResult {
        let mut moments = vec![MIDNIGHT];
        for step in steps {
            let now = moments[moments.len() - 1].plus(step.pause);
            moments.push(now);
            // Stores forget expired counters now and then, depending on how often they are asked,
            // which shows when a limit changes.
            self.cached.inner().sweep(now);
            self.bare.sweep(now);
            self.act(&step.action, &moments, now)?;
            for key in &self.keys {
                let (kept, expected) =
                    (self.cached.inner().state_text(key), self.bare.state_text(key));
                prop_assert_eq!(kept, expected, "{:?} after {:?}", key, step);
            }
        }
        Ok(())
    }

    fn act(&self, action: &Action, moments: &[Timestamp], now: Timestamp) -> TestCaseResult {
        match action {
            Action::Settle(items) => {
                let charges = self.charges(items);
                let settled = at_once(self.cached.settle(&charges, now));
                let expected = self.bare.settle_now(&charges, now);
                compare(&charges, &settled.expect("a store that answers"), &expected)?;
            }
            Action::Batch(requests) => {
                let requests: Vec<Vec<Charge<'_>>> =
                    requests.iter().map(|items| self.charges(items)).collect();
                let requests: Vec<&[Charge<'_>]> = requests.iter().map(Vec::as_slice).collect();
                let settled = at_once(self.cached.settle_batch(&requests, now));
                prop_assert_eq!(settled.len(), requests.len());
                for (charges, settled) in requests.iter().zip(settled) {
                    let expected = self.bare.settle_now(charges, now);
                    compare(charges, &settled.expect("a store that answers"), &expected)?;
                }
            }
            Action::Refund(item, ago) => {
                let Charge { key, limit, cost: units, .. } = self.charge(item);
                let charged_at = ago.map(|ago| moments[moments.len().saturating_sub(1 + ago)]);
                let refund = Refund { key, limit, units, charged_at };
                at_once(self.cached.refund(&[refund], now)).expect("a store that answers");
                self.bare.refund_now(&refund, now);
            }
            Action::Reset(counter) => {
                let key = self.keys[*counter];
                at_once(self.cached.reset(&[key])).expect("a store that answers");
                self.bare.forget(&key);
            }
        }
        Ok(())
    }

    /// Charges with distinct keys.
    fn charges(&self, items: &[Item]) -> Vec<Charge<'_>> {
        let mut seen = BTreeSet::new();
        let items = items.iter().filter(|item| seen.insert(item.counter));
        items.map(|item| self.charge(item)).collect()
    }

    fn charge(&self, item: &Item) -> Charge<'_> {
        let limit = &self.limits[item.counter][item.variant];
        Charge { key: self.keys[item.counter], limit, cost: item.units, mode: item.mode }
    }
}

/// Results of the store are equal in every figure. A cached result is a refusal of the same charge,
/// and its wait is not longer than necessary.
fn compare(charges: &[Charge<'_>], settled: &Settlement, expected: &Settlement) -> TestCaseResult {
    let Some(only) = settled.only else {
        prop_assert_eq!(settled, expected, "on {:?}", charges);
        return Ok(());
    };
    let (known, line) = (settled.results[0], expected.results[only]);
    prop_assert!(!settled.passed && !expected.passed, "{:?} refused: {:?}", charges, known);
    prop_assert!(!known.admitted && !line.admitted, "{:?} refused: {:?}", charges, known);
    prop_assert_eq!(settled.now, expected.now);
    let wait = |wait: Option<Micros>| wait.map_or(u64::MAX, Micros::get);
    let (told, least) = (wait(known.report.retry_after), wait(line.report.retry_after));
    prop_assert!(told > 0 && told <= least, "{:?}: {:?}, not {:?}", charges, known, line);
    prop_assert_eq!(known.report.reset_after, line.report.reset_after, "on {:?}", charges);
    prop_assert!(known.report.remaining <= line.report.remaining, "on {:?}", charges);
    Ok(())
}

/// So many cases times `TOLLGATE_PROPTEST_CASES`.
fn config(cases: u32) -> Config {
    let factor = std::env::var("TOLLGATE_PROPTEST_CASES").ok();
    let factor = factor.map_or(1, |factor| factor.parse().expect("a whole number"));
    Config { cases: cases * factor, failure_persistence: None, ..Config::default() }
}

#[test]
fn verdicts_and_counters_are_the_same() {
    let hasher = BuildHasherDefault::<DefaultHasher>::default();
    let keys = ["first", "second", "third"].map(|rule| Key::new(&hasher, rule, b"subject", b""));
    let hits = Cell::new(0);
    let traces = (vec(limits(), COUNTERS), vec(step(), 1..80));
    let found = TestRunner::new(config(CASES)).run(&traces, |(limits, steps)| {
        let (cached, bare) =
            (DenyCache::new(MemoryStore::with_bytes(0)), MemoryStore::with_bytes(0));
        let run = Run { cached, bare, limits: &limits, keys };
        let outcome = run.steps(&steps);
        hits.set(hits.get() + run.cached.hits());
        outcome
    });
    match found {
        Ok(()) => {}
        Err(TestError::Fail(reason, trace)) => panic!("{reason}\non {trace:?}"),
        Err(aborted) => panic!("{aborted}"),
    }
    let least = u64::from(CASES);
    assert!(hits.get() > least, "only {} of many requests were known", hits.get());
}
