//! The requests of the last minutes on this node: all of them ranked, and as many as fit kept to be replayed.
//!
//! A check writes a short record into a buffer of its thread and goes on. A few times a second a background task takes
//! the buffers, counts every record for the top lists, and keeps the records in a ring of fixed size.

pub(crate) mod top;

use self::top::{TopAsk, TopFigures};

/// The requests of the last minutes.
#[derive(Debug, Default)]
pub(crate) struct RecentTraffic {}

impl RecentTraffic {
    /// The top lists of this node.
    pub(crate) fn top(&self, ask: &TopAsk) -> TopFigures {
        let _ = ask;
        TopFigures::default()
    }
}
