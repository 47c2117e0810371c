//! Entries for nodes: what changed since a version, and all of them.

use std::sync::Arc;

use futures_core::future::BoxFuture;
use tokio::time::timeout;
use tollgate_rules::{Problem, Revision};

use crate::catalog::{Catalog, Version, set_version};
use crate::db::connections::CALL_TIMEOUT;
use crate::db::database::{DatabaseConnection, Row, values};
use crate::db::tables::{self, Stamp, Stored, stored};
use crate::entry::Entry;
use crate::entry::change::{Change, Update};
use crate::entry::kind::Kind;
use crate::error::CatalogError;
use crate::read::view::{View, ViewBuilder};

/// How a catalog changed since a version that a node knows.
#[derive(Clone, Debug)]
pub enum ChangesSince {
    /// Not at all.
    Nothing,
    /// By this update.
    Changes(Update),
    /// By more than the audit log has: everything has to be read again.
    TooLong,
    /// Its history is another one: it was restored from a backup.
    Restored,
}

/// How many rows are read at a time.
const PAGE: u64 = 5_000;
/// After more changes than this, everything is read again.
const MAX_CHANGES: u64 = 20_000;

const VERSION: &str = "SELECT epoch, revision, stamp FROM tollgate_catalog";
pub(crate) const KNOWN: &str = "SELECT stamp FROM tollgate_revisions WHERE number = $1";
pub(crate) const CHANGES: &str = "SELECT revision, place, kind, entry, tenant, was, becomes, \
    author_tenant FROM tollgate_changes WHERE revision > $1 ORDER BY revision, place LIMIT $2";

/// What is locked until the end of the transaction.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lock {
    None,
    Writers,
}

pub(crate) async fn version_of(
    connection: &mut DatabaseConnection,
    lock: Lock,
) -> Result<Version, sqlx::Error> {
    // A transaction of SQLite that writes is the only one already.
    let is_locked = lock == Lock::Writers && connection.is_postgres();
    let sql = format!("{VERSION}{}", if is_locked { " FOR UPDATE" } else { "" });
    let Some(row) = connection.row(&sql, vec![]).await? else { return Ok(Version::default()) };
    let revision = Revision { epoch: row.count(0)?, number: row.count(1)? };
    Ok(Version { revision, stamp: row.count(2)? })
}

impl Catalog {
    /// The version it has.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn version(&self) -> Result<Version, CatalogError> {
        let mut lease = self.connections.to_read().await?;
        let version = self.in_time(version_of(lease.connection(), Lock::None)).await?;
        lease.give_back();
        Ok(version)
    }

    /// What changed since a known version. A write of this process is not read again: its entries are parsed
    /// and its rules compiled.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn since(&self, known: Version) -> Result<ChangesSince, CatalogError> {
        let own_write = self.own_write.lock().take();
        let own_write = own_write.filter(|(before, _)| *before == known).map(|(_, update)| update);
        let mut lease = self.connections.to_read().await?;
        let since = self.in_time(since(lease.connection(), known, own_write)).await?;
        lease.give_back();
        Ok(since)
    }

    /// Reads everything.
    ///
    /// # Errors
    /// The database cannot be reached, or it holds a policy that is invalid, or that Redis cannot count if it is to.
    pub fn view(&self) -> BoxFuture<'_, Result<View, CatalogError>> {
        Box::pin(async move {
            let mut lease = self.connections.to_read().await?;
            let connection = lease.connection();
            self.in_time(connection.begin_reading()).await?;
            let version = self.in_time(version_of(connection, Lock::None)).await?;
            let mut builder = ViewBuilder::default();
            for kind in Kind::ALL {
                let mut after = String::new();
                loop {
                    let page = self.in_time(page(connection, kind, &after)).await?;
                    let Some(last) = page.last() else { break };
                    after.clone_from(&last.name);
                    let entries: Result<Vec<Entry>, _> = page.iter().map(Stored::parse).collect();
                    let entries = entries.map_err(|error| self.unreadable(&error))?;
                    let added = builder.add(kind, entries).map_err(CatalogError::Invalid);
                    added.map_err(|error| self.unreadable(&error))?;
                }
            }
            self.in_time(connection.commit()).await?;
            lease.give_back();
            let view = builder.finish(version).map_err(CatalogError::Invalid);
            let view = view.map_err(|error| self.unreadable(&error))?;
            if self.policy_bounds.for_redis {
                self.check_countable(view.uncountable_in_redis())?;
            }
            Ok(view)
        })
    }

    /// The snapshot after an update, unless the store of this node cannot count it: a node with another store may have
    /// written it.
    ///
    /// # Errors
    /// The result would be an invalid policy.
    pub fn follow_view(&self, view: &View, update: &Update) -> Result<View, CatalogError> {
        let next = view.apply(update).map_err(CatalogError::Invalid)?;
        // What this process wrote was validated.
        if update.compiled.is_none() && self.policy_bounds.for_redis {
            self.check_countable(next.uncountable_since(&update.changes))?;
        }
        Ok(next)
    }

    fn check_countable(&self, uncountable: Vec<Problem>) -> Result<(), CatalogError> {
        if uncountable.is_empty() {
            return Ok(());
        }
        Err(self.unreadable(&CatalogError::Invalid(uncountable)))
    }

    /// Replaces this catalog by a copy of another one, in one transaction.
    ///
    /// # Errors
    /// One of the two cannot be reached; then this one is unchanged.
    pub fn copy_from<'a>(
        &'a self,
        original: &'a Self,
    ) -> BoxFuture<'a, Result<Version, CatalogError>> {
        Box::pin(async move {
            let mut from = original.connections.to_read().await?;
            let mut to = self.connections.to_write().await?;
            let (source, copy) = (from.connection(), to.connection());
            original.in_time(source.begin_reading()).await?;
            let version = original.in_time(version_of(source, Lock::None)).await?;
            self.in_time(copy.begin()).await?;
            self.clear(copy).await?;
            for kind in Kind::ALL {
                let mut after = String::new();
                loop {
                    let page = original.in_time(page(source, kind, &after)).await?;
                    let Some(last) = page.last() else { break };
                    after.clone_from(&last.name);
                    for stored in &page {
                        let entry = stored.parse().map_err(|error| original.unreadable(&error))?;
                        let tenant = stored.tenant.as_deref();
                        let stamp = Stamp {
                            version: stored.version,
                            at: stored.updated_at,
                            by: stored.updated_by.as_deref(),
                            created: Some((stored.created_at, &stored.created_by)),
                            tenant: stored.author_tenant.as_deref(),
                        };
                        let put = tables::put(copy, &stored.name, &entry, tenant, stamp);
                        self.in_time(put).await?;
                    }
                }
            }
            self.in_time(set_version(copy, version)).await?;
            self.in_time(copy.commit()).await?;
            original.in_time(source.commit()).await?;
            from.give_back();
            to.give_back();
            Ok(version)
        })
    }

    pub(crate) async fn in_time<T>(
        &self,
        asking: impl Future<Output = Result<T, sqlx::Error>>,
    ) -> Result<T, CatalogError> {
        match timeout(CALL_TIMEOUT, asking).await {
            Ok(answer) => answer.map_err(|error| self.failed(&error)),
            Err(_) => Err(CatalogError::away(self.url(), "it does not answer")),
        }
    }

    fn unreadable(&self, error: &CatalogError) -> CatalogError {
        CatalogError::Unusable(format!(
            "the catalog {} holds an invalid policy: {error}",
            self.url()
        ))
    }
}

