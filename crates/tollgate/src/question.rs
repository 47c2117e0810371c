//! What a limiter is asked: by all rules, or by one.

use std::hash::BuildHasher;

use tollgate_core::{Limit, Timestamp};
use tollgate_rules::{Attribute, Attributes, Plan, Policy};

/// A request, and by what it is to be judged.
#[derive(Clone, Copy)]
pub enum Question<'a> {
    /// By every rule that applies.
    Request(&'a dyn Attributes),
    /// Several views of one request, by every rule that applies to any of them: all or nothing.
    Views(&'a [&'a dyn Attributes]),
    /// By one rule, whatever its conditions. If there is no such rule, none applies.
    Rule(&'a str, &'a dyn Attributes),
    /// By lines of the caller's own making: all or nothing.
    Lines(&'a [OwnLine<'a>]),
}

/// A line of a plan that the caller made: a rule, whatever its conditions, and a counter.
#[derive(Clone, Copy, Debug)]
pub struct OwnLine<'a> {
    /// The rule. If there is no such rule, the line does not count.
    pub rule_id: &'a str,
    /// The limit to count by, if not that of the rule.
    pub own_limit: Option<&'a Limit>,
    /// The counter. No two lines have the same rule and the same counter.
    pub counter: &'a str,
    /// How much to charge.
    pub cost: u64,
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
            Self::Views(views) => policy.plan_into(plan, views, now, hasher),
            Self::Rule(rule_id, request) => {
                // Without such a rule, the plan stays empty.
                let _ = policy.plan_rule_into(plan, rule_id, request, now, hasher);
            }
            Self::Lines(lines) => {
                let rules = policy.rules();
                for (number, line) in lines.iter().enumerate() {
                    if let Some(rule) = rules.index_of(line.rule_id) {
                        let counter = line.counter.as_bytes();
                        let limit = (rule, line.own_limit);
                        plan.add(rules, limit, counter, (number, line.cost), hasher);
                    }
                }
            }
        }
    }
}

/// A request that costs nothing.
pub(crate) struct Peek<'a>(pub(crate) &'a dyn Attributes);

impl Attributes for Peek<'_> {
    fn get(&self, attribute: Attribute<'_>) -> Option<&str> {
        self.0.get(attribute)
    }

    fn cost(&self) -> u64 {
        0
    }
}
