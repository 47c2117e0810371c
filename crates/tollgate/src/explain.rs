//! Explains which rule limits a request, and why: the policy's view of it, with the figures of its counters.

use serde::Serialize;
use tollgate_core::{Micros, Outcome, decide};
use tollgate_rules::Explanation;

use crate::decision::{Decision, Refusal};
use crate::soft::SoftState;

/// How a request would be decided, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Explained {
    /// Which rules were considered, and which of them apply.
    #[serde(flatten)]
    pub explanation: Explanation,
    /// Whether the request would pass.
    pub would_pass: bool,
    /// Milliseconds until it would pass; `None` if it passes now, never will, or no limit refuses it.
    pub retry_ms: Option<u64>,
    /// The rule that binds, if an enforced one applies.
    pub binding: Option<String>,
    /// The figures of each rule that applies.
    pub figures: Vec<Figures>,
}

/// The figures of one rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Figures {
    /// The rule.
    pub rule_id: String,
    /// The most that can be in use.
    pub limit: u64,
    /// Whether the request exceeds it.
    pub exceeded: bool,
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
    /// `peek` is a peek at the same request; `tried` has the outcome of each rule at its cost.
    pub(crate) fn new(explanation: Explanation, peek: &Decision, tried: &[Outcome]) -> Self {
        let verdict = decide(tried.iter());
        let would_pass = peek.is_allowed() && verdict.admitted;
        let refuser = verdict.binding.filter(|_| !would_pass).and_then(|at| tried.get(at));
        let rules = peek.policy().rules();
        let binding = match refuser {
            Some(outcome) => rules.get(outcome.rule).map(|rule| rule.id.to_string()),
            None => peek.binding().map(|binding| binding.rule.id.to_string()),
        };
        let banned_by = peek.refuser().filter(|_| peek.refusal() == Some(Refusal::Banned));
        let binding = binding.or_else(|| banned_by.map(|rule| rule.id.to_string()));
        // A client is never sent back to a limit that still reports nothing left.
        let retry = refuser.map(|outcome| outcome.report).and_then(|report| {
            Some(report.retry_after?.max(report.next_after.unwrap_or_default()))
        });
        let retry = retry.or_else(|| banned_by.and_then(|_| peek.retry_after()));
        let is_exceeded =
            |rule: usize| tried.iter().any(|outcome| outcome.rule == rule && !outcome.admitted);
        let figures = peek
            .outcomes()
            .map(|outcome| {
                let report = outcome.outcome.report;
                Figures {
                    rule_id: outcome.rule.id.to_string(),
                    limit: outcome.outcome.limit,
                    exceeded: is_exceeded(outcome.outcome.rule),
                    remaining: report.remaining,
                    reset_ms: report.reset_after.as_millis_ceil(),
                    next_ms: report.next_after.map(Micros::as_millis_ceil),
                    state: outcome.state,
                }
            })
            .collect();
        let retry_ms = retry.map(Micros::as_millis_ceil);
        Self { explanation, would_pass, retry_ms, binding, figures }
    }
}
