//! Every algorithm against an independent model that keeps the whole history of a counter, and the
//! promises made to callers, on random traces. `TOLLGATE_PROPTEST_CASES=50` makes a campaign of it.

mod answers;
mod calendar;
mod codec;
mod draw;
mod examples;
mod extremes;
mod history;
mod model;
mod promises;
mod replay;
mod settle;
