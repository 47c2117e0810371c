//! What a store keeps for one counter between two requests.
//!
//! A state describes itself: a bucket carries the limit it is counted in, a window and a log their length (and a window
//! of the calendar, of which calendar), all of them their algorithm. A state that does not match the current limit counts as absent, so two nodes on two
//! revisions of the rules never misread each other.

use crate::{Algorithm, BucketState, Calendar, Limit, LogState, WindowState};

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

impl State {
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
