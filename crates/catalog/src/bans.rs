//! Bans that have ended leave the catalog in small steps, as any other change: so nodes forget them too.

use tollgate_core::Timestamp;

use crate::catalog::Catalog;
use crate::database::values;
use crate::error::CatalogError;
use crate::kind::Kind;
use crate::write::{Author, Edit, Expect, Intent};

/// How many bans are removed at a time.
const SWEEP: u64 = 200;

const ENDED: &str = "SELECT entry, version FROM tollgate_bans WHERE expires_at <= $1 \
                     ORDER BY expires_at LIMIT $2";

impl Catalog {
    /// Removes some bans that have ended; says how many.
    ///
    /// # Errors
    /// The database cannot be asked.
    pub async fn sweep_bans(&self, now: Timestamp) -> Result<usize, CatalogError> {
        let mut lease = self.connections.to_read().await?;
        let rows = lease.connection().rows(ENDED, values![now.as_micros(), SWEEP]);
        let rows = self.in_time(rows).await?;
        lease.give_back();
        let mut edits = Vec::with_capacity(rows.len());
        for row in &rows {
            let failed = |error: sqlx::Error| self.failed(&error);
            let (entry, version) = (row.text(0).map_err(failed)?, row.count(1).map_err(failed)?);
            edits.push(Edit::Remove { kind: Kind::Ban, entry, expect: Expect::Version(version) });
        }
        if edits.is_empty() {
            return Ok(0);
        }
        let author = Author::program("penalty");
        match Box::pin(self.write(&author, Intent::Edits(edits), now, false)).await {
            Ok(written) => Ok(written.changes.len()),
            // Somebody else has removed or renewed one of them meanwhile: then it is for the next time.
            Err(CatalogError::Missing { .. } | CatalogError::Changed { .. }) => Ok(0),
            Err(error) => Err(error),
        }
    }
}
