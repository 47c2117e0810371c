//! The tables and their migrations: one file for each version, the same for both databases except for views.

use std::time::Duration;

use futures_core::future::BoxFuture;
use tokio::time::timeout;

use crate::db::connections::DatabaseConnections;
use crate::db::database::{DatabaseConnection, values};
use crate::db::digest_keys::digest_api_keys;
use crate::db::reports::create_views;
use crate::db::rule_windows::fill_windows;
use crate::error::CatalogError;

/// The migration from each version to the next.
const MIGRATIONS: [&str; 12] = [
    include_str!("migrations/1_policy.sql"),
    include_str!("migrations/2_access.sql"),
    include_str!("migrations/3_decisions.sql"),
    include_str!("migrations/4_bans.sql"),
    include_str!("migrations/5_resets.sql"),
    include_str!("migrations/6_authors.sql"),
    DECISION_LOG,
    include_str!("migrations/8_updated.sql"),
    include_str!("migrations/9_fleet.sql"),
    DECISION_IDS,
    DECISION_CLIENTS,
    DECISION_RULES,
];

/// The tables of the decision log. In SQLite they are in a separate file.
const DECISION_LOG: &str = include_str!("migrations/7_decision_log.sql");

/// The index of the decision log by id.
const DECISION_IDS: &str = include_str!("migrations/10_decision_ids.sql");

/// The columns of the decision log by which a client is found that has another name.
const DECISION_CLIENTS: &str = include_str!("migrations/11_decision_clients.sql");

/// The table of the decision log by which decisions of further rules are found.
const DECISION_RULES: &str = include_str!("migrations/12_decision_rules.sql");

/// The migrations that concern the decision log alone.
const LOG_MIGRATIONS: [&str; 4] = [DECISION_LOG, DECISION_IDS, DECISION_CLIENTS, DECISION_RULES];

/// The version of the schema that this program works with.
pub const NEWEST_SCHEMA: u64 = MIGRATIONS.len() as u64;

/// The version from which on API keys are kept as digests.
const DIGESTS: u64 = 6;

/// The version from which on there are windows of rules as numbers, and views for reports.
const REPORTS: u64 = 8;

/// How long a migration may take.
const MIGRATE_TIMEOUT: Duration = Duration::from_secs(600);

const VERSIONS: &str = "CREATE TABLE IF NOT EXISTS tollgate_migrations \
    (version BIGINT PRIMARY KEY CHECK (version > 0), applied_at BIGINT NOT NULL)";
const VERSION: &str = "SELECT coalesce(max(version), 0) FROM tollgate_migrations";
const APPLIED: &str = "INSERT INTO tollgate_migrations (version, applied_at) VALUES ($1, $2)";
/// Of several nodes that start at once, one makes the tables. SQLite's transactions do that anyway.
const ONE_AT_A_TIME: &str = "SELECT pg_advisory_xact_lock(7311029480771)";
const IS_THERE_IN_SQLITE: &str =
    "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'tollgate_migrations'";
const IS_THERE_IN_POSTGRES: &str =
    "SELECT count(*) FROM pg_class WHERE oid = to_regclass('tollgate_migrations')";

/// Makes the tables of the decision log in a SQLite file, unless they are there.
pub(crate) async fn prepare_decision_log(
    connection: &mut DatabaseConnection,
) -> Result<(), sqlx::Error> {
    const IS_THERE: &str = "SELECT count(*) FROM sqlite_master WHERE name = $1";
    connection.begin().await?;
    for (made_by, script) in [
        ("tollgate_decision_total", DECISION_LOG),
        ("tollgate_decision_log_by_id", DECISION_IDS),
        ("tollgate_decision_log_by_ip", DECISION_CLIENTS),
        ("tollgate_decision_rules", DECISION_RULES),
    ] {
        let is_there = connection.row(IS_THERE, values![made_by]).await?;
        if is_there.map_or(Ok(0), |row| row.count(0))? == 0 {
            connection.run_script(script).await?;
        }
    }
    connection.commit().await
}

/// The version of the schema that the database has; 0 if it has none.
pub(crate) async fn version(connection: &mut DatabaseConnection) -> Result<u64, sqlx::Error> {
    let sql = if connection.is_postgres() { IS_THERE_IN_POSTGRES } else { IS_THERE_IN_SQLITE };
    let is_there = connection.row(sql, vec![]).await?;
    if is_there.map_or(Ok(0), |row| row.count(0))? == 0 {
        return Ok(0);
    }
    connection.row(VERSION, vec![]).await?.map_or(Ok(0), |row| row.count(0))
}

/// Migrates the schema to `target` in one transaction; returns the version it had.
pub(crate) fn migrate<'a>(
    connections: &'a DatabaseConnections,
    target: u64,
    now: u64,
) -> BoxFuture<'a, Result<u64, CatalogError>> {
    Box::pin(async move {
        let url = connections.url();
        let mut lease = connections.to_write().await?;
        let migrating = migrate_at_once(lease.connection(), target, now);
        let (before, digested) = match timeout(MIGRATE_TIMEOUT, migrating).await {
            Ok(done) => done.map_err(|error| CatalogError::from_database(url, &error))?,
            Err(_) => return Err(CatalogError::away(url, "it does not answer")),
        };
        if digested > 0 && !lease.connection().is_postgres() {
            forget_deleted(lease.connection()).await;
        }
        lease.give_back();
        Ok(before)
    })
}

/// Removes deleted and overwritten rows from the file: they may contain API keys.
async fn forget_deleted(connection: &mut DatabaseConnection) {
    for sql in ["VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)"] {
        match timeout(MIGRATE_TIMEOUT, connection.rows(sql, vec![])).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => {
                tracing::warn!(
                    "the file of the catalog may still contain API keys; {sql} failed: {error}"
                );
            }
            Err(_) => tracing::warn!(
                "the file of the catalog may still contain API keys; {sql} timed out"
            ),
        }
    }
}

async fn migrate_at_once(
    connection: &mut DatabaseConnection,
    target: u64,
    now: u64,
) -> Result<(u64, u64), sqlx::Error> {
    connection.begin().await?;
    let migrated = migrate_within(connection, target, now).await?;
    connection.commit().await?;
    Ok(migrated)
}

/// Returns the version that the schema had, and in how many rows API keys became digests.
async fn migrate_within(
    connection: &mut DatabaseConnection,
    target: u64,
    now: u64,
) -> Result<(u64, u64), sqlx::Error> {
    if connection.is_postgres() {
        // Tables may be large, and others may have begun before.
        connection.run("SET LOCAL statement_timeout = 0", vec![]).await?;
        connection.rows(ONE_AT_A_TIME, vec![]).await?;
    }
    connection.run(VERSIONS, vec![]).await?;
    let before = connection.row(VERSION, vec![]).await?.map_or(Ok(0), |row| row.count(0))?;
    let mut digested = 0;
    for (version, migration) in (1_u64..).zip(MIGRATIONS) {
        if version > before && version <= target {
            let is_of_log = LOG_MIGRATIONS.contains(&migration);
            if connection.is_postgres() || !is_of_log {
                connection.run_script(migration).await?;
            }
            if version == DIGESTS {
                digested = digest_api_keys(connection).await?;
            }
            if version == REPORTS {
                fill_windows(connection).await?;
            }
            connection.run(APPLIED, values![version, now]).await?;
        }
    }
    if target >= REPORTS {
        create_views(connection).await?;
    }
    Ok((before, digested))
}
