//! One entry before and after: what audit logs tell, and what nodes bring their policy up to date by.

use std::collections::HashSet;

use serde_json::Value as Json;
use tollgate_rules::Problem;

use crate::entry::Entry;
use crate::entry::kind::Kind;

/// An entry before and after a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its kind.
    pub kind: Kind,
    /// What it is called among those of its kind.
    pub entry: String,
    /// The tenant it belongs to.
    pub tenant: Option<String>,
    /// The tenant whose administrators made the change; none if operators did.
    pub author_tenant: Option<String>,
    /// What it was, as JSON; none if it was not there.
    pub was: Option<String>,
    /// What it becomes, as JSON; none if it goes.
    pub becomes: Option<String>,
}

impl Change {
    /// The entry that it makes; none if it removes one.
    ///
    /// # Errors
    /// The text cannot be read.
    pub fn entry_made(&self) -> Result<Option<Entry>, Vec<Problem>> {
        self.becomes.as_deref().map(|body| Entry::parse(self.kind, body)).transpose()
    }

    /// The entry that it removes or replaces; none if there was none.
    ///
    /// # Errors
    /// The text cannot be read.
    pub fn entry_before(&self) -> Result<Option<Entry>, Vec<Problem>> {
        self.was.as_deref().map(|body| Entry::parse(self.kind, body)).transpose()
    }

    /// The rule whose bans are all lifted, if that is what this change does.
    pub(crate) fn lifts_all_by(&self) -> Option<String> {
        if self.kind != Kind::Ban || self.becomes.is_some() {
            return None;
        }
        let mut parts: Vec<String> = serde_json::from_str(&self.entry).ok()?;
        if parts.len() == 1 { parts.pop() } else { None }
    }

    /// The rule of a ban: its name begins with it.
    fn rule_of_ban(&self) -> Option<String> {
        let parts: Vec<String> = serde_json::from_str(&self.entry).ok()?;
        parts.into_iter().next()
    }

    /// What can be told of the entry before and after: all but digests of secrets.
    #[must_use]
    pub fn told(&self) -> (Option<Json>, Option<Json>) {
        (told(self.was.as_deref()), told(self.becomes.as_deref()))
    }
}

/// What changes that follow each other come to: of each entry, the last one. Changes of bans are left out
/// if all bans by their rule are lifted after them.
pub(crate) fn last_of_each(changes: &[Change]) -> Vec<&Change> {
    let (mut seen, mut lifted) = (HashSet::new(), HashSet::new());
    let newest_first = changes.iter().rev();
    let mut last: Vec<&Change> = newest_first
        .filter(|it| {
            if it.kind == Kind::Ban {
                if let Some(rule_id) = it.lifts_all_by() {
                    return lifted.insert(rule_id);
                }
                if !lifted.is_empty() && it.rule_of_ban().is_some_and(|rule| lifted.contains(&rule))
                {
                    return false;
                }
            }
            seen.insert((it.kind, it.entry.as_str()))
        })
        .collect();
    last.reverse();
    last
}

fn told(body: Option<&str>) -> Option<Json> {
    let mut body: Json = serde_json::from_str(body?).ok()?;
    if let Some(fields) = body.as_object_mut() {
        fields.remove("digest");
    }
    Some(body)
}
