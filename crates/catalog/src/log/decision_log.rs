//! How the decision log is written, and kept within its bounds: in all, and so that a flood of one client does
//! not push out the records of others.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use tokio::sync::OnceCell;
use tokio::time::timeout;

use crate::catalog::Catalog;
use crate::db::connections::{CALL_TIMEOUT, DatabaseConnections, PooledConnection};
use crate::db::database::{DatabaseConnection, Row, Value, values};
use crate::db::disk_space::{LogSpace, room_beside};
use crate::db::schema::prepare_decision_log;
use crate::db::url::CatalogUrl;
use crate::error::CatalogError;
use crate::log::decisions::{
    COLUMNS, DecisionFilter, LoggedDecision, OtherIdentifiers, other_rules, storable,
};
use tollgate_core::Timestamp;

/// How many rows a statement inserts.
const INSERTED_ROWS: usize = 100;
const INSERTED_COLUMNS: usize = 10;
/// How often records are removed to make room for a batch.
const MAX_TRIMS: usize = 8;
/// A client that takes more than this part of a full log loses its oldest records first.
const CLIENT_SHARE: u64 = 100;
/// What a row takes besides its texts: times, ids and the entries of five indexes.
const ROW_OVERHEAD: usize = 230;
/// What the entry of one more index takes besides its text: time and id.
const OTHER_OVERHEAD: usize = 25;
/// What the row of a further rule takes besides its texts: times and the entries of two indexes.
const RULE_OVERHEAD: usize = 70;

const TOTAL: &str = "SELECT bytes FROM tollgate_decision_total WHERE only_row = 1";
const ADD_TO_TOTAL: &str = "UPDATE tollgate_decision_total SET bytes = bytes + $1";
const HEAVIEST: &str =
    "SELECT client, bytes FROM tollgate_decision_clients ORDER BY bytes DESC LIMIT 1";
const FORGET_CLIENTS: &str = "DELETE FROM tollgate_decision_clients WHERE bytes <= 0";
const REMOVE_OLDEST: &str = "DELETE FROM tollgate_decision_log WHERE (decided_at, decision_id) IN \
    (SELECT decided_at, decision_id FROM tollgate_decision_log \
    ORDER BY decided_at, decision_id LIMIT $1) RETURNING client, bytes";
const REMOVE_OLDEST_OF: &str = "DELETE FROM tollgate_decision_log WHERE (decided_at, decision_id) IN \
    (SELECT decided_at, decision_id FROM tollgate_decision_log WHERE client = $2 \
    ORDER BY decided_at, decision_id LIMIT $1) RETURNING client, bytes";
// A range of the primary key, so that a large table is not looked through.
const REMOVE_BEFORE: &str = "DELETE FROM tollgate_decision_log WHERE decided_at <= (\
    SELECT max(decided_at) FROM (SELECT decided_at FROM tollgate_decision_log \
    WHERE decided_at < $1 ORDER BY decided_at LIMIT $2) AS oldest) RETURNING client, bytes";
const EARLIER: &str = "SELECT decided_at FROM tollgate_decisions LIMIT 1";
const REMOVE_EARLIER: &str =
    "DELETE FROM tollgate_decisions WHERE (decided_at, decision_id) >= ($1, $2)";

/// Where decisions are logged.
pub(crate) struct DecisionLog {
    pub(crate) connections: DatabaseConnections,
    /// Set once the tables are there.
    is_prepared: OnceCell<()>,
    /// Whether the table of earlier versions is empty, as far as known.
    pub(crate) is_moved: AtomicBool,
}

/// How many records were written, and how many were not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Logged {
    /// They were written.
    Written,
    /// They were not: the file system has too little room left.
    NoSpace,
}

impl DecisionLog {
    pub(crate) fn new(url: CatalogUrl) -> Self {
        let connections = DatabaseConnections::new(url);
        Self { connections, is_prepared: OnceCell::new(), is_moved: AtomicBool::new(false) }
    }

    /// A connection to read the log, which is made if it is not there yet.
    pub(crate) async fn to_read(&self) -> Result<PooledConnection<'_>, CatalogError> {
        self.prepare().await?;
        self.connections.to_read().await
    }

    async fn to_write(&self) -> Result<PooledConnection<'_>, CatalogError> {
        self.prepare().await?;
        self.connections.to_write().await
    }

    /// Makes the tables in a file. In PostgreSQL they are part of the schema.
    async fn prepare(&self) -> Result<(), CatalogError> {
        if self.connections.url().is_shared() {
            return Ok(());
        }
        let preparing = || async {
            let mut lease = self.connections.to_write().await?;
            self.in_time(prepare_decision_log(lease.connection())).await?;
            lease.give_back();
            Ok::<(), CatalogError>(())
        };
        self.is_prepared.get_or_try_init(preparing).await?;
        Ok(())
    }

    pub(crate) async fn in_time<T>(
        &self,
        asking: impl Future<Output = Result<T, sqlx::Error>>,
    ) -> Result<T, CatalogError> {
        let url = self.connections.url();
        match timeout(CALL_TIMEOUT, asking).await {
            Ok(answer) => answer.map_err(|error| {
                if !matches!(error, sqlx::Error::Database(_)) {
                    self.connections.forget();
                }
                CatalogError::from_database(url, &error)
            }),
            Err(_) => Err(CatalogError::away(url, "it does not answer")),
        }
    }

    fn room(&self) -> LogSpace {
        self.connections.url().file().map_or(LogSpace::Enough, room_beside)
    }
}

