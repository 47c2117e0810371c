//! Limits that no rule can stand for, and why.

use std::collections::HashSet;
use std::sync::Arc;

use tollgate_rules::Identifier;
use tollgate_rules::syntax::MAX_IDENTIFIERS;
use tollgate_rules::syntax::is_glob;

use crate::envoy::limit::Allowance;
use crate::envoy::to_document::conditions::DOMAIN;
use crate::envoy::to_document::note::Loss;
use crate::envoy::to_document::pattern::Pattern;
use crate::envoy::to_document::way::Way;

/// Why no rule can be made of a limit.
pub(super) fn obstacle(way: &Way<'_>) -> Option<Loss> {
    if matches!(way.limit.allowance, Allowance::Unlimited) {
        return Some(Loss::Unlimited);
    }
    let is_writable = |pattern: Pattern<'_>| is_glob(&pattern.glob());
    if !is_writable(Pattern::Exact(&way.limit.domain)) {
        return Some(Loss::Unwritable(Arc::clone(&way.limit.domain)));
    }
    let mut keys = HashSet::new();
    let mut identifiers = 0;
    for turn in &way.turns {
        let key = || Arc::clone(&turn.branch.step.key);
        let identifier = format!("attribute:{}", turn.key());
        if turn.key().contains('*') {
            return Some(Loss::KeyWildcard);
        }
        if turn.key() == DOMAIN {
            return Some(Loss::DomainKey);
        }
        if identifier.parse::<Identifier>().is_err() {
            return Some(Loss::Unwritable(key()));
        }
        if !keys.insert(turn.key()) {
            return Some(Loss::RepeatedKey(key()));
        }
        if !is_writable(turn.values()) {
            return Some(Loss::Unwritable(turn.values().text().into()));
        }
        if turn.rivals().any(|rival| rival.values().covers(turn.values())) {
            return Some(Loss::NeverMet);
        }
        identifiers += usize::from(turn.tells_apart());
    }
    (identifiers > MAX_IDENTIFIERS).then_some(Loss::ManyKeys)
}
