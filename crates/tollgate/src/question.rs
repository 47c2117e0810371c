//! What a limiter is asked: by all rules, or by one.

use std::hash::BuildHasher;

use tollgate_core::Timestamp;
use tollgate_rules::{Attributes, Plan, Policy};

/// A request, and by what it is to be judged.
#[derive(Clone, Copy)]
pub enum Question<'a> {
    /// By every rule that applies.
    Request(&'a dyn Attributes),
    /// By one rule, whatever its conditions. If there is no such rule, none applies.
    Rule(&'a str, &'a dyn Attributes),
}

impl<'a> From<&'a dyn Attributes> for Question<'a> {
    fn from(request: &'a dyn Attributes) -> Self {
        Self::Request(request)
    }
}

impl Question<'_> {
    /// Plans into an empty plan that already stands where it is to stay.
    #[inline]
    pub(crate) fn plan_into(
        self,
        plan: &mut Plan,
        policy: &Policy,
        now: Timestamp,
        hasher: &impl BuildHasher,
    ) {
        match self {
            Self::Request(request) => policy.plan_into(plan, &[request], now, hasher),
            Self::Rule(rule_id, request) => {
                // Without such a rule, the plan stays empty.
                let _ = policy.plan_rule_into(plan, rule_id, request, now, hasher);
            }
        }
    }
}
