//! Connections to the database, made when they are needed and kept while they work.
//!
//! A connection is returned to the pool after a call that worked. One that failed, or whose call was
//! cancelled, is closed, so that none stays in an open transaction.
//!
//! A connection to SQLite is a thread that goes on for a moment after the connection is dropped. The last
//! one to close moves everything from the write-ahead log into the file, so a process that ends well
//! waits for all of them: see [`DatabaseConnections::close`].

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_core::future::BoxFuture;
use parking_lot::Mutex;
use sqlx::Connection as _;
use sqlx::error::DatabaseError;
use sqlx::postgres::PgConnection;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqliteSynchronous};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{sleep, timeout};

use crate::db::database::DatabaseConnection;
use crate::db::url::CatalogUrl;
use crate::error::CatalogError;

/// The longest that a call to the catalog may take. Checks do not wait for it.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// The delay before a file that another process locks is opened again.
const BUSY_RETRY_DELAY: Duration = Duration::from_millis(10);
/// How many connections read at once.
const READERS: usize = 4;
/// How many connections may be closing at the same time.
const MAX_CLOSING: usize = 1024;
/// How long a process that ends waits for connections in use, and then for those that are closing.
const CLOSE_TIMEOUT: Duration = CALL_TIMEOUT;

pub(crate) struct DatabaseConnections {
    url: CatalogUrl,
    idle: Mutex<Vec<DatabaseConnection>>,
    readers: Semaphore,
    /// Writers of this process wait here, rather than in the database.
    writers: Semaphore,
    /// Writers of logs wait only for each other, not for writers of entries.
    recorders: Semaphore,
    /// One permit is away for every connection that is being closed.
    closing: Arc<Semaphore>,
}

/// A connection in use.
pub(crate) struct PooledConnection<'a> {
    /// Present until the lease ends.
    connection: Option<DatabaseConnection>,
    home: &'a DatabaseConnections,
    _permit: SemaphorePermit<'a>,
}

impl PooledConnection<'_> {
    pub(crate) fn connection(&mut self) -> &mut DatabaseConnection {
        // Only `give_back` and `drop` take it, which end the lease.
        self.connection.as_mut().expect("a lease has a connection")
    }

    /// Returns a working connection to the pool.
    pub(crate) fn give_back(mut self) {
        self.home.idle.lock().extend(self.connection.take());
    }
}

impl Drop for PooledConnection<'_> {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.home.close_in_background(connection);
        }
    }
}

impl DatabaseConnections {
    pub(crate) fn new(url: CatalogUrl) -> Self {
        Self {
            url,
            idle: Mutex::default(),
            readers: Semaphore::new(READERS),
            writers: Semaphore::new(1),
            recorders: Semaphore::new(1),
            closing: Arc::new(Semaphore::new(MAX_CLOSING)),
        }
    }

    pub(crate) const fn url(&self) -> &CatalogUrl {
        &self.url
    }

