//! The policy as it was: what the audit log has of entries before and after each revision, undone from the newest
//! revision backwards. API keys, tokens and bans are not part of a policy.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::catalog::Catalog;
use crate::db::database::{DatabaseConnection, Value, values};
use crate::db::tables::Stored;
use crate::entry::Entry;
use crate::entry::change::Change;
use crate::entry::kind::Kind;
use crate::error::CatalogError;
use crate::read::load::{Lock, version_of};
use crate::read::page::Filter;

/// How many entries may differ between two revisions that are compared.
const MAX_ENTRIES: usize = 20_000;
/// How many rows are read at a time.
const PAGE: usize = 5_000;
/// The condition for changes of a policy.
pub(crate) const OF_POLICY: &str =
    "kind IN ('rule', 'tier', 'client', 'override', 'whitelist', 'blacklist')";
const OLDEST: &str = "SELECT coalesce(min(number), 0) FROM tollgate_revisions";

/// An entry of a policy, by its kind and name, and its body if it existed.
type Bodies = BTreeMap<(Kind, String), Option<String>>;

/// Which change of each entry is wanted.
#[derive(Clone, Copy)]
enum Which {
    /// The first one, for the entry before it.
    First,
    /// The last one, for the entry after it.
    Last,
}

impl Catalog {
    /// What differs between two revisions, in the direction from one to the other: of entries of a tenant, or of all.
    ///
    /// # Errors
    /// One of the revisions is not kept, too much has changed, or the database cannot be reached.
    pub async fn changes_between(
        &self,
        tenant: Option<&str>,
        from: u64,
        to: u64,
    ) -> Result<Vec<Change>, CatalogError> {
        let (low, high) = (from.min(to), from.max(to));
        let mut lease = self.connections.to_read().await?;
        let connection = lease.connection();
        self.in_time(connection.begin_reading()).await?;
        for revision in [low, high] {
            self.newest_revision(connection, revision).await?;
        }
        let before = self.bodies(connection, Which::First, tenant, low, high).await?;
        let mut after = self.bodies(connection, Which::Last, tenant, low, high).await?;
        self.in_time(connection.commit()).await?;
        lease.give_back();
        let mut changes = Vec::new();
        for ((kind, name), before) in before {
            let key = (kind, name);
            let after = after.remove(&key).flatten();
            if before == after {
                continue;
            }
            let before = parse_visible(kind, before, tenant)?;
            let after = parse_visible(kind, after, tenant)?;
            if before == after {
                continue;
            }
            let (before, after) = if from <= to { (before, after) } else { (after, before) };
            let tenant = tenant.map(str::to_owned);
            changes.push(Change { kind, name: key.1, tenant, author_tenant: None, before, after });
        }
        Ok(changes)
    }

    /// The entries of the policy at a revision as JSON, by kind, in the order of their names: those of a tenant, or all.
    ///
    /// # Errors
    /// The revision is not kept, too much has changed since, or the database cannot be reached.
    pub async fn policy_at(
        &self,
        tenant: Option<&str>,
        revision: u64,
    ) -> Result<Vec<(Kind, Vec<String>)>, CatalogError> {
        let mut lease = self.connections.to_read().await?;
        let connection = lease.connection();
        self.in_time(connection.begin_reading()).await?;
        let newest = self.newest_revision(connection, revision).await?;
        let undone = self.bodies(connection, Which::First, tenant, revision, newest).await?;
        let mut policy: HashMap<Kind, BTreeMap<String, String>> = HashMap::new();
        for kind in Kind::POLICY {
            let filter = Filter { tenant: tenant.map(str::to_owned), ..Filter::default() };
            let mut after = String::new();
            while let Some((sql, values)) = filter.statement(kind, Some(&after), PAGE) {
                let rows = self.in_time(connection.rows(&sql, values)).await?;
                let is_last = rows.len() <= PAGE;
                for row in rows.iter().take(PAGE) {
                    let stored =
                        Stored::from_row(kind, row).map_err(|error| self.failed(&error))?;
                    after.clone_from(&stored.name);
                    policy.entry(kind).or_default().insert(stored.name, stored.body);
                }
                if is_last {
                    break;
                }
            }
        }
        self.in_time(connection.commit()).await?;
        lease.give_back();
        for ((kind, name), body) in undone {
            let entries = policy.entry(kind).or_default();
            match parse_visible(kind, body, tenant)? {
                Some(entry) => drop(entries.insert(name, entry.body())),
                None => drop(entries.remove(&name)),
            }
        }
        let bodies_of = |kind| {
            let entries: BTreeMap<String, String> = policy.remove(&kind).unwrap_or_default();
            (kind, entries.into_values().collect())
        };
        Ok(Kind::POLICY.into_iter().map(bodies_of).collect())
    }

