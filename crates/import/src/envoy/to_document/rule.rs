//! One limit, with its conditions, as a rule.

use std::collections::BTreeMap;

use tollgate_rules::document::{
    Action, AppliesTo, Consistency, OnMissing, OnStoreFailure, RuleDocument,
};
use tollgate_rules::{AlgorithmName, OneOrMany, Window};

use crate::envoy::limit::{Allowance, FileLimit};
use crate::envoy::to_document::conditions::RuleConditions;
use crate::envoy::unit::Unit;

/// The rule, unless nothing is limited.
pub(super) fn rule(
    limit: &FileLimit,
    conditions: &RuleConditions<'_>,
    replaces: Vec<String>,
) -> Option<RuleDocument> {
    let Allowance::Limited { unit, quota, .. } = &limit.allowance else { return None };
    let attributes = conditions.attributes.clone();
    Some(RuleDocument {
        rule_id: limit.id.to_string(),
        name: limit.name.as_deref().map(str::to_owned),
        description: None,
        limit: quota.limit,
        limit_from: None,
        window_seconds: None,
        window: Some(Window::new(window(*unit)).ok()?),
        time_zone: None,
        algorithm: AlgorithmName(quota.algorithm),
        burst: None,
        candidate: None,
        identifier_type: OneOrMany::many(conditions.identifiers.iter().cloned()),
        key_pattern: conditions.key_pattern.clone().unwrap_or_else(|| "*".to_owned()),
        on_missing: OnMissing::default(),
        tenant: None,
        applies_to: AppliesTo { attributes, ..AppliesTo::default() },
        cost: 1,
        costs: BTreeMap::new(),
        action: if limit.shadow { Action::LogOnly } else { Action::Reject },
        throttle: None,
        soft: None,
        priority: 0,
        replaces,
        consistency: Consistency::default(),
        on_store_failure: OnStoreFailure::default(),
        fallback_factor: 2,
        penalty: None,
        refund_on: Vec::new(),
        refusal: None,
        enabled: true,
    })
}

/// A unit as the window of a rule.
fn window(unit: Unit) -> &'static str {
    match unit {
        Unit::Second => "1s",
        Unit::Minute => "1m",
        Unit::Hour => "1h",
        Unit::Day => "1d",
        Unit::Week => "7d",
        Unit::Month => "30d",
        Unit::Year => "365d",
    }
}