    pub(crate) async fn to_read(&self) -> Result<PooledConnection<'_>, CatalogError> {
        self.lease(&self.readers).await
    }

    pub(crate) async fn to_write(&self) -> Result<PooledConnection<'_>, CatalogError> {
        self.lease(&self.writers).await
    }

    pub(crate) async fn to_record(&self) -> Result<PooledConnection<'_>, CatalogError> {
        self.lease(&self.recorders).await
    }

    fn lease<'a>(
        &'a self,
        places: &'a Semaphore,
    ) -> BoxFuture<'a, Result<PooledConnection<'a>, CatalogError>> {
        Box::pin(async move {
            let waiting = timeout(CALL_TIMEOUT, places.acquire()).await;
            let permit = match waiting {
                Ok(Ok(permit)) => permit,
                Ok(Err(_)) => return Err(CatalogError::away(&self.url, "it is closed")),
                Err(_) => return Err(CatalogError::away(&self.url, "it is busy")),
            };
            let connection = match self.idle().await {
                Some(connection) => connection,
                None => self.connect().await?,
            };
            Ok(PooledConnection { connection: Some(connection), home: self, _permit: permit })
        })
    }

    /// An idle connection that still works. If one does not, the others are not trusted either.
    async fn idle(&self) -> Option<DatabaseConnection> {
        let mut connection = self.idle.lock().pop()?;
        if timeout(CONNECT_TIMEOUT, connection.is_alive()).await == Ok(true) {
            return Some(connection);
        }
        self.forget();
        None
    }

    /// A new connection outside the pool.
    pub(crate) async fn connect(&self) -> Result<DatabaseConnection, CatalogError> {
        let connected = match timeout(CONNECT_TIMEOUT, open(&self.url)).await {
            Ok(connected) => connected,
            Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut).into()),
        };
        connected.map_err(|error| CatalogError::from_database(&self.url, &error))
    }

    /// Closes idle connections: they may have failed with the one that did.
    pub(crate) fn forget(&self) {
        let idle = std::mem::take(&mut *self.idle.lock());
        for connection in idle {
            self.close_in_background(connection);
        }
    }

    fn close_in_background(&self, connection: DatabaseConnection) {
        let permit = Arc::clone(&self.closing).try_acquire_owned();
        // Outside a runtime, or if very many are closing, `close` does not wait for it.
        if let (Ok(runtime), Ok(permit)) = (Handle::try_current(), permit) {
            runtime.spawn(async move {
                connection.close().await;
                drop(permit);
            });
        }
    }

    /// Waits until all connections are closed, those in use included. None can be made afterwards.
    pub(crate) async fn close(&self) {
        let in_use = async {
            let places = [(&self.readers, READERS), (&self.writers, 1), (&self.recorders, 1)];
            for (places, count) in places {
                let all = u32::try_from(count).unwrap_or(u32::MAX);
                if let Ok(permits) = places.acquire_many(all).await {
                    permits.forget();
                }
                places.close();
            }
        };
        // A connection that takes longer is cut off: a process has to end.
        let _ = timeout(CLOSE_TIMEOUT, in_use).await;
        self.forget();
        let all = u32::try_from(MAX_CLOSING).unwrap_or(u32::MAX);
        let _ = timeout(CLOSE_TIMEOUT, self.closing.acquire_many(all)).await;
    }
}

/// Whether SQLite found a lock of another connection. The upper bits of its code say which lock.
fn is_busy(error: &dyn DatabaseError) -> bool {
    let code = error.code().and_then(|code| code.parse::<u32>().ok());
    code.is_some_and(|code| code & 0xff == 5)
}

/// Creates a missing file for its owner only. SQLite gives the files beside it the same permissions. If that fails,
/// SQLite says why.
fn create_private(file: &Path) {
    let mut options = OpenOptions::new();
    let _ = options.write(true).create_new(true).mode(0o600).open(file);
}

async fn open(url: &CatalogUrl) -> Result<DatabaseConnection, sqlx::Error> {
    Ok(match url {
        CatalogUrl::Sqlite(file) => {
            create_private(file);
            let options = SqliteConnectOptions::new()
                .filename(file)
                .create_if_missing(true)
                .foreign_keys(true)
                .busy_timeout(CALL_TIMEOUT)
                .journal_mode(SqliteJournalMode::Wal)
                // A committed write survives a loss of power.
                .synchronous(SqliteSynchronous::Full);
            loop {
                match SqliteConnection::connect_with(&options).await {
                    // Another process is setting up the file. SQLite does not wait for that.
                    Err(sqlx::Error::Database(error)) if is_busy(error.as_ref()) => {
                        sleep(BUSY_RETRY_DELAY).await;
                    }
                    connected => break DatabaseConnection::Sqlite(Box::new(connected?)),
                }
            }
        }
        CatalogUrl::Postgres(options) => {
            let patience = CALL_TIMEOUT.as_millis().to_string();
            let options = options.as_ref().clone().options([
                ("client_min_messages", "warning"),
                ("statement_timeout", &patience),
                // A node that was lost in a transaction must not keep its locks.
                ("idle_in_transaction_session_timeout", &patience),
            ]);
            DatabaseConnection::Postgres(Box::new(PgConnection::connect_with(&options).await?))
        }
    })
}
