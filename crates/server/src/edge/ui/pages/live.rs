//! Who is pushing now: four top lists and the tail of decisions.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use tollgate_dashboard::model::{
    DecisionRow, FiguresOf, Live, Outcome, TailFilter, TopClient, TopList,
};

use super::overview::{figures_of, top_client};
use crate::admin::auth::Right;
use crate::edge::ui::convert::DecisionJson;
use crate::edge::ui::page_problem::PageProblem;
use crate::edge::ui::visit::Visit;
use crate::observe::audit_log::log::DecisionEntry;
use crate::observe::audit_log::recorded;
use crate::observe::audit_log::tail::TailAsk;
use crate::observe::fleet_figures::{FigureScope, NodeStatus};
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
    let filter = filter_of(visit);
    let top = visit.top(FigureScope::Fleet, &ask);
    let (merged, (tail_of, tail)) = tokio::join!(top, tail(visit, &filter));
    let (of, top) = (figures_of(&merged), merged.figures);
    let list = |list: RankedList| TopList {
        rows: list.entries.into_iter().map(top_client).collect(),
        may_lack: list.may_lack,
    };
    let mut near_limit = list(top.near_limit);
    near_limit.rows.sort_by(|one, other| {
        let used = |row: &TopClient| row.used.unwrap_or(0.0);
        used(other).total_cmp(&used(one)).then(other.count.cmp(&one.count))
    });
    Ok(Live {
        window_seconds: window,
        windows: WINDOWS.to_vec(),
        of,
        refused: list(top.refused),
        near_limit,
        busiest: list(top.busiest),
        would_refuse: list(top.would_refuse),
        tail_of,
        tail,
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

/// The last decisions of all nodes that fit the filter; with a filter by client or rule also those of the log, which
/// goes back further.
async fn tail(visit: &Visit, filter: &TailFilter) -> (FiguresOf, Vec<DecisionRow>) {
    let ask = TailAsk {
        client: match filter.client.as_str() {
            "" => String::new(),
            client => recorded(None, client),
        },
        rule_id: filter.rule_id.clone(),
        endpoint: filter.endpoint.clone(),
        action: filter.outcome.map_or("", Outcome::word).to_owned(),
        tenant: visit.principal.tenant().map(str::to_owned),
        limit: TAIL,
    };
    let merged = visit.ui.app.tail(&ask).await;
    let of = figures_of(&merged);
    let mut entries = merged.figures;
    let is_narrow = !filter.client.is_empty() || !filter.rule_id.is_empty();
    if is_narrow && entries.len() < TAIL {
        entries.extend(logged(visit, filter, &ask).await);
    }
    let names = node_names(visit);
    let mut known = HashSet::new();
    let rows = entries.iter().filter_map(|entry| {
        let entry: DecisionJson = serde_json::from_value(serde_json::to_value(entry).ok()?).ok()?;
        let node = names.as_ref().zip(entry.node.as_ref());
        let node = node.map(|(names, name)| names.get(name).unwrap_or(name).clone());
        Some(DecisionRow { node, ..entry.into_row() })
    });
    let mut rows: Vec<DecisionRow> =
        rows.filter(|row| known.insert(row.decision_id.clone())).collect();
    rows.sort_by_key(|row| Reverse(row.at));
    rows.truncate(TAIL);
    (of, rows)
}

/// What the nodes of decisions are called, by their names; `None` for a single node, and for viewers who see no machines.
fn node_names(visit: &Visit) -> Option<HashMap<String, String>> {
    let nodes = visit.ui.app.nodes();
    if nodes.len() < 2 || !visit.may(Right::Viewer) {
        return None;
    }
    let hosts: HashSet<String> = nodes.iter().map(|node| node.host.clone()).collect();
    // Nodes of one machine differ only by their names.
    let has_hosts = hosts.len() == nodes.len() && !hosts.contains("");
    let name = |node: NodeStatus| {
        let shown = if has_hosts { node.host } else { node.name.clone() };
        (node.name, shown)
    };
    Some(nodes.into_iter().map(name).collect())
}

/// A page of the log of decisions.
#[derive(serde::Deserialize)]
struct LoggedTail {
    records: Vec<DecisionEntry>,
}

/// The last decisions of the log that fit the filter; none without a log.
async fn logged(visit: &Visit, filter: &TailFilter, ask: &TailAsk) -> Vec<DecisionEntry> {
    let limit = TAIL.to_string();
    let fields = [
        ("limit", limit.as_str()),
        ("client", &filter.client),
        ("rule_id", &filter.rule_id),
        ("action", &ask.action),
    ];
    let query: Vec<(&str, &str)> =
        fields.into_iter().filter(|(_, value)| !value.is_empty()).collect();
    let found = visit.read::<LoggedTail>("/api/v1/audit/decisions", &query).await;
    let records = found.map_or_else(|_| Vec::new(), |found| found.records);
    records.into_iter().filter(|entry| ask.fits(entry)).collect()
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
