//! Limits that no rule can stand for, and why.

use std::collections::HashSet;
use std::sync::Arc;

use tollgate_rules::Identifier;
use tollgate_rules::syntax::MAX_IDENTIFIERS;
use tollgate_rules::syntax::is_glob;

use crate::envoy::limit::Allowance;
use crate::envoy::to_document::conditions::DOMAIN;
use crate::envoy::to_document::limit_path::LimitPath;
use crate::envoy::to_document::note::EnvoyLoss;
use crate::envoy::to_document::pattern::ValuePattern;

/// Why no rule can be made of a limit.
pub(super) fn obstacle(way: &LimitPath<'_>) -> Option<EnvoyLoss> {
    if matches!(way.limit.allowance, Allowance::Unlimited) {
        return Some(EnvoyLoss::Unlimited);
    }
    let is_writable = |pattern: ValuePattern<'_>| is_glob(&pattern.glob());
    if !is_writable(ValuePattern::Exact(&way.limit.domain)) {
        return Some(EnvoyLoss::Unwritable(Arc::clone(&way.limit.domain)));
    }
    let mut keys = HashSet::new();
    let mut identifiers = 0;
    for turn in &way.turns {
        let key = || Arc::clone(&turn.branch.step.key);
        let identifier = format!("attribute:{}", turn.key());
        if turn.key().contains('*') {
            return Some(EnvoyLoss::KeyWildcard);
        }
        if turn.key() == DOMAIN {
            return Some(EnvoyLoss::DomainKey);
        }
        if identifier.parse::<Identifier>().is_err() {
            return Some(EnvoyLoss::Unwritable(key()));
        }
        if !keys.insert(turn.key()) {
            return Some(EnvoyLoss::RepeatedKey(key()));
        }
        if !is_writable(turn.values()) {
            return Some(EnvoyLoss::Unwritable(turn.values().text().into()));
        }
        if turn.rivals().any(|rival| rival.values().covers(turn.values())) {
            return Some(EnvoyLoss::NeverMet);
        }
        identifiers += usize::from(turn.tells_apart());
    }
    (identifiers > MAX_IDENTIFIERS).then_some(EnvoyLoss::ManyKeys)
}
