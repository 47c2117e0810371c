//! Stores every admission for one window: the exact result that the other algorithms approximate.
//!
//! Admissions within one millisecond are merged under the latest of their times, which bounds the log by the
//! milliseconds of a window and never frees a unit early.

use std::collections::VecDeque;

use crate::{Limit, Micros, Report, State, Timestamp};

/// The state of a log: times and amounts of admissions, oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogState {
    pub(crate) window: Micros,
    pub(crate) entries: VecDeque<(Timestamp, u64)>,
    /// The sum over `entries`.
    pub(crate) total: u64,
}

impl LogState {
    /// The heap this log takes, in bytes.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<(Timestamp, u64)>()
    }
}

/// The figures of a log, for stores that cannot read its entries here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogDigest {
    /// Units in use.
    pub used: u64,
    /// The entry that has to expire before one unit more is free; `None`: nothing is in use.
    pub next: Option<Timestamp>,
    /// The entry that has to expire before the request fits.
    pub retry: Option<Timestamp>,
    /// The newest entry.
    pub newest: Option<Timestamp>,
}

impl Limit {
    /// The report of a log of which only the digest is available.
    #[must_use]
    pub fn report_log(
        &self,
        digest: &LogDigest,
        now: Timestamp,
        cost: u64,
        admitted: bool,
    ) -> Report {
        let wait = |entry: Option<Timestamp>| {
            entry.map_or(Micros::ZERO, |entry| leaves_after(entry, self.window, now))
        };
        let retry_after = if admitted {
            Some(Micros::ZERO)
        } else {
            self.ceiling.checked_sub(cost).map(|_| wait(digest.retry))
        };
        Report {
            remaining: self.capacity.saturating_sub(digest.used),
            retry_after,
            reset_after: wait(digest.newest),
            next_after: (digest.used > 0).then(|| wait(digest.next)),
            delay: None,
        }
    }
}

/// The part of a log that counts at a given time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Live {
    /// Entries before this index have expired.
    first: usize,
    used: u64,
    window: Micros,
    now: Timestamp,
}

/// The time that a log is read at: its newest entry if the clock is behind that.
fn effective(log: &LogState, now: Timestamp) -> Timestamp {
    log.entries.back().map_or(now, |newest| newest.0.max(now))
}

/// How far a log is ahead of the clock.
pub(crate) fn ahead(log: &LogState, now: Timestamp) -> Micros {
    effective(log, now).since(now)
}

/// Moves entries that are in the future to `now`.
pub(crate) fn move_back(log: &mut LogState, now: Timestamp) {
    let future = log.entries.partition_point(|entry| entry.0 <= now);
    let units = log.entries.drain(future..).fold(0_u64, |sum, entry| sum.saturating_add(entry.1));
    log.entries.push_back((now, units));
}

/// The log, if the state is one with this window.
fn matching(window: Micros, state: Option<&State>) -> Option<&LogState> {
    match state {
        Some(State::Log(log)) if log.window == window => Some(log),
        _ => None,
    }
}

pub(crate) fn advance(limit: &Limit, state: Option<&State>, now: Timestamp) -> Live {
    let window = limit.window;
    let Some(log) = matching(window, state) else {
        return Live { first: 0, used: 0, window, now };
    };
    let at = effective(log, now);
    let mut used = log.total;
    let mut first = 0;
    for (time, cost) in &log.entries {
        if at.since(*time) < window {
            break;
        }
        used = used.saturating_sub(*cost);
        first += 1;
    }
    Live { first, used, window, now }
}

/// Records `cost` more, up to `most` in all; earlier admissions stay.
pub(crate) fn add(
    limit: &Limit,
    live: Live,
    state: &mut Option<State>,
    cost: u64,
    most: u64,
) -> Live {
    let mut log = match state.take() {
        Some(State::Log(log)) if log.window == limit.window => log,
        _ => Box::new(LogState { window: limit.window, entries: VecDeque::new(), total: 0 }),
    };
    let at = effective(&log, live.now);
    log.entries.drain(..live.first);
    let cost = cost.min(most.saturating_sub(live.used));
    log.total = live.used.saturating_add(cost);
    if cost > 0 {
        match log.entries.back_mut() {
            Some(newest) if newest.0.as_micros() / 1_000 == at.as_micros() / 1_000 => {
                *newest = (at, newest.1.saturating_add(cost));
            }
            _ => log.entries.push_back((at, cost)),
        }
    }
    let used = log.total;
    *state = Some(State::Log(log));
    Live { first: 0, used, ..live }
}

pub(crate) fn refund(
    live: Live,
    state: &mut Option<State>,
    units: u64,
    charged_at: Option<Timestamp>,
) {
    let Some(State::Log(log)) = state else { return };
    if log.window != live.window {
        return;
    }
    log.entries.drain(..live.first);
    log.total = live.used;
    let mut left = units;
    for (time, cost) in log.entries.iter_mut().rev() {
        let charged_here =
            charged_at.is_none_or(|at| at.as_micros() / 1_000 == time.as_micros() / 1_000);
        if charged_here {
            let given = left.min(*cost);
            *cost -= given;
            log.total = log.total.saturating_sub(given);
            left -= given;
        }
        if left == 0 {
            break;
        }
    }
    log.entries.retain(|entry| entry.1 > 0);
}

impl Live {
    pub(crate) const fn used(&self) -> u64 {
        self.used
    }

    pub(crate) fn fits(&self, limit: &Limit, cost: u64) -> bool {
        self.used.checked_add(cost).is_some_and(|sum| sum <= limit.ceiling)
    }

    /// How long until at most `target` units are in use; `state` is the one that `self` was read from.
    pub(crate) fn wait_for(&self, state: Option<&State>, target: u64) -> Micros {
        let mut used = self.used;
        let entries = matching(self.window, state)
            .into_iter()
            .flat_map(|log| log.entries.iter().skip(self.first));
        for (time, cost) in entries {
            if used <= target {
                break;
            }
            used = used.saturating_sub(*cost);
            if used <= target {
                return leaves_after(*time, self.window, self.now);
            }
        }
        Micros::ZERO
    }
}

/// How long until an entry expires.
fn leaves_after(entry: Timestamp, window: Micros, now: Timestamp) -> Micros {
    let left = window.get().saturating_sub(now.since(entry).get());
    Micros::new(left).plus(entry.since(now))
}
