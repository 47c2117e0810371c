//! Limits that no rule can stand for, and why.

use std::collections::HashSet;
use std::sync::Arc;

use crate::directory::client::parse_identifiers;
use crate::envoy::limit::Allowance;
use crate::envoy::to_document::conditions::DOMAIN;
use crate::envoy::to_document::note::Loss;
use crate::envoy::to_document::pattern::Pattern;
use crate::envoy::to_document::way::Way;
use crate::identifier::Identifier;
use crate::matching::glob::Glob;

/// Why no rule can be made of a limit.
pub(super) fn obstacle(way: &Way<'_>) -> Option<Loss> {
    if matches!(way.limit.allowance, Allowance::Unlimited) {
        return Some(Loss::Unlimited);
    }
    let is_glob = |pattern: Pattern<'_>| Glob::parse(&pattern.glob()).is_ok();
    if !is_glob(Pattern::Exact(&way.limit.domain)) {
        return Some(Loss::Unwritable(Arc::clone(&way.limit.domain)));
    }
    let mut keys = HashSet::new();
    let mut identifiers = Vec::new();
    for turn in &way.turns {
        let key = || Arc::clone(&turn.branch.step.key);
        let identifier = format!("attribute:{}", turn.key());
        if turn.key().contains('*') {
            return Some(Loss::KeyWildcard);
        }
        if turn.key() == DOMAIN {
            return Some(Loss::DomainKey);
        }
        if Identifier::parse(&identifier).is_err() {
            return Some(Loss::Unwritable(key()));
        }
        if !keys.insert(turn.key()) {
            return Some(Loss::RepeatedKey(key()));
        }
        if !is_glob(turn.values()) {
            return Some(Loss::Unwritable(turn.values().text().into()));
        }
        if turn.rivals().any(|rival| rival.values().covers(turn.values())) {
            return Some(Loss::NeverMet);
        }
        identifiers.extend(turn.tells_apart().then_some(identifier));
    }
    let is_key = identifiers.is_empty() || parse_identifiers(&identifiers).is_ok();
    (!is_key).then_some(Loss::ManyKeys)
}
