//! A catalog: opened, migrated, and filled when it is new.

use std::fmt;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tollgate_core::Timestamp;
use tollgate_rules::{PolicyDocument, Revision};

use crate::db::connections::DatabaseConnections;
use crate::db::database::{DatabaseConnection, values};
use crate::db::schema::{self, NEWEST_SCHEMA};
use crate::db::tables::{self, Stamp};
use crate::db::url::CatalogUrl;
use crate::entry::Entry;
use crate::entry::access::Token;
use crate::entry::change::{Change, Update, last_of_each};
use crate::error::CatalogError;
use crate::log::decision_log::DecisionLog;
use crate::write::validate_policy::PolicyBounds;
use crate::write::{Author, Intent};

/// Rules, and all that operators wrote, in a database.
pub struct Catalog {
    pub(crate) connections: DatabaseConnections,
    /// The decision log, which is a separate file in SQLite.
    pub(crate) log: DecisionLog,
    pub(crate) policy_bounds: PolicyBounds,
    /// The last write, with the version before it, until the node that made it has followed.
    pub(crate) own_write: Mutex<Option<(Version, Update)>>,
    changed: Notify,
}

/// A version of a catalog.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Version {
    /// Its epoch and number.
    pub revision: Revision,
    /// Distinguishes it from the revision with the same number in another history, as after a restored backup.
    pub stamp: u64,
}

/// The first entries of a new catalog.
#[derive(Clone, Debug, Default)]
pub struct Seed {
    /// Its first rules.
    pub document: PolicyDocument,
}

impl Catalog {
    /// A catalog at a place. Connects when it is first used.
    #[must_use]
    pub fn new(url: CatalogUrl, policy_bounds: PolicyBounds) -> Self {
        let log = DecisionLog::new(url.decision_log());
        let (own_write, changed) = (Mutex::default(), Notify::new());
        Self { connections: DatabaseConnections::new(url), log, policy_bounds, own_write, changed }
    }

    /// Where the catalog is.
    #[must_use]
    pub const fn url(&self) -> &CatalogUrl {
        self.connections.url()
    }

    /// Creates missing tables and fills new ones; returns whether they were new. A file is always
    /// migrated; a database that other nodes share, only if `may_migrate` is set or it is empty.
    ///
    /// # Errors
    /// The database cannot be reached, or has another version of the tables.
    pub async fn open(
        &self,
        seed: Seed,
        now: Timestamp,
        may_migrate: bool,
    ) -> Result<bool, CatalogError> {
        let version = self.schema_version().await?;
        if version > NEWEST_SCHEMA {
            return Err(CatalogError::Unusable(format!(
                "the catalog {} has schema {version}, and this program knows {NEWEST_SCHEMA}: use a \
                 newer one",
                self.url()
            )));
        }
        if version < NEWEST_SCHEMA {
            if version > 0 && self.url().is_shared() && !may_migrate {
                return Err(CatalogError::Unusable(format!(
                    "the catalog {} has schema {version}, and this program needs {NEWEST_SCHEMA}: run \
                     `tollgate migrate` first",
                    self.url()
                )));
            }
            self.migrate(now).await?;
        }
        self.begin(seed, now).await
    }

