//! Which rule limited me, and why: a policy's view of a request with the figures of its counters.

use serde::Serialize;
use tollgate_core::Micros;
use tollgate_rules::Explanation;

use crate::decision::Decision;
use crate::soft::SoftState;

/// Everything there is to know about how a request would fare.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Explained {
    /// Which rules were considered, and which of them apply.
    #[serde(flatten)]
    pub explanation: Explanation,
    /// The rule that binds, if an enforced one applies.
    pub binding: Option<String>,
    /// What is left of each rule that applies.
    pub figures: Vec<Figures>,
}

/// What is left of one rule's limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Figures {
    /// The rule.
    pub rule_id: String,
    /// The most that can be in use.
    pub limit: u64,
    /// The largest cost that would be admitted now.
    pub remaining: u64,
    /// Milliseconds until nothing is in use.
    pub reset_ms: u64,
    /// Milliseconds until more is left than now; `None` when nothing is in use.
    pub next_ms: Option<u64>,
    /// How close the client is to the limit.
    pub state: SoftState,
}

impl Explained {
    pub(crate) fn new(explanation: Explanation, peek: &Decision) -> Self {
        let binding = peek.binding().map(|binding| binding.rule.id.to_string());
        let figures = peek
            .outcomes()
            .map(|outcome| {
                let report = outcome.outcome.report;
                Figures {
                    rule_id: outcome.rule.id.to_string(),
                    limit: outcome.outcome.limit,
                    remaining: report.remaining,
                    reset_ms: report.reset_after.as_millis_ceil(),
                    next_ms: report.next_after.map(Micros::as_millis_ceil),
                    state: outcome.state,
                }
            })
            .collect();
        Self { explanation, binding, figures }
    }
}
