//! Connections to the database, made when they are needed and kept while they work.
//!
//! Whoever uses a connection gives it back after it worked. One that failed, or whose user went away in
//! the middle of something, ends: so none is left in half a transaction.
//!
//! A connection to SQLite is a thread that goes on for a moment after the connection is dropped. The last
//! one to close moves everything from the write-ahead log into the file, so a process that ends well
//! waits for all of them: see [`Connections::close`].

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sqlx::Connection as _;
use sqlx::error::DatabaseError;
use sqlx::postgres::PgConnection;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqliteSynchronous};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{sleep, timeout};

use crate::db::database::Connection;
use crate::db::url::CatalogUrl;
use crate::error::CatalogError;

/// The longest that anything in the catalog may take. Nobody judged by it waits meanwhile.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// How long connecting may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(3);
/// How soon to try again what others are in the way of.
const MOMENT: Duration = Duration::from_millis(10);
/// How many read at once. Nobody who reads keeps another one waiting for ever.
const READERS: usize = 4;
/// How many connections may be closing at the same time.
const MAX_CLOSING: usize = 1024;
/// How long a process that ends waits for connections in use, and then for those that are closing.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) struct Connections {
    url: CatalogUrl,
    idle: Mutex<Vec<Connection>>,
    readers: Semaphore,
    /// Writers of this process wait here, rather than in the database.
    writers: Semaphore,
    /// Whoever writes logs waits for nobody here but others who do.
    recorders: Semaphore,
    /// One permit is away for every connection that is being closed.
    closing: Arc<Semaphore>,
}

/// A connection in use.
pub(crate) struct Lease<'a> {
    /// Present until the lease ends.
    connection: Option<Connection>,
    home: &'a Connections,
    _permit: SemaphorePermit<'a>,
}

impl Lease<'_> {
    pub(crate) fn connection(&mut self) -> &mut Connection {
        // Only the end of the lease takes it.
        self.connection.as_mut().expect("a lease has a connection")
    }

    /// Keeps the connection for the next one, since it works.
    pub(crate) fn give_back(mut self) {
        self.home.idle.lock().extend(self.connection.take());
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.home.close_in_background(connection);
        }
    }
}

impl Connections {
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

    pub(crate) async fn to_read(&self) -> Result<Lease<'_>, CatalogError> {
        self.lease(&self.readers).await
    }

    pub(crate) async fn to_write(&self) -> Result<Lease<'_>, CatalogError> {
        self.lease(&self.writers).await
    }

    pub(crate) async fn to_record(&self) -> Result<Lease<'_>, CatalogError> {
        self.lease(&self.recorders).await
    }

    async fn lease<'a>(&'a self, places: &'a Semaphore) -> Result<Lease<'a>, CatalogError> {
        let waiting = timeout(PATIENCE, places.acquire()).await;
        let permit = match waiting {
            Ok(Ok(permit)) => permit,
            Ok(Err(_)) => return Err(CatalogError::away(&self.url, "it is closed")),
            Err(_) => return Err(CatalogError::away(&self.url, "it is busy")),
        };
        let connection = match self.idle().await {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        Ok(Lease { connection: Some(connection), home: self, _permit: permit })
    }

    /// An idle connection that still works. If one does not, the others are not trusted either.
    async fn idle(&self) -> Option<Connection> {
        let mut connection = self.idle.lock().pop()?;
        if timeout(CONNECT_WITHIN, connection.is_alive()).await == Ok(true) {
            return Some(connection);
        }
        self.forget();
        None
    }

    /// A connection of its own, for whoever keeps it.
    pub(crate) async fn connect(&self) -> Result<Connection, CatalogError> {
        let connected = match timeout(CONNECT_WITHIN, open(&self.url)).await {
            Ok(connected) => connected,
            Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut).into()),
        };
        connected.map_err(|error| CatalogError::from_database(&self.url, &error))
    }

    /// Ends connections that may have died with the one that did.
    pub(crate) fn forget(&self) {
        let idle = std::mem::take(&mut *self.idle.lock());
        for connection in idle {
            self.close_in_background(connection);
        }
    }

    fn close_in_background(&self, connection: Connection) {
        let permit = Arc::clone(&self.closing).try_acquire_owned();
        // Outside a runtime, or with very many on their way, it closes without anyone waiting for it.
        if let (Ok(runtime), Ok(permit)) = (Handle::try_current(), permit) {
            runtime.spawn(async move {
                connection.close().await;
                drop(permit);
            });
        }
    }

    /// Waits until all connections are closed, those in use included. Nothing can be asked afterwards.
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

/// Whether SQLite has to wait for others. What for is in the upper bits of its code.
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

async fn open(url: &CatalogUrl) -> Result<Connection, sqlx::Error> {
    Ok(match url {
        CatalogUrl::Sqlite(file) => {
            create_private(file);
            let options = SqliteConnectOptions::new()
                .filename(file)
                .create_if_missing(true)
                .foreign_keys(true)
                .busy_timeout(PATIENCE)
                .journal_mode(SqliteJournalMode::Wal)
                // What was acknowledged is there after the power comes back.
                .synchronous(SqliteSynchronous::Full);
            loop {
                match SqliteConnection::connect_with(&options).await {
                    // Another one makes the file what it has to be. SQLite does not wait for that.
                    Err(sqlx::Error::Database(error)) if is_busy(error.as_ref()) => {
                        sleep(MOMENT).await;
                    }
                    connected => break Connection::Sqlite(Box::new(connected?)),
                }
            }
        }
        CatalogUrl::Postgres(options) => {
            let patience = PATIENCE.as_millis().to_string();
            let options = options.as_ref().clone().options([
                ("client_min_messages", "warning"),
                ("statement_timeout", &patience),
                // A node that has left must not keep others waiting.
                ("idle_in_transaction_session_timeout", &patience),
            ]);
            Connection::Postgres(Box::new(PgConnection::connect_with(&options).await?))
        }
    })
}
