//! The simulator: recorded traffic, replayed against rules under its own clock. The command and the server both use it,
//! so it prints nothing, reads no arguments and knows no HTTP.
//!
//! [`traffic`] reads logs and traces, [`replay()`] checks each request, [`Tally`] and [`Breakdown`] sum up what happened,
//! [`compare()`] counts the same limits by every algorithm, and [`recommend`] proposes limits.
#![forbid(unsafe_code)]

mod breakdown;
mod compare;
mod outcome;
mod percent;
pub mod recommend;
mod replay;
mod tally;
pub mod traffic;

pub use breakdown::{Breakdown, ClientRow, EndpointRow, RequestResult, Timeline};
pub use compare::{AlgorithmFigures, CompareError, compare};
pub use outcome::Outcome;
pub use percent::{MAX_FRACTION, Percent, millionths};
pub use replay::{Doubt, Recorded, ReplayOptions, Stopped, TRACE_KEY, Watch, replay};
pub use tally::{ClientTally, Course, RuleTally, ShadowRefusals, Tally, client_of};
