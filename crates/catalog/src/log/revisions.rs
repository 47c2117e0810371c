//! The history of the policy: who changed it, when, and what in one line.

use serde_json::Value as Json;
use tollgate_core::Timestamp;

use crate::catalog::Catalog;
use crate::db::database::{DatabaseConnection, Row, values};
use crate::entry::access::Role;
use crate::error::CatalogError;
use crate::log::actors;
use crate::read::history::OF_POLICY;

/// How many changes of a revision its summary names.
const MAX_NAMED: u64 = 3;
/// How many fields of a changed entry the summary names.
const MAX_FIELDS: usize = 3;
/// Longer names and values are cut.
const MAX_CHARS: usize = 40;
/// Larger entries are named without their fields, in bytes.
const MAX_BODY: u64 = 4_096;

/// A revision that changed the policy.
#[derive(Clone, Debug)]
pub struct RevisionRecord {
    /// Its number.
    pub revision: u64,
    /// When it was made.
    pub at: Timestamp,
    /// The token, or the part of the program, that made it.
    pub actor: String,
    /// The name of the token, if it has one. A tenant learns those of its administrators only.
    pub actor_name: Option<String>,
    /// The role of the actor.
    pub role: String,
    /// What it was for, if it was a rollback.
    pub note: Option<String>,
    /// How many entries it changed.
    pub changes: u64,
    /// The first changes in one line.
    pub summary: String,
}

impl Catalog {
    /// At most `limit` revisions that changed the policy, the newest first, before the one of that number: those that
    /// changed entries of a tenant, or all. Also returns whether there are more.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn revisions(
        &self,
        tenant: Option<&str>,
        before: Option<u64>,
        limit: usize,
    ) -> Result<(Vec<RevisionRecord>, bool), CatalogError> {
        let mut lease = self.connections.to_read().await?;
        let reading = records(lease.connection(), tenant, before, limit.saturating_add(1));
        let mut records = self.in_time(reading).await?;
        lease.give_back();
        let has_more = records.len() > limit;
        records.truncate(limit);
        Ok((records, has_more))
    }
}

async fn records(
    connection: &mut DatabaseConnection,
    tenant: Option<&str>,
    before: Option<u64>,
    limit: usize,
) -> Result<Vec<RevisionRecord>, sqlx::Error> {
    let mut values =
        values![before.unwrap_or(i64::MAX.unsigned_abs()), limit as u64, MAX_NAMED, MAX_BODY];
    let of_tenant = match tenant {
        Some(tenant) => {
            values.extend(values![tenant]);
            "AND tenant = $5"
        }
        None => "",
    };
    let sql = format!(
        "WITH wanted AS (SELECT number, changed_at, actor, role, note FROM tollgate_revisions \
         WHERE number < $1 AND EXISTS (SELECT 1 FROM tollgate_changes \
         WHERE revision = number AND {OF_POLICY} {of_tenant}) ORDER BY number DESC LIMIT $2), \
         changes AS (SELECT number, changed_at, actor, role, note, kind, entry, \
         CASE WHEN length(was) <= $4 THEN was END AS was, \
         CASE WHEN length(becomes) <= $4 THEN becomes END AS becomes, \
         CASE WHEN was IS NULL THEN 'created' WHEN becomes IS NULL THEN 'deleted' ELSE 'updated' END AS fate, \
         row_number() OVER (PARTITION BY number ORDER BY place) AS nth, \
         count(*) OVER (PARTITION BY number) AS total \
         FROM wanted JOIN tollgate_changes ON revision = number WHERE {OF_POLICY} {of_tenant}) \
         SELECT number, changed_at, actor, role, note, total, kind, entry, fate, was, becomes FROM changes \
         WHERE nth <= $3 ORDER BY number DESC, nth"
    );
    let mut records: Vec<RevisionRecord> = Vec::new();
    for row in connection.rows(&sql, values).await? {
        let change = change_in_words(&row, tenant)?;
        match records.last_mut().filter(|last| Ok(last.revision) == row.count(0).map_err(drop)) {
            Some(last) => last.summary = format!("{}, {change}", last.summary),
            None => records.push(RevisionRecord {
                revision: row.count(0)?,
                at: Timestamp::from_micros(row.count(1)?),
                actor: row.text(2)?,
                actor_name: None,
                role: row.text(3)?,
                note: row.optional_text(4)?,
                changes: row.count(5)?,
                summary: change,
            }),
        }
    }
    let names = actors::names(connection, records.iter().map(|record| &*record.actor)).await?;
    for record in &mut records {
        if tenant.is_none() || record.role == Role::TenantAdmin.name() {
            record.actor_name = names.get(&record.actor).cloned();
        }
        let more = record.changes.saturating_sub(MAX_NAMED);
        if more > 0 {
            record.summary = format!("{} and {more} more", record.summary);
        }
    }
    Ok(records)
}

