//! Who is pushing now: four top lists and the tail of decisions.

use std::cmp::Reverse;
use std::collections::HashSet;

use tollgate_dashboard::model::{DecisionRow, Live, Outcome, TailFilter, TopList};

use super::client::DecisionsJson;
use super::overview::top_client;
use crate::admin::auth::Right;
use crate::edge::ui::convert::DecisionJson;
use crate::edge::ui::page_problem::PageProblem;
use crate::edge::ui::visit::Visit;
use crate::observe::fleet_figures::FigureScope;
use crate::observe::recent_traffic::top::{RankedBy, RankedList, TopAsk};

/// The windows of the top lists, in seconds.
const WINDOWS: [u64; 3] = [60, 180, 300];
/// How many clients a list has.
const LISTED: usize = 10;
/// How many decisions the tail has.
const TAIL: usize = 50;

/// What the page shows; to administrators of a tenant, what concerns that tenant.
pub(super) async fn gather(visit: &Visit) -> Result<Live, PageProblem> {
    visit.require(Right::RuleViewer)?;
    let window = visit.parameter("window").and_then(|text| text.parse().ok());
    let window = window.filter(|window| WINDOWS.contains(window)).unwrap_or(WINDOWS[0]);
    let ask = TopAsk {
        by: RankedBy::Client,
        window_seconds: window,
        limit: LISTED,
        tenant: visit.principal.tenant().map(str::to_owned),
    };
    let top = visit.ui.app.top(FigureScope::Fleet, &ask).await.figures;
    let list = |list: RankedList| TopList {
        rows: list.entries.into_iter().map(top_client).collect(),
        may_lack: list.may_lack,
    };
    let filter = filter_of(visit);
    Ok(Live {
        window_seconds: window,
        windows: WINDOWS.to_vec(),
        refused: list(top.refused),
        near_limit: list(top.near_limit),
        busiest: list(top.busiest),
        would_refuse: list(top.would_refuse),
        tail: tail(visit, &filter).await,
        filter,
        caveat: caveat(visit),
    })
}

/// What the tail is limited to.
fn filter_of(visit: &Visit) -> TailFilter {
    let text = |name: &str| visit.parameter(name).unwrap_or_default().to_owned();
    TailFilter {
        client: text("client"),
        rule_id: text("rule_id"),
        endpoint: text("endpoint"),
        outcome: visit.parameter("outcome").and_then(Outcome::from_word),
    }
}

/// The last decisions of this node that fit the filter; with a filter by client or rule also those of the log, which
/// goes back further.
async fn tail(visit: &Visit, filter: &TailFilter) -> Vec<DecisionRow> {
    let last = visit.ui.app.audit_log.tail.last(visit.principal.tenant());
    let mut rows: Vec<DecisionRow> = last
        .iter()
        .filter_map(|entry| serde_json::to_value(&**entry).ok())
        .filter_map(|entry| serde_json::from_value::<DecisionJson>(entry).ok())
        .map(DecisionJson::into_row)
        .filter(|row| is_wanted(row, filter))
        .take(TAIL)
        .collect();
    let is_narrow = !filter.client.is_empty() || !filter.rule_id.is_empty();
    if is_narrow && rows.len() < TAIL {
        let logged = logged(visit, filter).await;
        let known: HashSet<_> = rows.iter().map(|row| row.decision_id.clone()).collect();
        rows.extend(logged.into_iter().filter(|row| !known.contains(&row.decision_id)));
        rows.sort_by_key(|row| Reverse(row.at));
        rows.truncate(TAIL);
    }
    rows
}

/// The last decisions of the log that fit the filter; none without a log.
async fn logged(visit: &Visit, filter: &TailFilter) -> Vec<DecisionRow> {
    let limit = TAIL.to_string();
    let fields = [
        ("limit", limit.as_str()),
        ("client", &filter.client),
        ("rule_id", &filter.rule_id),
        ("action", filter.outcome.map_or("", Outcome::word)),
    ];
    let query: Vec<(&str, &str)> =
        fields.into_iter().filter(|(_, value)| !value.is_empty()).collect();
    let found = visit.read::<DecisionsJson>("/api/v1/audit/decisions", &query).await;
    let records = found.map_or_else(|_| Vec::new(), |found| found.records);
    let rows = records.into_iter().map(DecisionJson::into_row);
    rows.filter(|row| is_wanted(row, filter)).collect()
}

/// Whether a decision fits the filter of the tail.
fn is_wanted(row: &DecisionRow, filter: &TailFilter) -> bool {
    let fits = |wanted: &str, has: Option<&str>| wanted.is_empty() || has == Some(wanted);
    let path = row.endpoint.as_deref().unwrap_or_default();
    fits(&filter.client, Some(&row.client.name))
        && fits(&filter.rule_id, row.rule_id.as_deref())
        && path.starts_with(&filter.endpoint)
        && filter.outcome.is_none_or(|outcome| row.outcome == outcome)
}

/// What the tail does not have.
fn caveat(visit: &Visit) -> Option<String> {
    let share = visit.ui.about.sample_allowed;
    if share >= 1.0 {
        return None;
    }
    let percent = (share * 1e4).round() / 1e2;
    Some(format!(
        "All refused, denied and delayed requests are here, and {percent} % of the allowed ones (audit.sample_allowed)."
    ))
}
