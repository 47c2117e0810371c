//! Schema version 8 keeps the window of a rule as a number too. This fills it in for rules of earlier versions.

use crate::db::database::{DatabaseConnection, values};
use crate::entry::kind::Kind;
use crate::entry::{Entry, window_ms};

/// How many rows are read at a time.
const PAGE: u64 = 500;
const RULES: &str =
    "SELECT entry, body FROM tollgate_rules WHERE entry > $1 ORDER BY entry LIMIT $2";
const FILL: &str = "UPDATE tollgate_rules SET window_ms = $2 WHERE entry = $1";

pub(crate) async fn fill_windows(connection: &mut DatabaseConnection) -> Result<(), sqlx::Error> {
    let mut after = String::new();
    loop {
        let rows = connection.rows(RULES, values![after.as_str(), PAGE]).await?;
        let Some(last) = rows.last() else { return Ok(()) };
        after = last.text(0)?;
        for row in &rows {
            // A rule that cannot be read is reported when the catalog is read.
            if let Ok(Entry::Rule(rule)) = Entry::parse(Kind::Rule, &row.text(1)?) {
                connection.run(FILL, values![row.text(0)?, window_ms(&rule)]).await?;
            }
        }
    }
}
