//! Random traces: several counters of all algorithms, limits that change, batches, refunds, resets,
//! and a clock that steps back.

use std::hash::{BuildHasher, DefaultHasher, Hasher};
use std::sync::LazyLock;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::Config;
use tollgate_core::{
    Algorithm, Calendar, CalendarUnit, Limit, MAX_LIMIT, MAX_WINDOW, MIN_WINDOW, Micros, Mode,
    Quota, Timestamp,
};

/// How many counters a trace has: enough to make a page of the memory store grow several times.
pub(crate) const COUNTERS: usize = 24;

/// How far a store can count.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reach {
    pub(crate) largest_limit: u64,
    pub(crate) latest: u64,
    /// Only counters of one subject are charged all or nothing without a trace.
    pub(crate) one_subject: bool,
    /// The store dates requests by its own clock, which a trace cannot set: the model follows.
    pub(crate) by_stores_clock: bool,
}

impl Reach {
    /// As far as `tollgate_core` can.
    pub(crate) const ALL: Self = Self {
        largest_limit: MAX_LIMIT,
        latest: u64::MAX,
        one_subject: false,
        by_stores_clock: false,
    };
}

#[derive(Clone, Debug)]
pub(crate) struct Trace {
    /// The limits a counter may meet: its usual one, the same with other figures, and one that
    /// counts in another way.
    families: Vec<[Limit; 3]>,
    by_stores_clock: bool,
    pub(crate) hasher: Crowding,
    pub(crate) start: Timestamp,
    pub(crate) steps: Vec<Step>,
}

#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) clock: Clock,
    pub(crate) action: Action,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Clock {
    Forward(Micros),
    Back(Micros),
}

#[derive(Clone, Debug)]
pub(crate) enum Action {
    Settle(Vec<Item>),
    DryRun(Vec<Item>),
    Batch(Vec<Vec<Item>>),
    /// Units to refund, tied to the time of the step so many steps ago, or to none.
    Refund(Vec<(Item, Option<usize>)>),
    Reset(Vec<usize>),
}

impl Action {
    /// The counters that it is about.
    pub(crate) fn counters(&self) -> Box<dyn Iterator<Item = usize> + '_> {
        match self {
            Self::Reset(numbers) => Box::new(numbers.iter().copied()),
            others => Box::new(others.items().map(|item| item.counter)),
        }
    }

    pub(crate) fn items(&self) -> Box<dyn Iterator<Item = &Item> + '_> {
        match self {
            Self::Settle(items) | Self::DryRun(items) => Box::new(items.iter()),
            Self::Batch(requests) => Box::new(requests.iter().flatten()),
            Self::Refund(refunds) => Box::new(refunds.iter().map(|(item, _)| item)),
            Self::Reset(_) => Box::new(std::iter::empty()),
        }
    }
}

/// Some units of one counter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item {
    pub(crate) counter: usize,
    variant: usize,
    units: Units,
    pub(crate) mode: Mode,
}

#[derive(Clone, Copy, Debug)]
enum Units {
    Of(u64),
    /// A capacity, and so much more.
    Full(u64),
    /// All that may ever be used, whatever it is made of, but for so much.
    Brim(u64),
    Half,
}

impl Trace {
    pub(crate) fn limit(&self, item: &Item) -> &Limit {
        let family = &self.families[item.counter % self.families.len()];
        let [usual, _, other] = family;
        // What is left of a counter that has expired shows when its limit gets other figures, and by the clock of a store
        // it is not known beforehand whether it has.
        let shows = item.variant == 1 || other.algorithm() == usual.algorithm();
        if self.by_stores_clock && shows { usual } else { &family[item.variant] }
    }

    pub(crate) fn units(&self, item: &Item) -> u64 {
        let limit = self.limit(item);
        let capacity = limit.capacity();
        match item.units {
            Units::Of(units) => units,
            Units::Full(more) => capacity.saturating_add(more),
            Units::Brim(less) => {
                let delayed = u128::from(limit.max_delay().get()) * u128::from(limit.limit());
                let delayed = delayed / u128::from(limit.window().get());
                let delayed = u64::try_from(delayed).unwrap_or(u64::MAX);
                limit.ceiling().saturating_add(delayed).saturating_sub(less)
            }
            Units::Half => capacity / 2,
        }
    }
}

