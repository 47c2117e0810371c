//! The table that counters are kept in, and how it comes to be there.

use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::{PgConnection, SqlSafeStr as _};

/// Ours alone: the database may have other tables, and those who look after them.
const MIGRATIONS: &str = "tollgate_counters_migrations";
const NEWEST: i64 = 1;
const IS_THERE: &str =
    "SELECT EXISTS (SELECT FROM tollgate_counters_migrations WHERE version = $1 AND success)";

/// Makes the tables, unless they are there. Of several nodes that start at once, one does.
pub(super) async fn migrate(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    // Whoever may use the tables need not be allowed to make any, and need not wait for a lock.
    let is_there = sqlx::query_scalar(IS_THERE).bind(NEWEST).fetch_one(&mut *connection).await;
    if let Ok(true) = is_there {
        return Ok(());
    }
    let mut migrator = Migrator::with_migrations(vec![Migration::new(
        NEWEST,
        "counters".into(),
        MigrationType::Simple,
        include_str!("migrations/1_counters.sql").into_sql_str(),
        false,
    )]);
    migrator.dangerous_set_table_name(MIGRATIONS);
    // What `Migrator::run` does. That one cannot be awaited by a task that may move to another thread.
    migrator.run_direct(None, connection, false).await?;
    Ok(())
}
