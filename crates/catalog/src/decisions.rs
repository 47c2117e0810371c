//! Which requests were refused, denied or held back, and a sample of those that were not.
//!
//! Nodes write this log in batches, on a connection of its own: whoever changes rules does not wait
//! for it. Nothing here makes a revision.

use tollgate_core::Timestamp;

use crate::catalog::Catalog;
use crate::database::{Connection, Row, Value, values};
use crate::error::CatalogError;

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DecisionAction {
    /// A limit was reached.
    Refused,
    /// The client or the request is not welcome at all.
    Denied,
    /// It passed, but had to wait.
    Throttled,
    /// It passed.
    Allowed,
}

impl DecisionAction {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Refused, Self::Denied, Self::Throttled, Self::Allowed];

    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Denied => "denied",
            Self::Throttled => "throttled",
            Self::Allowed => "allowed",
        }
    }

    /// What a word stands for.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.name() == name)
    }
}

/// A decision as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecisionRecord {
    /// When it was made.
    pub at: Timestamp,
    /// What its node called it.
    pub decision_id: String,
    /// What became of the request.
    pub action: DecisionAction,
    /// The rule that spoke for it, if one did.
    pub rule_id: Option<String>,
    /// Who asked.
    pub client: String,
    /// The tenant of the request.
    pub tenant: Option<String>,
    /// All there is to tell, as JSON.
    pub body: String,
}

/// Which decisions are wanted.
#[derive(Clone, Debug, Default)]
pub struct DecisionFilter {
    /// Those about this client.
    pub client: Option<String>,
    /// Those that this rule spoke for.
    pub rule_id: Option<String>,
    /// Those that ended like this.
    pub action: Option<DecisionAction>,
    /// Those about requests of this tenant.
    pub tenant: Option<String>,
    /// Those from then on.
    pub since: Option<Timestamp>,
    /// Those before then.
    pub until: Option<Timestamp>,
}

/// The place of a decision in the log: when it was made, and what it is called.
pub type DecisionPlace = (Timestamp, String);

/// How many rows a statement inserts.
const ROWS: usize = 100;
const COLUMNS: &str = "decided_at, decision_id, action, rule_id, client, tenant, body";
const WIDTH: usize = 7;

impl Catalog {
    /// Keeps decisions: all of them, or none. Those that are kept already stay as they are, so that a
    /// batch whose fate is unknown can be handed in again.
    ///
    /// # Errors
    /// The database cannot be asked.
    pub async fn log_decisions(&self, records: &[DecisionRecord]) -> Result<(), CatalogError> {
        let mut lease = self.connections.to_record().await?;
        self.in_time(insert(lease.connection(), records)).await?;
        lease.give_back();
        Ok(())
    }

    /// At most `limit` decisions, the newest first, before the one at that place.
    ///
    /// # Errors
    /// The database cannot be asked.
    pub async fn decisions(
        &self,
        filter: &DecisionFilter,
        before: Option<&DecisionPlace>,
        limit: usize,
    ) -> Result<Vec<DecisionRecord>, CatalogError> {
        let (conditions, mut values) = filter.conditions(before);
        values.push((limit as u64).into());
        let sql = format!(
            "SELECT {COLUMNS} FROM tollgate_decisions WHERE {conditions} \
             ORDER BY decided_at DESC, decision_id DESC LIMIT ${}",
            values.len()
        );
        let mut lease = self.connections.to_read().await?;
        let rows = self.in_time(lease.connection().rows(&sql, values)).await?;
        lease.give_back();
        let records = rows.iter().filter_map(|row| record_of(row).transpose());
        records.collect::<Result<_, _>>().map_err(|error| self.failed(&error))
    }

