//! The three kernels: pure functions on integers. Each advances a state to a moment, says whether a
//! cost fits, adds to it, takes from it, and knows how long until its level has fallen.

pub(crate) mod bucket;
pub(crate) mod log;
pub(crate) mod rate;
pub(crate) mod window;
