//! The names of tokens that made changes: people know a token by its name, also one that was revoked since.

use std::collections::{BTreeSet, HashMap};

use serde_json::Value as Json;

use crate::db::database::{DatabaseConnection, Value};

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

/// The name in the body of a token.
fn name_in(body: &str) -> Option<String> {
    let body: Json = serde_json::from_str(body).ok()?;
    body.get("name")?.as_str().map(str::to_owned)
}