impl Catalog {
    /// Logs decisions: all of them, or none. Those that are logged already stay as they are, so that a
    /// batch whose outcome is unknown can be written again. The log takes about `max_bytes` at most: the
    /// oldest records make room, those of the client that takes most of it first. It also leaves some
    /// room on its file system.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn log_decisions(
        &self,
        records: &[LoggedDecision],
        max_bytes: u64,
    ) -> Result<Logged, CatalogError> {
        let room = self.log.room();
        if room == LogSpace::None {
            return Ok(Logged::NoSpace);
        }
        let mut lease = self.log.to_write().await?;
        let writing = write(lease.connection(), records, max_bytes, room == LogSpace::Enough);
        self.log.in_time(writing).await?;
        lease.give_back();
        Ok(Logged::Written)
    }

    /// Removes the oldest decisions from before `end`, about `most` of them: those of one timestamp
    /// together. Returns how many it removed.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn forget_decisions(&self, end: Timestamp, most: u64) -> Result<u64, CatalogError> {
        let mut lease = self.log.to_write().await?;
        let connection = lease.connection();
        let forgetting = async {
            connection.begin().await?;
            lock_total(connection).await?;
            let gone = connection.rows(REMOVE_BEFORE, values![end.as_micros(), most]).await?;
            if !gone.is_empty() {
                discount(connection, &gone).await?;
            }
            connection.commit().await?;
            Ok(gone.len() as u64)
        };
        let forgotten = self.log.in_time(forgetting).await?;
        lease.give_back();
        Ok(forgotten)
    }

    /// Moves the newest decisions that an earlier version has logged into the log of this one, at most so
    /// many. Returns how many; 0 if all are moved, or there is no room for them.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn move_earlier_decisions(
        &self,
        most: usize,
        max_bytes: u64,
    ) -> Result<usize, CatalogError> {
        let mut lease = self.connections.to_read().await?;
        let any = self.in_time(lease.connection().rows(EARLIER, vec![])).await?;
        lease.give_back();
        self.log.is_moved.store(any.is_empty(), Relaxed);
        if any.is_empty() {
            return Ok(0);
        }
        let records = self.earlier_decisions(&DecisionFilter::default(), None, most).await?;
        let Some(last) = records.last() else { return Ok(0) };
        if self.log_decisions(&records, max_bytes).await? == Logged::NoSpace {
            return Ok(0);
        }
        let mut lease = self.connections.to_record().await?;
        let place = values![last.at.as_micros(), last.decision_id.as_str()];
        self.in_time(lease.connection().run(REMOVE_EARLIER, place)).await?;
        lease.give_back();
        Ok(records.len())
    }
}

/// The bytes that the log takes. Until the end of the transaction, no other node writes the log.
async fn lock_total(connection: &mut DatabaseConnection) -> Result<u64, sqlx::Error> {
    let lock = if connection.is_postgres() { " FOR UPDATE" } else { "" };
    let row = connection.row(&format!("{TOTAL}{lock}"), vec![]).await?;
    row.map_or(Ok(0), |row| row.count(0))
}

async fn write(
    connection: &mut DatabaseConnection,
    records: &[LoggedDecision],
    max_bytes: u64,
    may_grow: bool,
) -> Result<(), sqlx::Error> {
    connection.begin().await?;
    let total = lock_total(connection).await?;
    let new: u64 = records.iter().map(|record| record.bytes() as u64).sum();
    let most = if may_grow { max_bytes } else { max_bytes.min(total) };
    trim(connection, (total + new).saturating_sub(most), most, records.len()).await?;
    for chunk in records.chunks(INSERTED_ROWS) {
        let values = chunk.iter().flat_map(LoggedDecision::values).collect();
        let added = connection.rows(&insertion(chunk.len()), values).await?;
        account(connection, &by_client(&added)?, 1).await?;
        let rules: Vec<[Value; 3]> = chunk.iter().flat_map(LoggedDecision::rules).collect();
        if !rules.is_empty() {
            let sql = rule_insertion(rules.len());
            connection.run(&sql, rules.into_iter().flatten().collect()).await?;
        }
    }
    connection.commit().await
}

