//! Probes of a database that no request calls: what is known about it would become old.

use tokio::time::timeout;

use super::PostgresStore;
use super::failure::BatchFailure;
use crate::remote::breaker::Proof;
use crate::{StoreError, StoreErrorKind};

/// A standby takes no writes.
const IS_READ_ONLY: &str = "SELECT current_setting('transaction_read_only') = 'on'";

impl PostgresStore {
    /// Probes the database if it had no call since this was last called, or its circuit breaker is open. Returns whether
    /// it fails, but not often enough yet to open the circuit breaker.
    pub(crate) async fn probe_idle(&self) -> bool {
        let breaker = &self.database.breaker;
        if breaker.is_idle()
            && let Ok(admitted) = breaker.admit()
        {
            admitted.record_probe(&self.probe().await, Proof::Write);
        }
        breaker.is_doubtful()
    }

    async fn probe(&self) -> Result<(), StoreError> {
        let result = match self.is_read_only().await {
            // An idle connection may have been closed since.
            Err(failure) if failure.may_retry() => self.is_read_only().await,
            result => result,
        };
        match result {
            Ok(false) => Ok(()),
            Ok(true) => Err(StoreErrorKind::Refused.into()),
            Err(failure) => Err(failure.error()),
        }
    }

    async fn is_read_only(&self) -> Result<bool, BatchFailure> {
        let connections = &self.database.connections;
        let mut connection = connections.take().await?;
        let asking = sqlx::query_scalar(IS_READ_ONLY).fetch_one(&mut connection);
        let asked = match timeout(self.database.settings.deadline, asking).await {
            Ok(asked) => asked.map_err(BatchFailure::before_commit),
            Err(_) => Err(BatchFailure::late()),
        };
        match &asked {
            Ok(_) => connections.give_back(connection),
            Err(failure) => connections.learn(failure),
        }
        asked
    }
}
