//! A catalog as a node sees it: the policy that judges, the keys and tokens that are known. It never
//! changes; a changed one shares what the changes did not touch.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tollgate_rules::document::{RuleDocument, TierDocument};
use tollgate_rules::{
    Change as Delta, Client, Directory, List, Policy, PolicyDocument, Problem, SECRET_DIGEST,
    Source, Subject, parse_time,
};

use crate::catalog::Head;
use crate::entry::Entry;
use crate::entry::access::{ApiKey, Token};
use crate::entry::change::{Change, last_of_each};
use crate::entry::kind::Kind;

/// A catalog as a node sees it.
#[derive(Clone, Debug)]
pub struct View {
    head: Head,
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
            head: Head::default(),
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
    /// Which state of which catalog it is.
    #[must_use]
    pub const fn head(&self) -> Head {
        self.head
    }

    /// The policy that judges.
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

    /// The view with these changes made. Nothing is compiled but what they touch.
    ///
    /// # Errors
    /// The changes make no sound policy: then they are not those of this view.
    pub fn apply(&self, changes: &[Change], head: Head) -> Result<Self, Vec<Problem>> {
        // What happened in between may not fit what is there in the end.
        let changes = last_of_each(changes);
        let mut next = Self { head, ..self.clone() };
        let mut has_new_rules = false;
        for change in &changes {
            match change.kind {
                Kind::Rule => {
                    has_new_rules = true;
                    let rules = Arc::make_mut(&mut next.rules);
                    match change.entry_made()? {
                        Some(Entry::Rule(rule)) => rules.insert(change.entry.clone(), *rule),
                        _ => rules.remove(&change.entry),
                    };
                }
                Kind::Tier => {
                    has_new_rules = true;
                    let tiers = Arc::make_mut(&mut next.tiers);
                    match change.entry_made()? {
                        Some(Entry::Tier(tier)) => tiers.insert(change.entry.clone(), tier),
                        _ => tiers.remove(&change.entry),
                    };
                }
                Kind::ApiKey => {
                    let keys = Arc::make_mut(&mut next.api_keys);
                    match change.entry_made()? {
                        Some(Entry::ApiKey(key)) => keys.insert(change.entry.clone(), key),
                        _ => keys.remove(&change.entry),
                    };
                }
                Kind::Token => {
                    let tokens = Arc::make_mut(&mut next.tokens);
                    match change.entry_made()? {
                        Some(Entry::Token(token)) => tokens.insert(change.entry.clone(), token),
                        _ => tokens.remove(&change.entry),
                    };
                }
                Kind::Client | Kind::Override | Kind::Whitelist | Kind::Blacklist | Kind::Ban => {}
            }
        }
        if has_new_rules {
            let directory = next.policy.directory().clone();
            next.policy = compile(&next.rules, &next.tiers)?.with_directory(directory);
        }
        let mut deltas = Vec::new();
        for change in changes {
            deltas.extend(delta_of(change, &next.policy)?);
        }
        if !deltas.is_empty() {
            let directory = next.policy.directory().apply(deltas);
            next.policy = next.policy.with_directory(directory);
        }
        next.policy = next.policy.with_revision(head.revision);
        Ok(next)
    }
}

/// Puts a view together from all entries, kind by kind in the order of [`Kind::ALL`].
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
            let view = &mut self.view;
            match entry {
                Entry::Rule(rule) => {
                    Arc::make_mut(&mut view.rules).insert(name, *rule);
                }
                Entry::Tier(tier) => {
                    Arc::make_mut(&mut view.tiers).insert(name, tier);
                }
                Entry::ApiKey(key) => {
                    Arc::make_mut(&mut view.api_keys).insert(name, key);
                }
                Entry::Token(token) => {
                    Arc::make_mut(&mut view.tokens).insert(name, token);
                }
                entry => deltas.extend(delta_to(&entry, &view.policy)?),
            }
        }
        self.directory.extend(deltas);
        Ok(())
    }

    /// Once rules and tiers are there, and before anything refers to them.
    fn compile(&mut self) -> Result<(), Vec<Problem>> {
        if !self.is_compiled {
            self.view.policy = compile(&self.view.rules, &self.view.tiers)?;
            self.is_compiled = true;
        }
        Ok(())
    }

    pub(crate) fn finish(mut self, head: Head) -> Result<View, Vec<Problem>> {
        self.compile()?;
        let policy = self.view.policy.with_directory(self.directory);
        Ok(View { head, policy: policy.with_revision(head.revision), ..self.view })
    }
}

fn compile(
    rules: &BTreeMap<String, RuleDocument>,
    tiers: &BTreeMap<String, TierDocument>,
) -> Result<Policy, Vec<Problem>> {
    Policy::compile(&Source::from_document(PolicyDocument {
        rules: rules.values().cloned().collect(),
        tiers: tiers.values().cloned().collect(),
        ..PolicyDocument::default()
    }))
}

/// What a change means to the directory of a policy.
fn delta_of(change: &Change, policy: &Policy) -> Result<Option<Delta>, Vec<Problem>> {
    if let Some(entry) = change.entry_made()? {
        return delta_to(&entry, policy);
    }
    let Some(entry) = change.entry_before()? else { return Ok(None) };
    let one = |problem: Problem| vec![problem];
    Ok(Some(match entry {
        Entry::Client(it) => Delta::RemoveTier {
            client: Client::new(&it.identifier_type, &it.identifier).map_err(one)?,
        },
        Entry::Override(it) => Delta::RemoveOverride {
            client: Client::new(&it.identifier_type, &it.identifier).map_err(one)?,
            rule_id: it.rule_id.into(),
        },
        Entry::Whitelist(it) => {
            Delta::unlist(List::Allow, &it.identifier_type, &it.identifier).map_err(one)?
        }
        Entry::Blacklist(it) => {
            Delta::unlist(List::Deny, &it.identifier_type, &it.identifier).map_err(one)?
        }
        Entry::Ban(it) if it.identifier.is_empty() => {
            Delta::UnbanAll { rule_id: it.rule_id.into() }
        }
        Entry::Ban(it) => {
            Delta::Unban { subject: Subject::new(&it.identifier), rule_id: it.rule_id.into() }
        }
        Entry::Rule(_) | Entry::Tier(_) | Entry::ApiKey(_) | Entry::Token(_) => return Ok(None),
    }))
}

/// What an entry means to the directory of a policy.
fn delta_to(entry: &Entry, policy: &Policy) -> Result<Option<Delta>, Vec<Problem>> {
    let delta = match entry {
        Entry::Client(it) => Delta::tier(it, policy.rules()),
        Entry::Override(it) => Delta::exception(it, policy.rules()),
        Entry::Whitelist(it) => Delta::list(List::Allow, it),
        Entry::Blacklist(it) => Delta::list(List::Deny, it),
        Entry::Ban(it) => {
            let subject = Subject::new(&it.identifier);
            let rule_id = it.rule_id.as_str().into();
            // An end that cannot be read has come.
            Ok(match parse_time(&it.expires_at) {
                Some(until) => Delta::Ban { rule_id, subject, until },
                None => Delta::Unban { rule_id, subject },
            })
        }
        Entry::Rule(_) | Entry::Tier(_) | Entry::ApiKey(_) | Entry::Token(_) => return Ok(None),
    };
    delta.map(Some).map_err(|problem| vec![problem])
}
