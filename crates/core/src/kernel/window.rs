//! Counts per slice of time, aligned to the Unix epoch: the fixed window (also of the calendar), and the sliding
//! counter that adds the part of the previous window that is still in view, weighted exactly.

use super::Balance;
use crate::{Algorithm, Calendar, Limit, Micros, PackedState, Report, State, Timestamp};

/// The state of a window counter: when it last admitted, and the counts of that window and the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowState {
    pub(crate) algorithm: Algorithm,
    pub(crate) window: Micros,
    /// The id of the calendar whose window it counts; 0: equal windows since the Unix epoch.
    pub(crate) calendar: u64,
    pub(crate) at: Timestamp,
    pub(crate) current: u64,
    /// Always zero for the fixed window.
    pub(crate) previous: u64,
}

/// Counts advanced to a point in time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowCounts {
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

#[inline]
pub(crate) fn advance(limit: &Limit, state: Option<&State>, now: Timestamp) -> WindowCounts {
    match state {
        Some(State::Window(state))
            if state.algorithm == limit.algorithm
                && state.window == limit.window
                && state.calendar == limit.calendar.map_or(0, Calendar::id) =>
        {
            WindowCounts::new(limit, state.at, state.current, state.previous, now)
        }
        _ => WindowCounts::new(limit, now, 0, 0, now),
    }
}

impl WindowCounts {
    /// Counts of the window of `at` and the one before, advanced to `now`.
    #[inline]
    pub(crate) fn new(
        limit: &Limit,
        at: Timestamp,
        current: u64,
        previous: u64,
        now: Timestamp,
    ) -> Self {
        if let Some(calendar) = limit.calendar {
            return Self::of_calendar(calendar, at, current, now);
        }
        let window = limit.window.get().max(1);
        let sliding = limit.algorithm == Algorithm::SlidingWindowCounter;
        let elapsed = at.as_micros() % window;
        let behind = at.since(now);
        // How long after the start of the counted window it is now; one division, not two.
        let passed = now.since(at).get().saturating_add(elapsed);
        let (current, previous, elapsed) = if passed < window {
            (current, previous, passed)
        } else if passed - window < window {
            (0, if sliding { current } else { 0 }, passed - window)
        } else {
            (0, 0, now.as_micros() % window)
        };
        Self { current, previous, window, elapsed, at: at.max(now), behind, sliding }
    }

    /// The count of the calendar's window of `at`, advanced to `now`. Out of line, since few limits are like this.
    #[cold]
    #[inline(never)]
    fn of_calendar(calendar: &Calendar, at: Timestamp, current: u64, now: Timestamp) -> Self {
        let behind = at.since(now);
        let later = at.max(now);
        let (start, end) = calendar.window_at(later);
        // The window of the count is the current one, unless that began after the count was taken.
        let current = if at < start { 0 } else { current };
        let (window, elapsed) = (end.since(start).get().max(1), later.since(start).get());
        Self { current, previous: 0, window, elapsed, at: later, behind, sliding: false }
    }

    #[inline]
    pub(crate) const fn is_zero(&self) -> bool {
        self.current == 0 && self.previous == 0
    }

    /// The weighted previous window, in units times the window. At most 2^64 * 2^45.
    #[inline]
    fn in_view(&self) -> u128 {
        u128::from(self.previous) * u128::from(self.window - self.elapsed)
    }

    #[inline]
    fn scaled(&self, units: u128) -> u128 {
        units.saturating_mul(u128::from(self.window))
    }

    /// Whether `wanted` units of the current window and what is in view of the previous one are at most `most`.
    #[inline]
    fn is_within(&self, wanted: u128, most: u64) -> bool {
        // Without a previous window, the products of 128 bits are not needed.
        if self.previous == 0 {
            return wanted <= u128::from(most);
        }
        self.in_view() + self.scaled(wanted) <= self.scaled(u128::from(most))
    }

    pub(crate) fn refund(&self, limit: &Limit, units: u64, charged_at: Option<Timestamp>) -> Self {
        if limit.calendar.is_some() {
            let start = self.at.minus(Micros::new(self.elapsed));
            let is_current = |at: Timestamp| start <= at && at.since(start).get() < self.window;
            let units = if charged_at.is_none_or(is_current) { units } else { 0 };
            return Self { current: self.current.saturating_sub(units), ..*self };
        }
        let index = self.at.as_micros() / self.window;
        let charged = charged_at.map_or(index, |at| at.as_micros() / self.window);
        let (mut current, mut previous) = (self.current, self.previous);
        if charged == index {
            current = current.saturating_sub(units);
        } else if index.checked_sub(1) == Some(charged) {
            previous = previous.saturating_sub(units);
        }
        Self { current, previous, ..*self }
    }

    /// The state to store.
    #[inline]
    pub(crate) fn state(&self, limit: &Limit) -> WindowState {
        let Limit { algorithm, window, .. } = *limit;
        let calendar = limit.calendar.map_or(0, Calendar::id);
        let Self { at, current, previous, .. } = *self;
        WindowState { algorithm, window, calendar, at, current, previous }
    }

    /// Units in use, rounded up.
    #[inline]
    fn used(&self) -> u64 {
        if self.previous == 0 {
            return self.current;
        }
        // The weighted previous window never exceeds its count, so this fits.
        let in_view = div(self.in_view() + u128::from(self.window - 1), self.window);
        self.current.saturating_add(in_view)
    }

    /// How long until at most `target` units are in use.
    #[inline]
    fn wait_for(&self, target: u64) -> Micros {
        if self.is_within(u128::from(self.current), target) {
            return Micros::ZERO;
        }
        let left = self.window - self.elapsed;
        let wait = if !self.sliding {
            left
        } else if self.current <= target {
            // The previous window fades until what is in view fits beside the current count.
            let faded = fades_to(target - self.current, self.previous, self.window);
            faded.saturating_sub(self.elapsed)
        } else {
            left.saturating_add(fades_to(target, self.current, self.window))
        };
        Micros::new(wait).plus(self.behind)
    }
}

/// How far into a window the one before it, holding `count`, weighs `target` at most.
#[inline]
pub(crate) fn fades_to(target: u64, count: u64, window: u64) -> u64 {
    if target == 0 {
        return window;
    }
    let scaled = u128::from(target).saturating_mul(u128::from(window));
    window.saturating_sub(div(scaled, count.max(1)))
}

impl Balance for WindowCounts {
    #[inline]
    fn fits(&self, limit: &Limit, cost: u64) -> bool {
        self.is_within(u128::from(self.current) + u128::from(cost), limit.ceiling)
    }

    #[inline]
    fn add(&self, _: &Limit, cost: u64, most: u64) -> Self {
        let current = self.current.saturating_add(cost).min(most).max(self.current);
        Self { current, ..*self }
    }

    #[inline]
    fn report(&self, limit: &Limit, cost: u64, admitted: bool) -> Report {
        limit.whole_units(self.used(), cost, admitted, |target| self.wait_for(target))
    }

    #[inline]
    fn pack(&self) -> Option<PackedState> {
        let value = if self.sliding {
            PackedState::join(self.current, self.previous)?
        } else {
            self.current
        };
        Some(PackedState { at: self.at, value })
    }
}

/// Divides 64 bits whenever that is enough: the 128-bit division is much slower.
#[inline]
fn div(parts: u128, by: u64) -> u64 {
    match u64::try_from(parts) {
        Ok(parts) => parts / by,
        Err(_) => u64::try_from(parts / u128::from(by)).unwrap_or(u64::MAX),
    }
}