async fn since(
    connection: &mut DatabaseConnection,
    known: Version,
    own_write: Option<Update>,
) -> Result<ChangesSince, sqlx::Error> {
    // One transaction, so that all queries see one version.
    connection.begin_reading().await?;
    let since = since_within(connection, known, own_write).await?;
    connection.commit().await?;
    Ok(since)
}

async fn since_within(
    connection: &mut DatabaseConnection,
    known: Version,
    own_write: Option<Update>,
) -> Result<ChangesSince, sqlx::Error> {
    let version = version_of(connection, Lock::None).await?;
    if version == known {
        return Ok(ChangesSince::Nothing);
    }
    if let Some(update) = own_write
        && update.version == version
    {
        return Ok(ChangesSince::Changes(update));
    }
    if version.revision.epoch > known.revision.epoch {
        return Ok(ChangesSince::TooLong);
    }
    // Epochs and numbers only grow, unless a backup was restored.
    if version.revision <= known.revision {
        return Ok(ChangesSince::Restored);
    }
    if known.revision.number > 0 {
        match connection.row(KNOWN, values![known.revision.number]).await? {
            None => return Ok(ChangesSince::TooLong),
            Some(row) if row.count(0)? != known.stamp => return Ok(ChangesSince::Restored),
            Some(_) => {}
        }
    }
    let rows = connection.rows(CHANGES, values![known.revision.number, MAX_CHANGES + 1]).await?;
    let (after, last) = (known.revision.number, version.revision.number);
    if rows.len() as u64 > MAX_CHANGES || !is_complete(&rows, after, last)? {
        return Ok(ChangesSince::TooLong);
    }
    let changes: Option<Vec<Change>> =
        rows.iter().map(change_of).collect::<Result<Option<_>, sqlx::Error>>()?;
    Ok(changes.map_or(ChangesSince::TooLong, |changes| {
        ChangesSince::Changes(Update::new(version, changes))
    }))
}

/// Whether these rows have all revisions after one up to the last. Old revisions are removed, those
/// that only made or ended bans before others.
fn is_complete(rows: &[Row], after: u64, last: u64) -> Result<bool, sqlx::Error> {
    let mut reached = after;
    for row in rows {
        let revision = row.count(0)?;
        if revision > reached + 1 {
            return Ok(false);
        }
        reached = revision;
    }
    Ok(reached == last)
}

/// None if this version of the program cannot read the change; reading everything shows what is wrong.
fn change_of(row: &Row) -> Result<Option<Change>, sqlx::Error> {
    let Some(kind) = Kind::from_name(&row.text(2)?) else { return Ok(None) };
    let parse = |body: Option<String>| match body.map(|body| Entry::parse(kind, &body)) {
        None => Some(None),
        Some(entry) => entry.ok().map(Arc::new).map(Some),
    };
    let (before, after) = (parse(row.optional_text(5)?), parse(row.optional_text(6)?));
    let (Some(before), Some(after)) = (before, after) else { return Ok(None) };
    let (tenant, author_tenant) = (row.optional_text(4)?, row.optional_text(7)?);
    Ok(Some(Change { kind, name: row.text(3)?, tenant, author_tenant, before, after }))
}

pub(crate) async fn page(
    connection: &mut DatabaseConnection,
    kind: Kind,
    after: &str,
) -> Result<Vec<Stored>, sqlx::Error> {
    let (columns, table) = (stored(kind), kind.table());
    let sql = format!("SELECT {columns} FROM {table} WHERE entry > $1 ORDER BY entry LIMIT $2");
    let rows = connection.rows(&sql, values![after, PAGE]).await?;
    rows.iter().map(|row| Stored::from_row(kind, row)).collect()
}
