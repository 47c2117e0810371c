//! The three kernels: pure functions on integers. Each advances a state to a moment, says whether a
//! cost fits, adds to it, takes from it, and knows how long until its level has fallen.

pub(crate) mod bucket;
pub(crate) mod log;
pub(crate) mod rate;
pub(crate) mod window;

use crate::{Compact, Limit, Report};

/// A counter brought forward to a moment, in registers: a debt, or two counts. (A log is its own
/// thing: it lives on the heap.)
pub(crate) trait Balance: Copy {
    /// Whether a request of this cost, which is not zero, may pass.
    fn fits(&self, limit: &Limit, cost: u64) -> bool;

    /// Takes `cost`, up to `most` units in all; what is taken already stays taken.
    fn add(&self, limit: &Limit, cost: u64, most: u64) -> Self;

    /// The figures after a request of `cost` was `admitted` or refused.
    fn report(&self, limit: &Limit, cost: u64, admitted: bool) -> Report;

    /// The sixteen bytes to remember; `None` if they are not enough.
    fn compact(&self) -> Option<Compact>;
}
