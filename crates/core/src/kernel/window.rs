//! Counts per slice of time, aligned to the Unix epoch: the fixed window, and the sliding counter
//! that adds the part of the previous window that is still in view, weighted exactly.

use crate::limit::Level;
use crate::{Algorithm, Limit, Micros, State, Timestamp};

/// What a window counter remembers: when it last admitted, and the counts of that window and the
/// one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowState {
    pub(crate) algorithm: Algorithm,
    pub(crate) window: Micros,
    pub(crate) at: Timestamp,
    pub(crate) current: u64,
    /// Always zero for the fixed window.
    pub(crate) previous: u64,
}

impl WindowState {
    /// A state as a store kept it.
    #[must_use]
    pub const fn new(limit: &Limit, at: Timestamp, current: u64, previous: u64) -> Self {
        Self { algorithm: limit.algorithm, window: limit.window, at, current, previous }
    }

    /// The moment of the last admission, and the counts of its window and the one before.
    #[must_use]
    pub const fn parts(&self) -> (Timestamp, u64, u64) {
        (self.at, self.current, self.previous)
    }
}

/// Counts brought forward to a moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counts {
    current: u64,
    previous: u64,
    window: u64,
    /// How much of the current window has passed.
    elapsed: u64,
    at: Timestamp,
    /// How far the clock is behind `at`.
    behind: Micros,
    sliding: bool,
}

pub(crate) fn advance(limit: &Limit, state: Option<&State>, now: Timestamp) -> Counts {
    let window = limit.window.get().max(1);
    let sliding = limit.algorithm == Algorithm::SlidingWindowCounter;
    let counts = |at: Timestamp, current, previous| Counts {
        current,
        previous,
        window,
        elapsed: at.as_micros() % window,
        at,
        behind: at.since(now),
        sliding,
    };
    let Some(State::Window(state)) = state else { return counts(now, 0, 0) };
    if state.algorithm != limit.algorithm || state.window != limit.window {
        return counts(now, 0, 0);
    }
    if state.at >= now {
        return counts(state.at, state.current, state.previous);
    }
    match now.as_micros() / window - state.at.as_micros() / window {
        0 => counts(now, state.current, state.previous),
        1 if sliding => counts(now, 0, state.current),
        _ => counts(now, 0, 0),
    }
}

/// Brings back a state that is more than two windows ahead of the clock: its counts move to the
/// window the clock is in.
pub(crate) fn heal(state: &mut WindowState, now: Timestamp) -> bool {
    let lost = state.at.since(now).get() > state.window.get().saturating_mul(2);
    if lost {
        state.at = now;
    }
    lost
}

impl Counts {
    pub(crate) const fn is_zero(&self) -> bool {
        self.current == 0 && self.previous == 0
    }

    /// The weighted previous window, in units times the window. At most 2^64 * 2^45.
    fn in_view(&self) -> u128 {
        u128::from(self.previous) * u128::from(self.window - self.elapsed)
    }

    fn scaled(&self, units: u128) -> u128 {
        units.saturating_mul(u128::from(self.window))
    }

    pub(crate) fn fits(&self, cost: u64, ceiling: u64) -> bool {
        let wanted = u128::from(self.current) + u128::from(cost);
        self.in_view() + self.scaled(wanted) <= self.scaled(u128::from(ceiling))
    }

    /// Counts `cost` more, up to `most` in the current window; what is counted stays counted.
    pub(crate) fn add(&self, limit: &Limit, cost: u64, most: u64) -> WindowState {
        let current = self.current.saturating_add(cost).min(most).max(self.current);
        WindowState::new(limit, self.at, current, self.previous)
    }

    pub(crate) fn refund(
        &self,
        limit: &Limit,
        units: u64,
        charged_at: Option<Timestamp>,
    ) -> WindowState {
        let mut state = WindowState::new(limit, self.at, self.current, self.previous);
        let index = self.at.as_micros() / self.window;
        let charged = charged_at.map_or(index, |at| at.as_micros() / self.window);
        if charged == index {
            state.current = state.current.saturating_sub(units);
        } else if index.checked_sub(1) == Some(charged) {
            state.previous = state.previous.saturating_sub(units);
        }
        state
    }
}

impl Level for Counts {
    fn used(&self) -> u64 {
        // The weighted previous window never exceeds its count, so this fits.
        let in_view = self.in_view().div_ceil(u128::from(self.window));
        self.current.saturating_add(u64::try_from(in_view).unwrap_or(u64::MAX))
    }

    fn wait_for(&self, target: u64) -> Micros {
        let level = self.in_view() + self.scaled(u128::from(self.current));
        if level <= self.scaled(u128::from(target)) {
            return Micros::ZERO;
        }
        let left = self.window - self.elapsed;
        let wait = if !self.sliding {
            left
        } else if self.current <= target {
            // The previous window fades until what is in view fits beside the current count.
            let faded = self.fades_to(target - self.current, self.previous);
            faded.saturating_sub(self.elapsed)
        } else {
            left.saturating_add(self.fades_to(target, self.current))
        };
        Micros::new(wait).plus(self.behind)
    }
}

impl Counts {
    /// How far into a window the one before it, holding `count`, weighs `target` at most.
    fn fades_to(&self, target: u64, count: u64) -> u64 {
        let in_view = self.scaled(u128::from(target)) / u128::from(count.max(1));
        self.window.saturating_sub(u64::try_from(in_view).unwrap_or(u64::MAX))
    }
}
