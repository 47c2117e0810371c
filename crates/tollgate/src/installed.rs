//! A policy in force, with the counts of its rules. A request takes one of these, once.

use std::sync::Arc;

use tollgate_rules::Policy;

use crate::stats::{RuleStats, carry_over};

#[derive(Debug)]
pub(crate) struct Installed {
    pub(crate) policy: Policy,
    /// One for each rule, in the order of the rules.
    pub(crate) stats: Vec<Arc<RuleStats>>,
}

impl Installed {
    pub(crate) fn new(policy: Policy, before: Option<&Self>) -> Self {
        let before = before.map(|before| (before.policy.rules(), before.stats.as_slice()));
        let stats = carry_over(policy.rules(), before);
        Self { policy, stats }
    }
}
