//! The numbers of limits, as the script gets them.

use smallvec::SmallVec;
use tollgate_core::{Algorithm, Calendar, Limit, Micros, Timestamp};

use super::encode::{BEYOND, Numbers, number_of};

/// How many windows of the calendar before and after that of the caller's time are sent.
const NEIGHBOURS: usize = 2;
/// The largest number that a double can count to.
const MAX_NUMBER: u64 = (1 << 53) - 1;
/// What the kind of small entries adds to their algorithm.
const SMALL: u8 = 8;
/// The algorithms, as the script and records number them.
pub(super) const GCRA: u8 = 3;
pub(super) const FIXED_WINDOW: u8 = 4;
pub(super) const SLIDING_WINDOW: u8 = 5;
const SLIDING_LOG: u8 = 6;
const CALENDAR: u8 = 7;

/// The numbers of a limit.
#[derive(Debug)]
pub(super) struct ScriptLimit {
    pub(super) algorithm: u8,
    /// Whether few bytes are enough for its entries, whatever charges leave there. Redis rounds up what a record takes,
    /// and many have one entry.
    pub(super) is_small: bool,
    pub(super) limit: u64,
    pub(super) window: u64,
    /// What may be owed or used at most: whole units, and 1/window of a unit.
    pub(super) room: (u64, u64),
    /// What may be owed at most when a request arrives, if it would be delayed.
    pub(super) delayed: Option<(u64, u64)>,
}

impl ScriptLimit {
    pub(super) fn new(limit: &Limit) -> Self {
        let window = limit.window().get();
        let is_queue = limit.algorithm() == Algorithm::LeakyBucket;
        let delayed = delayed(limit);
        let (room, room_rest) = if is_queue { (0, 0) } else { delayed };
        let room = limit.ceiling().saturating_add(room);
        let algorithm = match limit.algorithm() {
            Algorithm::TokenBucket => 1,
            Algorithm::LeakyBucket => 2,
            Algorithm::Gcra => GCRA,
            Algorithm::FixedWindow if limit.calendar().is_some() => CALENDAR,
            Algorithm::FixedWindow => FIXED_WINDOW,
            Algorithm::SlidingWindowCounter => SLIDING_WINDOW,
            Algorithm::SlidingWindowLog => SLIDING_LOG,
        };
        let is_small = match algorithm {
            1..=GCRA => {
                let owed = (room + 1).checked_mul(window);
                limit.limit() <= u16::MAX.into() && owed.is_some_and(|owed| owed <= MAX_NUMBER)
            }
            FIXED_WINDOW | SLIDING_WINDOW => room <= u32::MAX.into(),
            _ => false,
        };
        Self {
            algorithm,
            is_small: is_small && window.is_multiple_of(1_000_000) && window / 1_000_000 < 1 << 24,
            limit: limit.limit(),
            window,
            room: (room, room_rest),
            delayed: (is_queue && limit.max_delay().get() > 0).then_some(delayed),
        }
    }

    /// The kind of its entries.
    pub(super) const fn kind(&self) -> u8 {
        if self.is_small { self.algorithm + SMALL } else { self.algorithm }
    }
}

/// What is owed when a request waits as long as it may.
fn delayed(limit: &Limit) -> (u64, u64) {
    let window = u128::from(limit.window().get());
    let units = u128::from(limit.max_delay().get()) * u128::from(limit.limit());
    let whole = u64::try_from(units / window).unwrap_or(BEYOND).min(BEYOND);
    (whole, u64::try_from(units % window).unwrap_or(0))
}

/// Limits that a call refers to, each written once.
#[derive(Debug)]
pub(super) struct ScriptLimits {
    /// The time by the caller's clock, around which windows of the calendar are sent.
    asked_at: Timestamp,
    pub(super) known: SmallVec<[Limit; 4]>,
    pub(super) numbers: Numbers,
}

impl ScriptLimits {
    pub(super) fn new(asked_at: Timestamp) -> Self {
        Self { asked_at, known: SmallVec::new(), numbers: Numbers::default() }
    }

    /// The number of a limit.
    pub(super) fn number(&mut self, limit: &Limit) -> u16 {
        let place = self.known.iter().position(|known| known == limit).unwrap_or_else(|| {
            self.known.push(*limit);
            self.write(limit);
            self.known.len() - 1
        });
        number_of(place)
    }

    fn write(&mut self, limit: &Limit) {
        let of = ScriptLimit::new(limit);
        let (whole, rest) = delayed(limit);
        let numbers = &mut self.numbers;
        numbers.push(of.kind().into(), 1);
        numbers.push(of.limit, 6);
        numbers.push(of.window, 6);
        numbers.push(of.room.0, 7);
        numbers.push(of.room.1, 6);
        numbers.push(of.delayed.is_some().into(), 1);
        numbers.push(whole, 7);
        numbers.push(rest, 6);
        numbers.push(limit.skew_tolerance().get().min(BEYOND), 7);
        numbers.push(limit.capacity().saturating_mul(2), 7);
        if let Some(calendar) = limit.calendar() {
            let starts = starts_around(calendar, self.asked_at);
            numbers.push(calendar.id(), 7);
            numbers.push(starts.len() as u64, 1);
            starts.iter().for_each(|start| numbers.push(start.as_micros(), 7));
        }
    }
}

/// Where windows begin: the one of `at`, [`NEIGHBOURS`] before it and as many after it, and the end of the last. The
/// server chooses the one of its own time, so that nodes whose clocks differ do not split a window.
fn starts_around(calendar: &Calendar, at: Timestamp) -> SmallVec<[Timestamp; 2 * NEIGHBOURS + 2]> {
    let (mut start, _) = calendar.window_at(at);
    for _ in 0..NEIGHBOURS {
        (start, _) = calendar.window_at(start.minus(Micros::new(1)));
    }
    let mut starts = SmallVec::new();
    for _ in 0..2 * NEIGHBOURS + 2 {
        starts.push(start);
        (_, start) = calendar.window_at(start);
    }
    starts
}
