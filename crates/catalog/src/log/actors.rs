//! The names of tokens that made changes: people know a token by its name, also one that was revoked since.

use std::collections::{BTreeSet, HashMap};

use serde_json::Value as Json;

use crate::catalog::Catalog;
use crate::db::database::{DatabaseConnection, Value, values};
use crate::error::CatalogError;

/// How many tokens one statement looks for.
const MAX_IDS: usize = 100;

/// The names that these actors have, or had last, as tokens. Those without a name and parts of the program are left out.
pub(crate) async fn names<'a>(
    connection: &mut DatabaseConnection,
    actors: impl Iterator<Item = &'a str>,
) -> Result<HashMap<String, String>, sqlx::Error> {
    let actors: Vec<&str> = actors.collect::<BTreeSet<_>>().into_iter().collect();
    let mut names = HashMap::new();
    for some in actors.chunks(MAX_IDS) {
        let places: Vec<String> = (1..=some.len()).map(|at| format!("${at}")).collect();
        let places = places.join(", ");
        for sql in [
            format!(
                "SELECT entry, was FROM tollgate_changes \
                 WHERE kind = 'token' AND entry IN ({places}) AND becomes IS NULL"
            ),
            format!("SELECT entry, body FROM tollgate_tokens WHERE entry IN ({places})"),
        ] {
            let values: Vec<Value> = some.iter().map(|id| Value::from(*id)).collect();
            for row in connection.rows(&sql, values).await? {
                let id = row.text(0)?;
                names.extend(name_in(&row.text(1)?).map(|name| (id, name)));
            }
        }
    }
    Ok(names)
}

impl Catalog {
    /// Who is meant by an id or a name in a filter of the audit log: tokens of that id or name, also revoked ones, and
    /// parts of the program that have changed something. Empty if there is no such actor.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn actors(&self, id_or_name: &str) -> Result<Vec<String>, CatalogError> {
        let mut lease = self.connections.to_read().await?;
        let found = self.in_time(actors(lease.connection(), id_or_name)).await?;
        lease.give_back();
        Ok(found)
    }
}

async fn actors(
    connection: &mut DatabaseConnection,
    id_or_name: &str,
) -> Result<Vec<String>, sqlx::Error> {
    let mut found = BTreeSet::new();
    for sql in [
        "SELECT entry FROM tollgate_tokens WHERE entry = $1",
        "SELECT actor FROM tollgate_revisions WHERE actor = $1 LIMIT 1",
        "SELECT actor FROM tollgate_resets WHERE actor = $1 LIMIT 1",
    ] {
        let rows = connection.rows(sql, values![id_or_name]).await?;
        found.extend(rows.iter().map(|row| row.text(0)).collect::<Result<Vec<_>, _>>()?);
    }
    // Tokens are few, and only those whose body has the name anywhere are read.
    let name = serde_json::to_string(id_or_name).unwrap_or_default();
    for sql in [
        "SELECT entry, body FROM tollgate_tokens WHERE replace(body, $1, '') <> body",
        "SELECT entry, was FROM tollgate_changes \
         WHERE kind = 'token' AND becomes IS NULL AND replace(was, $1, '') <> was",
    ] {
        for row in connection.rows(sql, values![name.as_str()]).await? {
            if name_in(&row.text(1)?).as_deref() == Some(id_or_name) {
                found.insert(row.text(0)?);
            }
        }
    }
    Ok(found.into_iter().collect())
}

/// The name in the body of a token.
fn name_in(body: &str) -> Option<String> {
    let body: Json = serde_json::from_str(body).ok()?;
    body.get("name")?.as_str().map(str::to_owned)
}