/// Removes records until so many bytes are free, or a few times.
async fn trim(
    connection: &mut DatabaseConnection,
    needed: u64,
    most: u64,
    records: usize,
) -> Result<(), sqlx::Error> {
    let rows = (2 * records as u64).clamp(16, 1_000);
    let mut freed = 0;
    for _ in 0..MAX_TRIMS {
        if freed >= needed {
            break;
        }
        let heaviest = connection.row(HEAVIEST, vec![]).await?;
        let heaviest = heaviest.map(|row| Ok::<_, sqlx::Error>((row.text(0)?, row.count(1)?)));
        let gone = match heaviest.transpose()? {
            Some((client, bytes)) if bytes > most / CLIENT_SHARE => {
                connection.rows(REMOVE_OLDEST_OF, values![rows, client]).await?
            }
            _ => connection.rows(REMOVE_OLDEST, values![rows]).await?,
        };
        if gone.is_empty() {
            break;
        }
        freed += discount(connection, &gone).await?;
    }
    Ok(())
}

/// Subtracts removed records from the totals; returns how many bytes they took.
async fn discount(connection: &mut DatabaseConnection, gone: &[Row]) -> Result<u64, sqlx::Error> {
    let freed = account(connection, &by_client(gone)?, -1).await?;
    connection.run(FORGET_CLIENTS, vec![]).await?;
    Ok(freed)
}

fn by_client(rows: &[Row]) -> Result<BTreeMap<String, i64>, sqlx::Error> {
    let mut clients = BTreeMap::new();
    for row in rows {
        *clients.entry(row.text(0)?).or_default() += row.int(1)?;
    }
    Ok(clients)
}

async fn account(
    connection: &mut DatabaseConnection,
    clients: &BTreeMap<String, i64>,
    sign: i64,
) -> Result<u64, sqlx::Error> {
    if clients.is_empty() {
        return Ok(0);
    }
    let places: Vec<String> =
        (0..clients.len()).map(|at| format!("(${}, ${})", 2 * at + 1, 2 * at + 2)).collect();
    let sql = format!(
        "INSERT INTO tollgate_decision_clients (client, bytes) VALUES {} ON CONFLICT (client) \
         DO UPDATE SET bytes = tollgate_decision_clients.bytes + excluded.bytes",
        places.join(", ")
    );
    let values: Vec<Value> =
        clients.iter().flat_map(|(client, bytes)| values![client.as_str(), sign * bytes]).collect();
    connection.run(&sql, values).await?;
    let sum: i64 = clients.values().sum();
    connection.run(ADD_TO_TOTAL, values![sign * sum]).await?;
    Ok(u64::try_from(sum).unwrap_or(0))
}

/// A statement that inserts so many rows, and returns those that were not there.
fn insertion(rows: usize) -> String {
    let rows = places(rows, INSERTED_COLUMNS);
    format!(
        "INSERT INTO tollgate_decision_log ({COLUMNS}, bytes, api_key, ip) VALUES {rows} ON CONFLICT DO NOTHING \
         RETURNING client, bytes"
    )
}

/// A statement that inserts so many further rules of decisions.
fn rule_insertion(rows: usize) -> String {
    let rows = places(rows, 3);
    format!(
        "INSERT INTO tollgate_decision_rules (shadow_rule_id, decided_at, decision_id) VALUES {rows} \
         ON CONFLICT DO NOTHING"
    )
}

/// The places of values for so many rows.
fn places(rows: usize, columns: usize) -> String {
    let row = |row: usize| {
        let places: Vec<String> =
            (1..=columns).map(|at| format!("${}", row * columns + at)).collect();
        format!("({})", places.join(", "))
    };
    (0..rows).map(row).collect::<Vec<_>>().join(", ")
}

impl LoggedDecision {
    /// About how many bytes it takes in the log, with its part of the indexes.
    fn bytes(&self) -> usize {
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let other = |text: &Option<Cow<'_, str>>| {
            text.as_ref().map_or(0, |text| OTHER_OVERHEAD + text.len())
        };
        let OtherIdentifiers { api_key, ip } = OtherIdentifiers::of(&self.body, &self.client);
        let names = self.decision_id.len() + self.client.len() + other(&api_key) + other(&ip);
        let names = names + text(&self.rule_id) + text(&self.tenant);
        let of_rule = |id: &String| RULE_OVERHEAD + id.len() + 2 * self.decision_id.len();
        let rules: usize = other_rules(&self.body).iter().map(of_rule).sum();
        // Pages of indexes are never quite full.
        (ROW_OVERHEAD + 2 * names + rules + self.body.len()) * 3 / 2
    }

    /// The rows of its further rules.
    fn rules(&self) -> Vec<[Value; 3]> {
        let rules = other_rules(&self.body);
        let row = |id: &String| -> [Value; 3] {
            [storable(id).into(), self.at.as_micros().into(), storable(&self.decision_id).into()]
        };
        rules.iter().map(row).collect()
    }

    fn values(&self) -> [Value; INSERTED_COLUMNS] {
        let OtherIdentifiers { api_key, ip } = OtherIdentifiers::of(&self.body, &self.client);
        [
            self.at.as_micros().into(),
            storable(&self.decision_id).into(),
            self.action.name().into(),
            self.rule_id.as_deref().map(storable).into(),
            storable(&self.client).into(),
            self.tenant.as_deref().map(storable).into(),
            storable(&self.body).into(),
            (self.bytes() as u64).into(),
            api_key.as_deref().map(storable).into(),
            ip.as_deref().map(storable).into(),
        ]
    }
}