/// How fingerprints are spread: evenly, or all to one end of one page of a table, where searches
/// run into each other and around the end.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Crowding {
    Even,
    AtTheStart,
    AtTheEnd,
}

impl BuildHasher for Crowding {
    type Hasher = CrowdedHasher;

    fn build_hasher(&self) -> CrowdedHasher {
        CrowdedHasher { crowding: *self, hasher: DefaultHasher::new() }
    }
}

pub(crate) struct CrowdedHasher {
    crowding: Crowding,
    hasher: DefaultHasher,
}

impl Hasher for CrowdedHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.hasher.write(bytes);
    }

    fn finish(&self) -> u64 {
        let hash = self.hasher.finish();
        match self.crowding {
            Crowding::Even => hash,
            Crowding::AtTheStart => hash >> 24,
            Crowding::AtTheEnd => !(hash >> 24),
        }
    }
}

/// So many cases times `TOLLGATE_PROPTEST_CASES`.
pub(crate) fn config(cases: u32) -> Config {
    let factor = number_in("TOLLGATE_PROPTEST_CASES").unwrap_or(1);
    let cases = u32::try_from(u64::from(cases) * factor).expect("fewer cases");
    Config { cases, failure_persistence: None, ..Config::default() }
}

/// The number in a variable, if there is one.
pub(crate) fn number_in(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}: {text} is not a whole number")))
}

pub(crate) fn traces(reach: Reach) -> impl Strategy<Value = Trace> {
    let latest = reach.latest;
    let crowding = select(vec![Crowding::Even, Crowding::AtTheStart, Crowding::AtTheEnd]);
    let start = prop_oneof![
        3 => 1_700_000_000_000_000..=1_800_000_000_000_000_u64,
        1 => 0..=3_u64,
        1 => latest - 100_000_000_000..=latest,
    ];
    (vec(family(reach), 1..=6), crowding, start, vec(step(), 1..60)).prop_map(
        move |(families, hasher, start, steps)| {
            let start = Timestamp::from_micros(start);
            let by_stores_clock = reach.by_stores_clock;
            Trace { families, by_stores_clock, hasher, start, steps }
        },
    )
}

const HOUR: u64 = 3_600_000_000;

/// Days and weeks of uneven lengths, until the end of the century, and then as the last one is.
static CALENDARS: LazyLock<Vec<&'static Calendar>> = LazyLock::new(|| {
    let uneven = |unit: CalendarUnit, zone: &str, lengths: [u64; 5]| {
        let lengths = lengths.into_iter().cycle().scan(0, |start, hours| {
            *start += hours * HOUR;
            Some(Timestamp::from_micros(*start))
        });
        let century = lengths.take_while(|start| *start < Timestamp::from_secs(4_102_444_800));
        &*Box::leak(Box::new(Calendar::new(unit, zone, century).expect("many windows")))
    };
    vec![
        uneven(CalendarUnit::Day, "Test/Uneven", [24, 23, 24, 25, 24]),
        uneven(CalendarUnit::Day, "Test/Other", [24, 24, 1, 24, 47]),
        uneven(CalendarUnit::Week, "Test/Uneven", [168, 167, 168, 169, 168]),
    ]
});

fn family(reach: Reach) -> impl Strategy<Value = [Limit; 3]> {
    // What is used of a limit matters most to another that is almost the same.
    let nudge = prop::option::of(1..=3_u64);
    (quota(reach), quota(reach), nudge).prop_map(|(usual, other, nudge)| {
        let burst = usual.burst.and(other.burst);
        let limit = nudge.map_or(other.limit, |less| usual.limit.saturating_sub(less));
        let changed = Quota { limit, burst, grace: other.grace, ..usual };
        [usual, changed, other].map(|quota| quota.compile().expect("a valid quota"))
    })
}

