//! Reads both logs: changes of the catalog and decisions, the newest first, page by page.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use tollgate::Timestamp;
use tollgate_catalog::{
    AuditFilter, AuditKind, AuditPlace, AuditRecord, Catalog, CatalogError, DecisionFilter,
    DecisionPlace, LoggedDecision, Role,
};
use utoipa::ToSchema;

pub(crate) use super::decision_event::DecisionDetails;
use super::resets::CounterChange;
use crate::admin::{ChangeAnswer, action};
use crate::app::state::ServerState;
use crate::check::decision_id::node_in;
use crate::edge::http::wire::time::rfc_3339_exact;

/// About the most bytes of changes on a page. A single change may be larger.
const MAX_PAGE_BYTES: usize = 4 << 20;

/// A change of the catalog or a reset of counters, and who made it.
///
/// A reset has the kind `counters` and the action `reset`; it has what was left before and afterwards.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ChangeEntry {
    /// The revision that it made, maybe with other changes. A reset makes none: it has the one in force.
    revision: u64,
    /// When, in RFC 3339.
    #[schema(format = DateTime)]
    at: String,
    /// Who made it: a token, or a part of the program.
    actor: String,
    /// The name of the token, if it has one; absent where a tenant-admin reads changes of operators.
    #[serde(skip_serializing_if = "Option::is_none")]
    actor_name: Option<String>,
    /// The role of the actor.
    role: String,
    /// The address of the actor; null where a tenant-admin reads changes of operators.
    address: Option<String>,
    /// The change.
    #[serde(flatten)]
    change: ChangeAnswer,
}

impl From<&AuditRecord> for ChangeEntry {
    fn from(record: &AuditRecord) -> Self {
        Self {
            revision: record.revision,
            at: rfc_3339_exact(record.at),
            actor: record.actor.clone(),
            actor_name: record.actor_name.clone(),
            role: record.role.clone(),
            address: record.address.clone(),
            change: change_of(record),
        }
    }
}

fn hide_operator(record: &mut AuditRecord) {
    if record.role != Role::TenantAdmin.name() {
        (record.address, record.actor_name) = (None, None);
    }
}

fn change_of(record: &AuditRecord) -> ChangeAnswer {
    let (was, becomes) = record.redacted();
    let action = match record.kind {
        AuditKind::Counters => CounterChange::of(becomes.as_ref()).name(),
        AuditKind::Entry(_) => action(was.is_some(), becomes.is_some()),
    };
    ChangeAnswer { kind: record.kind.name(), entry: record.name.clone(), action, was, becomes }
}

/// A decision that was kept.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
pub(crate) struct DecisionEntry {
    /// The id of the decision, as in the response to the check.
    pub(super) decision_id: String,
    /// The name of the node that made it, as in `GET /api/v1/nodes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) node: Option<String>,
    /// When it was made, in RFC 3339.
    #[schema(format = DateTime)]
    pub(super) at: String,
    /// refused, denied (its client is on the deny list, banned, or lacks an identifier), throttled or allowed; or `would_refuse` if a rule with `action: log_only` would
    /// have refused it.
    pub(super) action: Cow<'static, str>,
    /// The rule that decided, if one did; absent where a tenant-admin reads a decision by a rule of others.
    pub(crate) rule_id: Option<String>,
    /// The client: the user, else the API key, the address, the tenant, or other identifiers.
    pub(super) client: String,
    /// The tenant of the request.
    pub(super) tenant: Option<String>,
    #[serde(flatten)]
    pub(crate) details: DecisionDetails,
}

impl From<LoggedDecision> for DecisionEntry {
    fn from(record: LoggedDecision) -> Self {
        Self {
            node: node_in(&record.decision_id).map(str::to_owned),
            decision_id: record.decision_id,
            at: rfc_3339_exact(record.at),
            action: record.action.name().into(),
            rule_id: record.rule_id,
            client: record.client,
            tenant: record.tenant,
            // Of details that another version wrote, this one shows the fields it knows.
            details: serde_json::from_str(&record.body).unwrap_or_default(),
        }
    }
}

