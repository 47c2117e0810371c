//! What an administrator of a tenant does not see: the rules of others, wherever a decision or a ranking names one.

use tollgate::rules::candidate_of;

use crate::app::state::Shared;
use crate::observe::audit_log::log::DecisionEntry;
use crate::observe::recent_traffic::top::{RankedBy, RankedEntry, RankedList, TopAsk, TopFigures};
use crate::policy::source::PolicySource;

impl Shared {
    /// Whether a rule or candidate belongs to a tenant; of none, all do.
    pub(crate) fn is_rule_of(&self, rule_id: &str, tenant: Option<&str>) -> bool {
        let Some(tenant) = tenant else { return true };
        let rule_id = candidate_of(rule_id).unwrap_or(rule_id);
        // Rules that are off have decisions of the past.
        if let PolicySource::Catalog(catalog_sync) = &self.policy_source {
            let view = catalog_sync.view();
            return view
                .rules()
                .get(rule_id)
                .is_some_and(|it| it.tenant.as_deref() == Some(tenant));
        }
        let policy = self.limiter.policy();
        policy.rules().find(rule_id).is_some_and(|rule| rule.tenant.as_deref() == Some(tenant))
    }

    /// A decision without the rules of others, and without their figures. The decision itself is about a request of the
    /// tenant.
    pub(crate) fn without_foreign_rules(
        &self,
        mut entry: DecisionEntry,
        tenant: Option<&str>,
    ) -> DecisionEntry {
        let is_own = |rule_id: &str| self.is_rule_of(rule_id, tenant);
        let details = &mut entry.details;
        details.also_would_refuse.retain(|rule_id| is_own(rule_id));
        if entry.rule_id.as_deref().is_some_and(|rule_id| !is_own(rule_id)) {
            entry.rule_id = None;
            (details.limit, details.remaining, details.retry_after) = (None, None, None);
        }
        entry
    }

    /// Rankings without the rules of others.
    pub(crate) fn top_without_foreign_rules(
        &self,
        figures: TopFigures,
        ask: &TopAsk,
        tenant: &str,
    ) -> TopFigures {
        let is_own = |rule_id: &str| self.is_rule_of(rule_id, Some(tenant));
        let list = |list| own_entries(list, ask.by, ask.limit, is_own);
        TopFigures {
            refused: list(figures.refused),
            near_limit: list(figures.near_limit),
            busiest: list(figures.busiest),
            would_refuse: list(figures.would_refuse),
        }
    }
}

/// A ranking without the rules of others.
fn own_entries(
    mut list: RankedList,
    by: RankedBy,
    limit: usize,
    is_own: impl Fn(&str) -> bool,
) -> RankedList {
    if by == RankedBy::Rule {
        list.entries.retain(|entry| is_own(&entry.name));
    }
    for entry in &mut list.entries {
        if entry.rule_id.as_deref().is_some_and(|rule_id| !is_own(rule_id)) {
            (entry.rule_id, entry.used_percent) = (None, None);
        }
    }
    // Of a client that several rules of others would refuse, the highest count is left: they may be of the same requests.
    let mut kept: Vec<RankedEntry> = Vec::new();
    for entry in list.entries {
        let is_same = |it: &RankedEntry| {
            (&it.name, &it.tenant, &it.rule_id) == (&entry.name, &entry.tenant, &entry.rule_id)
        };
        if kept.len() < limit && !kept.iter().any(is_same) {
            kept.push(entry);
        }
    }
    RankedList { entries: kept, ..list }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rankings_of_a_tenant_name_its_own_rules_only() {
        let entry = |name: &str, rule_id: Option<&str>, count| RankedEntry {
            name: name.to_owned(),
            rule_id: rule_id.map(str::to_owned),
            used_percent: rule_id.map(|_| 90),
            count,
            ..RankedEntry::default()
        };
        let check = |by, limit, entries: Vec<RankedEntry>, expected: Vec<RankedEntry>| {
            let list = RankedList { entries, ..RankedList::default() };
            assert_eq!(own_entries(list, by, limit, |it| it == "own").entries, expected);
        };
        let all = vec![
            entry("ann", Some("watch"), 9),
            entry("ann", Some("trial"), 8),
            entry("ann", Some("own"), 7),
            entry("bob", None, 6),
        ];
        let own = vec![entry("ann", None, 9), entry("ann", Some("own"), 7), entry("bob", None, 6)];
        check(RankedBy::Client, 9, all.clone(), own.clone());
        check(RankedBy::Client, 2, all, own[..2].to_vec());
        let rules = vec![entry("watch", None, 9), entry("own", None, 7)];
        check(RankedBy::Rule, 1, rules, vec![entry("own", None, 7)]);
    }
}
