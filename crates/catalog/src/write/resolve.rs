//! Finds the changes of a write, entry by entry, given what is in the tables.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::Value as Json;
use tollgate_core::Timestamp;
use tollgate_rules::Problem;

use crate::catalog::Catalog;
use crate::db::database::{DatabaseConnection, Value, values};
use crate::db::tables::{self, Stored};
use crate::entry::access::Role;
use crate::entry::change::Change;
use crate::entry::kind::Kind;
use crate::entry::{Entry, ban_name};
use crate::error::CatalogError;
use crate::write::ownership;
use crate::write::{Author, Edit, Expect, Intent};

/// The change of one edit.
struct Resolved {
    change: Change,
    /// False if the entry stays the same.
    is_change: bool,
}

impl Catalog {
    /// The changes of a write.
    pub(crate) async fn resolve(
        &self,
        connection: &mut DatabaseConnection,
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
            Intent::Rollback { to, only, .. } => {
                self.rollback_edits(connection, author, to, only).await?
            }
            Intent::Begin(entries) => {
                let puts = entries.into_iter();
                puts.map(|entry| Edit::Put { entry, expect: Expect::Absent }).collect()
            }
            Intent::FirstAdmin { token, now } => {
                if self.has_admin_beside(connection, "", now).await? {
                    return Ok(Vec::new());
                }
                vec![Edit::Put { entry: Entry::Token(token), expect: Expect::Absent }]
            }
            Intent::RevokeToken { token_id, expect, now } => {
                let failed = |error: sqlx::Error| self.failed(&error);
                let found =
                    tables::find(connection, Kind::Token, &token_id).await.map_err(failed)?;
                let found = found.as_ref().map(Stored::parse).transpose()?;
                let is_admin = matches!(&found, Some(Entry::Token(it)) if it.role == Role::Admin);
                // Other writers wait for this transaction, so the other token is still there when it is committed.
                if is_admin && !self.has_admin_beside(connection, &token_id, now).await? {
                    return Err(CatalogError::LastAdmin);
                }
                vec![Edit::Remove { kind: Kind::Token, name: token_id, expect }]
            }
            Intent::Apply { document, prune, .. } => {
                let (entries, mut edits) = (Entry::all_of(*document), Vec::new());
                for kind in prune {
                    let kept = entries.iter().filter(|it| it.kind() == kind).map(Entry::name);
                    let kept: HashSet<String> = kept.collect::<Result<_, _>>().map_err(invalid)?;
                    for name in self.names(connection, kind, author.tenant.as_deref()).await? {
                        if !kept.contains(&name) {
                            let expect = Expect::Anything;
                            edits.push(Edit::Remove { kind, name, expect });
                        }
                    }
                }
                let puts = entries.into_iter();
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
        let mut names = resolved.iter().map(|it| (it.change.kind, it.change.name.as_str()));
        if let Some((kind, name)) = names.find(|it| !seen.insert(*it)) {
            let message = format!("the {kind} {name} is there twice");
            return Err(CatalogError::Invalid(vec![Problem::new("", message)]));
        }
        Ok(resolved.into_iter().filter(|it| it.is_change).map(|it| it.change).collect())
    }

    async fn resolve_edit(
        &self,
        connection: &mut DatabaseConnection,
        author: &Author,
        edit: Edit,
        takes_over: bool,
    ) -> Result<Resolved, CatalogError> {
        let failed = |error: sqlx::Error| self.failed(&error);
        let (kind, name, expect) = match &edit {
            Edit::Put { entry, expect } => (entry.kind(), entry.name().map_err(invalid)?, *expect),
            Edit::Patch { kind, name, expect, .. } | Edit::Remove { kind, name, expect } => {
                (*kind, name.clone(), *expect)
            }
            Edit::LiftBans { rule_id } => (Kind::Ban, ban_name(rule_id, &[]), Expect::Anything),
        };
        let found = tables::find(connection, kind, &name).await.map_err(failed)?;
        // To the author, an entry that it cannot see does not exist.
        let is_hidden = found.as_ref().is_some_and(|it| !ownership::is_visible(author, it));
        let now = found.filter(|_| !is_hidden);
        if let (Edit::Put { entry: Entry::Rule(_), .. }, None) = (&edit, &now) {
            ownership::check_new_rule_id(author, &name, is_hidden)?;
        }
        let missing = || CatalogError::Missing { kind, name: name.clone() };
        match (expect, &now) {
            (Expect::Absent, Some(_)) => {
                return Err(CatalogError::Exists { kind, name });
            }
            (Expect::Present | Expect::Version(_), None) => return Err(missing()),
            (Expect::Version(version), Some(now)) if now.version != version => {
                return Err(CatalogError::Changed { kind, name, version: now.version });
            }
            _ => {}
        }
        let (before, after) = match edit {
            Edit::Put { entry, .. } => {
                let after = Arc::new(entry.redacted());
                let before = match &now {
                    // Most entries of a document are unchanged, and need not be parsed.
                    Some(now) if now.body == after.body() => Some(Arc::clone(&after)),
                    Some(now) => Some(Arc::new(now.parse()?)),
                    None => None,
                };
                (before, Some(after))
            }
            Edit::Patch { fields, .. } => {
                let before = now.as_ref().ok_or_else(missing)?.parse()?;
                let mut merged = serde_json::to_value(&before).unwrap_or_default();
                merge(&mut merged, fields);
                let after = Entry::parse(kind, &merged.to_string()).map_err(without_places)?;
                if after.name().map_err(invalid)? != name {
                    let message = "what an entry is called cannot be changed";
                    return Err(invalid(Problem::new("", message)));
                }
                (Some(Arc::new(before)), Some(Arc::new(after)))
            }
            Edit::Remove { .. } | Edit::LiftBans { .. } => {
                (now.as_ref().map(Stored::parse).transpose()?.map(Arc::new), None)
            }
        };
        let is_taken_over = takes_over
            && author.tenant.is_none()
            && now.as_ref().is_some_and(|now| now.author_tenant.is_some());
        let is_change = before != after || is_taken_over;
        if let (Some(now), Some(before), true) = (&now, &before, is_change) {
            ownership::check_author(connection, self.url(), author, now, before).await?;
        }
        let (tenant, author_tenant) = (None, author.tenant.clone());
        let change = Change { kind, name, tenant, author_tenant, before, after };
        Ok(Resolved { change, is_change })
    }

    /// Whether there is a valid token of an administrator other than this one.
    async fn has_admin_beside(
        &self,
        connection: &mut DatabaseConnection,
        token_id: &str,
        now: Timestamp,
    ) -> Result<bool, CatalogError> {
        let sql = "SELECT entry FROM tollgate_tokens WHERE role = $1 \
                   AND (expires_at IS NULL OR expires_at > $2) AND entry <> $3 LIMIT 1";
        let values = values![Role::Admin.name(), now.as_micros(), token_id];
        let found = connection.row(sql, values).await;
        Ok(found.map_err(|error| self.failed(&error))?.is_some())
    }

    async fn names(
        &self,
        connection: &mut DatabaseConnection,
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

/// Problems of a merged entry: their positions would be those of a text that was never sent.
fn without_places(problems: Vec<Problem>) -> CatalogError {
    let without = |problem: Problem| Problem { position: None, ..problem };
    CatalogError::Invalid(problems.into_iter().map(without).collect())
}

fn invalid(problem: Problem) -> CatalogError {
    CatalogError::Invalid(vec![problem])
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