    /// Forgets the oldest decisions from before `end`, about `most` of them: those of one moment go
    /// together. Says how many went.
    ///
    /// # Errors
    /// The database cannot be asked.
    pub async fn forget_decisions(&self, end: Timestamp, most: u64) -> Result<u64, CatalogError> {
        // A range of the primary key, so that a large table is not looked through.
        let sql = "DELETE FROM tollgate_decisions WHERE decided_at <= (\
            SELECT max(decided_at) FROM (SELECT decided_at FROM tollgate_decisions \
            WHERE decided_at < $1 ORDER BY decided_at LIMIT $2) AS oldest)";
        let mut lease = self.connections.to_record().await?;
        let forgetting = lease.connection().run(sql, values![end.as_micros(), most]);
        let forgotten = self.in_time(forgetting).await?;
        lease.give_back();
        Ok(forgotten)
    }
}

async fn insert(
    connection: &mut Connection,
    records: &[DecisionRecord],
) -> Result<(), sqlx::Error> {
    connection.begin().await?;
    for chunk in records.chunks(ROWS) {
        let values = chunk.iter().flat_map(DecisionRecord::values).collect();
        connection.run(&insertion(chunk.len()), values).await?;
    }
    connection.commit().await
}

/// A statement that inserts so many rows.
fn insertion(rows: usize) -> String {
    let row = |row: usize| {
        let places: Vec<String> = (1..=WIDTH).map(|at| format!("${}", row * WIDTH + at)).collect();
        format!("({})", places.join(", "))
    };
    let rows: Vec<String> = (0..rows).map(row).collect();
    format!(
        "INSERT INTO tollgate_decisions ({COLUMNS}) VALUES {} ON CONFLICT DO NOTHING",
        rows.join(", ")
    )
}

impl DecisionRecord {
    fn values(&self) -> [Value; WIDTH] {
        [
            self.at.as_micros().into(),
            storable(&self.decision_id).into(),
            self.action.name().into(),
            self.rule_id.as_deref().map(storable).into(),
            storable(&self.client).into(),
            self.tenant.as_deref().map(storable).into(),
            storable(&self.body).into(),
        ]
    }
}

/// PostgreSQL keeps no text with a zero byte in it, and clients may send one.
fn storable(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

impl DecisionFilter {
    fn conditions(&self, before: Option<&DecisionPlace>) -> (String, Vec<Value>) {
        let Self { client, rule_id, action, tenant, since, until } = self;
        let text = |text: &Option<String>| text.as_deref().map(|text| storable(text).into());
        let time = |time: &Option<Timestamp>| time.map(|time| time.as_micros().into());
        let wanted: [(&str, Option<Value>); 6] = [
            ("client =", text(client)),
            ("rule_id =", text(rule_id)),
            ("action =", action.map(|action| action.name().into())),
            ("tenant =", text(tenant)),
            ("decided_at >=", time(since)),
            ("decided_at <", time(until)),
        ];
        let (mut conditions, mut values) = (Vec::new(), Vec::new());
        for (condition, value) in wanted {
            if let Some(value) = value {
                values.push(value);
                conditions.push(format!("{condition} ${}", values.len()));
            }
        }
        if let Some((at, decision_id)) = before {
            values.extend(values![at.as_micros(), storable(decision_id)]);
            let (at, id) = (values.len() - 1, values.len());
            conditions.push(format!("(decided_at, decision_id) < (${at}, ${id})"));
        }
        let is_any = conditions.is_empty();
        (if is_any { "1 = 1".to_owned() } else { conditions.join(" AND ") }, values)
    }
}

/// None if it ended in a way that this version does not know.
fn record_of(row: &Row) -> Result<Option<DecisionRecord>, sqlx::Error> {
    let Some(action) = DecisionAction::from_name(&row.text(2)?) else { return Ok(None) };
    Ok(Some(DecisionRecord {
        at: Timestamp::from_micros(row.count(0)?),
        decision_id: row.text(1)?,
        action,
        rule_id: row.optional_text(3)?,
        client: row.text(4)?,
        tenant: row.optional_text(5)?,
        body: row.text(6)?,
    }))
}
