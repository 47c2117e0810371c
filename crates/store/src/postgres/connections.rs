//! Connections to the database, opened when needed and kept while they work.
//!
//! Less than a pool: a connection is returned after a success and dropped after a failure. So none is tested between
//! two uses. There are as many as are in use at once.

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection as _, PgConnection};
use tokio::time::timeout;

use super::failure::BatchFailure;
use super::schema;

/// The connect timeout. No request waits that long, but the next one finds a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) struct PostgresConnections {
    options: PgConnectOptions,
    /// The timeout of a statement, in milliseconds.
    most_millis: u128,
    idle: Mutex<VecDeque<PgConnection>>,
    is_migrated: AtomicBool,
}

impl PostgresConnections {
    pub(super) fn new(options: PgConnectOptions, deadline: Duration) -> Self {
        // Silences the notice that a table exists already.
        let options = options.options([("client_min_messages", "warning")]);
        // Zero would mean no timeout, and a number above `i32` is rejected.
        let most_millis = deadline.as_millis().clamp(1, i32::MAX.unsigned_abs().into());
        let (idle, is_migrated) = (Mutex::default(), AtomicBool::new(false));
        Self { options, most_millis, idle, is_migrated }
    }

    /// How to connect.
    pub(super) const fn options(&self) -> &PgConnectOptions {
        &self.options
    }

    /// The connection that has been idle for longest, or a new one.
    pub(super) async fn take(&self) -> Result<PgConnection, BatchFailure> {
        let idle = self.idle.lock().pop_front();
        if let Some(connection) = idle {
            return Ok(connection);
        }
        match timeout(CONNECT_TIMEOUT, self.connect()).await {
            Ok(connected) => connected.map_err(BatchFailure::final_one),
            Err(_) => Err(BatchFailure::final_one(io::Error::from(io::ErrorKind::TimedOut).into())),
        }
    }

    /// Returns a connection that works.
    pub(super) fn give_back(&self, connection: PgConnection) {
        self.idle.lock().push_back(connection);
    }

    /// Records that a connection failed.
    pub(super) fn learn(&self, failure: &BatchFailure) {
        if failure.is_missing_table() {
            self.is_migrated.store(false, Relaxed);
        }
        if failure.is_missing_table() || failure.is_disconnection() {
            // The other connections are suspect too. They are closed after the lock is released.
            let idle = mem::take(&mut *self.idle.lock());
            drop(idle);
        }
    }

    async fn connect(&self) -> Result<PgConnection, sqlx::Error> {
        if !self.is_migrated.load(Relaxed) {
            let mut connection = PgConnection::connect_with(&self.options).await?;
            schema::migrate(&mut connection).await?;
            self.is_migrated.store(true, Relaxed);
            connection.close().await?;
        }
        let most_millis = self.most_millis;
        // The rows that a lost node has locked must be released soon.
        let options = self.options.clone().options([
            ("statement_timeout", most_millis.to_string()),
            ("idle_in_transaction_session_timeout", most_millis.to_string()),
            ("synchronous_commit", "off".to_owned()),
        ]);
        PgConnection::connect_with(&options).await
    }
}
