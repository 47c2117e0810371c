//! How often the algorithms that count per window misjudge what a client sends: whether it is above
//! its limit when every request counts, also the refused ones.
//!
//! This is about counting alone. [Accuracy](super::accuracy) is about admitting: there two limiters
//! can hold a client to the same limit and still refuse different requests of it.

use tollgate_core::{Algorithm, Limit, MAX_LIMIT, Micros, Quota, State, Timestamp};

use super::accuracy::{REFUSED, WINDOWS, percentage};
use super::trace::{Arrival, Trace};
use crate::Fallible;
use crate::row::{Bar, Row};
use crate::scale::Scale;

/// Of a thousand requests, how many exceed the limit at which the sliding counter is held to a bar.
const JUDGED: u32 = 10;
const BAR: Bar = Bar::Below(0.5);

pub(crate) fn against_log(scale: &Scale) -> Fallible<Vec<Row>> {
    let trace = Trace::with_requests(scale.of(10_000_000));
    let mut rows = Vec::new();
    for window in WINDOWS {
        let counts = Counts::of(&trace, window);
        let limits = REFUSED.map(|refused| counts.limit_exceeded_by(refused));
        for algorithm in [Algorithm::SlidingWindowCounter, Algorithm::FixedWindow] {
            let unlimited =
                Quota::new(algorithm, MAX_LIMIT, Micros::from_secs(window)).compile()?;
            let wrong = misjudged(&unlimited, &limits, &counts, &trace);
            for ((refused, limit), wrong) in REFUSED.iter().zip(limits).zip(wrong) {
                let share = |count: u64| 100.0 * count as f64 / trace.len() as f64;
                let name = format!("estimate/{algorithm}/{window}s/{}", percentage(*refused));
                let row = Row::figure(name, share(wrong), "%").with("limit", limit as f64);
                let row = row.with("above_percent", share(counts.above(limit)));
                let is_judged = algorithm == Algorithm::SlidingWindowCounter && *refused == JUDGED;
                rows.push(if is_judged { row.held_to(BAR) } else { row });
            }
        }
    }
    Ok(rows)
}

/// How many requests of the same client the window before each request holds.
struct Counts(Vec<u64>);

impl Counts {
    fn of(trace: &Trace, window: u64) -> Self {
        let mut counts = Vec::with_capacity(trace.len());
        for requests in trace.by_client() {
            let mut first = 0;
            for (at, request) in requests.iter().enumerate() {
                while u64::from(request.millis - requests[first].millis) >= window * 1_000 {
                    first += 1;
                }
                counts.push((at - first) as u64);
            }
        }
        Self(counts)
    }

    /// How many requests come on top of at least `limit` others.
    fn above(&self, limit: u64) -> u64 {
        self.0.iter().filter(|count| **count >= limit).count() as u64
    }

    /// The limit that so many of a thousand requests exceed.
    fn limit_exceeded_by(&self, thousandths: u32) -> u64 {
        let mut sorted = self.0.clone();
        let place = sorted.len() * (1_000 - thousandths as usize) / 1_000;
        let place = place.min(sorted.len().saturating_sub(1));
        (*sorted.select_nth_unstable(place).1).max(1)
    }
}

/// For each limit, how many requests the algorithm puts on the wrong side of it.
fn misjudged<const LIMITS: usize>(
    unlimited: &Limit,
    limits: &[u64; LIMITS],
    counts: &Counts,
    trace: &Trace,
) -> [u64; LIMITS] {
    let mut wrong = [0; LIMITS];
    let mut exact = counts.0.iter();
    for requests in trace.by_client() {
        let mut state: Option<State> = None;
        for (Arrival { millis, .. }, count) in requests.iter().zip(&mut exact) {
            let now = Timestamp::from_millis(u64::from(*millis));
            for (wrong, limit) in wrong.iter_mut().zip(limits) {
                // Nothing is refused, so the question is put as a cost that would just fit.
                let cost = MAX_LIMIT - limit + 1;
                let is_below = unlimited.fits(state.as_ref(), now, cost);
                *wrong += u64::from(is_below != (count < limit));
            }
            unlimited.charge(&mut state, now, 1);
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_misjudges_nothing_and_the_fixed_window_does() {
        let trace = Trace::with_requests(20_000);
        let counts = Counts::of(&trace, 3600);
        let limits = [1, 2, 20, 100].map(|thousandths| counts.limit_exceeded_by(thousandths));
        let check = |algorithm, expected: fn(u64) -> bool| {
            let quota = Quota::new(algorithm, MAX_LIMIT, Micros::from_secs(3600));
            let unlimited = quota.compile().expect("a valid quota");
            let wrong = misjudged(&unlimited, &limits, &counts, &trace);
            assert!(wrong.into_iter().all(expected), "{algorithm} {wrong:?}");
        };
        check(Algorithm::SlidingWindowLog, |wrong| wrong == 0);
        check(Algorithm::FixedWindow, |wrong| wrong > 0);
    }

    #[test]
    fn a_limit_is_exceeded_by_as_many_as_asked() {
        let trace = Trace::with_requests(50_000);
        let counts = Counts::of(&trace, 3600);
        let check = |thousandths: u32| {
            let above = counts.above(counts.limit_exceeded_by(thousandths));
            let expected = trace.len() as f64 * f64::from(thousandths) / 1_000.0;
            assert!((above as f64 / expected - 1.0).abs() < 0.1, "{above} {expected}");
        };
        [10, 50, 200].into_iter().for_each(check);
    }
}
