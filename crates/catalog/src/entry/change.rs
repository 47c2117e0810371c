//! One entry before and after a write: what is validated and logged, and what nodes update their snapshot by.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::Value as Json;
use tollgate_rules::{Policy, Problem};

use crate::catalog::Version;
use crate::entry::Entry;
use crate::entry::kind::Kind;

/// An entry before and after a revision.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The kind of the entry.
    pub kind: Kind,
    /// The name of the entry among those of its kind.
    pub name: String,
    /// The tenant it belongs to.
    pub tenant: Option<String>,
    /// The tenant whose administrators made the change; none if operators did.
    pub author_tenant: Option<String>,
    /// The entry before; none if it did not exist.
    pub before: Option<Arc<Entry>>,
    /// The entry after; none if it was removed.
    pub after: Option<Arc<Entry>>,
}

/// The changes between two versions of a catalog.
#[derive(Clone, Debug)]
pub struct Update {
    /// The version they lead to. After a dry run, the version that the catalog still has.
    pub version: Version,
    /// Every entry that changed, in the order of the log.
    pub changes: Vec<Change>,
    /// The rules and tiers of that version, where they are compiled already.
    pub(crate) compiled: Option<Policy>,
}

impl Update {
    /// Changes that lead to a version.
    #[must_use]
    pub const fn new(version: Version, changes: Vec<Change>) -> Self {
        Self { version, changes, compiled: None }
    }
}

impl Change {
    /// An operator creates an entry.
    ///
    /// # Errors
    /// What is wrong with the identifiers of the entry.
    pub fn created(entry: Entry) -> Result<Self, Problem> {
        Ok(Self {
            kind: entry.kind(),
            name: entry.name()?,
            tenant: None,
            author_tenant: None,
            before: None,
            after: Some(Arc::new(entry)),
        })
    }

    /// The entry before and after as JSON, without digests of secrets.
    #[must_use]
    pub fn redacted(&self) -> (Option<Json>, Option<Json>) {
        let json = |entry: &Option<Arc<Entry>>| {
            entry.as_ref().and_then(|entry| serde_json::to_value(&**entry).ok()).map(without_digest)
        };
        (json(&self.before), json(&self.after))
    }

    /// The rule whose bans are all lifted, if that is what this change does.
    pub(crate) fn lifts_all_by(&self) -> Option<&str> {
        match (self.before.as_deref(), &self.after) {
            (Some(Entry::Ban(ban)), None) if ban.identifier.is_empty() => Some(&ban.rule_id),
            _ => None,
        }
    }

    /// The rule of a ban.
    fn rule_of_ban(&self) -> Option<&str> {
        match self.after.as_deref().or(self.before.as_deref()) {
            Some(Entry::Ban(ban)) => Some(&ban.rule_id),
            _ => None,
        }
    }
}

/// The last change of each entry. Changes of bans are left out if all bans by their rule are lifted after them.
pub(crate) fn last_of_each(changes: &[Change]) -> Vec<&Change> {
    let (mut seen, mut lifted) = (HashSet::new(), HashSet::new());
    let newest_first = changes.iter().rev();
    let mut last: Vec<&Change> = newest_first
        .filter(|it| match (it.lifts_all_by(), it.rule_of_ban()) {
            (Some(rule_id), _) => lifted.insert(rule_id),
            (None, Some(rule_id)) if lifted.contains(rule_id) => false,
            _ => seen.insert((it.kind, it.name.as_str())),
        })
        .collect();
    last.reverse();
    last
}

/// The JSON of an entry without the digest of its secret.
pub(crate) fn without_digest(mut body: Json) -> Json {
    if let Some(fields) = body.as_object_mut() {
        fields.remove("digest");
    }
    body
}
