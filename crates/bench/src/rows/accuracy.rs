//! How often the algorithms that count per window decide otherwise than the log, which is exact.
//!
//! Each algorithm lives its own life on the same requests: what it admits is what it remembers, so
//! one other decision leads to more. A decision is wrong if the log's is another one.

use tollgate_core::{Algorithm, Limit, Micros, Quota, QuotaError, State, Timestamp};

use super::trace::Trace;
use crate::Fallible;
use crate::row::Row;
use crate::scale::Scale;

/// Windows in seconds.
pub(super) const WINDOWS: [u64; 3] = [10, 60, 3600];
/// Of a thousand requests, how many the log is to refuse.
pub(super) const REFUSED: [u32; 5] = [1, 10, 50, 200, 500];

pub(crate) fn against_log(scale: &Scale) -> Fallible<Vec<Row>> {
    let trace = Trace::with_requests(scale.of(10_000_000));
    let mut rows = Vec::new();
    for window in WINDOWS {
        for refused in REFUSED {
            let limit = limit_that_refuses(f64::from(refused) / 1000.0, &trace, window)?;
            for algorithm in [Algorithm::SlidingWindowCounter, Algorithm::FixedWindow] {
                let mistakes = mistakes(algorithm, limit, window, &trace)?;
                let name = format!("accuracy/{algorithm}/{window}s/{}", percentage(refused));
                rows.push(mistakes.row(name, limit, &trace));
            }
        }
    }
    Ok(rows)
}

/// So many of a thousand.
pub(super) fn percentage(thousandths: u32) -> String {
    format!("{}%", f64::from(thousandths) / 10.0)
}

/// One counter of one client.
struct Life<'a> {
    limit: &'a Limit,
    state: Option<State>,
}

impl<'a> Life<'a> {
    fn new(limit: &'a Limit) -> Self {
        Self { limit, state: None }
    }

    /// Whether a request at this time is admitted; if so, it is charged.
    fn admits(&mut self, millis: u32) -> bool {
        let now = Timestamp::from_millis(u64::from(millis));
        let admitted = self.limit.fits(self.state.as_ref(), now, 1);
        if admitted {
            self.limit.charge(&mut self.state, now, 1);
        }
        admitted
    }
}

fn limit_of(algorithm: Algorithm, limit: u64, window: u64) -> Result<Limit, QuotaError> {
    Quota::new(algorithm, limit, Micros::from_secs(window)).compile()
}

/// How the decisions of an algorithm differ from those of the log.
#[derive(Clone, Copy, Debug, Default)]
struct Mistakes {
    /// What the log refuses.
    refused: u64,
    /// Refused, and the log admits it.
    too_strict: u64,
    /// Admitted, and the log refuses it.
    too_lax: u64,
}

impl Mistakes {
    fn row(&self, name: String, limit: u64, trace: &Trace) -> Row {
        let percent = |count: u64| 100.0 * count as f64 / trace.len() as f64;
        Row::figure(name, percent(self.too_strict + self.too_lax), "%")
            .with("limit", limit as f64)
            .with("log_refuses_percent", percent(self.refused))
            .with("refuses_percent", percent(self.refused + self.too_strict - self.too_lax))
            .with("too_strict_percent", percent(self.too_strict))
            .with("too_lax_percent", percent(self.too_lax))
    }
}

fn mistakes(algorithm: Algorithm, limit: u64, window: u64, trace: &Trace) -> Fallible<Mistakes> {
    let exact = limit_of(Algorithm::SlidingWindowLog, limit, window)?;
    let other = limit_of(algorithm, limit, window)?;
    let mut mistakes = Mistakes::default();
    for requests in trace.by_client() {
        let (mut log, mut life) = (Life::new(&exact), Life::new(&other));
        for request in requests {
            let (right, actual) = (log.admits(request.millis), life.admits(request.millis));
            mistakes.refused += u64::from(!right);
            mistakes.too_strict += u64::from(right && !actual);
            mistakes.too_lax += u64::from(!right && actual);
        }
    }
    Ok(mistakes)
}

/// The limit with which the log refuses about that share of all requests.
fn limit_that_refuses(share: f64, trace: &Trace, window: u64) -> Fallible<u64> {
    let target = trace.len() as f64 * share;
    let excess = |limit| -> Fallible<f64> { Ok(refused(limit, window, trace)? as f64 - target) };
    // A limit that is too low, and one that is not.
    let (mut low, mut high) = (0, 1);
    while excess(high)? > 0.0 {
        (low, high) = (high, high * 2);
    }
    while high - low > 1 {
        let middle = low.midpoint(high);
        if excess(middle)? > 0.0 { low = middle } else { high = middle }
    }
    let is_low_nearer = excess(low)? < -excess(high)?;
    Ok(if is_low_nearer { low } else { high })
}

fn refused(limit: u64, window: u64, trace: &Trace) -> Fallible<u64> {
    let exact = limit_of(Algorithm::SlidingWindowLog, limit, window)?;
    let mut refused = 0;
    // A client with fewer requests in a day than the limit is never refused.
    for requests in trace.by_client().filter(|requests| requests.len() as u64 > limit) {
        let mut log = Life::new(&exact);
        for request in requests {
            refused += u64::from(!log.admits(request.millis));
        }
    }
    Ok(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_refuses_as_many_as_asked() {
        let trace = Trace::with_requests(20_000);
        let check = |share: f64| {
            let limit = limit_that_refuses(share, &trace, 3600).expect("a limit");
            let refused = refused(limit, 3600, &trace).expect("a count") as f64;
            assert!((refused / trace.len() as f64 - share).abs() < share / 10.0, "{limit}");
        };
        [0.01, 0.05, 0.2].into_iter().for_each(check);
    }

    #[test]
    fn the_log_makes_no_mistakes() {
        let trace = Trace::with_requests(20_000);
        let exact = mistakes(Algorithm::SlidingWindowLog, 50, 3600, &trace).expect("a comparison");
        assert_eq!((exact.too_strict, exact.too_lax), (0, 0));
        let fixed = mistakes(Algorithm::FixedWindow, 50, 3600, &trace).expect("a comparison");
        assert!(fixed.too_strict > 0 && fixed.too_lax > 0);
        assert_eq!(fixed.refused, refused(50, 3600, &trace).expect("a count"));
    }
}
