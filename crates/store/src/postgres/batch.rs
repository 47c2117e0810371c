//! A batch of requests is one transaction: rows are locked, `tollgate_core` judges, rows are written.

use sqlx::{Connection as _, PgConnection};
use tollgate_core::Timestamp;

use super::counters::{Changes, Clock, Counters};
use super::failure::Failure;
use crate::Settled;
use crate::remote::Job;

/// Rows that others have written while we waited for them must be seen, whatever the database does
/// by default.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";

/// Locks the rows of all counters, and makes those that are not there. All nodes lock in the same
/// order, so that no two of them ever wait for each other. An update that changes nothing does it in
/// one statement, and unlike any other lock it returns what it found after it has waited.
///
/// The clock is read when the last row is locked: a batch is judged at one moment, which is not before
/// that of any batch that had the rows before.
const LOCK: &str = r#"
    WITH locked AS (
        INSERT INTO tollgate_counters AS counter (name, state, expires_at)
        SELECT name, '', 0 FROM unnest($1::text[]) AS name ORDER BY name COLLATE "C"
        ON CONFLICT (name) DO UPDATE SET expires_at = counter.expires_at
        RETURNING name, state, expires_at
    )
    SELECT
        coalesce(array_agg(state ORDER BY name), '{}'),
        coalesce(array_agg(expires_at ORDER BY name), '{}'),
        (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
    FROM locked
"#;

/// Writes rows that are there and locked. Nothing is joined, so that no plan can be bad.
const WRITE: &str = "
    INSERT INTO tollgate_counters (name, state, expires_at)
    SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[])
    ON CONFLICT (name) DO UPDATE SET state = excluded.state, expires_at = excluded.expires_at
";

/// A batch that is done.
#[derive(Debug)]
pub(super) struct Batch {
    /// When, by the database's clock.
    pub(super) now: Timestamp,
    /// One for each request.
    pub(super) answers: Vec<Settled>,
}

/// Settles requests, each on its own, in order.
pub(super) async fn settle(
    connection: &mut PgConnection,
    jobs: &[Job],
    clock: Clock,
) -> Result<Batch, Failure> {
    let mut counters = Counters::of(jobs.iter().map(|job| &job.request), clock);
    let mut transaction = connection.begin_with(BEGIN).await.map_err(Failure::before_commit)?;
    let (states, expiries, now): (Vec<String>, Vec<i64>, i64) = sqlx::query_as(LOCK)
        .bind(counters.names())
        .fetch_one(&mut *transaction)
        .await
        .map_err(Failure::before_commit)?;
    let now = Timestamp::from_micros(u64::try_from(now).unwrap_or(0));
    if !counters.load(&states, &expiries, now) {
        return Err(Failure::final_one(sqlx::Error::RowNotFound));
    }
    let answers = jobs.iter().map(|job| counters.apply(&job.request, job.now)).collect();
    let Changes { names, states, expiries } = counters.changes();
    if names.is_empty() {
        // Rows that were made go away with it.
        transaction.rollback().await.map_err(Failure::before_commit)?;
    } else {
        let write = sqlx::query(WRITE).bind(names).bind(states).bind(expiries);
        write.execute(&mut *transaction).await.map_err(Failure::before_commit)?;
        transaction.commit().await.map_err(Failure::at_commit)?;
    }
    Ok(Batch { now, answers })
}
