//! What nodes ask: what is new since a state they know, and everything from the beginning.

use tokio::time::timeout;
use tollgate_rules::Revision;

use crate::catalog::{Catalog, Head, set_head};
use crate::db::connections::PATIENCE;
use crate::db::database::{Connection, Row, values};
use crate::db::tables::{self, Stamp, Stored, stored};
use crate::entry::Entry;
use crate::entry::change::Change;
use crate::entry::kind::Kind;
use crate::error::CatalogError;
use crate::read::view::{View, ViewBuilder};

/// What became of a catalog since a state that a node knows.
#[derive(Clone, Debug)]
pub enum Since {
    /// Nothing.
    Nothing,
    /// These changes, in their order; then it is at that state.
    Changes(Vec<Change>, Head),
    /// More than the audit log still tells: everything has to be read again.
    TooLong,
    /// Its history is another one: it was restored from a backup.
    Restored,
}

/// How many rows are read at a time.
const PAGE: u64 = 5_000;
/// More changes than this are not told one by one.
const MOST_CHANGES: u64 = 20_000;

const HEAD: &str = "SELECT epoch, revision, stamp FROM tollgate_catalog";
pub(crate) const KNOWN: &str = "SELECT stamp FROM tollgate_revisions WHERE number = $1";
pub(crate) const CHANGES: &str = "SELECT revision, place, kind, entry, tenant, was, becomes, \
    author_tenant FROM tollgate_changes WHERE revision > $1 ORDER BY revision, place LIMIT $2";

/// Who is kept out until the end of the transaction.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lock {
    None,
    Writers,
}

pub(crate) async fn head_of(connection: &mut Connection, lock: Lock) -> Result<Head, sqlx::Error> {
    // In SQLite whoever writes is alone already.
    let is_locked = lock == Lock::Writers && connection.is_postgres();
    let sql = format!("{HEAD}{}", if is_locked { " FOR UPDATE" } else { "" });
    let Some(row) = connection.row(&sql, vec![]).await? else { return Ok(Head::default()) };
    let revision = Revision { epoch: row.count(0)?, number: row.count(1)? };
    Ok(Head { revision, stamp: row.count(2)? })
}

impl Catalog {
    /// The state it is in.
    ///
    /// # Errors
    /// The database cannot be asked.
    pub async fn head(&self) -> Result<Head, CatalogError> {
        let mut lease = self.connections.to_read().await?;
        let head = self.in_time(head_of(lease.connection(), Lock::None)).await?;
        lease.give_back();
        Ok(head)
    }

    /// What is new since a known state.
    ///
    /// # Errors
    /// The database cannot be asked.
    pub async fn since(&self, known: Head) -> Result<Since, CatalogError> {
        let mut lease = self.connections.to_read().await?;
        let since = self.in_time(since(lease.connection(), known)).await?;
        lease.give_back();
        Ok(since)
    }

    /// Reads everything.
    ///
    /// # Errors
    /// The database cannot be asked, or what it holds is no policy.
    pub async fn view(&self) -> Result<View, CatalogError> {
        let mut lease = self.connections.to_read().await?;
        let connection = lease.connection();
        self.in_time(connection.begin_reading()).await?;
        let head = self.in_time(head_of(connection, Lock::None)).await?;
        let mut builder = ViewBuilder::default();
        for kind in Kind::ALL {
            let mut after = String::new();
            loop {
                let page = self.in_time(page(connection, kind, &after)).await?;
                let Some(last) = page.last() else { break };
                after.clone_from(&last.entry);
                let entries: Result<Vec<Entry>, _> =
                    page.iter().map(|stored| Entry::parse(kind, &stored.body)).collect();
                let entries = entries.map_err(|problems| self.unreadable(problems))?;
                builder.add(kind, entries).map_err(|problems| self.unreadable(problems))?;
            }
        }
        self.in_time(connection.commit()).await?;
        lease.give_back();
        builder.finish(head).map_err(|problems| self.unreadable(problems))
    }

