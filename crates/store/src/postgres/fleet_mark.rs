//! The mark of a fleet in PostgreSQL: a row beside the counters. That of nodes without a secret expires.

use tokio::time::timeout;

use super::PostgresStore;
use super::failure::BatchFailure;
use crate::StoreError;
use crate::remote::{MARK_NAME, NO_SECRET, NO_SECRET_TTL};

/// $3 is how long the mark lasts, in microseconds; a mark that lasts forever is left as it is.
const LEAVE: &str = "
    WITH clock AS (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now)
    INSERT INTO tollgate_counters AS found (name, state, expires_at)
    SELECT $1, $2, coalesce(now + $3, 9223372036854775807) FROM clock
    ON CONFLICT (name) DO UPDATE SET state = excluded.state, expires_at = excluded.expires_at
    WHERE found.expires_at <= (SELECT now FROM clock) OR ($3 IS NOT NULL AND found.state = excluded.state)";
const READ: &str = "SELECT state FROM tollgate_counters WHERE name = $1";

impl PostgresStore {
    /// Leaves the mark of a fleet in the store unless it has one, and returns the mark that it has then.
    pub(crate) async fn fleet_mark(&self, ours: &str) -> Result<String, StoreError> {
        let connections = &self.database.connections;
        let mut connection = connections.take().await.map_err(|failure| failure.error())?;
        let marking = async {
            let lasts = i64::try_from(NO_SECRET_TTL.as_micros()).unwrap_or(i64::MAX);
            let lasts = (ours == NO_SECRET).then_some(lasts);
            let leave = sqlx::query(LEAVE).bind(MARK_NAME).bind(ours).bind(lasts);
            leave.execute(&mut connection).await.map_err(BatchFailure::before_commit)?;
            let read = sqlx::query_scalar(READ).bind(MARK_NAME);
            let mark: Option<String> =
                read.fetch_optional(&mut connection).await.map_err(BatchFailure::before_commit)?;
            Ok(mark.unwrap_or_default())
        };
        let marked = timeout(self.database.settings.deadline, marking).await;
        let marked = marked.unwrap_or_else(|_| Err(BatchFailure::late()));
        match marked {
            Ok(mark) => {
                connections.give_back(connection);
                Ok(mark)
            }
            Err(failure) => {
                connections.learn(&failure);
                Err(failure.error())
            }
        }
    }
}
