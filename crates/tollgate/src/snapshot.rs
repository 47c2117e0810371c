//! The policy in force, with the statistics of its rules. A request reads one snapshot, once.

use std::sync::Arc;

use tollgate_rules::Policy;

use crate::stats::{RuleCounters, carry_over};

#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) policy: Policy,
    /// One for each rule, in the order of the rules.
    pub(crate) stats: Arc<[RuleCounters]>,
}

impl Snapshot {
    pub(crate) fn new(policy: Policy, before: Option<&Self>) -> Self {
        // A change of clients keeps the rules, of which there may be many.
        let same = before.filter(|before| policy.shares_rules_with(&before.policy));
        let stats = match same {
            Some(before) => Arc::clone(&before.stats),
            None => {
                let before = before.map(|before| (before.policy.rules(), &*before.stats));
                carry_over(policy.rules(), before).into()
            }
        };
        Self { policy, stats }
    }
}
