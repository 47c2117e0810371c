//! Entries as rows: the only file that writes tables of entries.

use crate::db::database::{DatabaseConnection, Row, values};
use crate::entry::Entry;
use crate::entry::change::Change;
use crate::entry::kind::Kind;
use crate::error::CatalogError;

/// An entry as it stands in its table.
#[derive(Clone, Debug)]
pub struct Stored {
    /// The kind of the entry.
    pub kind: Kind,
    /// The name of the entry among those of its kind.
    pub name: String,
    /// The entry, as JSON.
    pub body: String,
    /// The number of the revision that changed it last.
    pub version: u64,
    /// When it was made, in microseconds since 1970.
    pub created_at: u64,
    /// Who made it.
    pub created_by: String,
    /// When it was written last, in microseconds since 1970; none if that is not known.
    pub updated_at: Option<u64>,
    /// Who wrote it last; none if that is not known.
    pub updated_by: Option<String>,
    /// The tenant it belongs to.
    pub tenant: Option<String>,
    /// The tenant whose administrators wrote it last; none if operators did.
    pub author_tenant: Option<String>,
}

/// The columns that every kind has.
const COMMON: &str = "entry, body, version, created_at, created_by, updated_at, updated_by";

/// The columns of [`Stored`].
pub(crate) fn stored(kind: Kind) -> String {
    let column = |name| if kind.columns().contains(&name) { name } else { "CAST(NULL AS TEXT)" };
    format!("{COMMON}, {}, {}", column("tenant"), column("author_tenant"))
}

impl Stored {
    /// The entry.
    ///
    /// # Errors
    /// Another version of this program wrote it, and this one cannot read it.
    pub fn parse(&self) -> Result<Entry, CatalogError> {
        Entry::parse(self.kind, &self.body).map_err(CatalogError::Invalid)
    }

    pub(crate) fn from_row(kind: Kind, row: &Row) -> Result<Self, sqlx::Error> {
        Ok(Self {
            kind,
            name: row.text(0)?,
            body: row.text(1)?,
            version: row.count(2)?,
            created_at: row.count(3)?,
            created_by: row.text(4)?,
            updated_at: row.optional_count(5)?,
            updated_by: row.optional_text(6)?,
            tenant: row.optional_text(7)?,
            author_tenant: row.optional_text(8)?,
        })
    }
}

/// Who writes an entry, and when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp<'a> {
    pub(crate) version: u64,
    pub(crate) at: Option<u64>,
    pub(crate) by: Option<&'a str>,
    /// When it was made and by whom, if it is not new.
    pub(crate) created: Option<(u64, &'a str)>,
    /// The tenant that the author administers; none if it is an operator.
    pub(crate) tenant: Option<&'a str>,
}

/// The entry of that name.
pub(crate) async fn find(
    connection: &mut DatabaseConnection,
    kind: Kind,
    entry: &str,
) -> Result<Option<Stored>, sqlx::Error> {
    let sql = format!("SELECT {} FROM {} WHERE entry = $1", stored(kind), kind.table());
    let row = connection.row(&sql, values![entry]).await?;
    row.as_ref().map(|row| Stored::from_row(kind, row)).transpose()
}

/// Creates or replaces an entry. Its first author and time stay.
pub(crate) async fn put(
    connection: &mut DatabaseConnection,
    name: &str,
    entry: &Entry,
    tenant: Option<&str>,
    stamp: Stamp<'_>,
) -> Result<(), sqlx::Error> {
    let kind = entry.kind();
    let own = kind.columns();
    let columns = own.join(", ");
    let places: Vec<String> = (8..8 + own.len()).map(|at| format!("${at}")).collect();
    let updates: Vec<String> = own.iter().map(|name| format!("{name} = excluded.{name}")).collect();
    let sql = format!(
        "INSERT INTO {} ({COMMON}, {columns}) VALUES ($1, $2, $3, $4, $5, $6, $7, {}) \
         ON CONFLICT (entry) DO UPDATE SET body = excluded.body, version = excluded.version, \
         updated_at = excluded.updated_at, updated_by = excluded.updated_by, {}",
        kind.table(),
        places.join(", "),
        updates.join(", "),
    );
    let Stamp { version, at, by, created, .. } = stamp;
    let (created_at, created_by) = created.unwrap_or((at.unwrap_or(0), by.unwrap_or_default()));
    let mut values = values![name, entry.body(), version, created_at, created_by, at, by];
    values.extend(entry.columns(tenant, stamp.tenant));
    connection.run(&sql, values).await.map(drop)
}

/// Overrides and bans belong to the tenant of their rule after these changes, and overrides of a rule
/// that operators wrote are the operators'.
pub(crate) async fn hand_over(
    connection: &mut DatabaseConnection,
    changes: &[Change],
) -> Result<(), sqlx::Error> {
    let rules = changes.iter().filter(|it| it.kind == Kind::Rule && it.after.is_some());
    for Change { name, tenant, author_tenant, .. } in rules {
        for kind in [Kind::Override, Kind::Ban] {
            let sql = format!(
                "UPDATE {} SET tenant = $2 WHERE rule_id = $1 AND tenant IS DISTINCT FROM $2",
                kind.table()
            );
            connection.run(&sql, values![name.as_str(), tenant.as_deref()]).await?;
        }
        if author_tenant.is_none() {
            let sql = "UPDATE tollgate_overrides SET author_tenant = NULL \
                       WHERE rule_id = $1 AND author_tenant IS NOT NULL";
            connection.run(sql, values![name.as_str()]).await?;
        }
    }
    Ok(())
}

pub(crate) async fn remove(
    connection: &mut DatabaseConnection,
    kind: Kind,
    entry: &str,
) -> Result<(), sqlx::Error> {
    let sql = format!("DELETE FROM {} WHERE entry = $1", kind.table());
    connection.run(&sql, values![entry]).await.map(drop)
}

/// Removes all bans by a rule.
pub(crate) async fn remove_bans(
    connection: &mut DatabaseConnection,
    rule_id: &str,
) -> Result<(), sqlx::Error> {
    let sql = "DELETE FROM tollgate_bans WHERE rule_id = $1";
    connection.run(sql, values![rule_id]).await.map(drop)
}

/// The order in which changes can be made: what refers to others goes first and comes last.
pub(crate) fn order(changes: &mut [Change]) {
    let rank = |kind: Kind| Kind::ALL.iter().position(|it| *it == kind).unwrap_or(0);
    changes.sort_by_key(|change| match change.after.as_deref() {
        None => (0, Kind::ALL.len() - rank(change.kind), false),
        // A new default tier comes after the former one has lost that mark.
        Some(entry) => (1, rank(change.kind), matches!(entry, Entry::Tier(tier) if tier.default)),
    });
}
