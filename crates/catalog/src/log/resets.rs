//! Resets of counters in the audit log. They change nothing in the catalog.
//!
//! Counters are in another store, so a reset and its record cannot be one transaction: nodes write records
//! afterwards. They make no revision, and nodes that follow the catalog do not read them.

use tollgate_core::Timestamp;

use crate::catalog::Catalog;
use crate::db::database::{DatabaseConnection, values};
use crate::error::CatalogError;
use crate::read::load::{Lock, version_of};
use crate::write::Author;

/// What was left of a limit to a client before and after its counter was reset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reset {
    /// The rule and the client, named as an exception from the rule would be.
    pub entry: String,
    /// The tenant that the rule belongs to.
    pub tenant: Option<String>,
    /// What was left before, as JSON.
    pub was: String,
    /// What was left afterwards, as JSON.
    pub becomes: String,
}

/// A reset and its author.
#[derive(Clone, Debug)]
pub struct ResetRecord {
    /// When the counter was reset.
    pub at: Timestamp,
    /// Who reset it, and from where.
    pub author: Author,
    /// What was reset.
    pub reset: Reset,
}

/// The place of the first reset of a revision: behind all changes that one can have.
const FIRST_PLACE: u64 = 1 << 32;
/// An index of PostgreSQL takes no longer names.
const MAX_NAME_BYTES: usize = 1_500;

const NEXT_PLACE: &str =
    "SELECT coalesce(max(place) + 1, $2) FROM tollgate_resets WHERE revision = $1";
const KNOWN: &str = "SELECT place FROM tollgate_resets \
    WHERE changed_at = $1 AND entry = $2 AND actor = $3 LIMIT 1";
const INSERT: &str = "INSERT INTO tollgate_resets \
    (revision, place, changed_at, actor, role, address, entry, tenant, was, becomes) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
/// A range of the index, so that a large table is not looked through.
const FORGET: &str = "DELETE FROM tollgate_resets WHERE changed_at <= (\
    SELECT max(changed_at) FROM (SELECT changed_at FROM tollgate_resets \
    WHERE changed_at < $1 ORDER BY changed_at LIMIT $2) AS oldest)";

impl Catalog {
    /// Keeps records of resets: all of them, or none. Those that are kept already stay as they are, so
    /// that records whose outcome is unknown can be written again.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn log_resets(&self, records: &[ResetRecord]) -> Result<(), CatalogError> {
        let mut lease = self.connections.to_record().await?;
        self.in_time(insert(lease.connection(), records)).await?;
        lease.give_back();
        Ok(())
    }
}

async fn insert(
    connection: &mut DatabaseConnection,
    records: &[ResetRecord],
) -> Result<(), sqlx::Error> {
    connection.begin().await?;
    // The lock on this row makes this the only transaction that assigns places.
    let revision = version_of(connection, Lock::Writers).await?.revision.number;
    let next = connection.row(NEXT_PLACE, values![revision, FIRST_PLACE]).await?;
    let mut place = next.map_or(Ok(FIRST_PLACE), |row| row.count(0))?;
    for ResetRecord { at, author, reset } in records {
        let entry = &reset.entry[..reset.entry.floor_char_boundary(MAX_NAME_BYTES)];
        let (at, actor) = (at.as_micros(), author.actor.as_str());
        if connection.row(KNOWN, values![at, entry, actor]).await?.is_some() {
            continue;
        }
        let (role, address) = (author.role.as_str(), author.address.as_deref());
        let Reset { tenant, was, becomes, .. } = reset.clone();
        let row = values![revision, place, at, actor, role, address, entry, tenant, was, becomes];
        connection.run(INSERT, row).await?;
        place += 1;
    }
    connection.commit().await
}

/// Removes the oldest from before `end`, about `most` of them; returns how many.
pub(crate) async fn forget(
    connection: &mut DatabaseConnection,
    end: Timestamp,
    most: u64,
) -> Result<u64, sqlx::Error> {
    connection.run(FORGET, values![end.as_micros(), most]).await
}
