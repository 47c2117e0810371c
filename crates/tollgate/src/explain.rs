//! Explains which rule limits a request, and why: the policy's view of it, with the figures of its counters.

use serde::Serialize;
use tollgate_core::{Micros, Outcome, decide};
use tollgate_rules::document::Consistency;
use tollgate_rules::{Explanation, Plan, RuleSet};
use tollgate_store::Store;

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
    /// Why the figures are not those of the shared store, if it is away: they are of this node alone, which may let more
    /// pass than is left, up to the limit times the fallback factor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub degraded: Option<String>,
    /// Whether the rule that binds refuses because the store is away: it fails closed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub store_unavailable: bool,
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
    /// What is left of the limit: the largest cost that would be admitted now.
    pub remaining: u64,
    /// Milliseconds until the limit resets: `fixed_window` and `sliding_window_counter` at the end of the current window,
    /// others when nothing is in use.
    pub window_reset_ms: u64,
    /// Milliseconds until nothing is in use.
    pub reset_ms: u64,
    /// Milliseconds until more is left than now; `None` when nothing is in use.
    pub next_ms: Option<u64>,
    /// How close the client is to the limit.
    pub state: SoftState,
    /// The key in Redis of the record that has the counter; `None` if it is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store_key: Option<String>,
}

impl Explained {
    /// `peek` is a peek at the same request; `tried` has the outcome of each rule at its cost, and `keys` those of records
    /// in the store, by the places of the rules.
    pub(crate) fn new(
        explanation: Explanation,
        peek: &Decision,
        tried: &[Outcome],
        keys: &[(usize, String)],
    ) -> Self {
        let verdict = decide(tried.iter().map(Outcome::vote));
        let would_pass = peek.is_allowed() && verdict.admitted;
        let refuser = verdict.binding.filter(|_| !would_pass).and_then(|at| tried.get(at));
        let rules = peek.policy().rules();
        let binding = match refuser {
            Some(outcome) => rules.get(outcome.rule).map(|rule| rule.id.to_string()),
            None => peek.binding().map(|binding| binding.rule.id.to_string()),
        };
        let refused_for = |why: Refusal| peek.refuser().filter(|_| peek.refusal() == Some(why));
        let banned_by = refused_for(Refusal::Banned);
        let failing = refused_for(Refusal::StoreUnavailable);
        let binding = binding.or_else(|| banned_by.or(failing).map(|rule| rule.id.to_string()));
        // A client is never sent back to a limit that still reports nothing left.
        let retry = refuser.map(|outcome| outcome.report).and_then(|report| {
            Some(report.retry_after?.max(report.next_after.unwrap_or_default()))
        });
        let retry = retry.or_else(|| banned_by.and_then(|_| peek.retry_after()));
        let is_exceeded =
            |rule: usize| tried.iter().any(|outcome| outcome.rule == rule && !outcome.admitted);
        let key_of = |rule: usize| {
            let found = keys.iter().find(|(place, _)| *place == rule);
            found.filter(|_| peek.degraded().is_none()).map(|(_, key)| key.clone())
        };
        let figures = peek
            .outcomes()
            .map(|outcome| {
                let report = outcome.outcome.report;
                Figures {
                    rule_id: outcome.rule.id.to_string(),
                    limit: outcome.outcome.limit,
                    exceeded: is_exceeded(outcome.outcome.rule),
                    remaining: outcome.outcome.remaining(),
                    window_reset_ms: outcome.reset_after(peek.now()).as_millis_ceil(),
                    reset_ms: report.reset_after.as_millis_ceil(),
                    next_ms: report.next_after.map(Micros::as_millis_ceil),
                    state: outcome.state,
                    store_key: key_of(outcome.outcome.rule),
                }
            })
            .collect();
        let retry_ms = retry.map(Micros::as_millis_ceil);
        let degraded = peek.degraded().map(|why| why.to_string());
        let store_unavailable = failing.is_some();
        Self { explanation, would_pass, retry_ms, binding, figures, degraded, store_unavailable }
    }
}

/// The keys of the records that have the counters of a plan, each after the place of its rule. What is counted on this
/// node, or by a store without such keys, has none.
pub(crate) fn record_keys<S: Store>(
    store: &S,
    plan: &Plan,
    rules: &RuleSet,
) -> Vec<(usize, String)> {
    let record = |(line, rule): (usize, usize)| {
        rules.get(rule).filter(|rule| rule.consistency != Consistency::Local)?;
        Some((rule, store.record_key(&plan.charge(line, rules)?.key)?))
    };
    let rules_of_lines = plan.planned().iter().map(|planned| planned.rule);
    rules_of_lines.enumerate().filter_map(record).collect()
}
