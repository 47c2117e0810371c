//! What one counter remembers between two requests.
//!
//! A state describes itself: a bucket carries the limit it is counted in, a window and a log their
//! length, all of them their algorithm. A state that does not match the limit at hand counts as
//! absent, so two nodes on two revisions of the rules never misread each other.

use crate::{BucketState, LogState, WindowState};

/// The memory of one counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Token bucket, leaky bucket, GCRA.
    Bucket(BucketState),
    /// Fixed window, sliding window counter.
    Window(WindowState),
    /// Sliding window log. Boxed: the others fit into registers and are copied around.
    Log(Box<LogState>),
}
