//! Entries for people: pages of a kind, and one entry by its name.

use tollgate_rules::SECRET_DIGEST;

use crate::catalog::Catalog;
use crate::db::database::{Value, values};
use crate::db::tables::{self, Stored, stored};
use crate::entry::kind::Kind;
use crate::error::CatalogError;

/// Which entries are wanted.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Those of this tenant only.
    pub tenant: Option<String>,
    /// Those that are exceptions from this rule, or bans of it.
    pub rule_id: Option<String>,
    /// Those in this tier.
    pub tier: Option<String>,
    /// Those of a client that is named by this type of identifier.
    pub identifier_type: Option<String>,
    /// Those of the client with this identifier.
    pub identifier: Option<String>,
    /// Rules that are switched on, or off.
    pub enabled: Option<bool>,
}

/// Some entries of a kind, in the order of their names.
#[derive(Clone, Debug)]
pub struct EntryPage {
    /// The entries.
    pub entries: Vec<Stored>,
    /// What to continue after, if there are more.
    pub next: Option<String>,
}

impl Catalog {
    /// The entry of that name.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn find(&self, kind: Kind, name: &str) -> Result<Option<Stored>, CatalogError> {
        let mut lease = self.connections.to_read().await?;
        let found = self.in_time(tables::find(lease.connection(), kind, name)).await?;
        lease.give_back();
        Ok(found)
    }

    /// At most `limit` entries of a kind behind the one called `after`. A filter that the kind knows
    /// nothing of finds nothing.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn page(
        &self,
        kind: Kind,
        filter: &Filter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<EntryPage, CatalogError> {
        let Some((sql, values)) = filter.statement(kind, after, limit) else {
            return Ok(EntryPage { entries: Vec::new(), next: None });
        };
        let mut lease = self.connections.to_read().await?;
        let rows = self.in_time(lease.connection().rows(&sql, values)).await?;
        lease.give_back();
        let entries: Result<Vec<Stored>, _> =
            rows.iter().map(|row| Stored::from_row(kind, row)).collect();
        let mut entries = entries.map_err(|error| self.failed(&error))?;
        let has_more = entries.len() > limit;
        entries.truncate(limit);
        let next = entries.last().filter(|_| has_more).map(|last| last.name.clone());
        Ok(EntryPage { entries, next })
    }
}

impl Filter {
    /// What finds one entry more than wanted; none if the kind knows nothing of the filter.
    pub(crate) fn statement(
        &self,
        kind: Kind,
        after: Option<&str>,
        limit: usize,
    ) -> Option<(String, Vec<Value>)> {
        let (conditions, mut values) = self.conditions(kind)?;
        let (at, behind) = (values.len() + 1, values.len() + 2);
        let sql = format!(
            "SELECT {} FROM {} WHERE {conditions} entry > ${at} ORDER BY entry LIMIT ${behind}",
            stored(kind),
            kind.table()
        );
        values.extend(values![after.unwrap_or_default(), (limit as u64).saturating_add(1)]);
        Some((sql, values))
    }

    /// The conditions, each with an `AND` behind it, and their values; none if the kind has not all of
    /// these columns.
    fn conditions(&self, kind: Kind) -> Option<(String, Vec<Value>)> {
        let wanted = [
            ("tenant", self.tenant.as_deref().map(Value::from)),
            ("rule_id", self.rule_id.as_deref().map(Value::from)),
            ("tier", self.tier.as_deref().map(Value::from)),
            ("identifier_type", self.identifier_type.as_deref().map(Value::from)),
            ("identifier", self.identifier.as_deref().map(Value::from)),
            ("enabled", self.enabled.map(Value::from)),
        ];
        let (mut conditions, mut values) = (String::new(), Vec::new());
        for (column, value) in wanted {
            let Some(value) = value else { continue };
            if !kind.columns().contains(&column) {
                return None;
            }
            values.push(value);
            let at = values.len();
            // It may be an API key, which is kept as its digest.
            if column == "identifier" && self.identifier_type.is_none() {
                let text = self.identifier.as_deref().unwrap_or_default();
                values.push((SECRET_DIGEST.of)(text).into());
                conditions.push_str(&format!("{column} IN (${at}, ${}) AND ", at + 1));
            } else {
                conditions.push_str(&format!("{column} = ${at} AND "));
            }
        }
        Some((conditions, values))
    }
}
