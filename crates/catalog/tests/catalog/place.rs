//! Where a catalog is kept in these tests: a file, or a new database in a PostgreSQL that all
//! tests of a program share while any of them runs.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use sqlx::postgres::PgConnection;
use sqlx::sqlite::SqliteConnection;
use sqlx::{AssertSqlSafe, Connection as _, Row as _};
use tempfile::TempDir;
use tollgate_catalog::{Catalog, CatalogUrl, PolicyBounds};
use tollgate_testbed::Postgres;

/// A place for one catalog, empty at first.
pub(crate) enum Place {
    File { folder: TempDir },
    Database { server: Arc<Postgres>, name: String },
}

/// Runs a check in both places.
pub(crate) async fn everywhere(check: impl AsyncFn(&Place)) {
    let _stays = server();
    for place in [Place::database(), Place::file()] {
        // Shown if the check fails.
        println!("in {}", place.url());
        Box::pin(check(&place)).await;
    }
}

impl Place {
    pub(crate) fn file() -> Self {
        Self::File { folder: TempDir::with_prefix("tollgate-catalog-").expect("a folder") }
    }

    pub(crate) fn database() -> Self {
        static NAMES: AtomicU32 = AtomicU32::new(0);
        let server = server();
        let name = format!("catalog_{}", NAMES.fetch_add(1, Ordering::Relaxed));
        server.query(&format!("CREATE DATABASE {name}"));
        Self::Database { server, name }
    }

    pub(crate) fn is_shared(&self) -> bool {
        matches!(self, Self::Database { .. })
    }

    pub(crate) fn url(&self) -> CatalogUrl {
        let text = match self {
            Self::File { folder } => {
                format!("sqlite:{}", folder.path().join("catalog.db").display())
            }
            Self::Database { server, name } => database_url(server, name),
        };
        text.parse().expect("a valid URL")
    }

    /// A catalog here, as another node would have it. Nothing is opened yet.
    pub(crate) fn catalog(&self) -> Catalog {
        Catalog::new(self.url(), PolicyBounds::default())
    }

    /// A connection that knows nothing of catalogs.
    pub(crate) async fn raw(&self) -> Raw {
        self.raw_at(&self.url()).await
    }

    /// A connection to a place without a catalog, which makes the file.
    pub(crate) async fn raw_new(&self) -> Raw {
        if let Self::File { folder } = self {
            let file = folder.path().join("catalog.db");
            std::fs::File::create(file).expect("a file");
        }
        self.raw().await
    }

    /// A connection to another file of the catalog.
    pub(crate) async fn raw_at(&self, url: &CatalogUrl) -> Raw {
        match url {
            CatalogUrl::Sqlite(file) => {
                let url = format!("sqlite:{}", file.display());
                Raw::Sqlite(SqliteConnection::connect(&url).await.expect("a file"))
            }
            CatalogUrl::Postgres(options) => {
                Raw::Postgres(PgConnection::connect_with(options).await.expect("a database"))
            }
        }
    }
}

pub(crate) fn database_url(server: &Postgres, name: &str) -> String {
    let url = server.url();
    let server = url.strip_suffix("/postgres").expect("the database that every server has");
    format!("{server}/{name}")
}

/// The server that tests share. It ends with the last of them that runs.
fn server() -> Arc<Postgres> {
    static RUNNING: Mutex<Weak<Postgres>> = Mutex::new(Weak::new());
    let mut running = RUNNING.lock();
    running.upgrade().unwrap_or_else(|| {
        let server = Arc::new(Postgres::start());
        *running = Arc::downgrade(&server);
        server
    })
}

/// How often a statement is tried while the database is locked.
const MAX_ATTEMPTS: usize = 10_000;

/// A connection for statements that a catalog would never make.
pub(crate) enum Raw {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
}

impl Raw {
    /// Runs statements; the message of the database if it refuses them.
    pub(crate) async fn try_run(&mut self, sql: &str) -> Result<(), String> {
        let sql = AssertSqlSafe(sql.to_owned());
        let done = match self {
            Self::Sqlite(connection) => sqlx::raw_sql(sql).execute(connection).await.map(drop),
            Self::Postgres(connection) => sqlx::raw_sql(sql).execute(connection).await.map(drop),
        };
        done.map_err(|error| error.to_string())
    }

    /// Runs statements that nothing is wrong with, once connections that are being closed have released their locks.
    pub(crate) async fn run(&mut self, sql: &str) {
        let mut result = self.try_run(sql).await;
        for _ in 0..MAX_ATTEMPTS {
            match &result {
                Err(error) if error.contains("database is locked") => {}
                _ => break,
            }
            tokio::task::yield_now().await;
            result = self.try_run(sql).await;
        }
        result.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    /// The first column of a result, which has to be text.
    pub(crate) async fn texts(&mut self, sql: &str) -> Vec<String> {
        let sql = AssertSqlSafe(sql.to_owned());
        let texts: Result<Vec<String>, sqlx::Error> = match self {
            Self::Sqlite(connection) => {
                let rows = sqlx::raw_sql(sql).fetch_all(connection).await;
                rows.and_then(|rows| rows.iter().map(|row| row.try_get(0)).collect())
            }
            Self::Postgres(connection) => {
                let rows = sqlx::raw_sql(sql).fetch_all(connection).await;
                rows.and_then(|rows| rows.iter().map(|row| row.try_get(0)).collect())
            }
        };
        texts.expect("an answer")
    }
}