/// A log, and the query for it.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    pub(crate) app: ServerState,
    pub(crate) catalog: Arc<Catalog>,
    /// The tenant whose administrator reads it, who sees neither addresses of operators nor rules of others.
    pub(crate) tenant: Option<String>,
    pub(crate) wanted: LogQuery,
}

/// The query for a log.
#[derive(Clone, Debug)]
pub(crate) enum LogQuery {
    /// Changes of the catalog, older than a position.
    Changes(AuditFilter, Option<ChangePlace>),
    /// Decisions, older than a position.
    Decisions(DecisionFilter, Option<DecisionAt>),
}

/// The position of a change in the log, as links have it: `12.0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChangePlace(AuditPlace);

/// The position of a decision in the log, as links have it: its time in microseconds, a dot and its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DecisionAt(DecisionPlace);

impl fmt::Display for ChangePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (revision, place) = self.0;
        write!(f, "{revision}.{place}")
    }
}

impl FromStr for ChangePlace {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (revision, place) = text.split_once('.').ok_or(())?;
        let number = |text: &str| text.parse().map_err(|_| ());
        Ok(Self((number(revision)?, number(place)?)))
    }
}

impl fmt::Display for DecisionAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (at, id) = &self.0;
        write!(f, "{}.{id}", at.as_micros())
    }
}

impl FromStr for DecisionAt {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (at, id) = text.split_once('.').ok_or(())?;
        let at = Timestamp::from_micros(at.parse().map_err(|_| ())?);
        Ok(Self((at, id.to_owned())))
    }
}

/// Some records, and the position of the last one if there are more.
pub(crate) struct AuditPage {
    pub(crate) records: Vec<Box<RawValue>>,
    pub(crate) next: Option<String>,
}

impl Log {
    /// The next records, at most `limit`, and fewer if they are large; the next call continues after
    /// them.
    pub(crate) async fn page(&mut self, limit: usize) -> Result<AuditPage, CatalogError> {
        match &mut self.wanted {
            LogQuery::Changes(filter, before) => {
                let at = before.map(|ChangePlace(place)| place);
                let page = self.catalog.audit_page(filter, at, limit, MAX_PAGE_BYTES).await;
                let (mut found, has_more) = page?;
                let last = found.last().map(|last| ChangePlace((last.revision, last.place)));
                *before = last.or(*before);
                let next = last.filter(|_| has_more).map(|place| place.to_string());
                if self.tenant.is_some() {
                    found.iter_mut().for_each(hide_operator);
                }
                let records =
                    found.iter().filter_map(|it| to_raw_value(&ChangeEntry::from(it)).ok());
                Ok(AuditPage { records: records.collect(), next })
            }
            LogQuery::Decisions(filter, before) => {
                let at = before.as_ref().map(|DecisionAt(place)| place);
                // One record beyond the limit shows whether there are more.
                let mut found = self.catalog.decisions(filter, at, limit + 1).await?;
                let has_more = found.len() > limit;
                found.truncate(limit);
                let last = found.last().map(|last| DecisionAt((last.at, last.decision_id.clone())));
                let next = last.as_ref().filter(|_| has_more).map(ToString::to_string);
                if last.is_some() {
                    *before = last;
                }
                let tenant = self.tenant.as_deref();
                let entries = found.into_iter().map(DecisionEntry::from);
                let entries = entries.map(|it| self.app.without_foreign_rules(it, tenant));
                let records = entries.filter_map(|entry| to_raw_value(&entry).ok()).collect();
                Ok(AuditPage { records, next })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_have_exactly_one_spelling() {
        let check = |text: &str, is_change: bool, is_decision: bool| {
            let change = text.parse::<ChangePlace>().map(|place| place.to_string());
            assert_eq!(change, if is_change { Ok(text.to_owned()) } else { Err(()) }, "{text}");
            let decision = text.parse::<DecisionAt>().map(|place| place.to_string());
            assert_eq!(decision, if is_decision { Ok(text.to_owned()) } else { Err(()) }, "{text}");
        };
        check("12.0", true, true);
        check("1800000000000000.d1f00dbee-r2a", false, true);
        check("12", false, false);
        check("", false, false);
        check(".", false, false);
        check("-1.0", false, false);
        check("x.d", false, false);
    }
}
