//! What a failure implies: whether anything was charged, whether to retry, and which error the caller gets.

use std::io;
use std::sync::Arc;

use sqlx::Error;
use sqlx::migrate::MigrateError;

use crate::{StoreError, StoreErrorKind};

const DEADLOCK: &str = "40P01";
const DIVISION_BY_ZERO: &str = "22012";
const MISSING_TABLE: &str = "42P01";
const SERIALIZATION_FAILURE: &str = "40001";
const STATEMENT_CANCELLED: &str = "57014";
const TOO_MANY_CONNECTIONS: &str = "53300";
/// The SQLSTATE class of connection errors.
const CONNECTION: &str = "08";
/// The prefix of SQLSTATE codes for a server that starts or shuts down.
const SHUTDOWN: &str = "57P";

/// Why a batch failed.
#[derive(Clone, Debug)]
pub(super) struct BatchFailure {
    kind: StoreErrorKind,
    /// Whether nothing was charged and a retry may help.
    may_retry: bool,
    source: Arc<Error>,
}

impl BatchFailure {
    /// A failure that a retry does not help against. Nothing was charged.
    pub(super) fn final_one(source: Error) -> Self {
        Self { kind: kind_of(&source), may_retry: false, source: source.into() }
    }

    /// The transaction failed before the commit, so nothing was charged.
    pub(super) fn before_commit(source: Error) -> Self {
        let kind = kind_of(&source);
        // An idle connection may have been closed since. Our rows are locked in order, so we cause no deadlocks; but
        // other programs may lock the table.
        let may_retry = kind == StoreErrorKind::Unavailable
            || [DEADLOCK, MISSING_TABLE, SERIALIZATION_FAILURE].contains(&code_of(&source));
        Self { kind, may_retry, source: source.into() }
    }

    /// The commit failed: whether it took effect is unknown.
    pub(super) fn at_commit(source: Error) -> Self {
        Self { kind: StoreErrorKind::Timeout, may_retry: false, source: source.into() }
    }

    /// Whether the deadline had passed when the database was about to commit, so that it did not.
    pub(super) fn is_too_late(&self) -> bool {
        code_of(&self.source) == DIVISION_BY_ZERO
    }

    /// No response before the timeout.
    pub(super) fn late() -> Self {
        Self::at_commit(io::Error::from(io::ErrorKind::TimedOut).into())
    }

    pub(super) const fn may_retry(&self) -> bool {
        self.may_retry
    }

    /// Whether the connection failed, or may have failed.
    pub(super) fn is_disconnection(&self) -> bool {
        self.kind == StoreErrorKind::Unavailable || !matches!(*self.source, Error::Database(_))
    }

    /// Whether the table is missing: the database was replaced.
    pub(super) fn is_missing_table(&self) -> bool {
        code_of(&self.source) == MISSING_TABLE
    }

    /// The error for one caller of the batch.
    pub(super) fn error(&self) -> StoreError {
        StoreError::new(self.kind, Arc::clone(&self.source))
    }
}

fn kind_of(error: &Error) -> StoreErrorKind {
    match error {
        Error::Database(_) => match code_of(error) {
            STATEMENT_CANCELLED => StoreErrorKind::Timeout,
            code if code == TOO_MANY_CONNECTIONS
                || code.starts_with(CONNECTION)
                || code.starts_with(SHUTDOWN) =>
            {
                StoreErrorKind::Unavailable
            }
            _ => StoreErrorKind::Refused,
        },
        Error::Migrate(error) => match &**error {
            MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => {
                kind_of(error)
            }
            _ => StoreErrorKind::Refused,
        },
        Error::Configuration(_) => StoreErrorKind::Refused,
        Error::RowNotFound | Error::Decode(_) | Error::ColumnDecode { .. } => {
            StoreErrorKind::Corrupt
        }
        // The network, TLS, or a server that speaks another protocol.
        _ => StoreErrorKind::Unavailable,
    }
}

/// The SQLSTATE of the error; empty if it is not from the server.
fn code_of(error: &Error) -> &str {
    let error = error.as_database_error();
    let error = error.and_then(|error| error.try_downcast_ref::<sqlx::postgres::PgDatabaseError>());
    error.map_or("", |error| error.code())
}
