//! A batch of requests is one transaction: rows are locked, `tollgate_core` settles, rows are written.

use std::mem;
use std::time::Duration;

use sqlx::{AssertSqlSafe, Executor as _, PgConnection};
use tollgate_core::{Micros, Timestamp};

use super::counters::{Changes, Counters, TimeSource};
use super::failure::BatchFailure;
use crate::remote::Job;
use crate::{OpOutcome, StoreErrorKind};

/// Rows that other transactions wrote while we waited for the lock must be visible, whatever the default isolation
/// level is.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";
const ROLLBACK: &str = "ROLLBACK";

/// Locks the rows of all counters, and inserts missing ones. All nodes lock in the same order, so there are no
/// deadlocks. An update that changes nothing does it in one statement, and unlike any other lock it returns the row
/// as it is after the wait.
///
/// The clock is read when the last row is locked: a batch is settled at one point in time, which is not before that
/// of any earlier batch with the same rows.
///
/// A state that is longer than any real one is not read: it counts as absent, and is replaced.
const LOCK: &str = r#"
    WITH locked AS (
        INSERT INTO tollgate_counters AS counter (name, state, expires_at)
        SELECT name, '', 0 FROM unnest($1::text[]) AS name ORDER BY name COLLATE "C"
        ON CONFLICT (name) DO UPDATE SET expires_at = counter.expires_at
        RETURNING name, state, expires_at
    )
    SELECT
        coalesce(
            array_agg(CASE WHEN octet_length(state) <= $2 THEN state ELSE '' END ORDER BY name),
            '{}'
        ),
        coalesce(array_agg(expires_at ORDER BY name), '{}'),
        (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
    FROM locked
"#;

/// Writes rows that exist and are locked. There is no join, so that no plan can be bad.
const WRITE: &str = "
    INSERT INTO tollgate_counters (name, state, expires_at)
    SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[])
    ON CONFLICT (name) DO UPDATE SET state = excluded.state, expires_at = excluded.expires_at
";

/// Commits, unless the clock of the database is past `deadline` by then: the division by zero fails the transaction,
/// and the `COMMIT` behind it is not executed. One round trip, and nothing that can delay the commit comes after the
/// check.
fn commit_before(deadline: Timestamp) -> String {
    let deadline = deadline.as_micros();
    format!(
        "SELECT 1 / (extract(epoch FROM clock_timestamp()) * 1000000 < {deadline})::int; COMMIT"
    )
}

/// How a batch ended.
#[derive(Debug)]
pub(super) enum BatchEnd {
    /// The transaction was committed, or changed nothing.
    Done(Batch),
    /// A caller stopped waiting, so the transaction was rolled back. The others can be settled without
    /// that caller.
    RolledBack,
}

/// A batch that was carried out.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// When, by the database's clock.
    pub(super) now: Timestamp,
    /// One for each operation.
    pub(super) outcomes: Vec<OpOutcome>,
}

/// Settles requests, each independently, in order. Commits only while every caller still waits: a request that has
/// timed out is not charged afterwards, unless its `COMMIT` was under way. `timeout` is how long a caller waits.
///
/// After success the connection is in no transaction.
pub(super) async fn settle(
    connection: &mut PgConnection,
    jobs: &mut Vec<Job>,
    clock: TimeSource,
    timeout: Duration,
) -> Result<BatchEnd, BatchFailure> {
    let mut counters = Counters::of(jobs.iter().map(|job| &job.op), clock);
    connection.execute(BEGIN).await.map_err(BatchFailure::before_commit)?;
    let (states, expiries, locked_at): (Vec<String>, Vec<i64>, i64) = sqlx::query_as(LOCK)
        .bind(counters.names())
        .bind(counters.max_state_bytes())
        .fetch_one(&mut *connection)
        .await
        .map_err(BatchFailure::before_commit)?;
    let now = Timestamp::from_micros(u64::try_from(locked_at).unwrap_or(0));
    if !counters.load(&states, &expiries, now) {
        return Err(BatchFailure::final_one(sqlx::Error::RowNotFound));
    }
    // Other transactions may have locked the rows for longer than a caller waits.
    drop_late(jobs, timeout);
    // The clock of the database was read before ours, so this is never too late.
    let remaining = jobs.iter().map(|job| job.remaining(timeout)).min().unwrap_or_default();
    let deadline = now.plus(Micros::new(u64::try_from(remaining.as_micros()).unwrap_or(u64::MAX)));
    let outcomes = jobs.iter().map(|job| counters.apply(&job.op, job.now)).collect();
    let Changes { names, states, expiries } = counters.changes();
    if names.is_empty() {
        // Also removes rows that were inserted.
        connection.execute(ROLLBACK).await.map_err(BatchFailure::before_commit)?;
        return Ok(BatchEnd::Done(Batch { now, outcomes }));
    }
    let write = sqlx::query(WRITE).bind(names).bind(states).bind(expiries);
    write.execute(&mut *connection).await.map_err(BatchFailure::before_commit)?;
    if !jobs.iter().any(Job::is_cancelled) {
        let commit = sqlx::raw_sql(AssertSqlSafe(commit_before(deadline)));
        match commit.execute(&mut *connection).await.map_err(BatchFailure::at_commit) {
            Ok(_) => return Ok(BatchEnd::Done(Batch { now, outcomes })),
            Err(failure) if failure.is_too_late() => {}
            Err(failure) => return Err(failure),
        }
    }
    connection.execute(ROLLBACK).await.map_err(BatchFailure::before_commit)?;
    Ok(BatchEnd::RolledBack)
}

/// Fails requests that have timed out, and removes those whose callers stopped waiting.
pub(super) fn drop_late(jobs: &mut Vec<Job>, timeout: Duration) {
    let (waiting, late): (Vec<Job>, Vec<Job>) = mem::take(jobs)
        .into_iter()
        .partition(|job| !job.is_cancelled() && !job.remaining(timeout).is_zero());
    *jobs = waiting;
    for job in late {
        job.finish(Err(StoreErrorKind::Timeout.into()));
    }
}
