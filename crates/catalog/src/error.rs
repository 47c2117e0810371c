//! Why the catalog did not do what it was asked.

use std::fmt;

use sqlx::error::{DatabaseError, ErrorKind};
use tollgate_rules::Problem;

use crate::db::url::CatalogUrl;
use crate::entry::kind::Kind;

/// Why the catalog did not do what it was asked. Nothing was changed, unless it says so.
#[derive(Debug)]
pub enum CatalogError {
    /// The database cannot be asked.
    Away(String),
    /// The database went away while it was told to keep the change: nobody knows whether it did.
    Unknown(String),
    /// The database has a schema of another version, or holds what this version cannot read.
    Unusable(String),
    /// What was written is no sound policy.
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
    /// Somebody else has changed the entry meanwhile.
    Changed {
        /// Its kind.
        kind: Kind,
        /// Its name.
        name: String,
        /// The version that it has now.
        version: u64,
    },
    /// The catalog is not at the revision that it had to be at.
    Moved {
        /// The revision that it is at.
        revision: u64,
    },
    /// Something else still needs the entry.
    InUse(String),
    /// The file system has little room left, which is kept for operators.
    NoSpace(String),
    /// It belongs to others than whoever wants to change it.
    NotYours(String),
    /// Operators wrote it about a tenant, whose administrators can only read it.
    ReadOnly(String),
}

impl CatalogError {
    pub(crate) fn away(url: &CatalogUrl, why: impl fmt::Display) -> Self {
        Self::Away(format!("the catalog {url} cannot be asked: {why}"))
    }

    /// Full disks, dead servers, and what else a database has to say.
    pub(crate) fn from_database(url: &CatalogUrl, error: &sqlx::Error) -> Self {
        match error {
            sqlx::Error::ColumnDecode { .. } | sqlx::Error::ColumnIndexOutOfBounds { .. } => {
                Self::Unusable(format!(
                    "the catalog {url} holds what this version cannot read: {error}"
                ))
            }
            sqlx::Error::Database(refusal) => match code_of(refusal.as_ref()) {
                Code::Data => {
                    let message = format!("the database refuses it: {}", refusal.message());
                    Self::Invalid(vec![Problem::new("", message)])
                }
                Code::Tables => Self::Unusable(format!(
                    "the catalog {url} is not what this program can use: {}",
                    refusal.message()
                )),
                Code::Other => Self::away(url, refusal.message()),
            },
            _ => Self::away(url, error),
        }
    }
}

/// What a database that works has against what it was asked.
enum Code {
    /// It does not take these values.
    Data,
    /// It has other tables, or does not let anybody use them.
    Tables,
    Other,
}

fn code_of(error: &dyn DatabaseError) -> Code {
    // Those of PostgreSQL have five characters, of which two name a class. Those of SQLite are shorter.
    let code = error.code().unwrap_or_default();
    match code.get(..2).filter(|_| code.len() == 5) {
        Some("22" | "23" | "54") => Code::Data,
        Some("42") => Code::Tables,
        None if code == "1" => Code::Tables,
        _ if !matches!(error.kind(), ErrorKind::Other) => Code::Data,
        _ => Code::Other,
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
            Self::Missing { kind, name } => write!(f, "there is no {kind} {name}"),
            Self::Exists { kind, name } => write!(f, "there is a {kind} {name} already"),
            Self::Changed { kind, name, version } => {
                write!(f, "the {kind} {name} was changed meanwhile: it is at version {version}")
            }
            Self::Moved { revision } => {
                write!(f, "the catalog was changed meanwhile: it is at revision {revision}")
            }
        }
    }
}

impl std::error::Error for CatalogError {}
