//! The text form of a state: what a shared store keeps, and what two stores must agree on.
//!
//! ```text
//! t:<limit>:<window us>:<whole units owed>:<fraction, in 1/window>:<at us>    also l: and g:
//! f:<window us>:<at us>:<count>
//! f:<window us>:<at us>:<count>:<calendar>    of the calendar, with the nominal length
//! c:<window us>:<at us>:<count>:<previous count>
//! s:<window us>:<at us>=<count>,<at us>=<count>,...
//! ```
//! Whole units and fraction stand apart so that a script whose numbers are doubles can compute
//! with them: a fraction is below the window, which is below 2^45.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use crate::kernel::rate::Rate;
use crate::{Algorithm, BucketState, LogState, Micros, State, Timestamp, WindowState};

/// The text is not a valid state. Stores treat the counter as absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MalformedState;

impl fmt::Display for MalformedState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not the text of a counter's state")
    }
}

impl std::error::Error for MalformedState {}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bucket(state) => {
                let BucketState { algorithm, limit, window, debt, at } = *state;
                let rate = Rate::new(limit, window);
                let unit = u128::from(rate.unit);
                // The fraction in parts of the window, which needs no greatest common divisor.
                let fraction = (debt % unit) * (u128::from(window.get()) / unit);
                let whole = debt / unit;
                let (tag, window, at) = (tag(algorithm), window.get(), at.as_micros());
                write!(f, "{tag}:{limit}:{window}:{whole}:{fraction}:{at}")
            }
            Self::Window(state) => {
                let WindowState { algorithm, window, calendar, at, current, previous } = *state;
                write!(f, "{}:{}:{}:{current}", tag(algorithm), window.get(), at.as_micros())?;
                if algorithm == Algorithm::SlidingWindowCounter {
                    write!(f, ":{previous}")?;
                } else if calendar > 0 {
                    write!(f, ":{calendar}")?;
                }
                Ok(())
            }
            Self::Log(log) => {
                write!(f, "{}:{}:", tag(Algorithm::SlidingWindowLog), log.window.get())?;
                for (i, (at, cost)) in log.entries.iter().enumerate() {
                    if i > 0 {
                        f.write_char(',')?;
                    }
                    write!(f, "{}={cost}", at.as_micros())?;
                }
                Ok(())
            }
        }
    }
}

impl FromStr for State {
    type Err = MalformedState;

    fn from_str(text: &str) -> Result<Self, MalformedState> {
        let mut fields = text.split(':');
        let algorithm = fields.next().and_then(algorithm).ok_or(MalformedState)?;
        let state = match algorithm {
            Algorithm::TokenBucket | Algorithm::LeakyBucket | Algorithm::Gcra => {
                let limit = number(fields.next())?;
                let window = Micros::new(number(fields.next())?);
                let whole: u64 = number(fields.next())?;
                let fraction: u64 = number(fields.next())?;
                let at = Timestamp::from_micros(number(fields.next())?);
                Self::from_bucket_parts(algorithm, limit, window, whole, fraction, at)?
            }
            Algorithm::FixedWindow | Algorithm::SlidingWindowCounter => {
                let window = Micros::new(number(fields.next())?);
                let at = Timestamp::from_micros(number(fields.next())?);
                let current = number(fields.next())?;
                let (previous, calendar) = if algorithm == Algorithm::SlidingWindowCounter {
                    (number(fields.next())?, 0)
                } else {
                    (0, fields.next().map(calendar).transpose()?.unwrap_or(0))
                };
                Self::from_window_parts(algorithm, window, calendar, at, current, previous)?
            }
            Algorithm::SlidingWindowLog => {
                let window = known_window(Micros::new(number(fields.next())?))?;
                let mut log = LogState { window, entries: [].into(), total: 0 };
                for entry in fields.next().ok_or(MalformedState)?.split_terminator(',') {
                    let (at, cost) = entry.split_once('=').ok_or(MalformedState)?;
                    let at = Timestamp::from_micros(number(Some(at))?);
                    if log.entries.back().is_some_and(|newest| newest.0 > at) {
                        return Err(MalformedState);
                    }
                    let cost = number(Some(cost))?;
                    log.total = log.total.checked_add(cost).ok_or(MalformedState)?;
                    log.entries.push_back((at, cost));
                }
                Self::Log(Box::new(log))
            }
        };
        if fields.next().is_some() { Err(MalformedState) } else { Ok(state) }
    }
}

const fn tag(algorithm: Algorithm) -> char {
    match algorithm {
        Algorithm::FixedWindow => 'f',
        Algorithm::SlidingWindowLog => 's',
        Algorithm::SlidingWindowCounter => 'c',
        Algorithm::TokenBucket => 't',
        Algorithm::LeakyBucket => 'l',
        Algorithm::Gcra => 'g',
    }
}

fn algorithm(field: &str) -> Option<Algorithm> {
    let mut letters = field.chars();
    let letter = letters.next()?;
    letters
        .next()
        .is_none()
        .then(|| Algorithm::ALL.into_iter().find(|algorithm| tag(*algorithm) == letter))?
}

fn number(field: Option<&str>) -> Result<u64, MalformedState> {
    let digits = field.ok_or(MalformedState)?;
    // `parse` would take a leading plus sign.
    if digits.starts_with('+') {
        return Err(MalformedState);
    }
    digits.parse().map_err(|_| MalformedState)
}

/// The id of a calendar, which is never zero.
fn calendar(field: &str) -> Result<u64, MalformedState> {
    number(Some(field)).and_then(|id| if id > 0 { Ok(id) } else { Err(MalformedState) })
}

fn known_window(window: Micros) -> Result<Micros, MalformedState> {
    let is_known = crate::MIN_WINDOW <= window && window <= crate::MAX_WINDOW;
    if is_known { Ok(window) } else { Err(MalformedState) }
}

impl State {
    /// A bucket, from the numbers of its text: `fraction` is in 1/window of a unit.
    ///
    /// # Errors
    /// The numbers are not those of a state.
    pub fn from_bucket_parts(
        algorithm: Algorithm,
        limit: u64,
        window: Micros,
        whole: u64,
        fraction: u64,
        at: Timestamp,
    ) -> Result<Self, MalformedState> {
        let window = known_window(window)?;
        let rate = Rate::new(limit, window);
        let fraction = fraction.div_ceil(window.get() / rate.unit);
        let debt = rate.parts(whole) + u128::from(fraction);
        Ok(Self::Bucket(BucketState { algorithm, limit, window, debt, at }))
    }

    /// A window, from the numbers of its text. `calendar` is 0 unless it is one of the calendar.
    ///
    /// # Errors
    /// The numbers are not those of a state.
    pub fn from_window_parts(
        algorithm: Algorithm,
        window: Micros,
        calendar: u64,
        at: Timestamp,
        current: u64,
        previous: u64,
    ) -> Result<Self, MalformedState> {
        let window = known_window(window)?;
        Ok(Self::Window(WindowState { algorithm, window, calendar, at, current, previous }))
    }
}
