//! The policy in force with a change, compiled as if it were applied.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::StatusCode;
use tollgate::Policy;
use tollgate::rules::document::{RuleDocument, TierDocument};
use tollgate::rules::{Directory, DirectoryChange, List, PolicyDocument, Problem as Flaw, Source};
use tollgate_catalog::is_rule_id_of;

use super::PolicyChange;
use crate::admin::invalid;
use crate::app::state::Shared;
use crate::edge::http::problem::Problem;
use crate::policy::source::PolicySource;

/// The policy in force, with the documents that its rules were made of.
#[derive(Clone, Debug)]
pub(crate) struct PolicyBase {
    pub(super) policy: Policy,
    rules: Vec<RuleDocument>,
    tiers: Vec<TierDocument>,
}

/// A changed policy: its rules and tiers, and compiled with the clients of the policy in force.
#[derive(Clone, Debug)]
pub(crate) struct ChangedPolicy {
    pub(crate) document: PolicyDocument,
    pub(crate) policy: Policy,
}

impl Shared {
    /// The policy in force.
    pub(crate) fn policy_base(&self) -> PolicyBase {
        let policy = self.limiter.policy();
        match &self.policy_source {
            PolicySource::Catalog(catalog_sync) => {
                let view = catalog_sync.view();
                PolicyBase {
                    policy,
                    rules: view.rules().values().cloned().collect(),
                    tiers: view.tiers().values().cloned().collect(),
                }
            }
            PolicySource::File(source) => {
                let PolicyDocument { rules, tiers, .. } = source.loaded.load().document.clone();
                PolicyBase { policy, rules, tiers }
            }
        }
    }
}

impl PolicyBase {
    /// The rules of one tenant and the tiers, without any client.
    pub(crate) fn of_tenant(mut self, tenant: &str) -> Self {
        self.rules.retain(|rule| rule.tenant.as_deref() == Some(tenant));
        self.policy = self.policy.with_directory(Directory::default());
        self
    }

    /// The same policy without bans: they are of now, and recorded requests are of the past.
    pub(crate) fn without_bans(mut self) -> Self {
        let directory = self.policy.directory();
        let lift = |(rule_id, _): (&Arc<str>, usize)| {
            let rule_id = Arc::clone(rule_id);
            DirectoryChange::UnbanAll { rule_id }
        };
        let lifted = directory.apply(directory.bans_by_rule().map(lift).collect::<Vec<_>>());
        self.policy = self.policy.with_directory(lifted);
        self
    }

    /// The rules and tiers that can be edited: a tenant has no tiers of its own.
    pub(crate) fn document(&self, has_tiers: bool) -> PolicyDocument {
        let tiers = if has_tiers { self.tiers.clone() } else { Vec::new() };
        PolicyDocument { rules: self.rules.clone(), tiers, ..PolicyDocument::default() }
    }

    /// The change that leaves the rules of a document, and no others.
    pub(crate) fn replaced_by(&self, document: PolicyDocument) -> PolicyChange {
        let is_kept = |id: &String| document.rules.iter().any(|rule| rule.rule_id == *id);
        let ids = self.rules.iter().map(|rule| &rule.rule_id);
        let removed = ids.filter(|id| !is_kept(id)).cloned().collect();
        PolicyChange { document, removed }
    }

    /// The policy with a change, which a tenant may make to its own rules only.
    pub(crate) fn changed(
        &self,
        change: PolicyChange,
        tenant: Option<&str>,
    ) -> Result<ChangedPolicy, Problem> {
        if let Some(tenant) = tenant {
            self.check_tenant(&change, tenant)?;
        }
        let PolicyChange { document, removed } = change;
        if let Some(unknown) = removed.iter().find(|it| self.rule(it).is_none()) {
            let name: String = unknown.chars().take(100).collect();
            return Err(Problem::not_found("unknown_rule", format!("there is no rule `{name}`")));
        }
        let rules = merged(&self.rules, document.rules, &removed, |rule| &rule.rule_id);
        let tiers = merged(&self.tiers, document.tiers, &[], |tier| &tier.tier);
        let source =
            Source::from_document(PolicyDocument { rules, tiers, ..PolicyDocument::default() });
        let compiled = Policy::compile(&source).map_err(|flaws| invalid(&flaws))?;
        let one = |flaw: Flaw| invalid(&[flaw]);
        let mut changes = Vec::new();
        for it in &document.clients {
            changes.push(DirectoryChange::tier(it, compiled.rules()).map_err(one)?);
        }
        for it in &document.overrides {
            changes.push(DirectoryChange::exception(it, compiled.rules()).map_err(one)?);
        }
        for (list, entries) in
            [(List::Allow, &document.whitelist), (List::Deny, &document.blacklist)]
        {
            for it in entries {
                changes.push(DirectoryChange::list(list, it).map_err(one)?);
            }
        }
        let policy = compiled.with_directory(self.policy.directory().apply(changes));
        Ok(ChangedPolicy { document: source.document, policy })
    }

    fn rule(&self, rule_id: &str) -> Option<&RuleDocument> {
        self.rules.iter().find(|rule| rule.rule_id == rule_id)
    }

    fn check_tenant(&self, change: &PolicyChange, tenant: &str) -> Result<(), Problem> {
        let PolicyDocument { rules, tiers, clients, overrides, whitelist, blacklist, .. } =
            &change.document;
        // A rule of others is refused like one that does not exist, so that nothing is learned of others.
        let is_own = |rule_id: &str| {
            let known =
                self.rule(rule_id).or_else(|| rules.iter().find(|it| it.rule_id == rule_id));
            known.is_some_and(|rule| rule.tenant.as_deref() == Some(tenant))
        };
        let is_named_as_own = |rule: &RuleDocument| match self.rule(&rule.rule_id) {
            Some(known) => known.tenant.as_deref() == Some(tenant),
            None => is_rule_id_of(tenant, &rule.rule_id),
        };
        let is_allowed = |rule: &RuleDocument| {
            rule.tenant.as_deref() == Some(tenant)
                && is_named_as_own(rule)
                && rule.replaces.iter().all(|it| is_own(it))
        };
        let are_own = rules.iter().all(is_allowed) && change.removed.iter().all(|it| is_own(it));
        let has_others = !tiers.is_empty()
            || !clients.is_empty()
            || !overrides.is_empty()
            || !whitelist.is_empty()
            || !blacklist.is_empty();
        if has_others || !are_own {
            let detail = format!(
                "a tenant-admin of {tenant} can try changes of its own rules: those with `tenant: {tenant}`, \
                 new ones with a rule_id of the tenant, and none that replace rules of others"
            );
            return Err(Problem::new(StatusCode::FORBIDDEN, "other_tenant", detail));
        }
        Ok(())
    }
}

/// Entries in which others replace those of the same name, and some are removed.
fn merged<T: Clone>(
    known: &[T],
    changed: Vec<T>,
    removed: &[String],
    name: impl Fn(&T) -> &String,
) -> Vec<T> {
    let mut changed: BTreeMap<String, T> =
        changed.into_iter().map(|it| (name(&it).clone(), it)).collect();
    let kept = known.iter().filter(|it| !removed.contains(name(it)));
    let mut all: Vec<T> =
        kept.map(|it| changed.remove(name(it)).unwrap_or_else(|| it.clone())).collect();
    all.extend(changed.into_values());
    all
}
