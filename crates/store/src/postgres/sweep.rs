//! Deletes expired rows, a few pages of the table at a time. An index would find them faster, and make every charge
//! slower.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use sqlx::PgConnection;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use super::database::Database;
use super::failure::BatchFailure;
use crate::BreakerState;

/// The average interval between rounds.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// The timeout of a round, without connecting.
const ROUND_TIMEOUT: Duration = Duration::from_secs(5);
/// A page holds some 30 rows, so this is about a thousand of them.
const PAGES_IN_STEP: i64 = 32;
/// How many steps a round has at least. Small tables are swept in one round.
const STEPS_IN_ROUND: i64 = 8;
/// A large table is swept completely in this many rounds.
const ROUNDS: i64 = 60;

/// Deletes expired rows in `$2` pages from page `$1` on, and returns how many pages there are. Locked rows are in use
/// and are skipped: waiting for them could deadlock.
const STEP: &str = "
    WITH expired AS (
        SELECT ctid FROM tollgate_counters
        WHERE ctid >= format('(%s,0)', $1)::tid AND ctid < format('(%s,0)', $1 + $2)::tid
            AND expires_at < (extract(epoch FROM statement_timestamp()) * 1000000)::bigint
        FOR UPDATE SKIP LOCKED
    ), deleted AS (
        DELETE FROM tollgate_counters WHERE ctid = ANY (ARRAY (SELECT ctid FROM expired))
    )
    SELECT pg_relation_size('tollgate_counters') / current_setting('block_size')::bigint
";

/// Sweeps until it is dropped.
#[derive(Debug)]
pub(super) struct Sweeper(AbortHandle);

impl Sweeper {
    pub(super) fn start(database: Arc<Database>) -> Self {
        let sweeping = async move {
            let mut sweep = Sweep::default();
            // The first round comes at once, so that the first request finds a connection.
            loop {
                sweep.round(&database).await;
                sleep(rest()).await;
            }
        };
        Self(tokio::spawn(sweeping).abort_handle())
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The position of the sweep.
#[derive(Debug, Default)]
struct Sweep {
    page: i64,
}

impl Sweep {
    async fn round(&mut self, database: &Database) {
        if database.breaker.status().breaker != BreakerState::Closed {
            return;
        }
        if let Err(failure) = self.try_round(database).await {
            let error = failure.error();
            let why = std::error::Error::source(&error).map(ToString::to_string);
            tracing::debug!(%error, why, "expired counters were not swept");
            database.connections.learn(&failure);
        }
    }

    async fn try_round(&mut self, database: &Database) -> Result<(), BatchFailure> {
        let mut connection = database.connections.take().await?;
        let steps = timeout(ROUND_TIMEOUT, self.steps(&mut connection));
        steps.await.unwrap_or_else(|_| Err(BatchFailure::late()))?;
        database.connections.give_back(connection);
        Ok(())
    }

    async fn steps(&mut self, connection: &mut PgConnection) -> Result<(), BatchFailure> {
        let mut steps = 0;
        loop {
            let from = self.page;
            // Advances first, so that a page that cannot be swept does not block the others.
            self.page += PAGES_IN_STEP;
            let pages: i64 = sqlx::query_scalar(STEP)
                .bind(from)
                .bind(PAGES_IN_STEP)
                .fetch_one(&mut *connection)
                .await
                .map_err(BatchFailure::final_one)?;
            steps += 1;
            if self.page >= pages {
                self.page = 0;
                return Ok(());
            }
            if steps >= STEPS_IN_ROUND.max(pages / (PAGES_IN_STEP * ROUNDS)) {
                return Ok(());
            }
        }
    }
}

/// Half to one and a half of the interval, so that nodes that start together do not sweep together.
fn rest() -> Duration {
    let random = RandomState::new().build_hasher().finish() % 1_000;
    SWEEP_INTERVAL / 2 + SWEEP_INTERVAL * u32::try_from(random).unwrap_or(0) / 1_000
}