    /// The version of the schema; 0 if there is none yet.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn schema_version(&self) -> Result<u64, CatalogError> {
        let mut lease = self.connections.to_read().await?;
        let version = self.in_time(schema::version(lease.connection())).await?;
        lease.give_back();
        Ok(version)
    }

    /// Migrates the schema to the newest version; returns the version it had.
    ///
    /// # Errors
    /// The database cannot be reached; then the schema is unchanged.
    pub async fn migrate(&self, now: Timestamp) -> Result<u64, CatalogError> {
        schema::migrate(&self.connections, NEWEST_SCHEMA, now.as_micros()).await
    }

    /// Brings the schema to an earlier version than the newest, for tests of migrations.
    ///
    /// # Errors
    /// The database cannot be reached.
    #[doc(hidden)]
    pub async fn migrate_to(&self, version: u64, now: Timestamp) -> Result<u64, CatalogError> {
        schema::migrate(&self.connections, version, now.as_micros()).await
    }

    /// Fills a new catalog. Of several nodes that start at once, one does.
    async fn begin(&self, seed: Seed, now: Timestamp) -> Result<bool, CatalogError> {
        let entries = Entry::all_of(seed.document);
        let author = Author::program("first start");
        Ok(self.transact(&author, Intent::Begin(entries), now, false).await?.begins)
    }

    /// Adds the token of an administrator unless there is a valid one; says whether it was added. Of
    /// several nodes that start at once, one adds its token.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn add_first_admin(
        &self,
        token: Token,
        now: Timestamp,
    ) -> Result<bool, CatalogError> {
        let author = Author::program("first start");
        let written = self.write(&author, Intent::FirstAdmin { token, now }, now, false).await?;
        Ok(!written.changes.is_empty())
    }

    /// Waits until all connections are closed. The last one to a file leaves everything in that file.
    /// The catalog cannot be used afterwards.
    pub async fn close(&self) {
        tokio::join!(self.connections.close(), self.log.connections.close());
    }

    /// Begins a new epoch, as after a restored backup: nodes must read everything again.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn begin_epoch(&self, known: Version, now: Timestamp) -> Result<(), CatalogError> {
        let sql = "UPDATE tollgate_catalog SET epoch = $1 WHERE epoch <= $2";
        let epoch = now.as_micros().max(known.revision.epoch + 1);
        let mut lease = self.connections.to_write().await?;
        self.in_time(lease.connection().run(sql, values![epoch, known.revision.epoch])).await?;
        lease.give_back();
        Ok(())
    }

    /// Writes an update of another catalog to this copy of it, in one transaction.
    ///
    /// # Errors
    /// The copy cannot be written, and is unchanged.
    pub async fn follow(&self, update: &Update) -> Result<(), CatalogError> {
        let mut lease = self.connections.to_write().await?;
        let connection = lease.connection();
        connection.begin().await.map_err(|error| self.failed(&error))?;
        let mut changes: Vec<Change> = last_of_each(&update.changes).into_iter().cloned().collect();
        tables::order(&mut changes);
        let version = update.version.revision.number.max(1);
        for change in &changes {
            let tenant = change.author_tenant.as_deref();
            // Changes do not say who made them.
            let created = Some((0, "copy"));
            let stamp = Stamp { version, at: None, by: None, created, tenant };
            self.apply(connection, change, stamp).await?;
        }
        tables::hand_over(connection, &changes).await.map_err(|error| self.failed(&error))?;
        set_version(connection, update.version).await.map_err(|error| self.failed(&error))?;
        connection.commit().await.map_err(|error| self.failed(&error))?;
        lease.give_back();
        Ok(())
    }

    /// Waits until this process has changed the catalog.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    pub(crate) fn wake(&self) {
        self.changed.notify_one();
    }

    pub(crate) fn failed(&self, error: &sqlx::Error) -> CatalogError {
        // Idle connections may have failed with this one.
        if !matches!(error, sqlx::Error::Database(_)) {
            self.connections.forget();
        }
        CatalogError::from_database(self.url(), error)
    }
}

pub(crate) async fn set_version(
    connection: &mut DatabaseConnection,
    version: Version,
) -> Result<(), sqlx::Error> {
    let sql = "INSERT INTO tollgate_catalog (only_row, epoch, revision, stamp) \
               VALUES (1, $1, $2, $3) ON CONFLICT (only_row) DO UPDATE SET \
               epoch = excluded.epoch, revision = excluded.revision, stamp = excluded.stamp";
    let Version { revision: Revision { epoch, number }, stamp } = version;
    connection.run(sql, values![epoch, number, stamp]).await.map(drop)
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Catalog").field("url", self.url()).finish_non_exhaustive()
    }
}
