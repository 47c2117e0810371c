//! Candidates: a limit that is tried on live traffic beside that of its rule.
//!
//! A candidate is compiled to a shadow rule of its own, which counts the same requests by the same identifiers. Its
//! counters cannot be those of the rule: usage below one limit does not tell what another would have refused.

use crate::document::{CandidateDocument, RuleDocument};

/// Ends the ids of candidates. No rule that is written has such an id.
const SUFFIX: &str = "~candidate";

/// The id of the candidate of a rule.
#[must_use]
pub fn candidate_id(rule_id: &str) -> String {
    format!("{rule_id}{SUFFIX}")
}

/// The rule that a candidate is tried beside, given the id of the candidate; `None` if it is the id of a rule.
#[must_use]
pub fn candidate_of(id: &str) -> Option<&str> {
    id.strip_suffix(SUFFIX)
}

impl RuleDocument {
    /// The rule with the limit of its candidate in place of its own, and without the candidate; `None` if it has none.
    #[must_use]
    pub fn promoted(&self) -> Option<Self> {
        let CandidateDocument { limit, window_seconds, window, burst, algorithm } =
            self.candidate.clone()?;
        let mut rule = Self { candidate: None, ..self.clone() };
        rule.limit = limit.unwrap_or(rule.limit);
        rule.algorithm = algorithm.unwrap_or(rule.algorithm);
        rule.burst = burst.or(rule.burst.filter(|_| rule.algorithm.0.is_bucket()));
        if window_seconds.is_some() || window.is_some() {
            let is_of_calendar = window.as_ref().is_some_and(|it| it.length().is_of_calendar());
            rule.time_zone = rule.time_zone.filter(|_| is_of_calendar);
            (rule.window_seconds, rule.window) = (window_seconds, window);
        }
        Some(rule)
    }
}