/// A change in words: `rule search created`, `rule search updated (limit 10 -> 20)`.
fn change_in_words(row: &Row, tenant: Option<&str>) -> Result<String, sqlx::Error> {
    let (kind, name, fate) = (row.text(6)?, row.text(7)?, row.text(8)?);
    let parts: Result<Vec<String>, _> = serde_json::from_str(&name);
    let name = parts.map_or(name, |parts| parts.join(" "));
    let (before, after) = (row.optional_text(9)?, row.optional_text(10)?);
    // An entry that came from another tenant shows nothing of that one.
    let is_whole = |body: &str| tenant.is_none_or(|it| tenant_in(body).is_none_or(|of| of == it));
    let both = before.zip(after).filter(|(before, _)| is_whole(before));
    let fields = both.map(|(before, after)| fields_in_words(&before, &after));
    let fields = fields.filter(|fields| !fields.is_empty());
    let fields = fields.map(|fields| format!(" ({fields})")).unwrap_or_default();
    Ok(format!("{kind} {} {fate}{fields}", cut(&name)))
}

/// The fields that differ between two entries, with their values where those are short.
fn fields_in_words(before: &str, after: &str) -> String {
    let parse = |body: &str| serde_json::from_str::<serde_json::Map<String, Json>>(body);
    let (Ok(before), Ok(after)) = (parse(before), parse(after)) else { return String::new() };
    let added = after.keys().filter(|name| !before.contains_key(*name));
    let mut words: Vec<String> = before
        .keys()
        .chain(added)
        .filter(|name| before.get(*name) != after.get(*name))
        .map(|name| match (before.get(name), after.get(name)) {
            (Some(was), Some(becomes)) if is_short(was) && is_short(becomes) => {
                format!("{name} {} -> {}", text_of(was), text_of(becomes))
            }
            (None, Some(becomes)) if is_short(becomes) => format!("{name} {}", text_of(becomes)),
            (Some(_), None) => format!("without {name}"),
            _ => name.clone(),
        })
        .collect();
    let more = words.len().saturating_sub(MAX_FIELDS);
    words.truncate(MAX_FIELDS);
    if more > 0 {
        words.push(format!("{more} more"));
    }
    words.join(", ")
}

/// The tenant of a rule.
fn tenant_in(body: &str) -> Option<String> {
    let body: Json = serde_json::from_str(body).ok()?;
    body.get("tenant")?.as_str().map(str::to_owned)
}

/// Whether a value is no list or object, and short.
fn is_short(value: &Json) -> bool {
    !value.is_array() && !value.is_object() && text_of(value).chars().count() <= MAX_CHARS
}

fn text_of(value: &Json) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn cut(text: &str) -> String {
    let mut short: String = text.chars().take(MAX_CHARS).collect();
    if short.len() < text.len() {
        short.push_str("...");
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_fields_are_named_with_their_values() {
        let check = |before: &str, after: &str, expected: &str| {
            assert_eq!(fields_in_words(before, after), expected);
        };
        check(r#"{"limit":5,"window":"1m"}"#, r#"{"limit":6,"window":"1m"}"#, "limit 5 -> 6");
        check(r#"{"limit":5}"#, r#"{"limit":5,"burst":9}"#, "burst 9");
        check(r#"{"burst":9}"#, "{}", "without burst");
        check(r#"{"a":[1]}"#, r#"{"a":[2]}"#, "a");
        check("{}", r#"{"a":1,"b":2,"c":3,"d":4}"#, "a 1, b 2, c 3, 1 more");
        check("{}", "{}", "");
        check("no JSON", "{}", "");
    }
}
