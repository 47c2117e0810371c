//! Views for reports, under the names that operators look for. Nothing in this program reads them.

use crate::db::database::{DatabaseConnection, values};

const SQLITE: &str = include_str!("migrations/8_reports_sqlite.sql");
const POSTGRES: &str = include_str!("migrations/8_reports_postgres.sql");

const IS_TAKEN_IN_SQLITE: &str = "SELECT count(*) FROM sqlite_master WHERE name = $1";
const IS_TAKEN_IN_POSTGRES: &str = "SELECT count(*) FROM pg_class WHERE oid = to_regclass($1)";
/// A view that reads tables of this program is one of these.
const IS_OURS_IN_SQLITE: &str = "SELECT count(*) FROM sqlite_master WHERE name = $1 AND type = 'view' AND sql LIKE '%tollgate%'";
const IS_OURS_IN_POSTGRES: &str = "SELECT count(*) FROM pg_class \
    WHERE oid = to_regclass($1) AND relkind = 'v' AND pg_get_viewdef(oid) LIKE '%tollgate%'";

/// Creates the views that are not there: a backup of the tables alone is restored without them. The names are not prefixed, so a database that is shared with other programs may have a table of
/// that name: it stays, and the view is left out with a warning.
pub(crate) async fn create_views(connection: &mut DatabaseConnection) -> Result<(), sqlx::Error> {
    let (script, is_taken, is_ours) = if connection.is_postgres() {
        (POSTGRES, IS_TAKEN_IN_POSTGRES, IS_OURS_IN_POSTGRES)
    } else {
        (SQLITE, IS_TAKEN_IN_SQLITE, IS_OURS_IN_SQLITE)
    };
    for (name, statement) in views(script) {
        let ours = connection.row(is_ours, values![name]).await?;
        if ours.map_or(Ok(0), |row| row.count(0))? > 0 {
            continue;
        }
        let taken = connection.row(is_taken, values![name]).await?;
        if taken.map_or(Ok(0), |row| row.count(0))? > 0 {
            tracing::warn!(
                "the view {name} was not created: the database has a table or view of that name already"
            );
            continue;
        }
        connection.run_script(statement).await?;
    }
    Ok(())
}

/// The names of the views in a script, each with its statement.
fn views(script: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    script.split(";\n").filter_map(|statement| {
        let (_, rest) = statement.split_once("CREATE VIEW ")?;
        Some((rest.split_once(" AS")?.0, statement))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_databases_get_the_same_views() {
        let names = |script| views(script).map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(names(SQLITE), names(POSTGRES));
        assert_eq!(names(SQLITE).len(), 6);
    }
}
