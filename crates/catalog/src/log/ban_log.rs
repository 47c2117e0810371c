//! Keeps the log of changes from growing with bans: clients cause those, as many as they like.

use crate::catalog::Catalog;
use crate::db::database::values;
use crate::entry::kind::Kind;
use crate::error::CatalogError;
use crate::write::PROGRAM;
use crate::write::bans::PENALTY;

/// How many revisions are removed at a time. Each has up to 200 bans, and writers wait meanwhile.
const MAX_REMOVED: u64 = 20;

// Both are answered from the index by kind and entry, without reading rows.
pub(crate) const COUNT: &str = "SELECT count(*) FROM tollgate_changes WHERE kind = $1";
pub(crate) const OLDEST_KEPT: &str = "SELECT revision FROM tollgate_changes WHERE kind = $1 \
    ORDER BY revision DESC LIMIT 1 OFFSET $2";
/// Only revisions of penalties, which change nothing but bans. Nodes notice that a revision is missing, and read
/// everything (see `load.rs`).
const REMOVE: &str = "DELETE FROM tollgate_revisions WHERE number IN (\
    SELECT number FROM tollgate_revisions WHERE number < $1 AND actor = $2 AND role = $3 \
    ORDER BY number LIMIT $4)";

impl Catalog {
    /// Removes the oldest changes of bans by penalties from the log, a few revisions at a time, until about
    /// `max` changes of bans are left. Returns how many revisions it removed; 0 if there is nothing more to do.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn trim_ban_log(&self, max: u64) -> Result<u64, CatalogError> {
        let failed = |error: sqlx::Error| self.failed(&error);
        let mut lease = self.connections.to_read().await?;
        let kind = Kind::Ban.name();
        let row = self.in_time(lease.connection().row(COUNT, values![kind])).await?;
        let count = row.map_or(Ok(0), |row| row.count(0)).map_err(failed)?;
        if count <= max {
            lease.give_back();
            return Ok(0);
        }
        let newest = max.saturating_sub(1);
        let row = self.in_time(lease.connection().row(OLDEST_KEPT, values![kind, newest])).await?;
        lease.give_back();
        let Some(row) = row else { return Ok(0) };
        let oldest_kept = row.count(0).map_err(failed)?;
        let mut lease = self.connections.to_write().await?;
        let removal = values![oldest_kept, PENALTY, PROGRAM, MAX_REMOVED];
        let removed = self.in_time(lease.connection().run(REMOVE, removal)).await?;
        lease.give_back();
        Ok(removed)
    }
}
