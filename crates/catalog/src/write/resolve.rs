//! What an intent would change, entry by entry, given what is there.

use std::collections::HashSet;

use serde_json::Value as Json;
use tollgate_rules::{PolicyDocument, Problem};

use crate::catalog::Catalog;
use crate::db::database::{Connection, Value, values};
use crate::db::tables;
use crate::entry::access::Role;
use crate::entry::change::Change;
use crate::entry::kind::Kind;
use crate::entry::{Entry, ban_name};
use crate::error::CatalogError;
use crate::write::ownership;
use crate::write::{Author, Edit, Expect, Intent};

/// One edit, given what is there.
struct Resolved {
    change: Change,
    /// False if it leaves everything as it is.
    is_change: bool,
}

impl Catalog {
    /// What an intent changes, given what is there.
    pub(crate) async fn resolve(
        &self,
        connection: &mut Connection,
        author: &Author,
        intent: Intent,
    ) -> Result<Vec<Change>, CatalogError> {
        // Operators who put an entry as it is already still make it theirs. A document does not do that: it may
        // be an export, with entries of tenants in it.
        let takes_over = matches!(intent, Intent::Edits(_));
        let edits = match intent {
            Intent::Edits(edits) => edits,
            Intent::Bans(bans) => {
                let bans = self.still_wanted(connection, bans).await?.into_iter();
                let put = |ban| Edit::Put { entry: Entry::Ban(ban), expect: Expect::Anything };
                bans.map(put).collect()
            }
            Intent::Begin(entries) => {
                let puts = entries.into_iter();
                puts.map(|entry| Edit::Put { entry, expect: Expect::Absent }).collect()
            }
            Intent::FirstAdmin { token, now } => {
                let sql = "SELECT entry FROM tollgate_tokens \
                           WHERE role = $1 AND (expires_at IS NULL OR expires_at > $2) LIMIT 1";
                let values = values![Role::Admin.name(), now.as_micros()];
                let failed = |error: sqlx::Error| self.failed(&error);
                if connection.row(sql, values).await.map_err(failed)?.is_some() {
                    return Ok(Vec::new());
                }
                vec![Edit::Put { entry: Entry::Token(token), expect: Expect::Absent }]
            }
            Intent::Apply { document, prune, .. } => {
                let mut edits = Vec::new();
                for kind in prune {
                    let kept = names_of(&document, kind)?;
                    for entry in self.names(connection, kind, author.tenant.as_deref()).await? {
                        if !kept.contains(&entry) {
                            let expect = Expect::Anything;
                            edits.push(Edit::Remove { kind, entry, expect });
                        }
                    }
                }
                let puts = Entry::all_of(*document).into_iter();
                edits.extend(puts.map(|entry| Edit::Put { entry, expect: Expect::Anything }));
                edits
            }
        };
        let mut resolved = Vec::with_capacity(edits.len());
        for edit in edits {
            match edit {
                Edit::LiftBans { rule_id } => {
                    self.check_ban_author(connection, author, &rule_id).await?;
                    if let Some((change, _)) = self.lifting(connection, author, &rule_id).await? {
                        resolved.push(Resolved { change, is_change: true });
                    }
                }
                edit => {
                    resolved.push(self.resolve_edit(connection, author, edit, takes_over).await?);
                }
            }
        }
        let mut seen = HashSet::new();
        let mut names = resolved.iter().map(|it| (it.change.kind, it.change.entry.as_str()));
        if let Some((kind, entry)) = names.find(|name| !seen.insert(*name)) {
            let message = format!("the {kind} {entry} is there twice");
            return Err(CatalogError::Invalid(vec![Problem::new("", message)]));
        }
        Ok(resolved.into_iter().filter(|it| it.is_change).map(|it| it.change).collect())
    }

