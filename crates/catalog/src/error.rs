//! Errors of the catalog.

use std::fmt;

use sqlx::error::{DatabaseError, ErrorKind};
use tollgate_rules::Problem;

use crate::db::url::CatalogUrl;
use crate::entry::kind::Kind;

/// Why a call to the catalog failed. Nothing was changed, except maybe after `Unknown`.
#[derive(Debug)]
pub enum CatalogError {
    /// The database cannot be reached.
    Away(String),
    /// The connection failed during the commit: whether the change was made is unknown.
    Unknown(String),
    /// The database has a schema of another version, or holds what this version cannot read.
    Unusable(String),
    /// The resulting policy would be invalid.
    Invalid(Vec<Problem>),
    /// There is no such entry.
    Missing {
        /// Its kind.
        kind: Kind,
        /// Its name.
        name: String,
    },
    /// There is such an entry already.
    Exists {
        /// Its kind.
        kind: Kind,
        /// Its name.
        name: String,
    },
    /// The entry was changed meanwhile by another write.
    Changed {
        /// Its kind.
        kind: Kind,
        /// Its name.
        name: String,
        /// The version that it has now.
        version: u64,
    },
    /// The catalog is not at the expected revision.
    Moved {
        /// The revision of the catalog now.
        revision: u64,
    },
    /// The audit log does not have what is needed to know the policy of a revision.
    NoRevision {
        /// The revision.
        revision: u64,
        /// The oldest one that is known.
        oldest: u64,
        /// The newest one.
        newest: u64,
    },
    /// So many entries have changed since a revision that it cannot be compared.
    TooManyChanges {
        /// The revision.
        revision: u64,
        /// How many entries may have changed.
        max: usize,
    },
    /// Something else still needs the entry.
    InUse(String),
    /// This is the last token of an administrator.
    LastAdmin,
    /// The file system has little room left, which is kept for operators.
    NoSpace(String),
    /// The author may not change the entry: it belongs to others.
    NotYours(String),
    /// Operators wrote it about a tenant, whose administrators can only read it.
    ReadOnly(String),
}

impl CatalogError {
    pub(crate) fn away(url: &CatalogUrl, why: impl fmt::Display) -> Self {
        Self::Away(format!("the catalog {url} cannot be asked: {why}"))
    }

    /// Sorts errors of the database: a full disk, a lost server, refused values.
    pub(crate) fn from_database(url: &CatalogUrl, error: &sqlx::Error) -> Self {
        match error {
            sqlx::Error::ColumnDecode { .. } | sqlx::Error::ColumnIndexOutOfBounds { .. } => {
                Self::Unusable(format!(
                    "the catalog {url} holds what this version cannot read: {error}"
                ))
            }
            sqlx::Error::Database(refusal) => match code_of(refusal.as_ref()) {
                SqlErrorCode::Data => {
                    let message = format!("the database refuses it: {}", refusal.message());
                    Self::Invalid(vec![Problem::new("", message)])
                }
                SqlErrorCode::Tables => Self::Unusable(format!(
                    "the catalog {url} is not what this program can use: {}",
                    refusal.message()
                )),
                SqlErrorCode::NoFile => Self::away(
                    url,
                    format!(
                        "{}; its folder has to exist, and this user has to be able to write there. Name \
                         another file with --catalog",
                        refusal.message()
                    ),
                ),
                SqlErrorCode::Other => Self::away(url, refusal.message()),
            },
            _ => Self::away(url, error),
        }
    }
}

/// Why a reachable database refused a statement.
enum SqlErrorCode {
    /// The values violate a type or a constraint.
    Data,
    /// A table is missing or different, or may not be used.
    Tables,
    /// A file that cannot be opened or created.
    NoFile,
    Other,
}

fn code_of(error: &dyn DatabaseError) -> SqlErrorCode {
    // PostgreSQL codes have five characters, of which two name a class. SQLite codes are shorter.
    let code = error.code().unwrap_or_default();
    match code.get(..2).filter(|_| code.len() == 5) {
        Some("22" | "23" | "54") => SqlErrorCode::Data,
        Some("42") => SqlErrorCode::Tables,
        None if code == "14" => SqlErrorCode::NoFile,
        None if code == "1" => SqlErrorCode::Tables,
        _ if !matches!(error.kind(), ErrorKind::Other) => SqlErrorCode::Data,
        _ => SqlErrorCode::Other,
    }
}

impl fmt::Display for CatalogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Away(why)
            | Self::Unknown(why)
            | Self::Unusable(why)
            | Self::InUse(why)
            | Self::NoSpace(why)
            | Self::NotYours(why)
            | Self::ReadOnly(why) => f.write_str(why),
            Self::Invalid(problems) => {
                for (at, problem) in problems.iter().enumerate() {
                    let separator = if at == 0 { "" } else { "; " };
                    write!(f, "{separator}{problem}")?;
                }
                Ok(())
            }
            Self::LastAdmin => f.write_str(
                "this is the last token of an administrator: make another one first, or set \
                 TOLLGATE_ADMIN_TOKEN",
            ),
            Self::Missing { kind, name } => write!(f, "there is no {kind} {name}"),
            Self::Exists { kind, name } => write!(f, "there is a {kind} {name} already"),
            Self::Changed { kind, name, version } => {
                write!(f, "the {kind} {name} was changed meanwhile: it is at version {version}")
            }
            Self::NoRevision { revision, oldest, newest } if revision < oldest && *revision > 0 => {
                write!(
                    f,
                    "the policy of revision {revision} is not known any more: the audit log goes back to \
                     revision {oldest} (the newest is {newest})"
                )
            }
            Self::NoRevision { revision, oldest, newest } => {
                write!(f, "there is no revision {revision}: there are {oldest} to {newest}")
            }
            Self::TooManyChanges { revision, max } => write!(
                f,
                "more than {max} entries have changed since revision {revision}: choose a later revision"
            ),
            Self::Moved { revision } => {
                write!(f, "the catalog was changed meanwhile: it is at revision {revision}")
            }
        }
    }
}

impl std::error::Error for CatalogError {}
