//! The three kernels: pure functions on integers. Each advances a state to a point in time, decides whether a cost
//! fits, charges it, refunds it, and computes how long until its level has fallen.

pub(crate) mod bucket;
pub(crate) mod log;
pub(crate) mod rate;
pub(crate) mod window;

use crate::{Limit, PackedState, Report};

/// A counter advanced to a point in time, in registers: a debt, or two counts. A log is not one: its entries are on
/// the heap.
pub(crate) trait Balance: Copy {
    /// Whether a request of this cost, which is not zero, is admitted.
    fn fits(&self, limit: &Limit, cost: u64) -> bool;

    /// Charges `cost`, up to `most` units in all; what was charged before stays.
    fn add(&self, limit: &Limit, cost: u64, most: u64) -> Self;

    /// The figures after a request of `cost` was `admitted` or refused.
    fn report(&self, limit: &Limit, cost: u64, admitted: bool) -> Report;

    /// The sixteen bytes to store; `None` if they are not enough.
    fn pack(&self) -> Option<PackedState>;
}
