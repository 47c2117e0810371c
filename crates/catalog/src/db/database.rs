//! One way to speak to SQLite and to PostgreSQL: the same statements, values and rows.

use futures_core::future::BoxFuture;
use sqlx::postgres::{PgConnection, PgRow};
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{AssertSqlSafe, Connection as _, Row as _};

/// A connection to SQLite or PostgreSQL.
pub(crate) enum DatabaseConnection {
    Sqlite(Box<SqliteConnection>),
    Postgres(Box<PgConnection>),
}

/// The value of a parameter: `$1`, `$2` and so on.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Int(Option<i64>),
    Text(Option<String>),
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Int(Some(number))
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        // Times and numbers of revisions: none reaches the end of the smaller type.
        Self::Int(Some(i64::try_from(number).unwrap_or(i64::MAX)))
    }
}

impl From<bool> for Value {
    fn from(yes: bool) -> Self {
        Self::Int(Some(i64::from(yes)))
    }
}

impl From<Option<u64>> for Value {
    fn from(number: Option<u64>) -> Self {
        Self::Int(number.map(|number| i64::try_from(number).unwrap_or(i64::MAX)))
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(Some(text.to_owned()))
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(Some(text))
    }
}

impl From<Option<&str>> for Value {
    fn from(text: Option<&str>) -> Self {
        Self::Text(text.map(str::to_owned))
    }
}

impl From<Option<String>> for Value {
    fn from(text: Option<String>) -> Self {
        Self::Text(text)
    }
}

/// The values of a statement, in the order of its places.
macro_rules! values {
    ($($value:expr),* $(,)?) => { vec![$($crate::db::database::Value::from($value)),*] };
}
pub(crate) use values;

/// A row of a result.
pub(crate) enum Row {
    Sqlite(SqliteRow),
    Postgres(PgRow),
}

impl Row {
    pub(crate) fn int(&self, column: usize) -> Result<i64, sqlx::Error> {
        match self {
            Self::Sqlite(row) => row.try_get(column),
            Self::Postgres(row) => row.try_get(column),
        }
    }

    /// A number that is never negative.
    pub(crate) fn count(&self, column: usize) -> Result<u64, sqlx::Error> {
        Ok(u64::try_from(self.int(column)?).unwrap_or(0))
    }

    /// A number that is never negative, or NULL.
    pub(crate) fn optional_count(&self, column: usize) -> Result<Option<u64>, sqlx::Error> {
        let number: Option<i64> = match self {
            Self::Sqlite(row) => row.try_get(column),
            Self::Postgres(row) => row.try_get(column),
        }?;
        Ok(number.map(|number| u64::try_from(number).unwrap_or(0)))
    }

    pub(crate) fn text(&self, column: usize) -> Result<String, sqlx::Error> {
        match self {
            Self::Sqlite(row) => row.try_get(column),
            Self::Postgres(row) => row.try_get(column),
        }
    }

    pub(crate) fn optional_text(&self, column: usize) -> Result<Option<String>, sqlx::Error> {
        match self {
            Self::Sqlite(row) => row.try_get(column),
            Self::Postgres(row) => row.try_get(column),
        }
    }
}

macro_rules! bound {
    ($sql:expr, $values:expr) => {{
        // Statements consist of texts of this crate only; input is in the values.
        let mut query = sqlx::query(AssertSqlSafe($sql.to_owned()));
        for value in $values {
            query = match value {
                Value::Int(number) => query.bind(number),
                Value::Text(text) => query.bind(text),
            };
        }
        query
    }};
}

// Futures that run queries are boxed: the crates that await them would compile them again, and sqlx with them.
impl DatabaseConnection {
    pub(crate) const fn is_postgres(&self) -> bool {
        matches!(self, Self::Postgres(_))
    }

    /// Whether the server still responds.
    pub(crate) async fn is_alive(&mut self) -> bool {
        match self {
            Self::Sqlite(connection) => connection.ping().await.is_ok(),
            Self::Postgres(connection) => connection.ping().await.is_ok(),
        }
    }

    /// Closes it, and waits until it is closed.
    pub(crate) async fn close(self) {
        // A connection that cannot be closed has failed already.
        let _ = match self {
            Self::Sqlite(connection) => connection.close().await,
            Self::Postgres(connection) => connection.close().await,
        };
    }

    /// Runs a statement, and says how many rows it changed.
    pub(crate) fn run<'a>(
        &'a mut self,
        sql: &'a str,
        values: Vec<Value>,
    ) -> BoxFuture<'a, Result<u64, sqlx::Error>> {
        Box::pin(async move {
            Ok(match self {
                Self::Sqlite(connection) => {
                    bound!(sql, values).execute(&mut **connection).await?.rows_affected()
                }
                Self::Postgres(connection) => {
                    bound!(sql, values).execute(&mut **connection).await?.rows_affected()
                }
            })
        })
    }

    /// Runs several statements that have no values.
    pub(crate) fn run_script(
        &mut self,
        sql: &'static str,
    ) -> BoxFuture<'_, Result<(), sqlx::Error>> {
        Box::pin(async move {
            match self {
                Self::Sqlite(connection) => {
                    sqlx::raw_sql(sql).execute(&mut **connection).await.map(drop)
                }
                Self::Postgres(connection) => {
                    sqlx::raw_sql(sql).execute(&mut **connection).await.map(drop)
                }
            }
        })
    }

    /// All rows of a result.
    pub(crate) fn rows<'a>(
        &'a mut self,
        sql: &'a str,
        values: Vec<Value>,
    ) -> BoxFuture<'a, Result<Vec<Row>, sqlx::Error>> {
        Box::pin(async move {
            Ok(match self {
                Self::Sqlite(connection) => {
                    let rows = bound!(sql, values).fetch_all(&mut **connection).await?;
                    rows.into_iter().map(Row::Sqlite).collect()
                }
                Self::Postgres(connection) => {
                    let rows = bound!(sql, values).fetch_all(&mut **connection).await?;
                    rows.into_iter().map(Row::Postgres).collect()
                }
            })
        })
    }

    /// The first row of a result, if it has one.
    pub(crate) fn row<'a>(
        &'a mut self,
        sql: &'a str,
        values: Vec<Value>,
    ) -> BoxFuture<'a, Result<Option<Row>, sqlx::Error>> {
        Box::pin(async move {
            Ok(match self {
                Self::Sqlite(connection) => {
                    bound!(sql, values).fetch_optional(&mut **connection).await?.map(Row::Sqlite)
                }
                Self::Postgres(connection) => {
                    bound!(sql, values).fetch_optional(&mut **connection).await?.map(Row::Postgres)
                }
            })
        })
    }

    /// Begins a transaction that writes. Of several at once, the others wait.
    pub(crate) async fn begin(&mut self) -> Result<(), sqlx::Error> {
        let sql = if self.is_postgres() { "BEGIN" } else { "BEGIN IMMEDIATE" };
        self.run(sql, Vec::new()).await.map(drop)
    }

    /// Begins a transaction that sees one state, whatever others write meanwhile.
    pub(crate) async fn begin_reading(&mut self) -> Result<(), sqlx::Error> {
        let postgres = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
        let sql = if self.is_postgres() { postgres } else { "BEGIN" };
        self.run(sql, Vec::new()).await.map(drop)
    }

    pub(crate) async fn commit(&mut self) -> Result<(), sqlx::Error> {
        self.run("COMMIT", Vec::new()).await.map(drop)
    }

    pub(crate) async fn roll_back(&mut self) -> Result<(), sqlx::Error> {
        self.run("ROLLBACK", Vec::new()).await.map(drop)
    }
}
