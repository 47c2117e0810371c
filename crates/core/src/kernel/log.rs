//! Every admission remembered for one window: the exact answer the other algorithms approximate.
//!
//! Admissions of one millisecond are merged under the latest of their times, which bounds the log by
//! the milliseconds of a window and never frees a unit early.

use std::collections::VecDeque;

use crate::limit::Level;
use crate::{Limit, Micros, State, Timestamp};

/// What a log remembers: when how much was admitted, oldest first.
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

/// The part of a log that still counts at a moment.
pub(crate) struct Live<'a> {
    log: Option<&'a LogState>,
    /// Entries before this one are gone.
    first: usize,
    used: u64,
    now: Timestamp,
}

/// The moment a log stands at: its newest entry if the clock is behind that.
fn effective(log: &LogState, now: Timestamp) -> Timestamp {
    log.entries.back().map_or(now, |newest| newest.0.max(now))
}

/// Brings back a log that is more than two windows ahead of the clock: its entries of the
/// disbelieved future count from now on.
pub(crate) fn heal(log: &mut LogState, now: Timestamp) -> bool {
    let ahead = effective(log, now).since(now);
    let lost = ahead.get() > log.window.get().saturating_mul(2);
    if lost {
        let future = log.entries.partition_point(|entry| entry.0 <= now);
        let units =
            log.entries.drain(future..).fold(0_u64, |sum, entry| sum.saturating_add(entry.1));
        log.entries.push_back((now, units));
    }
    lost
}

pub(crate) fn level<'a>(limit: &Limit, state: Option<&'a State>, now: Timestamp) -> Live<'a> {
    let log = match state {
        Some(State::Log(log)) if log.window == limit.window => log,
        _ => return Live { log: None, first: 0, used: 0, now },
    };
    let at = effective(log, now);
    let mut used = log.total;
    let mut first = 0;
    for (time, cost) in &log.entries {
        if at.since(*time) < log.window {
            break;
        }
        used = used.saturating_sub(*cost);
        first += 1;
    }
    Live { log: Some(log), first, used, now }
}

pub(crate) fn fits(limit: &Limit, state: Option<&State>, now: Timestamp, cost: u64) -> bool {
    level(limit, state, now).used.checked_add(cost).is_some_and(|sum| sum <= limit.ceiling)
}

/// Records `cost` more, up to `most` in all; what is recorded stays recorded.
pub(crate) fn add(limit: &Limit, state: &mut Option<State>, now: Timestamp, cost: u64, most: u64) {
    let Live { first, used, .. } = level(limit, state.as_ref(), now);
    let cost = cost.min(most.saturating_sub(used));
    let mut log = match state.take() {
        Some(State::Log(log)) if log.window == limit.window => log,
        _ => Box::new(LogState { window: limit.window, entries: VecDeque::new(), total: 0 }),
    };
    log.entries.drain(..first);
    log.total = used;
    let at = effective(&log, now);
    if cost > 0 {
        log.total = log.total.saturating_add(cost);
        match log.entries.back_mut() {
            Some(newest) if newest.0.as_micros() / 1_000 == at.as_micros() / 1_000 => {
                *newest = (at, newest.1.saturating_add(cost));
            }
            _ => log.entries.push_back((at, cost)),
        }
    }
    *state = Some(State::Log(log));
}

pub(crate) fn refund(
    limit: &Limit,
    state: &mut Option<State>,
    now: Timestamp,
    units: u64,
    charged_at: Option<Timestamp>,
) {
    let Live { first, used, .. } = level(limit, state.as_ref(), now);
    let Some(State::Log(log)) = state else { return };
    if log.window != limit.window {
        return;
    }
    log.entries.drain(..first);
    log.total = used;
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

impl Level for Live<'_> {
    fn used(&self) -> u64 {
        self.used
    }

    fn wait_for(&self, target: u64) -> Micros {
        let mut used = self.used;
        let entries = self.log.iter().flat_map(|log| log.entries.iter().skip(self.first));
        for (time, cost) in entries {
            if used <= target {
                break;
            }
            used = used.saturating_sub(*cost);
            if used <= target {
                let window = self.log.map_or(Micros::ZERO, |log| log.window);
                return time.plus(window).since(self.now);
            }
        }
        Micros::ZERO
    }
}
