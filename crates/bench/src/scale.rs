//! How much is measured: in earnest, or just enough to show that everything runs.

use std::time::Duration;

use crate::row::Row;

/// Sizes and durations of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    /// By what all populations and traces are divided.
    divisor: u64,
    /// How often each contestant has its turn.
    pub(crate) rounds: usize,
    /// How long a turn takes.
    pub(crate) turn: Duration,
    /// Whether bars are checked.
    is_judged: bool,
}

impl Scale {
    pub(crate) const FULL: Self =
        Self { divisor: 1, rounds: 7, turn: Duration::from_millis(300), is_judged: true };
    pub(crate) const QUICK: Self =
        Self { divisor: 500, rounds: 2, turn: Duration::from_millis(10), is_judged: false };

    /// How many of `full` to measure with.
    pub(crate) fn of(&self, full: u64) -> u64 {
        if full <= 1_000 { full } else { full / self.divisor }
    }

    /// Whether a row meets its bar; `None` if it has none or bars are not checked.
    pub(crate) fn judge(&self, row: &Row) -> Option<bool> {
        row.bar.filter(|_| self.is_judged).map(|bar| bar.is_met_by(row.ratio))
    }
}
