//! A snapshot of a catalog: its policy, compiled, with API keys and tokens. It is immutable; the next one
//! shares what did not change.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tollgate_rules::document::{RuleDocument, TierDocument};
use tollgate_rules::{
    Client, Directory, DirectoryChange, List, Policy, PolicyDocument, Problem, SECRET_DIGEST,
    Source, Subject, parse_time,
};

use crate::catalog::Version;
use crate::entry::Entry;
use crate::entry::access::{ApiKey, Token};
use crate::entry::change::{Change, Update, last_of_each};
use crate::entry::kind::Kind;

/// A snapshot of a catalog.
#[derive(Clone, Debug)]
pub struct View {
    version: Version,
    rules: Arc<BTreeMap<String, RuleDocument>>,
    tiers: Arc<BTreeMap<String, TierDocument>>,
    policy: Policy,
    api_keys: Arc<HashMap<String, ApiKey>>,
    tokens: Arc<HashMap<String, Token>>,
}

/// A catalog that holds nothing.
impl Default for View {
    fn default() -> Self {
        Self {
            version: Version::default(),
            rules: Arc::default(),
            tiers: Arc::default(),
            policy: Policy::default()
                .with_directory(Directory::default().with_digest(SECRET_DIGEST)),
            api_keys: Arc::default(),
            tokens: Arc::default(),
        }
    }
}

impl View {
    /// The version of the catalog that it shows.
    #[must_use]
    pub const fn version(&self) -> Version {
        self.version
    }

    /// The compiled policy.
    #[must_use]
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The rules, as they were written, by `rule_id`.
    #[must_use]
    pub fn rules(&self) -> &BTreeMap<String, RuleDocument> {
        &self.rules
    }

    /// The tiers, as they were written.
    #[must_use]
    pub fn tiers(&self) -> &BTreeMap<String, TierDocument> {
        &self.tiers
    }

    /// The known API keys.
    #[must_use]
    pub const fn api_keys(&self) -> &Arc<HashMap<String, ApiKey>> {
        &self.api_keys
    }

    /// The tokens for this server.
    #[must_use]
    pub const fn tokens(&self) -> &Arc<HashMap<String, Token>> {
        &self.tokens
    }

    /// The snapshot after an update. Rules are compiled if they changed, unless the update brings them compiled.
    ///
    /// # Errors
    /// The result would be an invalid policy: then the update does not belong to this snapshot.
    pub fn apply(&self, update: &Update) -> Result<Self, Vec<Problem>> {
        // An earlier change may refer to what a later one removes.
        let changes = last_of_each(&update.changes);
        let mut next = Self { version: update.version, ..self.clone() };
        for change in &changes {
            next.put(change.kind, &change.name, change.after.as_deref());
        }
        if changes.iter().any(|it| matches!(it.kind, Kind::Rule | Kind::Tier)) {
            let compiled = match &update.compiled {
                Some(compiled) => compiled.clone(),
                None => compile(&next.rules, &next.tiers)?,
            };
            next.policy = compiled.with_directory(self.policy.directory().clone());
        }
        let mut deltas = Vec::new();
        for change in changes {
            deltas.extend(delta_of(change, &next.policy)?);
        }
        if !deltas.is_empty() {
            let directory = next.policy.directory().apply(deltas);
            next.policy = next.policy.with_directory(directory);
        }
        next.policy = next.policy.with_revision(update.version.revision);
        Ok(next)
    }

    /// What of the policy cannot be counted in Redis.
    #[must_use]
    pub fn uncountable_in_redis(&self) -> Vec<Problem> {
        let source = source_of(&self.rules, &self.tiers);
        let mut problems = tollgate_rules::uncountable_in_redis(&source, &self.policy);
        problems.extend(tollgate_rules::overrides_uncountable_in_redis(&self.policy));
        problems
    }

    /// What of the policy cannot be counted in Redis since these changes.
    pub(crate) fn uncountable_since(&self, changes: &[Change]) -> Vec<Problem> {
        if changes.iter().any(|it| it.kind == Kind::Rule) {
            return self.uncountable_in_redis();
        }
        // Of several changes of an override the last counts.
        let changes = last_of_each(changes);
        let overrides = changes.iter().filter_map(|change| match change.after.as_deref() {
            Some(Entry::Override(exception)) => Some(exception.clone()),
            _ => None,
        });
        let document =
            PolicyDocument { overrides: overrides.collect(), ..PolicyDocument::default() };
        tollgate_rules::uncountable_in_redis(&Source::from_document(document), &self.policy)
    }

    /// Replaces or removes an entry, unless it is one of the directory.
    fn put(&mut self, kind: Kind, name: &str, entry: Option<&Entry>) {
        let name = || name.to_owned();
        match (kind, entry) {
            (_, Some(Entry::Rule(rule))) => {
                Arc::make_mut(&mut self.rules).insert(name(), (**rule).clone());
            }
            (_, Some(Entry::Tier(tier))) => {
                Arc::make_mut(&mut self.tiers).insert(name(), tier.clone());
            }
            (_, Some(Entry::ApiKey(key))) => {
                Arc::make_mut(&mut self.api_keys).insert(name(), key.clone());
            }
            (_, Some(Entry::Token(token))) => {
                Arc::make_mut(&mut self.tokens).insert(name(), token.clone());
            }
            (Kind::Rule, None) => drop(Arc::make_mut(&mut self.rules).remove(&name())),
            (Kind::Tier, None) => drop(Arc::make_mut(&mut self.tiers).remove(&name())),
            (Kind::ApiKey, None) => drop(Arc::make_mut(&mut self.api_keys).remove(&name())),
            (Kind::Token, None) => drop(Arc::make_mut(&mut self.tokens).remove(&name())),
            _ => {}
        }
    }
}

