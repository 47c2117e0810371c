//! One draft as a rule.

use std::collections::HashMap;
use std::sync::Arc;

use tollgate_core::{Algorithm, MAX_LIMIT};
use tollgate_rules::document::{
    Action, AppliesTo, Consistency, OnMissing, OnStoreFailure, RuleDocument, ThrottleDocument,
};
use tollgate_rules::{AlgorithmName, OneOrMany, Window};

use crate::nginx::limit::MAX_DELAY_MS;
use crate::nginx::to_document::draft::RuleDraft;

/// The rule of a draft among others, which it may replace.
pub(super) fn rule(draft: &RuleDraft<'_>, all: &[RuleDraft<'_>]) -> RuleDocument {
    let rate = draft.zone.rate;
    let counting = counting(draft);
    let identifiers = &draft.key.identifiers;
    let replaces = draft.replaces.iter().filter_map(|at| all.get(*at));
    RuleDocument {
        rule_id: draft.id.to_string(),
        name: None,
        description: Some(draft.limit.to_string()),
        limit: rate.requests,
        limit_from: None,
        window_seconds: None,
        window: Window::new(if rate.is_per_minute { "1m" } else { "1s" }).ok(),
        time_zone: None,
        algorithm: AlgorithmName(counting.algorithm),
        burst: Some(counting.capacity.min(MAX_LIMIT)),
        candidate: None,
        identifier_type: if identifiers.is_empty() {
            OneOrMany::one("global")
        } else {
            OneOrMany::many(identifiers.iter().cloned())
        },
        key_pattern: "*".to_owned(),
        on_missing: OnMissing::Skip,
        tenant: None,
        applies_to: AppliesTo {
            hosts: draft.hosts.clone(),
            endpoints: draft.endpoints.clone(),
            ..AppliesTo::default()
        },
        cost: 1,
        costs: draft.costs.clone(),
        action: match counting.max_delay_ms {
            _ if draft.is_dry_run => Action::LogOnly,
            Some(_) => Action::Throttle,
            None => Action::Reject,
        },
        throttle: counting.max_delay_ms.map(|max_delay_ms| ThrottleDocument { max_delay_ms }),
        soft: None,
        priority: 0,
        replaces: replaces.map(|other| other.id.to_string()).collect(),
        consistency: Consistency::default(),
        on_store_failure: OnStoreFailure::default(),
        fallback_factor: 2,
        penalty: None,
        refund_on: Vec::new(),
        refusal: None,
        enabled: true,
    }
}

/// How a draft counts, in the words of a rule.
struct Counting {
    algorithm: Algorithm,
    capacity: u64,
    max_delay_ms: Option<u64>,
}

/// nginx admits its burst beside the one request that the rate allows. A request is held back for
/// as long as it is early, if at all: from the first one on, which is a leaky bucket, or from the
/// one on that is beyond what may come at once, which is a bucket of that size that throttles.
fn counting(draft: &RuleDraft<'_>) -> Counting {
    let limit = &draft.limit;
    let whole = limit.burst.saturating_add(1);
    if limit.at_once == limit.burst || draft.is_dry_run {
        return Counting { algorithm: Algorithm::Gcra, capacity: whole, max_delay_ms: None };
    }
    if limit.at_once == 0 {
        return Counting { algorithm: Algorithm::LeakyBucket, capacity: whole, max_delay_ms: None };
    }
    let longest = draft.zone.rate.delay_ms(limit.burst - limit.at_once);
    Counting {
        algorithm: Algorithm::Gcra,
        capacity: limit.at_once.saturating_add(1),
        max_delay_ms: Some(longest.min(MAX_DELAY_MS)),
    }
}

/// How much of the name of a zone is kept, so that a number has room behind it.
const MAX_STEM: usize = 90;

/// The ids given so far, each with how often it was wanted.
#[derive(Default)]
pub(super) struct NginxRuleIds(HashMap<String, u64>);

impl NginxRuleIds {
    /// The name of the zone, as far as an id can have it, with a number if it is not the first.
    pub(super) fn give(&mut self, zone: &str) -> Arc<str> {
        let accepted = |c: char| match c {
            'a'..='z' | '0'..='9' | '_' | '.' | '-' => c,
            'A'..='Z' => c.to_ascii_lowercase(),
            _ => '-',
        };
        let stem = zone.chars().map(accepted).take(MAX_STEM).collect::<String>();
        let mut id = stem.clone();
        // Another zone may have the name that a number would make.
        while self.0.contains_key(&id) {
            let wanted = self.0.entry(stem.clone()).or_default();
            *wanted += 1;
            id = format!("{stem}.{wanted}");
        }
        self.0.insert(id.clone(), 1);
        id.into()
    }
}