    /// Makes this catalog a copy of another one, whatever it was, in one transaction.
    ///
    /// # Errors
    /// One of the two cannot be asked; then this one is as it was.
    pub async fn copy_from(&self, original: &Self) -> Result<Head, CatalogError> {
        let mut from = original.connections.to_read().await?;
        let mut to = self.connections.to_write().await?;
        let (source, copy) = (from.connection(), to.connection());
        original.in_time(source.begin_reading()).await?;
        let head = original.in_time(head_of(source, Lock::None)).await?;
        self.in_time(copy.begin()).await?;
        // A copy has no history of its own.
        for history in ["tollgate_revisions", "tollgate_resets"] {
            self.in_time(copy.run(&format!("DELETE FROM {history}"), vec![])).await?;
        }
        for kind in Kind::ALL.into_iter().rev() {
            let sql = format!("DELETE FROM {}", kind.table());
            self.in_time(copy.run(&sql, vec![])).await?;
        }
        for kind in Kind::ALL {
            let mut after = String::new();
            loop {
                let page = original.in_time(page(source, kind, &after)).await?;
                let Some(last) = page.last() else { break };
                after.clone_from(&last.entry);
                for stored in &page {
                    let entry = Entry::parse(kind, &stored.body);
                    let entry = entry.map_err(|problems| original.unreadable(problems))?;
                    let by = stored.created_by.as_str();
                    let tenant = stored.tenant.as_deref();
                    let stamp = Stamp {
                        version: stored.version,
                        at: stored.created_at,
                        by,
                        tenant: stored.author_tenant.as_deref(),
                    };
                    let put = tables::put(copy, &stored.entry, &entry, tenant, stamp);
                    self.in_time(put).await?;
                }
            }
        }
        self.in_time(set_head(copy, head)).await?;
        self.in_time(copy.commit()).await?;
        original.in_time(source.commit()).await?;
        from.give_back();
        to.give_back();
        Ok(head)
    }

    pub(crate) async fn in_time<T>(
        &self,
        asking: impl Future<Output = Result<T, sqlx::Error>>,
    ) -> Result<T, CatalogError> {
        match timeout(PATIENCE, asking).await {
            Ok(answer) => answer.map_err(|error| self.failed(&error)),
            Err(_) => Err(CatalogError::away(self.url(), "it does not answer")),
        }
    }

    fn unreadable(&self, problems: Vec<tollgate_rules::Problem>) -> CatalogError {
        let told = CatalogError::Invalid(problems);
        CatalogError::Unusable(format!("the catalog {} holds no sound policy: {told}", self.url()))
    }
}

async fn since(connection: &mut Connection, known: Head) -> Result<Since, sqlx::Error> {
    // One state for all three questions.
    connection.begin_reading().await?;
    let since = since_within(connection, known).await?;
    connection.commit().await?;
    Ok(since)
}

async fn since_within(connection: &mut Connection, known: Head) -> Result<Since, sqlx::Error> {
    let head = head_of(connection, Lock::None).await?;
    if head == known {
        return Ok(Since::Nothing);
    }
    if head.revision.epoch != known.revision.epoch {
        return Ok(Since::TooLong);
    }
    if head.revision.number <= known.revision.number {
        return Ok(Since::Restored);
    }
    if known.revision.number > 0 {
        match connection.row(KNOWN, values![known.revision.number]).await? {
            None => return Ok(Since::TooLong),
            Some(row) if row.count(0)? != known.stamp => return Ok(Since::Restored),
            Some(_) => {}
        }
    }
    let rows = connection.rows(CHANGES, values![known.revision.number, MOST_CHANGES + 1]).await?;
    let (after, last) = (known.revision.number, head.revision.number);
    if rows.len() as u64 > MOST_CHANGES || !is_complete(&rows, after, last)? {
        return Ok(Since::TooLong);
    }
    let changes: Option<Vec<Change>> =
        rows.iter().map(change_of).collect::<Result<Option<_>, sqlx::Error>>()?;
    // A kind that this version does not know: whatever it means, it is not told one by one.
    Ok(changes.map_or(Since::TooLong, |changes| Since::Changes(changes, head)))
}

/// Whether these rows are of all revisions after one of them up to the last. Old revisions are removed, those
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

fn change_of(row: &Row) -> Result<Option<Change>, sqlx::Error> {
    let Some(kind) = Kind::from_name(&row.text(2)?) else { return Ok(None) };
    Ok(Some(Change {
        kind,
        entry: row.text(3)?,
        tenant: row.optional_text(4)?,
        author_tenant: row.optional_text(7)?,
        was: row.optional_text(5)?,
        becomes: row.optional_text(6)?,
    }))
}

async fn page(
    connection: &mut Connection,
    kind: Kind,
    after: &str,
) -> Result<Vec<Stored>, sqlx::Error> {
    let (columns, table) = (stored(kind), kind.table());
    let sql = format!("SELECT {columns} FROM {table} WHERE entry > $1 ORDER BY entry LIMIT $2");
    let rows = connection.rows(&sql, values![after, PAGE]).await?;
    rows.iter().map(Stored::from_row).collect()
}
