//! What is checked: a request with all rules that apply, one rule, or charges of the caller's choice.

use std::hash::BuildHasher;

use tollgate_core::{Limit, Timestamp};
use tollgate_rules::{Admission, Attribute, Attributes, Plan, Policy};

/// What is checked, and by which rules.
#[derive(Clone, Copy)]
pub enum CheckTarget<'a> {
    /// A request, by every rule that applies.
    Request(&'a dyn Attributes),
    /// A request as if no rule had banned its client.
    Unbanned(&'a dyn Attributes),
    /// Several views of one request, by every rule that applies to any of them: all or nothing.
    Views(&'a [&'a dyn Attributes]),
    /// A request by one rule, whatever its conditions. If there is no such rule, none applies.
    Rule(&'a str, &'a dyn Attributes),
    /// Charges of the caller's choice: all or nothing.
    Charges(&'a [ExplicitCharge<'a>]),
}

/// A charge of the caller's choice: a rule, whatever its conditions, and a counter.
#[derive(Clone, Copy, Debug)]
pub struct ExplicitCharge<'a> {
    /// The rule. If there is no such rule, nothing is charged.
    pub rule_id: &'a str,
    /// The limit to count by, if not that of the rule.
    pub limit: Option<&'a Limit>,
    /// The counter. No two charges have the same rule and the same counter.
    pub counter: &'a str,
    /// How much to charge.
    pub cost: u64,
}

impl<'a, T: Attributes> From<&'a T> for CheckTarget<'a> {
    fn from(request: &'a T) -> Self {
        Self::Request(request)
    }
}

impl<'a> From<&'a dyn Attributes> for CheckTarget<'a> {
    fn from(request: &'a dyn Attributes) -> Self {
        Self::Request(request)
    }
}

impl CheckTarget<'_> {
    /// Whether the rules are those that apply to a request, not chosen by the caller.
    pub(crate) const fn is_by_rules_that_apply(&self) -> bool {
        match self {
            Self::Request(_) | Self::Unbanned(_) | Self::Views(_) => true,
            Self::Rule(..) | Self::Charges(_) => false,
        }
    }

    /// Plans into an empty plan, in place.
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
            Self::Unbanned(request) => {
                policy.plan_into(plan, &[request], now, hasher);
                if matches!(plan.admission, Admission::Banned { .. }) {
                    plan.admission = Admission::Judge;
                }
            }
            Self::Views(views) => policy.plan_into(plan, views, now, hasher),
            Self::Rule(rule_id, request) => {
                // Without such a rule, the plan stays empty.
                let _ = policy.plan_rule_into(plan, rule_id, request, now, hasher);
            }
            Self::Charges(charges) => {
                let rules = policy.rules();
                for (number, charge) in charges.iter().enumerate() {
                    if let Some(rule) = rules.index_of(charge.rule_id) {
                        let counter = charge.counter.as_bytes();
                        let limit = (rule, charge.limit);
                        plan.add(rules, limit, counter, (number, charge.cost), hasher);
                    }
                }
            }
        }
    }
}

/// A request that costs nothing: a check reads its counters and charges none.
pub struct Peek<'a>(pub &'a dyn Attributes);

impl Attributes for Peek<'_> {
    fn get(&self, attribute: Attribute<'_>) -> Option<&str> {
        self.0.get(attribute)
    }

    fn cost(&self) -> u64 {
        0
    }

    fn api_key_digest(&self) -> Option<&str> {
        self.0.api_key_digest()
    }
}
