//! What a store keeps for one counter between two requests.
//!
//! A state describes itself: a bucket carries the limit it is counted in, a window and a log their length (and a window
//! of the calendar, of which calendar), all of them their algorithm. A state that does not match the current limit counts as absent, so two nodes on two
//! revisions of the rules never misread each other.

use crate::kernel::rate::Rate;
use crate::{Algorithm, BucketState, Calendar, Limit, LogState, Micros, Timestamp, WindowState};

/// The state of one counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Token bucket, leaky bucket, GCRA.
    Bucket(BucketState),
    /// Fixed window, sliding window counter.
    Window(WindowState),
    /// Sliding window log. Boxed: the others fit into registers and are copied around.
    Log(Box<LogState>),
}

/// The numbers of a state, for people to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateFigures {
    /// The algorithm that counted.
    pub algorithm: Algorithm,
    /// The limit that it was counted under; windows and logs do not know theirs.
    pub limit: Option<u64>,
    /// The length of the window.
    pub window: Micros,
    /// What was in use at `at`, in whole units, rounded up.
    pub used: u64,
    /// The count of the previous window, for the sliding window counter.
    pub previous: Option<u64>,
    /// When it was charged last.
    pub at: Timestamp,
}

impl State {
    /// Its numbers, for people to read.
    #[must_use]
    pub fn figures(&self) -> StateFigures {
        match self {
            Self::Bucket(BucketState { algorithm, limit, window, debt, at }) => {
                let unit = u128::from(Rate::new(*limit, *window).unit);
                StateFigures {
                    algorithm: *algorithm,
                    limit: Some(*limit),
                    window: *window,
                    used: u64::try_from(debt.div_ceil(unit)).unwrap_or(u64::MAX),
                    previous: None,
                    at: *at,
                }
            }
            Self::Window(WindowState { algorithm, window, at, current, previous, .. }) => {
                let is_sliding = *algorithm == Algorithm::SlidingWindowCounter;
                StateFigures {
                    algorithm: *algorithm,
                    limit: None,
                    window: *window,
                    used: *current,
                    previous: is_sliding.then_some(*previous),
                    at: *at,
                }
            }
            Self::Log(log) => StateFigures {
                algorithm: Algorithm::SlidingWindowLog,
                limit: None,
                window: log.window,
                used: log.total,
                previous: None,
                at: log.entries.back().map_or(Timestamp::EPOCH, |newest| newest.0),
            },
        }
    }

    /// Whether it was counted by the algorithm and over the window of `limit`.
    pub(crate) fn is_of(&self, limit: &Limit) -> bool {
        let (algorithm, window, calendar) = match self {
            Self::Bucket(state) => (state.algorithm, state.window, 0),
            Self::Window(state) => (state.algorithm, state.window, state.calendar),
            Self::Log(log) => (Algorithm::SlidingWindowLog, log.window, 0),
        };
        algorithm == limit.algorithm
            && window == limit.window
            && calendar == limit.calendar.map_or(0, Calendar::id)
    }
}