/// Builds a snapshot from all entries, kind by kind in the order of [`Kind::ALL`].
#[derive(Debug)]
pub(crate) struct ViewBuilder {
    view: View,
    directory: Directory,
    is_compiled: bool,
}

impl Default for ViewBuilder {
    fn default() -> Self {
        let view = View::default();
        Self { directory: view.policy.directory().clone(), view, is_compiled: false }
    }
}

impl ViewBuilder {
    pub(crate) fn add(&mut self, kind: Kind, entries: Vec<Entry>) -> Result<(), Vec<Problem>> {
        if !matches!(kind, Kind::Rule | Kind::Tier) {
            self.compile()?;
        }
        let mut deltas = Vec::new();
        for entry in entries {
            let name = entry.name().map_err(|problem| vec![problem])?;
            self.view.put(kind, &name, Some(&entry));
            deltas.extend(delta_to(&entry, &self.view.policy)?);
        }
        self.directory.extend(deltas);
        Ok(())
    }

    /// Compiles rules and tiers before the first entry that refers to them.
    fn compile(&mut self) -> Result<(), Vec<Problem>> {
        if !self.is_compiled {
            self.view.policy = compile(&self.view.rules, &self.view.tiers)?;
            self.is_compiled = true;
        }
        Ok(())
    }

    pub(crate) fn finish(mut self, version: Version) -> Result<View, Vec<Problem>> {
        self.compile()?;
        let policy = self.view.policy.with_directory(self.directory);
        Ok(View { version, policy: policy.with_revision(version.revision), ..self.view })
    }
}

fn compile(
    rules: &BTreeMap<String, RuleDocument>,
    tiers: &BTreeMap<String, TierDocument>,
) -> Result<Policy, Vec<Problem>> {
    Policy::compile(&source_of(rules, tiers))
}

fn source_of(
    rules: &BTreeMap<String, RuleDocument>,
    tiers: &BTreeMap<String, TierDocument>,
) -> Source {
    Source::from_document(PolicyDocument {
        rules: rules.values().cloned().collect(),
        tiers: tiers.values().cloned().collect(),
        ..PolicyDocument::default()
    })
}

/// What a change means to the directory of a policy.
fn delta_of(change: &Change, policy: &Policy) -> Result<Option<DirectoryChange>, Vec<Problem>> {
    if let Some(entry) = &change.after {
        return delta_to(entry, policy);
    }
    let Some(entry) = change.before.as_deref() else { return Ok(None) };
    let one = |problem: Problem| vec![problem];
    Ok(Some(match entry {
        Entry::Client(it) => DirectoryChange::RemoveTier {
            client: Client::new(&it.identifier_type, &it.identifier).map_err(one)?,
        },
        Entry::Override(it) => DirectoryChange::RemoveOverride {
            client: Client::new(&it.identifier_type, &it.identifier).map_err(one)?,
            rule_id: it.rule_id.as_str().into(),
        },
        Entry::Whitelist(it) => {
            DirectoryChange::unlist(List::Allow, &it.identifier_type, &it.identifier)
                .map_err(one)?
        }
        Entry::Blacklist(it) => {
            DirectoryChange::unlist(List::Deny, &it.identifier_type, &it.identifier).map_err(one)?
        }
        Entry::Ban(it) if it.identifier.is_empty() => {
            DirectoryChange::UnbanAll { rule_id: it.rule_id.as_str().into() }
        }
        Entry::Ban(it) => DirectoryChange::Unban {
            subject: Subject::new(&it.identifier),
            rule_id: it.rule_id.as_str().into(),
        },
        Entry::Rule(_) | Entry::Tier(_) | Entry::ApiKey(_) | Entry::Token(_) => return Ok(None),
    }))
}

/// What an entry means to the directory of a policy.
fn delta_to(entry: &Entry, policy: &Policy) -> Result<Option<DirectoryChange>, Vec<Problem>> {
    let delta = match entry {
        Entry::Client(it) => DirectoryChange::tier(it, policy.rules()),
        Entry::Override(it) => DirectoryChange::exception(it, policy.rules()),
        Entry::Whitelist(it) => DirectoryChange::list(List::Allow, it),
        Entry::Blacklist(it) => DirectoryChange::list(List::Deny, it),
        Entry::Ban(it) => {
            let subject = Subject::new(&it.identifier);
            let rule_id = it.rule_id.as_str().into();
            // A time that cannot be parsed counts as expired.
            Ok(match parse_time(&it.expires_at) {
                Some(until) => DirectoryChange::Ban { rule_id, subject, until },
                None => DirectoryChange::Unban { rule_id, subject },
            })
        }
        Entry::Rule(_) | Entry::Tier(_) | Entry::ApiKey(_) | Entry::Token(_) => return Ok(None),
    };
    delta.map(Some).map_err(|problem| vec![problem])
}
