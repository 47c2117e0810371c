//! Which requests were refused, denied, held back or would have been refused, and a sample of the others: how
//! the log is read. Nothing here makes a revision.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::sync::atomic::Ordering::Relaxed;

use serde::Deserialize;
use tollgate_core::Timestamp;

use crate::catalog::Catalog;
use crate::db::database::{Row, Value, values};
use crate::error::CatalogError;

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DecisionAction {
    /// A limit was reached, or could not be checked and fails closed.
    Refused,
    /// Its client is on the deny list, is banned, or lacks an identifier; or no rule applies.
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

/// A client, by one of its identifiers as it is recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientFilter {
    /// The type of the identifier; none for the name of the client, its API key or its address.
    pub kind: Option<String>,
    /// The value; of an API key, the digest that is recorded.
    pub value: String,
}

/// Which decisions are wanted.
#[derive(Clone, Debug, Default)]
pub struct DecisionFilter {
    /// The one with this id.
    pub decision_id: Option<String>,
    /// Those about this client, by any of its identifiers.
    pub client: Option<ClientFilter>,
    /// Those that this rule decided, or would have refused.
    pub rule_id: Option<String>,
    /// Those with one of these outcomes; all, if it is empty.
    pub actions: Vec<DecisionAction>,
    /// Those about requests of this tenant.
    pub tenant: Option<String>,
    /// Those from then on.
    pub since: Option<Timestamp>,
    /// Those before then.
    pub until: Option<Timestamp>,
}

/// The place of a decision in the log: when it was made, and its id.
pub type DecisionPlace = (Timestamp, String);

const LOG: &str = "tollgate_decision_log";
/// Decisions with the further rules that would have refused the request.
const LOG_BY_RULE: &str =
    "tollgate_decision_rules JOIN tollgate_decision_log USING (decided_at, decision_id)";
/// Where earlier versions logged decisions. It has no columns for API keys and addresses.
const EARLIER_LOG: &str = "tollgate_decisions";

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
        let (sql, values) = filter.statement(LOG, before, limit);
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
        let (sql, values) = filter.statement(EARLIER_LOG, before, limit);
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

/// The rules in the body of a record that would have refused the request, besides the one that has a column.
pub(crate) fn other_rules(body: &str) -> Vec<String> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Body {
        also_would_refuse: Vec<String>,
    }

    let Body { also_would_refuse } = serde_json::from_str(body).unwrap_or_default();
    also_would_refuse
}

/// The identifiers of a recorded decision that it can be found by, besides its client and tenant.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct OtherIdentifiers<'a> {
    #[serde(borrow)]
    pub(crate) api_key: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(crate) ip: Option<Cow<'a, str>>,
}

impl<'a> OtherIdentifiers<'a> {
    /// Those in the body of a record; the one that names the client is left out, since it has a column.
    pub(crate) fn of(body: &'a str, client: &str) -> Self {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Body<'a> {
            #[serde(borrow)]
            identifiers: OtherIdentifiers<'a>,
        }

        let Body { identifiers } = serde_json::from_str(body).unwrap_or_default();
        let other = |it: Option<Cow<'a, str>>| it.filter(|it| &**it != client);
        Self { api_key: other(identifiers.api_key), ip: other(identifiers.ip) }
    }
}

impl ClientFilter {
    /// A client by its name, its API key or its address.
    #[must_use]
    pub fn any(value: &str) -> Self {
        Self { kind: None, value: value.to_owned() }
    }

    /// The columns that may have the identifier: each has an index, so each is a search by itself.
    fn columns(&self, table: &str) -> &'static [&'static str] {
        let kind = self.kind.as_deref();
        match kind {
            Some("tenant") => &["tenant"],
            _ if table == EARLIER_LOG => &["client"],
            None => &["client", "api_key", "ip"],
            Some("api_key") => &["client", "api_key"],
            Some("ip") => &["client", "ip"],
            Some(_) => &["client"],
        }
    }

    /// What the body of a record has if the client has this identifier; none where any will do. Quotes within texts of
    /// JSON are escaped, so nothing else looks like it.
    fn in_body(&self) -> Option<String> {
        let kind = self.kind.as_deref().filter(|kind| *kind != "tenant")?;
        let text = |text: &str| serde_json::to_string(text).unwrap_or_default();
        Some(format!("{}:{}", text(kind), text(&self.value)))
    }
}

impl DecisionFilter {
    fn statement(
        &self,
        table: &str,
        before: Option<&DecisionPlace>,
        limit: usize,
    ) -> (String, Vec<Value>) {
        let (mut conditions, mut values) = self.conditions(before);
        values.push((limit as u64).into());
        let order = format!("ORDER BY decided_at DESC, decision_id DESC LIMIT ${}", values.len());
        if let Some(part) = self.client.as_ref().and_then(ClientFilter::in_body) {
            values.push(storable(&part).into());
            // Both databases have this one, and it minds the case.
            conditions.push(format!("replace(body, ${}, '') <> body", values.len()));
        }
        let mut equal_to = |value: &str| {
            values.push(storable(value).into());
            format!("= ${}", values.len())
        };
        let by_action: Vec<String> = self
            .actions
            .iter()
            .map(|action| format!("action {}", equal_to(action.name())))
            .collect();
        let mut by_client = Vec::new();
        if let Some(client) = &self.client {
            let named = equal_to(&client.value);
            by_client.extend(client.columns(table).iter().map(|it| format!("{it} {named}")));
        }
        // Each column, each outcome and each table has its place in an index, so each is a search by itself.
        let mut searches: Vec<(&str, Vec<String>)> = match &self.rule_id {
            None => vec![(table, conditions)],
            Some(rule_id) => {
                let rule = equal_to(rule_id);
                let found_by =
                    |column: &str| [&*conditions, &[format!("{column} {rule}")]].concat();
                let mut found = vec![(table, found_by("rule_id"))];
                if table != EARLIER_LOG {
                    found.push((LOG_BY_RULE, found_by("shadow_rule_id")));
                }
                found
            }
        };
        for alternatives in [by_client, by_action].iter().filter(|it| !it.is_empty()) {
            searches = searches
                .iter()
                .flat_map(|(from, search)| {
                    let narrowed = |it: &String| [&**search, std::slice::from_ref(it)].concat();
                    alternatives.iter().map(move |it| (*from, narrowed(it)))
                })
                .collect();
        }
        let searches: Vec<String> = searches
            .iter()
            .map(|(from, all)| {
                let all = if all.is_empty() { "1 = 1".to_owned() } else { all.join(" AND ") };
                format!("SELECT {COLUMNS} FROM {from} WHERE {all} {order}")
            })
            .collect();
        if let [one] = &*searches {
            return (one.clone(), values);
        }
        let searches = searches.iter().zip(1..);
        let searches: Vec<String> = searches
            .map(|(it, number)| format!("SELECT * FROM ({it}) AS search_{number}"))
            .collect();
        let all = searches.join(" UNION ");
        (format!("SELECT {COLUMNS} FROM ({all}) AS found {order}"), values)
    }

    /// All conditions but those of the client, the rule and the outcome.
    fn conditions(&self, before: Option<&DecisionPlace>) -> (Vec<String>, Vec<Value>) {
        let Self { decision_id, client: _, rule_id: _, actions: _, tenant, since, until } = self;
        let text = |text: &Option<String>| text.as_deref().map(|text| storable(text).into());
        let time = |time: &Option<Timestamp>| time.map(|time| time.as_micros().into());
        let wanted: [(&str, Option<Value>); 4] = [
            ("decision_id =", text(decision_id)),
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
        (conditions, values)
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
