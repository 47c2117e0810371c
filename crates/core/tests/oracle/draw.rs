//! Random quotas and traces: small and huge limits, short and long windows, costs around the
//! capacity, gaps from nothing to many windows, times at both ends of the clock.

use std::ops::RangeInclusive;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseResult, TestRunner};
use tollgate_core::{Algorithm, MAX_LIMIT, MAX_WINDOW, MIN_WINDOW, Micros, Quota};

/// What happens to one counter.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    pub(crate) quota: Quota,
    /// Where the clock starts, in microseconds.
    pub(crate) start: u64,
    pub(crate) steps: Vec<Step>,
}

#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) clock: Clock,
    pub(crate) action: Action,
}

/// How far the clock moves before a step, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Clock {
    Forward(u64),
    Back(u64),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    /// A request of this cost.
    Ask(u64),
    Debit(u64),
    /// Refunds units; tied to the charge so many charges ago, or to none; charged under another quota, or under the
    /// one in force.
    Refund {
        units: u64,
        tied: Option<usize>,
        under: Option<Quota>,
    },
    /// Another quota comes into force.
    Change(Quota),
}

/// What a trace may contain beside requests.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Menu {
    /// Refunds and debits.
    pub(crate) corrections: bool,
    /// Other limits and bursts.
    pub(crate) changes: bool,
    /// Other algorithms and windows.
    pub(crate) replacements: bool,
    /// A clock that steps back.
    pub(crate) backwards: bool,
}

impl Menu {
    pub(crate) const EVERYTHING: Self =
        Self { corrections: true, changes: true, replacements: true, backwards: true };
}

/// Runs `check` on random traces of each algorithm. `TOLLGATE_PROPTEST_CASES` multiplies their
/// number.
pub(crate) fn for_every_algorithm(
    cases: u32,
    menu: Menu,
    check: impl Fn(&Trace) -> TestCaseResult,
) {
    for algorithm in Algorithm::ALL {
        let found =
            TestRunner::new(config(cases)).run(&trace(algorithm, menu), |trace| check(&trace));
        if let Err(counterexample) = found {
            panic!("{algorithm}: {counterexample}");
        }
    }
}

pub(crate) fn config(cases: u32) -> Config {
    let factor = std::env::var("TOLLGATE_PROPTEST_CASES").ok();
    let factor = factor.map_or(1, |factor| factor.parse().expect("a whole number"));
    Config { cases: cases * factor, failure_persistence: None, ..Config::default() }
}

pub(crate) fn trace(algorithm: Algorithm, menu: Menu) -> impl Strategy<Value = Trace> {
    quota(algorithm).prop_flat_map(move |quota| {
        let steps = vec(step(quota, menu), 1..24);
        (start(quota.window.get()), steps).prop_map(move |(start, steps)| Trace {
            quota,
            start,
            steps,
        })
    })
}

fn quota(algorithm: Algorithm) -> impl Strategy<Value = Quota> {
    let limit = prop_oneof![
        10 => 1..=50_u64,
        2 => 1..=1_000_000_u64,
        1 => 1..=1_u64 << 62,
        1 => Just(MAX_LIMIT),
        1 => Just(0),
    ];
    let window = prop_oneof![
        2 => Just(MIN_WINDOW.get()),
        2 => MIN_WINDOW.get()..=20_000,
        3 => Just(1_000_000),
        1 => Just(60_000_000),
        2 => MIN_WINDOW.get()..=MAX_WINDOW.get(),
        1 => Just(MAX_WINDOW.get()),
    ];
    let grace = prop_oneof![3 => Just(0), 1 => 1..=5_u64];
    let delay = prop_oneof![2 => Just(0), 1 => 1..=3_000_u64];
    (limit, window, shape(), grace, delay).prop_map(move |(limit, window, shape, grace, delay)| {
        let max_delay = thousandths(window, delay).min(MAX_WINDOW.get());
        shaped(
            Quota { grace, max_delay: Micros::new(max_delay), ..bare(algorithm, limit, window) },
            shape,
        )
    })
}

fn bare(algorithm: Algorithm, limit: u64, window: u64) -> Quota {
    Quota::new(algorithm, limit, Micros::new(window))
}

/// A burst in thousandths of the limit: none, smaller, larger.
fn shape() -> impl Strategy<Value = Option<u64>> {
    prop_oneof![2 => Just(None), 1 => (1..=1_000_u64).prop_map(Some), 1 => (1_000..=4_000_u64).prop_map(Some)]
}

