//! Where a catalog is: a file, or a PostgreSQL.

use std::fmt;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use sqlx::ConnectOptions as _;
use sqlx::postgres::PgConnectOptions;

const HELP: &str = "write sqlite:FILE, or postgres://[user[:password]@]host[:port]/database";

/// Where a catalog is.
#[derive(Clone)]
pub enum CatalogUrl {
    /// In a file, which is made if it is not there.
    Sqlite(PathBuf),
    /// In a PostgreSQL, which several nodes can share.
    Postgres(Box<PgConnectOptions>),
}

impl Default for CatalogUrl {
    fn default() -> Self {
        Self::Sqlite("tollgate.db".into())
    }
}

impl CatalogUrl {
    /// Whether several nodes can share it.
    #[must_use]
    pub const fn is_shared(&self) -> bool {
        matches!(self, Self::Postgres(_))
    }

    /// The permissions of the file, if users other than its owner have any.
    #[must_use]
    pub fn exposed_mode(&self) -> Option<u32> {
        let metadata = fs::metadata(self.file()?).ok().filter(fs::Metadata::is_file)?;
        let mode = metadata.permissions().mode() & 0o777;
        (mode & 0o077 != 0).then_some(mode)
    }

    /// Where the decision log of this catalog is: in a separate file beside the catalog, so that a full
    /// log does not stop the catalog; or in the same PostgreSQL.
    #[must_use]
    pub fn decision_log(&self) -> Self {
        let Self::Sqlite(file) = self else { return self.clone() };
        let mut name = file.file_stem().unwrap_or_default().to_owned();
        name.push("-decisions");
        if let Some(extension) = file.extension() {
            name.push(".");
            name.push(extension);
        }
        Self::Sqlite(file.with_file_name(name))
    }

    /// The file, if it is one.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::Sqlite(file) => Some(file),
            Self::Postgres(_) => None,
        }
    }
}

impl FromStr for CatalogUrl {
    type Err = String;

    /// Errors do not repeat the text, which may contain a password.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(file) = text.strip_prefix("sqlite:") {
            let file = file.strip_prefix("//").unwrap_or(file);
            if file.is_empty() || file.contains('\0') {
                return Err(HELP.to_owned());
            }
            return Ok(Self::Sqlite(file.into()));
        }
        if !text.starts_with("postgres://") && !text.starts_with("postgresql://") {
            return Err(HELP.to_owned());
        }
        let options =
            PgConnectOptions::from_str(text).map_err(|error| format!("{error}; {HELP}"))?;
        let options = match options.get_application_name() {
            Some(_) => options,
            None => options.application_name("tollgate catalog"),
        };
        Ok(Self::Postgres(Box::new(options.disable_statement_logging())))
    }
}

/// Without secrets.
impl fmt::Display for CatalogUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(file) => write!(f, "sqlite:{}", file.display()),
            Self::Postgres(options) => {
                let database = options.get_database().map(|name| format!("/{name}"));
                let database = database.unwrap_or_default();
                match options.get_socket() {
                    Some(socket) => write!(f, "postgres:{}{database}", socket.display()),
                    None => {
                        write!(
                            f,
                            "postgres://{}:{}{database}",
                            options.get_host(),
                            options.get_port()
                        )
                    }
                }
            }
        }
    }
}

impl fmt::Debug for CatalogUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CatalogUrl({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_a_catalog_is() {
        let check = |text: &str, expected: &str| {
            let url = text.parse::<CatalogUrl>();
            let shown = url.map_or_else(|problem| problem, |url| url.to_string());
            assert!(shown.starts_with(expected), "{text}: {shown}");
            assert!(!shown.contains("hunter2"), "{shown}");
        };
        check("sqlite:tollgate.db", "sqlite:tollgate.db");
        check("sqlite:///var/lib/tollgate.db", "sqlite:/var/lib/tollgate.db");
        check("postgres://me:hunter2@db.example/rules", "postgres://db.example:5432/rules");
        check("sqlite:", "write sqlite:FILE");
        check("mysql://me:hunter2@db", "write sqlite:FILE");
        check("postgres://me:hunter2@db:x/rules", "");
    }

    #[test]
    fn the_decision_log_is_beside_the_catalog() {
        let check = |text: &str, expected: &str| {
            let url: CatalogUrl = text.parse().expect("a valid URL");
            assert_eq!(url.decision_log().to_string(), expected);
        };
        check("sqlite:tollgate.db", "sqlite:tollgate-decisions.db");
        check("sqlite:/var/lib/tollgate/catalog", "sqlite:/var/lib/tollgate/catalog-decisions");
        check("postgres://db.example/rules", "postgres://db.example:5432/rules");
    }
}
