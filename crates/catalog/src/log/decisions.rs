//! Which requests were refused, denied, held back or would have been refused, and a sample of the others: how
//! the log is read. Nothing here makes a revision.

use std::cmp::Reverse;
use std::sync::atomic::Ordering::Relaxed;

use tollgate_core::Timestamp;

use crate::catalog::Catalog;
use crate::db::database::{Row, Value, values};
use crate::error::CatalogError;

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DecisionAction {
    /// A limit was reached.
    Refused,
    /// It was refused for another reason than a limit.
    Denied,
    /// It passed, but had to wait.
    Throttled,
    /// It passed.
    Allowed,
    /// It passed, but a rule that only logs would have refused it.
    WouldRefuse,
}

impl DecisionAction {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Refused, Self::Denied, Self::Throttled, Self::Allowed, Self::WouldRefuse];

    /// Its name in the log.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Denied => "denied",
            Self::Throttled => "throttled",
            Self::Allowed => "allowed",
            Self::WouldRefuse => "would_refuse",
        }
    }

    /// The action of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.name() == name)
    }
}

/// A decision as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedDecision {
    /// When it was made.
    pub at: Timestamp,
    /// The id that its node gave it.
    pub decision_id: String,
    /// The outcome of the request.
    pub action: DecisionAction,
    /// The rule that decided, if one did.
    pub rule_id: Option<String>,
    /// The client of the request.
    pub client: String,
    /// The tenant of the request.
    pub tenant: Option<String>,
    /// The whole decision, as JSON.
    pub body: String,
}

/// Which decisions are wanted.
#[derive(Clone, Debug, Default)]
pub struct DecisionFilter {
    /// The one with this id.
    pub decision_id: Option<String>,
    /// Those about this client.
    pub client: Option<String>,
    /// Those that this rule decided.
    pub rule_id: Option<String>,
    /// Those with this outcome.
    pub action: Option<DecisionAction>,
    /// Those about requests of this tenant.
    pub tenant: Option<String>,
    /// Those from then on.
    pub since: Option<Timestamp>,
    /// Those before then.
    pub until: Option<Timestamp>,
}

/// The place of a decision in the log: when it was made, and its id.
pub type DecisionPlace = (Timestamp, String);

pub(crate) const COLUMNS: &str = "decided_at, decision_id, action, rule_id, client, tenant, body";

impl Catalog {
    /// At most `limit` decisions, the newest first, before the one at that place.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn decisions(
        &self,
        filter: &DecisionFilter,
        before: Option<&DecisionPlace>,
        limit: usize,
    ) -> Result<Vec<LoggedDecision>, CatalogError> {
        // Read first, so that decisions that are moved meanwhile are found twice rather than not at all.
        let earlier = if self.log.is_moved.load(Relaxed) {
            Vec::new()
        } else {
            self.earlier_decisions(filter, before, limit).await?
        };
        let (sql, values) = filter.statement("tollgate_decision_log", before, limit);
        let mut lease = self.log.to_read().await?;
        let rows = self.log.in_time(lease.connection().rows(&sql, values)).await?;
        lease.give_back();
        let mut records = self.records_of(&rows)?;
        if !earlier.is_empty() {
            records.extend(earlier);
            let place = |it: &LoggedDecision| (it.at, it.decision_id.clone());
            records.sort_by_cached_key(|it| Reverse(place(it)));
            records.dedup_by_key(|it| place(&*it));
            records.truncate(limit);
        }
        Ok(records)
    }

    /// Decisions that an earlier version logged, in the catalog itself.
    pub(crate) async fn earlier_decisions(
        &self,
        filter: &DecisionFilter,
        before: Option<&DecisionPlace>,
        limit: usize,
    ) -> Result<Vec<LoggedDecision>, CatalogError> {
        let (sql, values) = filter.statement("tollgate_decisions", before, limit);
        let mut lease = self.connections.to_read().await?;
        let rows = self.in_time(lease.connection().rows(&sql, values)).await?;
        lease.give_back();
        self.records_of(&rows)
    }

    fn records_of(&self, rows: &[Row]) -> Result<Vec<LoggedDecision>, CatalogError> {
        let records = rows.iter().filter_map(|row| record_of(row).transpose());
        records.collect::<Result<_, _>>().map_err(|error| self.failed(&error))
    }
}

/// PostgreSQL keeps no text with a zero byte in it, and clients may send one.
pub(crate) fn storable(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

impl DecisionFilter {
    fn statement(
        &self,
        table: &str,
        before: Option<&DecisionPlace>,
        limit: usize,
    ) -> (String, Vec<Value>) {
        let (conditions, mut values) = self.conditions(before);
        values.push((limit as u64).into());
        let sql = format!(
            "SELECT {COLUMNS} FROM {table} WHERE {conditions} \
             ORDER BY decided_at DESC, decision_id DESC LIMIT ${}",
            values.len()
        );
        (sql, values)
    }

    fn conditions(&self, before: Option<&DecisionPlace>) -> (String, Vec<Value>) {
        let Self { decision_id, client, rule_id, action, tenant, since, until } = self;
        let text = |text: &Option<String>| text.as_deref().map(|text| storable(text).into());
        let time = |time: &Option<Timestamp>| time.map(|time| time.as_micros().into());
        let wanted: [(&str, Option<Value>); 7] = [
            ("decision_id =", text(decision_id)),
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

/// None if this version does not know the outcome.
fn record_of(row: &Row) -> Result<Option<LoggedDecision>, sqlx::Error> {
    let Some(action) = DecisionAction::from_name(&row.text(2)?) else { return Ok(None) };
    Ok(Some(LoggedDecision {
        at: Timestamp::from_micros(row.count(0)?),
        decision_id: row.text(1)?,
        action,
        rule_id: row.optional_text(3)?,
        client: row.text(4)?,
        tenant: row.optional_text(5)?,
        body: row.text(6)?,
    }))
}
