//! How the database would execute a query, for tests that it uses an index. Only tests use it.

use crate::catalog::Catalog;
use crate::db::database::{Value, values};
use crate::entry::kind::Kind;
use crate::error::CatalogError;
use crate::log::audit::{AuditFilter, AuditPlace, LogTable};
use crate::read::load::{CHANGES, KNOWN};
use crate::read::page::Filter;
use crate::write::resolve::names_statement;
use crate::write::validate_policy::OVERRIDES_OF;

/// A query of the catalog whose plan a test wants.
#[derive(Clone, Debug)]
pub enum QueryPlan {
    /// A page of a kind.
    Page(Kind, Filter),
    /// Changes in the audit log.
    Audit(AuditFilter, Option<AuditPlace>),
    /// Resets in the audit log.
    Resets(AuditFilter, Option<AuditPlace>),
    /// The version that a node knows.
    Known,
    /// The changes since then.
    Changes,
    /// The exceptions from a rule.
    OverridesOf,
    /// The entries of a kind that belong to a tenant.
    NamesOf(Kind),
}

impl Catalog {
    /// The plan of a query, line by line.
    ///
    /// # Errors
    /// The database cannot be reached.
    #[doc(hidden)]
    pub async fn plan_of(&self, query: &QueryPlan) -> Result<Vec<String>, CatalogError> {
        let (sql, values) = query.statement();
        let mut lease = self.connections.to_read().await?;
        let connection = lease.connection();
        let (explain, column) =
            if connection.is_postgres() { ("EXPLAIN", 0) } else { ("EXPLAIN QUERY PLAN", 3) };
        let rows = self.in_time(connection.rows(&format!("{explain} {sql}"), values)).await?;
        lease.give_back();
        let lines: Result<Vec<String>, _> = rows.iter().map(|row| row.text(column)).collect();
        lines.map_err(|error| self.failed(&error))
    }
}

impl QueryPlan {
    fn statement(&self) -> (String, Vec<Value>) {
        const LIMIT: usize = 50;
        match self {
            Self::Page(kind, filter) => filter.statement(*kind, None, LIMIT).unwrap_or_default(),
            Self::Audit(filter, before) => filter.statement(LogTable::Changes, *before, LIMIT),
            Self::Resets(filter, before) => filter.statement(LogTable::Resets, *before, LIMIT),
            Self::Known => (KNOWN.to_owned(), values![7_u64]),
            Self::Changes => (CHANGES.to_owned(), values![7_u64, LIMIT as u64]),
            Self::OverridesOf => (OVERRIDES_OF.to_owned(), values!["rule"]),
            Self::NamesOf(kind) => names_statement(*kind, Some("tenant")).unwrap_or_default(),
        }
    }
}
