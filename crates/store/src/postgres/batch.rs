//! A batch of requests is one transaction: rows are locked, `tollgate_core` judges, rows are written.

use std::mem;
use std::time::Duration;

use sqlx::{AssertSqlSafe, Executor as _, PgConnection};
use tollgate_core::{Micros, Timestamp};

use super::counters::{Changes, Clock, Counters};
use super::failure::Failure;
use crate::remote::Job;
use crate::{OpOutcome, StoreErrorKind};

/// Rows that others have written while we waited for them must be seen, whatever the database does
/// by default.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";
const ROLLBACK: &str = "ROLLBACK";

/// Locks the rows of all counters, and makes those that are not there. All nodes lock in the same
/// order, so that no two of them ever wait for each other. An update that changes nothing does it in
/// one statement, and unlike any other lock it returns what it found after it has waited.
///
/// The clock is read when the last row is locked: a batch is judged at one moment, which is not before
/// that of any batch that had the rows before.
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

/// Writes rows that are there and locked. Nothing is joined, so that no plan can be bad.
const WRITE: &str = "
    INSERT INTO tollgate_counters (name, state, expires_at)
    SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[])
    ON CONFLICT (name) DO UPDATE SET state = excluded.state, expires_at = excluded.expires_at
";

/// Commits, unless the clock of the database has passed a moment by then: the division by zero fails
/// the transaction, and the `COMMIT` behind it is not executed. One round trip, and nothing that can
/// delay the commit comes after the check.
fn commit_before(deadline: Timestamp) -> String {
    let deadline = deadline.as_micros();
    format!(
        "SELECT 1 / (extract(epoch FROM clock_timestamp()) * 1000000 < {deadline})::int; COMMIT"
    )
}

/// How a batch ended.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The transaction was committed, or changed nothing.
    Done(Batch),
    /// A caller stopped waiting, so the transaction was rolled back. The others can be settled without
    /// that caller.
    RolledBack,
}

/// A batch that is done.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// When, by the database's clock.
    pub(super) now: Timestamp,
    /// One for each operation.
    pub(super) outcomes: Vec<OpOutcome>,
}

/// Settles requests, each on its own, in order. Commits only while every caller still waits: a request
/// that was answered with a timeout is not charged afterwards, unless its `COMMIT` was under way.
/// `timeout` is how long a caller waits.
///
/// A connection is in no transaction afterwards, unless there was a failure.
pub(super) async fn settle(
    connection: &mut PgConnection,
    jobs: &mut Vec<Job>,
    clock: Clock,
    timeout: Duration,
) -> Result<Outcome, Failure> {
    let mut counters = Counters::of(jobs.iter().map(|job| &job.op), clock);
    connection.execute(BEGIN).await.map_err(Failure::before_commit)?;
    let (states, expiries, locked_at): (Vec<String>, Vec<i64>, i64) = sqlx::query_as(LOCK)
        .bind(counters.names())
        .bind(counters.max_state_bytes())
        .fetch_one(&mut *connection)
        .await
        .map_err(Failure::before_commit)?;
    let now = Timestamp::from_micros(u64::try_from(locked_at).unwrap_or(0));
    if !counters.load(&states, &expiries, now) {
        return Err(Failure::final_one(sqlx::Error::RowNotFound));
    }
    // Other transactions may have held the rows for longer than a caller waits.
    drop_late(jobs, timeout);
    // The clock of the database was read before ours, so this is never too late.
    let remaining = jobs.iter().map(|job| job.remaining(timeout)).min().unwrap_or_default();
    let deadline = now.plus(Micros::new(u64::try_from(remaining.as_micros()).unwrap_or(u64::MAX)));
    let outcomes = jobs.iter().map(|job| counters.apply(&job.op, job.now)).collect();
    let Changes { names, states, expiries } = counters.changes();
    if names.is_empty() {
        // Rows that were made go away with it.
        connection.execute(ROLLBACK).await.map_err(Failure::before_commit)?;
        return Ok(Outcome::Done(Batch { now, outcomes }));
    }
    let write = sqlx::query(WRITE).bind(names).bind(states).bind(expiries);
    write.execute(&mut *connection).await.map_err(Failure::before_commit)?;
    if !jobs.iter().any(Job::is_cancelled) {
        let commit = sqlx::raw_sql(AssertSqlSafe(commit_before(deadline)));
        match commit.execute(&mut *connection).await.map_err(Failure::at_commit) {
            Ok(_) => return Ok(Outcome::Done(Batch { now, outcomes })),
            Err(failure) if failure.is_too_late() => {}
            Err(failure) => return Err(failure),
        }
    }
    connection.execute(ROLLBACK).await.map_err(Failure::before_commit)?;
    Ok(Outcome::RolledBack)
}

/// Answers requests whose time is over, and removes those whose callers stopped waiting.
pub(super) fn drop_late(jobs: &mut Vec<Job>, timeout: Duration) {
    let (waiting, late): (Vec<Job>, Vec<Job>) = mem::take(jobs)
        .into_iter()
        .partition(|job| !job.is_cancelled() && !job.remaining(timeout).is_zero());
    *jobs = waiting;
    for job in late {
        job.finish(Err(StoreErrorKind::Timeout.into()));
    }
}
