//! Every algorithm against an independent model that keeps the whole history of a counter, and the
//! promises made to callers, on random traces. `TOLLGATE_PROPTEST_CASES=50` makes a campaign of it.

#[path = "oracle/answers.rs"]
mod answers;
#[path = "oracle/draw.rs"]
mod draw;
#[path = "oracle/examples.rs"]
mod examples;
#[path = "oracle/extremes.rs"]
mod extremes;
#[path = "oracle/history.rs"]
mod history;
#[path = "oracle/model.rs"]
mod model;
#[path = "oracle/promises.rs"]
mod promises;
#[path = "oracle/replay.rs"]
mod replay;
