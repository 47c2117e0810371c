//! Creates the table of the counters.

use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::{PgConnection, SqlSafeStr as _};

/// A separate table of migrations: the database may have other tables with migrations.
const MIGRATIONS: &str = "tollgate_counters_migrations";
const NEWEST: i64 = 1;
const IS_THERE: &str =
    "SELECT EXISTS (SELECT FROM tollgate_counters_migrations WHERE version = $1 AND success)";

/// Creates the tables, unless they exist. Of several nodes that start at once, one does.
pub(super) async fn migrate(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    // An account without permission to create tables can use existing ones, without waiting for a lock.
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
    // `Migrator::run`, except that its future is `Send`.
    migrator.run_direct(None, connection, false).await?;
    Ok(())
}
