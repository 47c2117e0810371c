//! Schema version 6 keeps digests in place of API keys. This rewrites the entries and the log of earlier versions.

use tollgate_rules::{OneOrMany, Problem};
use tollgate_rules::{SECRET_DIGEST, redacted_values};

use crate::db::database::{DatabaseConnection, values};
use crate::entry::kind::Kind;
use crate::entry::{Entry, columns_of};

/// How many rows are read at a time.
const PAGE: u64 = 500;
/// The kinds of entries that name clients.
const KINDS: [Kind; 4] = [Kind::Client, Kind::Override, Kind::Whitelist, Kind::Blacklist];

const CHANGES: &str = "SELECT revision, place, kind, entry, was, becomes FROM tollgate_changes \
    WHERE kind IN ('client', 'override', 'whitelist', 'blacklist') AND entry LIKE '%\"api_key\"%' \
    AND (revision > $1 OR (revision = $1 AND place > $2)) ORDER BY revision, place LIMIT $3";

/// Replaces API keys by digests everywhere; says how many rows it rewrote.
pub(crate) async fn digest_api_keys(
    connection: &mut DatabaseConnection,
) -> Result<u64, sqlx::Error> {
    let mut rewritten = rewrite_log(connection).await?;
    for kind in KINDS {
        rewritten += rewrite_entries(connection, kind).await?;
    }
    Ok(rewritten)
}

async fn rewrite_entries(
    connection: &mut DatabaseConnection,
    kind: Kind,
) -> Result<u64, sqlx::Error> {
    let table = kind.table();
    let page = format!(
        "SELECT entry, body FROM {table} WHERE entry LIKE '%\"api_key\"%' AND entry > $1 \
         ORDER BY entry LIMIT $2"
    );
    let (mut after, mut rewritten) = (String::new(), 0);
    loop {
        let rows = connection.rows(&page, values![after.as_str(), PAGE]).await?;
        let Some(last) = rows.last() else { return Ok(rewritten) };
        after = last.text(0)?;
        for row in &rows {
            let (old, body) = (row.text(0)?, row.text(1)?);
            // What cannot be read cannot be used either, and is reported when the catalog is read.
            let Ok(entry) = Entry::parse(kind, &body) else { continue };
            let (Ok(name), Some(identifier)) = (entry.name(), identifier_of(&entry)) else {
                continue;
            };
            if name == old {
                continue;
            }
            rewritten += 1;
            let is_there = format!("SELECT entry FROM {table} WHERE entry = $1");
            if connection.row(&is_there, values![name.as_str()]).await?.is_some() {
                // The digest was written as an entry too.
                let sql = format!("DELETE FROM {table} WHERE entry = $1");
                connection.run(&sql, values![old]).await?;
                continue;
            }
            let sql = format!(
                "UPDATE {table} SET entry = $2, identifier = $3, body = $4 WHERE entry = $1"
            );
            connection.run(&sql, values![old, name, identifier, entry.body()]).await?;
        }
    }
}

fn identifier_of(entry: &Entry) -> Option<String> {
    let (types, values, is_list) = match entry {
        Entry::Client(it) => (&it.identifier_type, &it.identifier, false),
        Entry::Override(it) => (&it.identifier_type, &it.identifier, false),
        Entry::Whitelist(it) | Entry::Blacklist(it) => (&it.identifier_type, &it.identifier, true),
        _ => return None,
    };
    Some(columns_of(types, values, is_list).1)
}

async fn rewrite_log(connection: &mut DatabaseConnection) -> Result<u64, sqlx::Error> {
    let (mut at, mut rewritten) = ((0, 0), 0);
    // Numbers of revisions begin with 1.
    let sql = "UPDATE tollgate_changes SET entry = $3, was = $4, becomes = $5 \
               WHERE revision = $1 AND place = $2";
    loop {
        let rows = connection.rows(CHANGES, values![at.0, at.1, PAGE]).await?;
        let Some(last) = rows.last() else { return Ok(rewritten) };
        at = (last.count(0)?, last.count(1)?);
        for row in &rows {
            let Some(kind) = Kind::from_name(&row.text(2)?) else { continue };
            let redacted = |body: Option<String>| body.map(|body| redacted_body(kind, &body));
            let (was, becomes) = (redacted(row.optional_text(4)?), redacted(row.optional_text(5)?));
            let entry = redacted_name(kind, &row.text(3)?);
            let (revision, place) = (row.count(0)?, row.count(1)?);
            connection.run(sql, values![revision, place, entry, was, becomes]).await?;
            rewritten += 1;
        }
    }
}

/// The text of an entry as this version would write it; nothing of one that cannot be read, for it may hold keys.
fn redacted_body(kind: Kind, body: &str) -> String {
    let read: Result<Entry, Vec<Problem>> = Entry::parse(kind, body);
    read.map_or_else(|_| "{}".to_owned(), |entry| entry.body())
}

/// A name with digests in place of API keys: kinds and values in turn, of an override behind its rule.
fn redacted_name(kind: Kind, name: &str) -> String {
    let Ok(mut parts) = serde_json::from_str::<Vec<String>>(name) else { return name.to_owned() };
    let first = usize::from(kind == Kind::Override);
    for pair in parts.get_mut(first..).unwrap_or_default().chunks_exact_mut(2) {
        let [identifier, value] = pair else { continue };
        let redacted =
            redacted_values(&OneOrMany::one(identifier.as_str()), &OneOrMany::one(value.as_str()));
        if let [one] = redacted.as_slice() {
            value.clone_from(one);
        }
    }
    serde_json::to_string(&parts).unwrap_or_else(|_| (SECRET_DIGEST.of)(name))
}