/// Gives a bucket its burst; takes from the others what only buckets have.
fn shaped(quota: Quota, burst: Option<u64>) -> Quota {
    if quota.algorithm.is_bucket() {
        let burst = burst.map(|share| thousandths(quota.limit, share).clamp(1, MAX_LIMIT));
        Quota { burst, ..quota }
    } else {
        Quota { burst: None, max_delay: Micros::ZERO, ..quota }
    }
}

fn thousandths(whole: u64, share: u64) -> u64 {
    let part = u128::from(whole) * u128::from(share) / 1_000;
    u64::try_from(part).unwrap_or(u64::MAX)
}

fn start(window: u64) -> impl Strategy<Value = u64> {
    const THIS_CENTURY: RangeInclusive<u64> = 1_700_000_000_000_000..=1_800_000_000_000_000;
    prop_oneof![
        2 => 0..=3_u64,
        2 => THIS_CENTURY,
        2 => THIS_CENTURY.prop_map(move |at| at - at % window),
        1 => (0..=window.saturating_mul(6)).prop_map(|before| u64::MAX - before),
    ]
}

fn step(quota: Quota, menu: Menu) -> impl Strategy<Value = Step> {
    let back = u32::from(menu.backwards);
    let clock = prop_oneof![
        4 => gap(&quota).prop_map(Clock::Forward),
        back => gap(&quota).prop_map(Clock::Back),
    ];
    (clock, action(quota, menu)).prop_map(|(clock, action)| Step { clock, action })
}

fn gap(quota: &Quota) -> impl Strategy<Value = u64> + use<> {
    let window = quota.window.get();
    let unit = window / quota.limit.max(1);
    prop_oneof![
        4 => Just(0),
        1 => 1..=3_u64,
        1 => 0..=2_000_u64,
        3 => 0..=2 * unit + 1,
        3 => 0..=window,
        2 => (1..=3_u64).prop_map(move |times| times * window),
        1 => window - 1..=window + 1,
        1 => 0..=50 * window,
    ]
}

fn action(quota: Quota, menu: Menu) -> impl Strategy<Value = Action> {
    let corrections = u32::from(menu.corrections);
    prop_oneof![
        6 => units(&quota).prop_map(Action::Ask),
        corrections => units(&quota).prop_map(Action::Debit),
        2 * corrections => (units(&quota), prop::option::of(0..4_usize), under(quota, menu))
            .prop_map(|(units, tied, under)| Action::Refund { units, tied, under }),
        2 * u32::from(menu.changes) => changed(quota).prop_map(Action::Change),
        u32::from(menu.replacements) => replaced(quota).prop_map(Action::Change),
    ]
}

/// The quota that a refunded charge was made under, if not the one in force.
fn under(quota: Quota, menu: Menu) -> impl Strategy<Value = Option<Quota>> {
    prop_oneof![
        2 => Just(None),
        u32::from(menu.changes) => changed(quota).prop_map(Some),
        u32::from(menu.replacements) => replaced(quota).prop_map(Some),
    ]
}

fn units(quota: &Quota) -> impl Strategy<Value = u64> + use<> {
    let capacity = quota.burst.unwrap_or(quota.limit);
    prop_oneof![
        8 => 1..=3_u64,
        1 => Just(0),
        3 => 0..=capacity,
        2 => capacity..=capacity + 1,
        1 => (0..=quota.grace + 1).prop_map(move |more| capacity + more),
        1 => capacity..=2 * capacity,
        1 => any::<u64>(),
    ]
}

fn changed(quota: Quota) -> impl Strategy<Value = Quota> {
    let limit = quota.limit;
    let limit = prop_oneof![
        2 => Just(limit.saturating_mul(2).clamp(1, MAX_LIMIT)),
        2 => Just(limit.div_ceil(2)),
        1 => Just((limit + 1).min(MAX_LIMIT)),
        1 => Just(limit),
        2 => 1..=50_u64,
        1 => 0..=MAX_LIMIT,
    ];
    (limit, shape()).prop_map(move |(limit, shape)| shaped(Quota { limit, ..quota }, shape))
}

fn replaced(quota: Quota) -> impl Strategy<Value = Quota> {
    let window = quota.window.get();
    let other_window = prop_oneof![
        Just((window - 1).max(MIN_WINDOW.get())),
        Just((2 * window).min(MAX_WINDOW.get())),
    ];
    let other_algorithm = prop::sample::select(Algorithm::ALL.to_vec());
    (prop_oneof![Just(window), other_window], other_algorithm, shape()).prop_map(
        move |(window, algorithm, shape)| {
            shaped(Quota { algorithm, window: Micros::new(window), ..quota }, shape)
        },
    )
}