fn quota(reach: Reach) -> impl Strategy<Value = Quota> {
    // Grace comes on top.
    let largest = reach.largest_limit - 5;
    // Large enough for a debt beyond 64 bits and a count beyond 32: such states take another way.
    let limit = prop_oneof![
        8 => 1..=20_u64,
        2 => 1..=1_000_000_u64,
        2 => 1_u64 << 32..=largest.min(1 << 40),
        2 => largest / 2..=largest,
        1 => Just(0),
    ];
    let window = prop_oneof![
        1 => Just(MIN_WINDOW.get()),
        2 => MIN_WINDOW.get()..=20_000,
        4 => Just(1_000_000),
        2 => 1_000_000..=60_000_000_u64,
        1 => Just(MAX_WINDOW.get()),
    ];
    let burst = prop::option::of(1..=30_u64);
    let grace = prop_oneof![4 => Just(0), 1 => 1..=5_u64];
    let delay = prop_oneof![1 => Just(0), 1 => 0..=2_000_000_u64];
    let algorithm = select(Algorithm::ALL.to_vec());
    let calendar = prop_oneof![9 => Just(None), 1 => select(CALENDARS.clone()).prop_map(Some)];
    (algorithm, limit, window, burst, grace, delay, calendar).prop_map(
        |(algorithm, limit, window, burst, grace, delay, calendar)| {
            if let Some(calendar) = calendar {
                return Quota { grace, ..Quota::per_calendar_window(limit, calendar) };
            }
            let quota = Quota::new(algorithm, limit, Micros::new(window));
            let delay = if algorithm.is_bucket() { delay } else { 0 };
            let burst = burst.filter(|_| algorithm.is_bucket());
            Quota { burst, grace, max_delay: Micros::new(delay), ..quota }
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    let clock = prop_oneof![
        6 => gap().prop_map(Clock::Forward),
        1 => gap().prop_map(Clock::Back),
    ];
    let tied = (item(), prop::option::of(0..6_usize));
    let action = prop_oneof![
        8 => vec(item(), 1..=2).prop_map(Action::Settle),
        4 => vec(item(), 0..=6).prop_map(Action::Settle),
        2 => vec(item(), 0..=6).prop_map(Action::DryRun),
        2 => vec(vec(item(), 1), 1..=40).prop_map(Action::Batch),
        2 => vec(vec(item(), 0..=3), 0..=20).prop_map(Action::Batch),
        3 => vec(tied, 1..=3).prop_map(Action::Refund),
        1 => vec(0..COUNTERS, 1..=4).prop_map(Action::Reset),
    ];
    (clock, action).prop_map(|(clock, action)| Step { clock, action })
}

fn gap() -> impl Strategy<Value = Micros> {
    prop_oneof![
        4 => Just(0),
        2 => 0..=2_000_u64,
        3 => 0..=400_000_u64,
        1 => 0..=1_500_000_u64,
        1 => 0..=90_000_000_u64,
        1 => 0..=60 * HOUR,
        1 => 0..=2 * MAX_WINDOW.get(),
    ]
    .prop_map(Micros::new)
}

fn item() -> impl Strategy<Value = Item> {
    let variant = prop_oneof![6 => Just(0_usize), 3 => Just(1), 1 => Just(2)];
    let units = prop_oneof![
        8 => (1..=3_u64).prop_map(Units::Of),
        1 => Just(Units::Of(0)),
        2 => (0..=1_u64).prop_map(Units::Full),
        2 => (0..=3_u64).prop_map(Units::Brim),
        1 => Just(Units::Half),
        1 => any::<u64>().prop_map(Units::Of),
    ];
    let mode =
        prop_oneof![4 => Just(Mode::Enforce), 1 => Just(Mode::Shadow), 1 => Just(Mode::Debit)];
    // A few counters are met again and again, so that states have a history.
    let counter = prop_oneof![1 => 0..COUNTERS, 1 => 0..3_usize];
    (counter, variant, units, mode).prop_map(|(counter, variant, units, mode)| Item {
        counter,
        variant,
        units,
        mode,
    })
}
