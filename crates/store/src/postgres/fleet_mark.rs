//! The mark of a fleet in PostgreSQL, and the number of the store: rows beside the counters.

use tokio::time::timeout;

use super::PostgresStore;
use super::failure::BatchFailure;
use crate::remote::{FleetMark, MARK_NAME, NUMBER_NAME, StoreNumber};
use crate::{StoreError, StoreErrorKind};

/// $2 is our mark, and $3 how long it lasts, in microseconds; NULL is forever.
const LEAVE: &str = "
    WITH clock AS (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now)
    INSERT INTO tollgate_counters AS found (name, state, expires_at)
    SELECT $1, $2, coalesce(now + $3, 9223372036854775807) FROM clock
    ON CONFLICT (name) DO UPDATE SET state = excluded.state, expires_at = excluded.expires_at
    WHERE found.expires_at <= (SELECT now FROM clock)
       OR (found.state = excluded.state AND found.expires_at <> excluded.expires_at)";
/// $2 is the mark of our previous secret, which ends after $3 unless a node renews it.
const LET_END: &str = "
    UPDATE tollgate_counters
    SET expires_at = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + $3
    WHERE name = $1 AND state = $2 AND expires_at = 9223372036854775807";
/// $2 is a new number, for a store that has none that can be read.
const NUMBER: &str = "
    INSERT INTO tollgate_counters AS found (name, state, expires_at)
    VALUES ($1, $2, 9223372036854775807)
    ON CONFLICT (name) DO UPDATE SET state = excluded.state, expires_at = excluded.expires_at
    WHERE found.state !~ '^[0-9a-f]{16}$' OR found.state !~ '[^0]'";
const READ: &str = "SELECT state FROM tollgate_counters WHERE name = $1";
const READ_VALID: &str = "
    SELECT state FROM tollgate_counters
    WHERE name = $1 AND expires_at > (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";

impl PostgresStore {
    /// Leaves the mark of a fleet in the store if it may and the store has none, and returns the mark that it has then,
    /// empty if it has none, and the number of the store.
    pub(crate) async fn fleet_mark(
        &self,
        mark: &FleetMark<'_>,
    ) -> Result<(String, StoreNumber), StoreError> {
        let new = StoreNumber::random()?.to_string();
        let connections = &self.database.connections;
        let mut connection = connections.take().await.map_err(|failure| failure.error())?;
        let micros =
            |time: std::time::Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        let marking = async {
            let read = sqlx::query_scalar(READ_VALID).bind(MARK_NAME);
            let mut found: Option<String> =
                read.fetch_optional(&mut connection).await.map_err(BatchFailure::before_commit)?;
            if found.is_some() || mark.may_claim {
                let leave = sqlx::query(LEAVE).bind(MARK_NAME).bind(mark.ours);
                let leave = leave.bind(mark.lasts().map(micros));
                leave.execute(&mut connection).await.map_err(BatchFailure::before_commit)?;
                if let Some(previous) = mark.previous {
                    let end = sqlx::query(LET_END).bind(MARK_NAME).bind(previous);
                    let end = end.bind(micros(FleetMark::TTL)).execute(&mut connection);
                    end.await.map_err(BatchFailure::before_commit)?;
                }
                let read = sqlx::query_scalar(READ).bind(MARK_NAME);
                let read = read.fetch_optional(&mut connection).await;
                found = read.map_err(BatchFailure::before_commit)?;
            }
            let number = sqlx::query(NUMBER).bind(NUMBER_NAME).bind(new);
            number.execute(&mut connection).await.map_err(BatchFailure::before_commit)?;
            let read = sqlx::query_scalar(READ).bind(NUMBER_NAME);
            let number: String =
                read.fetch_one(&mut connection).await.map_err(BatchFailure::before_commit)?;
            Ok((found.unwrap_or_default(), number))
        };
        let marked = timeout(self.database.settings.deadline, marking).await;
        let marked = marked.unwrap_or_else(|_| Err(BatchFailure::late()));
        match marked {
            Ok((mark, number)) => {
                connections.give_back(connection);
                let number = number.parse().map_err(|()| StoreErrorKind::Corrupt)?;
                Ok((mark, number))
            }
            Err(failure) => {
                connections.learn(&failure);
                Err(failure.error())
            }
        }
    }
}