    async fn resolve_edit(
        &self,
        connection: &mut Connection,
        author: &Author,
        edit: Edit,
        takes_over: bool,
    ) -> Result<Resolved, CatalogError> {
        let failed = |error: sqlx::Error| self.failed(&error);
        let invalid = |problem: Problem| CatalogError::Invalid(vec![problem]);
        let (kind, name, expect) = match &edit {
            Edit::Put { entry, expect } => (entry.kind(), entry.name().map_err(invalid)?, *expect),
            Edit::Patch { kind, entry, expect, .. } | Edit::Remove { kind, entry, expect } => {
                (*kind, entry.clone(), *expect)
            }
            Edit::LiftBans { rule_id } => (Kind::Ban, ban_name(rule_id, &[]), Expect::Anything),
        };
        let found = tables::find(connection, kind, &name).await.map_err(failed)?;
        // An entry that the author cannot see is as good as absent, whatever the author expects.
        let is_hidden = found.as_ref().is_some_and(|it| !ownership::is_visible(author, it));
        let now = found.filter(|_| !is_hidden);
        if let (Edit::Put { entry: Entry::Rule(_), .. }, None) = (&edit, &now) {
            ownership::check_new_rule_id(author, &name, is_hidden)?;
        }
        let missing = || CatalogError::Missing { kind, entry: name.clone() };
        match (expect, &now) {
            (Expect::Absent, Some(_)) => {
                return Err(CatalogError::Exists { kind, entry: name });
            }
            (Expect::Present | Expect::Version(_), None) => return Err(missing()),
            (Expect::Version(version), Some(now)) if now.version != version => {
                return Err(CatalogError::Changed { kind, entry: name, version: now.version });
            }
            _ => {}
        }
        let was = now.as_ref().map(|now| now.body.clone());
        let becomes = match edit {
            Edit::Put { entry, .. } => Some(entry.redacted().body()),
            Edit::Remove { .. } | Edit::LiftBans { .. } => None,
            Edit::Patch { fields, .. } => {
                let body = was.as_deref().ok_or_else(missing)?;
                let mut merged: Json = serde_json::from_str(body).unwrap_or_default();
                merge(&mut merged, fields);
                let entry =
                    Entry::parse(kind, &merged.to_string()).map_err(CatalogError::Invalid)?;
                if entry.name().map_err(invalid)? != name {
                    let message = "what an entry is called cannot be changed";
                    return Err(invalid(Problem::new("", message)));
                }
                Some(entry.body())
            }
        };
        let is_taken_over = takes_over
            && author.tenant.is_none()
            && now.as_ref().is_some_and(|now| now.author_tenant.is_some());
        let is_change = was != becomes || is_taken_over;
        if let Some(now) = &now
            && is_change
        {
            ownership::check_author(connection, self.url(), author, kind, now).await?;
        }
        let (tenant, author_tenant) = (None, author.tenant.clone());
        let change = Change { kind, entry: name, tenant, author_tenant, was, becomes };
        Ok(Resolved { change, is_change })
    }

    async fn names(
        &self,
        connection: &mut Connection,
        kind: Kind,
        tenant: Option<&str>,
    ) -> Result<Vec<String>, CatalogError> {
        let failed = |error: sqlx::Error| self.failed(&error);
        let Some((sql, values)) = names_statement(kind, tenant) else { return Ok(Vec::new()) };
        let rows = connection.rows(&sql, values).await.map_err(failed)?;
        rows.iter().map(|row| row.text(0).map_err(failed)).collect()
    }
}

/// Finds the names of all entries of a kind, or of those that administrators of a tenant wrote; none if they
/// can write none of that kind.
pub(crate) fn names_statement(kind: Kind, tenant: Option<&str>) -> Option<(String, Vec<Value>)> {
    let all = format!("SELECT entry FROM {}", kind.table());
    let Some(tenant) = tenant else { return Some((all, Vec::new())) };
    let is_theirs = match kind {
        Kind::Ban => {
            "rule_id IN (SELECT entry FROM tollgate_rules WHERE tenant = $1 AND author_tenant = $1)"
        }
        _ if kind.columns().contains(&"author_tenant") => "author_tenant = $1",
        _ => return None,
    };
    Some((format!("{all} WHERE tenant = $1 AND {is_theirs}"), values![tenant]))
}

fn names_of(document: &PolicyDocument, kind: Kind) -> Result<HashSet<String>, CatalogError> {
    let mut only = PolicyDocument::default();
    match kind {
        Kind::Rule => only.rules.clone_from(&document.rules),
        Kind::Tier => only.tiers.clone_from(&document.tiers),
        Kind::Client => only.clients.clone_from(&document.clients),
        Kind::Override => only.overrides.clone_from(&document.overrides),
        Kind::Whitelist => only.whitelist.clone_from(&document.whitelist),
        Kind::Blacklist => only.blacklist.clone_from(&document.blacklist),
        Kind::ApiKey | Kind::Token | Kind::Ban => {}
    }
    let entries = Entry::all_of(only).into_iter();
    let names = entries.map(|entry| entry.name());
    names.collect::<Result<_, _>>().map_err(|problem| CatalogError::Invalid(vec![problem]))
}

/// A JSON merge patch: a field that becomes null goes.
fn merge(target: &mut Json, patch: Json) {
    let Json::Object(fields) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Json::Object(serde_json::Map::new());
    }
    if let Some(object) = target.as_object_mut() {
        for (name, value) in fields {
            if value.is_null() {
                object.remove(&name);
            } else {
                merge(object.entry(name).or_insert(Json::Null), value);
            }
        }
    }
}
