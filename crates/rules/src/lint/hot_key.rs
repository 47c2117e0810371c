//! Rules that send every request of a fleet to one counter.

use tollgate_core::Mode;

use super::{LintView, Suspect};
use crate::compile::flaw::Flaw;
use crate::document::Consistency;
use crate::identifier::Identifier;
use crate::matching::glob::Glob;
use crate::rule::Rule;

/// From here on one counter is a matter of capacity: nodes of a Redis cluster cannot share it, and in
/// PostgreSQL its charges wait for each other. Beyond its limit a counter is asked seldom, because
/// refusals are cached, so the limit bounds the load.
const MANY_PER_SECOND: u128 = 1_000;
const MICROS_PER_SECOND: u128 = 1_000_000;

/// All requests charge one counter in the shared store, and many of them may pass.
pub(super) fn one_counter_for_all(view: &LintView<'_>, suspect: Suspect<'_>) -> Option<Flaw> {
    let rule = suspect.rule;
    let is_shared = view.context.redis || view.context.nodes.is_some_and(|nodes| nodes > 1);
    if !is_shared || rule.consistency != Consistency::Strict || !has_one_key(rule) {
        return None;
    }
    let window = u128::from(rule.quota.window.get());
    let per_second = u128::from(rule.quota.limit) * MICROS_PER_SECOND / window;
    let load = match rule.mode {
        // It refuses none, so that nothing bounds the load.
        Mode::Shadow => "all requests".to_owned(),
        _ if per_second >= MANY_PER_SECOND => format!("{per_second} requests a second"),
        _ => return None,
    };
    Some(
        Flaw::new(
            format!("a hot key: {load} of all nodes may charge one counter of the store"),
            "count by what sets clients apart, or write consistency: local, with the share of one node \
             as the limit",
        )
        .within("identifier_type"),
    )
}

/// Whether a rule has a single counter, whatever the requests.
fn has_one_key(rule: &Rule) -> bool {
    let is_constant = |(at, identifier): (usize, &Identifier)| match identifier {
        Identifier::Global => true,
        Identifier::Endpoint => rule.conditions.endpoints.len() <= 1,
        Identifier::Tenant if rule.tenant.is_some() => true,
        _ => at == 0 && matches!(rule.key_pattern, Glob::Exact(_)),
    };
    rule.identifiers.iter().enumerate().all(is_constant)
}
