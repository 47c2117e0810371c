//! What an intent would change, entry by entry, given what is there.

use std::collections::HashSet;

use serde_json::Value as Json;
use tollgate_rules::{PolicyDocument, Problem};

use crate::access::Role;
use crate::catalog::Catalog;
use crate::change::Change;
use crate::database::{Connection, Value, values};
use crate::entry::Entry;
use crate::error::CatalogError;
use crate::kind::Kind;
use crate::tables;
use crate::write::{Author, Edit, Expect, Intent};

impl Catalog {
    /// What an intent changes, given what is there.
    pub(crate) async fn resolve(
        &self,
        connection: &mut Connection,
        author: &Author,
        intent: Intent,
    ) -> Result<Vec<Change>, CatalogError> {
        let edits = match intent {
            Intent::Edits(edits) => edits,
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
        let mut changes = Vec::with_capacity(edits.len());
        for edit in edits {
            changes.push(self.resolve_edit(connection, edit).await?);
        }
        let mut seen = HashSet::new();
        if let Some(twice) = changes.iter().find(|it| !seen.insert((it.kind, it.entry.as_str()))) {
            let message = format!("the {} {} is there twice", twice.kind, twice.entry);
            return Err(CatalogError::Invalid(vec![Problem::new("", message)]));
        }
        Ok(changes)
    }

    async fn resolve_edit(
        &self,
        connection: &mut Connection,
        edit: Edit,
    ) -> Result<Change, CatalogError> {
        let failed = |error: sqlx::Error| self.failed(&error);
        let invalid = |problem: Problem| CatalogError::Invalid(vec![problem]);
        let (kind, name, expect) = match &edit {
            Edit::Put { entry, expect } => (entry.kind(), entry.name().map_err(invalid)?, *expect),
            Edit::Patch { kind, entry, expect, .. } | Edit::Remove { kind, entry, expect } => {
                (*kind, entry.clone(), *expect)
            }
        };
        let now = tables::find(connection, kind, &name).await.map_err(failed)?;
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
        let was = now.map(|now| now.body);
        let becomes = match edit {
            Edit::Put { entry, .. } => Some(entry.body()),
            Edit::Remove { .. } => None,
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
        Ok(Change { kind, entry: name, tenant: None, was, becomes })
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

/// What finds the names of a kind, or of a tenant's; none if those of the kind belong to no tenant.
pub(crate) fn names_statement(kind: Kind, tenant: Option<&str>) -> Option<(String, Vec<Value>)> {
    let all = format!("SELECT entry FROM {}", kind.table());
    match tenant {
        None => Some((all, Vec::new())),
        Some(tenant) if kind.columns().contains(&"tenant") => {
            Some((format!("{all} WHERE tenant = $1"), values![tenant]))
        }
        Some(_) => None,
    }
}

fn names_of(document: &PolicyDocument, kind: Kind) -> Result<HashSet<String>, CatalogError> {
    let entries = Entry::all_of(document.clone()).into_iter().filter(|entry| entry.kind() == kind);
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
