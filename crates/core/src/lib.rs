//! The arithmetic of Tollgate, and nothing else.
//!
//! A [`Quota`] is a limit as written in a policy; [`Quota::compile`] derives a [`Limit`], the integers that the kernels
//! compute with. A [`State`] is what a store keeps for one counter. [`settle`] charges several counters at once, all or
//! nothing, and [`decide`] combines their results into one verdict.
//!
//! Six algorithms are three kernels: a *bucket* is a debt that drains (token bucket, leaky bucket, GCRA), a *window*
//! counts per slice of time (fixed window, sliding window counter), a *log* stores every admission (sliding window log).
//!
//! This crate has no dependency, does no I/O, reads no clock, uses no floating point number and panics on no input. Time
//! is an argument. Absent state equals fresh state, so losing a state never corrupts a decision.
//!
//! ```
//! use tollgate_core::{Algorithm, Micros, Quota, Timestamp};
//!
//! let limit = Quota::new(Algorithm::Gcra, 5, Micros::from_secs(1)).compile().unwrap();
//! let now = Timestamp::from_millis(0);
//! let mut state = None;
//! for _ in 0..5 {
//!     assert!(limit.fits(state.as_ref(), now, 1));
//!     limit.charge(&mut state, now, 1);
//! }
//! assert!(!limit.fits(state.as_ref(), now, 1));
//! let report = limit.report(state.as_ref(), now, 1, false);
//! assert_eq!(report.retry_after, Some(Micros::from_millis(200)));
//! ```
#![forbid(unsafe_code)]

mod calendar;
mod clock_skew;
mod codec;
mod decide;
mod kernel;
mod key;
mod limit;
mod packed_state;
mod quota;
mod settle;
mod state;
mod time;

pub use calendar::{Calendar, CalendarUnit};
pub use codec::MalformedState;
pub use decide::{Outcome, Verdict, Vote, decide};
pub use kernel::{
    bucket::BucketState,
    log::{LogDigest, LogState},
    window::WindowState,
};
pub use key::{Key, RuleTag};
pub use limit::{Limit, Report};
pub use packed_state::PackedState;
pub use quota::{Algorithm, MAX_LIMIT, MAX_WINDOW, MIN_WINDOW, Quota, QuotaError};
pub use settle::{Charge, ChargeResult, Mode, dry_run, settle};
pub use state::{State, StateFigures};
pub use time::{Micros, Timestamp};
