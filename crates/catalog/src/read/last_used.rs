//! When tokens were used last. A use makes no revision, and nodes do not follow it.

use std::collections::HashMap;

use tollgate_core::Timestamp;

use crate::catalog::Catalog;
use crate::db::database::{DatabaseConnection, values};
use crate::error::CatalogError;

/// Nodes report uses in any order; the latest counts.
const TOUCH: &str = "UPDATE tollgate_tokens SET last_used = $1 \
                     WHERE entry = $2 AND (last_used IS NULL OR last_used < $1)";

impl Catalog {
    /// Records that these tokens were used. Ignores tokens that do not exist any more.
    ///
    /// # Errors
    /// The database cannot be reached; then nothing is recorded.
    pub async fn touch_tokens(
        &self,
        mut token_ids: Vec<String>,
        now: Timestamp,
    ) -> Result<(), CatalogError> {
        // All nodes lock in the same order, so that none deadlock.
        token_ids.sort_unstable();
        let mut lease = self.connections.to_write().await?;
        self.in_time(touch(lease.connection(), &token_ids, now)).await?;
        lease.give_back();
        Ok(())
    }

    /// When these tokens were used last; none for tokens that never were.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn last_used(
        &self,
        token_ids: &[&str],
    ) -> Result<HashMap<String, Timestamp>, CatalogError> {
        if token_ids.is_empty() {
            return Ok(HashMap::new());
        }
        let places: Vec<String> = (1..=token_ids.len()).map(|at| format!("${at}")).collect();
        let sql = format!(
            "SELECT entry, last_used FROM tollgate_tokens \
             WHERE last_used IS NOT NULL AND entry IN ({})",
            places.join(", ")
        );
        let values = token_ids.iter().map(|id| (*id).into()).collect();
        let mut lease = self.connections.to_read().await?;
        let rows = self.in_time(lease.connection().rows(&sql, values)).await?;
        lease.give_back();
        let used = rows.iter().map(|row| Ok((row.text(0)?, Timestamp::from_micros(row.count(1)?))));
        used.collect::<Result<_, sqlx::Error>>().map_err(|error| self.failed(&error))
    }
}

async fn touch(
    connection: &mut DatabaseConnection,
    token_ids: &[String],
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    connection.begin().await?;
    for token_id in token_ids {
        connection.run(TOUCH, values![now.as_micros(), token_id.as_str()]).await?;
    }
    connection.commit().await
}