    /// The entries that changed after a revision, as they were at that revision.
    pub(crate) async fn bodies_at(
        &self,
        connection: &mut DatabaseConnection,
        tenant: Option<&str>,
        revision: u64,
    ) -> Result<Bodies, CatalogError> {
        let newest = self.newest_revision(connection, revision).await?;
        self.bodies(connection, Which::First, tenant, revision, newest).await
    }

    /// The newest revision; an error if the log does not go back to `revision`, or it does not exist yet.
    async fn newest_revision(
        &self,
        connection: &mut DatabaseConnection,
        revision: u64,
    ) -> Result<u64, CatalogError> {
        let failed = |error: sqlx::Error| self.failed(&error);
        let newest = version_of(connection, Lock::None).await.map_err(failed)?.revision.number;
        let row = connection.row(OLDEST, vec![]).await.map_err(failed)?;
        let oldest = row.map_or(Ok(0), |row| row.count(0)).map_err(failed)?;
        if (oldest.max(1)..=newest).contains(&revision) {
            return Ok(newest);
        }
        Err(CatalogError::NoRevision { revision, oldest, newest })
    }

    /// Entries that changed after the revision `low` and up to `high`, as they were at one of the two.
    async fn bodies(
        &self,
        connection: &mut DatabaseConnection,
        which: Which,
        tenant: Option<&str>,
        low: u64,
        high: u64,
    ) -> Result<Bodies, CatalogError> {
        let failed = |error: sqlx::Error| self.failed(&error);
        let (sql, values) = statement(which, tenant, low, high);
        let rows = self.in_time(connection.rows(&sql, values)).await?;
        if rows.len() > MAX_ENTRIES {
            return Err(CatalogError::TooManyChanges { revision: low, max: MAX_ENTRIES });
        }
        let mut bodies = Bodies::new();
        for row in &rows {
            let Some(kind) = Kind::from_name(&row.text(0).map_err(failed)?) else { continue };
            let name = row.text(1).map_err(failed)?;
            bodies.insert((kind, name), row.optional_text(2).map_err(failed)?);
        }
        Ok(bodies)
    }
}

/// Finds the first or the last change of each entry between two revisions.
fn statement(which: Which, tenant: Option<&str>, low: u64, high: u64) -> (String, Vec<Value>) {
    let (column, nearer) = match which {
        Which::First => ("was", "other.revision > $1 AND other.revision < one.revision"),
        Which::Last => ("becomes", "other.revision <= $2 AND other.revision > one.revision"),
    };
    let mut values = values![low, high, MAX_ENTRIES as u64 + 1];
    let of_tenant = match tenant {
        Some(tenant) => {
            values.extend(values![tenant]);
            "AND tenant = $4"
        }
        None => "",
    };
    let sql = format!(
        "SELECT kind, entry, {column} FROM tollgate_changes AS one \
         WHERE revision > $1 AND revision <= $2 AND {OF_POLICY} {of_tenant} \
         AND NOT EXISTS (SELECT 1 FROM tollgate_changes AS other \
         WHERE other.kind = one.kind AND other.entry = one.entry AND {nearer}) LIMIT $3"
    );
    (sql, values)
}

/// Parses an entry. One that belonged to another tenant then did not exist for this one; overrides belong to the
/// tenant of their rule, by which they were found.
pub(crate) fn parse_visible(
    kind: Kind,
    body: Option<String>,
    tenant: Option<&str>,
) -> Result<Option<Arc<Entry>>, CatalogError> {
    let Some(body) = body else { return Ok(None) };
    let entry = Entry::parse(kind, &body).map_err(CatalogError::Invalid)?;
    let is_visible = tenant.is_none() || kind == Kind::Override || entry.tenant() == tenant;
    Ok(is_visible.then(|| Arc::new(entry)))
}
