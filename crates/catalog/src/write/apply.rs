//! Applies one change to the table of its kind, unless another entry is in its way.

use tollgate_rules::Problem;

use crate::catalog::Catalog;
use crate::db::database::{DatabaseConnection, Value, values};
use crate::db::tables::{self, Stamp};
use crate::entry::Entry;
use crate::entry::change::Change;
use crate::entry::kind::Kind;
use crate::entry::validate_entry;
use crate::error::CatalogError;

impl Catalog {
    /// Applies one change to the table of its kind.
    pub(crate) async fn apply(
        &self,
        connection: &mut DatabaseConnection,
        change: &Change,
        stamp: Stamp<'_>,
    ) -> Result<(), CatalogError> {
        let failed = |error: sqlx::Error| self.failed(&error);
        match &change.after {
            Some(entry) => {
                let (name, tenant) = (change.name.as_str(), change.tenant.as_deref());
                if let Some(problem) = validate_entry::flaw(entry, name, tenant) {
                    return Err(CatalogError::Invalid(vec![problem]));
                }
                match &**entry {
                    Entry::Override(it) => self.require_rule(connection, &it.rule_id).await?,
                    Entry::Tier(it) if it.default => {
                        self.refuse_second_default(connection, name).await?;
                    }
                    Entry::ApiKey(it) => {
                        self.refuse_known_secret(connection, change, &it.digest).await?;
                    }
                    Entry::Token(it) => {
                        self.refuse_known_secret(connection, change, &it.digest).await?;
                    }
                    _ => {}
                }
                tables::put(connection, name, entry, tenant, stamp).await.map_err(failed)
            }
            None => {
                if let Some(rule_id) = change.lifts_all_by() {
                    return tables::remove_bans(connection, rule_id).await.map_err(failed);
                }
                if change.kind == Kind::Rule {
                    self.refuse_used_rule(connection, &change.name).await?;
                }
                tables::remove(connection, change.kind, &change.name).await.map_err(failed)
            }
        }
    }

    async fn require_rule(
        &self,
        connection: &mut DatabaseConnection,
        rule_id: &str,
    ) -> Result<(), CatalogError> {
        let rule = tables::find(connection, Kind::Rule, rule_id).await;
        match rule.map_err(|error| self.failed(&error))? {
            Some(_) => Ok(()),
            None => Err(CatalogError::Invalid(vec![
                Problem::new("rule_id", format!("there is no rule `{rule_id}`"))
                    .with_advice("name the rule_id of a rule in this catalog"),
            ])),
        }
    }

    async fn refuse_second_default(
        &self,
        connection: &mut DatabaseConnection,
        tier: &str,
    ) -> Result<(), CatalogError> {
        let sql = "SELECT entry FROM tollgate_tiers WHERE is_default = 1 AND entry <> $1";
        let Some(first) = self.other(connection, sql, values![tier]).await? else { return Ok(()) };
        Err(CatalogError::Invalid(vec![
            Problem::new("default", format!("{first} is the default already")).with_advice(
                "clients without a tier are in the default one, so there can be only one",
            ),
        ]))
    }

    async fn refuse_known_secret(
        &self,
        connection: &mut DatabaseConnection,
        change: &Change,
        digest: &str,
    ) -> Result<(), CatalogError> {
        let Change { kind, name, .. } = change;
        let sql = format!("SELECT entry FROM {} WHERE digest = $1 AND entry <> $2", kind.table());
        let other = self.other(connection, &sql, values![digest, name.as_str()]).await?;
        let Some(other) = other else { return Ok(()) };
        Err(CatalogError::Invalid(vec![
            Problem::new("digest", format!("the {kind} {other} has the same secret"))
                .with_advice("remove that one first"),
        ]))
    }

    /// The name of another entry that is in the way.
    async fn other(
        &self,
        connection: &mut DatabaseConnection,
        sql: &str,
        values: Vec<Value>,
    ) -> Result<Option<String>, CatalogError> {
        let failed = |error: sqlx::Error| self.failed(&error);
        let row = connection.row(sql, values).await.map_err(failed)?;
        row.map(|row| row.text(0)).transpose().map_err(failed)
    }

    async fn refuse_used_rule(
        &self,
        connection: &mut DatabaseConnection,
        rule_id: &str,
    ) -> Result<(), CatalogError> {
        let failed = |error: sqlx::Error| self.failed(&error);
        let sql = "SELECT count(*) FROM tollgate_overrides WHERE rule_id = $1";
        let row = connection.row(sql, values![rule_id]).await.map_err(failed)?;
        match row.map_or(Ok(0), |row| row.count(0)).map_err(failed)? {
            0 => Ok(()),
            count => {
                let sql = "SELECT identifier_type, identifier FROM tollgate_overrides \
                    WHERE rule_id = $1 ORDER BY entry LIMIT 1";
                let row = connection.row(sql, values![rule_id]).await.map_err(failed)?;
                let client = match row {
                    Some(row) => {
                        client_name(&row.text(0).map_err(failed)?, &row.text(1).map_err(failed)?)
                    }
                    None => String::new(),
                };
                Err(CatalogError::InUse(match count {
                    1 => format!(
                        "an override is an exception from the rule {rule_id}, for {client}: remove it first"
                    ),
                    count => format!(
                        "{count} overrides are exceptions from the rule {rule_id}, the first for {client}: remove \
                         them first"
                    ),
                }))
            }
        }
    }
}

/// A client by its types and identifiers, each a text or a list of texts: `tenant acme, user_id bob`.
fn client_name(types: &str, identifiers: &str) -> String {
    let parts = |text: &str| {
        serde_json::from_str::<Vec<String>>(text).unwrap_or_else(|_| vec![text.to_owned()])
    };
    let (types, identifiers) = (parts(types), parts(identifiers));
    let pairs = types.iter().zip(&identifiers).map(|(kind, value)| format!("{kind} {value}"));
    pairs.collect::<Vec<_>>().join(", ")
}
