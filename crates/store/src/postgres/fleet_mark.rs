//! The mark of a fleet in PostgreSQL: a row beside the counters, which never expires.

use tokio::time::timeout;

use super::PostgresStore;
use super::failure::BatchFailure;
use crate::StoreError;
use crate::remote::MARK_NAME;

const LEAVE: &str = "INSERT INTO tollgate_counters (name, state, expires_at) \
                     VALUES ($1, $2, 9223372036854775807) ON CONFLICT (name) DO NOTHING";
const READ: &str = "SELECT state FROM tollgate_counters WHERE name = $1";

impl PostgresStore {
    /// Leaves the mark of a fleet in the store unless it has one, and returns the mark that it has then. Without a
    /// mark it only reads.
    pub(crate) async fn fleet_mark(&self, ours: Option<&str>) -> Result<String, StoreError> {
        let connections = &self.database.connections;
        let mut connection = connections.take().await.map_err(|failure| failure.error())?;
        let marking = async {
            if let Some(ours) = ours {
                let leave = sqlx::query(LEAVE).bind(MARK_NAME).bind(ours);
                leave.execute(&mut connection).await.map_err(BatchFailure::before_commit)?;
            }
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
