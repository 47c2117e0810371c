//! The first page: requests, refusals, latency, stores and nodes at a glance.

use tollgate::MemoryStore;
use tollgate::store::{BreakerState, HistogramSnapshot, RemoteStatus};
use tollgate_dashboard::model::{
    Breaker, ClientRef, ErrorCount, FiguresOf, FirstCheck, Memory, NodeRow, NodeState, NodeStore,
    Overview, RuleOrder, Section, StoreServer, TopClient,
};

use super::rules::{rows_of, sort};
use crate::admin::auth::Right;
use crate::app::readiness::NodeReadiness;
use crate::edge::ui::convert::time;
use crate::edge::ui::figures::rules_figures;
use crate::edge::ui::page_problem::PageProblem;
use crate::edge::ui::visit::Visit;
use crate::observe::fleet_figures::{FigureScope, Merged, NodeStatus};
use crate::observe::recent_traffic::top::{RankedBy, RankedEntry, TopAsk};

/// How many clients and rules the page lists.
const LISTED: usize = 8;
/// How far back its ranking goes, in seconds.
const TOP_SECONDS: u64 = 300;

/// What the page shows. Administrators of a tenant see the rules and clients of that tenant, and no machines.
pub(super) async fn gather(visit: &Visit) -> Result<Overview, PageProblem> {
    visit.require(Right::RuleViewer)?;
    let app = &visit.ui.app;
    let rules = visit.visible_rules();
    let mut rows = rows_of(visit, &rules);
    sort(&mut rows, RuleOrder::Refused);
    rows.truncate(LISTED);
    let ask = TopAsk {
        by: RankedBy::Client,
        window_seconds: TOP_SECONDS,
        limit: LISTED,
        tenant: visit.principal.tenant().map(str::to_owned),
    };
    let top = visit.top(FigureScope::Fleet, &ask).await;
    let figures = if visit.may(Right::Viewer) {
        visit.node_figures()
    } else {
        let own = visit.rule_figures(|rule_id| rules.iter().any(|rule| rule.rule_id == rule_id));
        rules_figures(own.values(), &visit.range())
    };
    let mut overview = Overview {
        first_check: (visit.may(Right::Viewer) && figures.is_empty()).then(|| first_check(visit)),
        requests: figures.requests(),
        refused_share: figures.refused_share(),
        check_p99_ms: figures.check_p99_ms(),
        without_store: figures.without_store(),
        course: figures.course(),
        most_refused_of: figures_of(&top),
        most_refused: top.figures.refused.entries.into_iter().map(top_client).collect(),
        top_seconds: TOP_SECONDS,
        rules: rows,
        ..Overview::default()
    };
    if visit.may(Right::Viewer) {
        overview.check_latency = figures.check_latency();
        overview.store_latency = figures.store_latency();
        overview.stores = app.limiter.store().status().into_iter().map(store_server).collect();
        overview.memory = memory_of(visit);
        let nodes = app.nodes();
        let rates = nodes.iter().filter_map(|node| Some(node.state?.requests_per_second));
        let rates: Vec<f64> = rates.collect();
        overview.fleet_requests = (rates.len() > 1).then(|| (rates.len(), rates.iter().sum()));
        overview.cut_off_since = app.unreachable_since().map(time);
        overview.nodes = Section::Ready(nodes.into_iter().map(node_row).collect());
    }
    Ok(overview)
}

/// What to try while there was no request.
fn first_check(visit: &Visit) -> FirstCheck {
    let about = &visit.ui.about;
    FirstCheck { base_url: about.check_url.clone(), needs_token: about.check_needs_token }
}

/// A client of a ranking.
pub(super) fn top_client(entry: RankedEntry) -> TopClient {
    TopClient {
        client: ClientRef { name: entry.name, identifiers: Vec::new() },
        rule_id: entry.rule_id,
        count: entry.count,
        used: entry.used_percent.map(|percent| f64::from(percent) / 100.0),
    }
}

/// Whose figures a ranking shows.
pub(super) fn figures_of<T>(merged: &Merged<T>) -> FiguresOf {
    FiguresOf {
        nodes: merged.nodes,
        silent: merged.silent.len(),
        is_cut_off: merged.unreachable_since.is_some(),
    }
}

/// A server that stores counters.
pub(super) fn store_server(status: RemoteStatus) -> StoreServer {
    let quantile = |share| quantile(&status.latency, share).map(|seconds| seconds * 1e3);
    let errors = status.errors.iter().filter(|(_, count)| *count > 0);
    StoreServer {
        breaker: breaker(status.breaker),
        since: None,
        failure: status.failure.map(|kind| kind.name().to_owned()),
        openings: status.openings,
        calls: status.calls,
        failures: status.failures,
        errors: errors
            .map(|(kind, count)| ErrorCount { kind: (*kind).to_owned(), count: *count })
            .collect(),
        p50_ms: quantile(0.5),
        p95_ms: quantile(0.95),
        p99_ms: quantile(0.99),
        drift_seconds: status.drift_seconds,
        server: status.server,
    }
}

const fn breaker(state: BreakerState) -> Breaker {
    match state {
        BreakerState::Closed => Breaker::Closed,
        BreakerState::Probing => Breaker::HalfOpen,
        BreakerState::Open => Breaker::Open,
    }
}

/// The upper bound of the bucket that the quantile is in; `None` without durations.
fn quantile(histogram: &HistogramSnapshot, share: f64) -> Option<f64> {
    let rank = (histogram.count as f64 * share).ceil() as u64;
    let mut seen = 0;
    let bucket = histogram.buckets.iter().find(|(_, count)| {
        seen += count;
        rank > 0 && seen >= rank
    });
    bucket.map(|(bound, _)| *bound).filter(|bound| bound.is_finite())
}

/// The counters in the memory of this node.
pub(super) fn memory_of(visit: &Visit) -> Memory {
    let Some(memory) = visit.ui.app.limiter.store().memory() else { return Memory::default() };
    Memory {
        counters: MemoryStore::len(memory) as u64,
        bytes: memory.bytes() as u64,
        max_bytes: visit.ui.about.memory_bytes,
        evictions: memory.evicted(),
    }
}

/// A node of the fleet.
pub(super) fn node_row(node: NodeStatus) -> NodeRow {
    NodeRow {
        name: if node.host.is_empty() { node.name } else { node.host },
        version: node.version,
        is_this: node.is_this,
        started_at: Some(time(node.started)),
        seen_at: time(node.last_seen),
        state: node.state.map(|state| {
            let requests = state.requests_per_second;
            let refused = state.refused_per_second;
            NodeState {
                unready: match state.readiness {
                    NodeReadiness::Ready => None,
                    NodeReadiness::WaitingForCatalog => Some("waits for its catalog"),
                    NodeReadiness::Draining => Some("shuts down"),
                },
                requests_per_second: requests,
                refused_share: if requests > 0.0 { refused / requests } else { 0.0 },
                store: match (state.store_servers_up, state.store_servers) {
                    (_, 0) => NodeStore::Memory,
                    (up, servers) if up >= servers => NodeStore::Reachable,
                    (0, _) => NodeStore::Unreachable,
                    (up, servers) => NodeStore::Partly { up, servers },
                },
            }
        }),
        revision: node.revision,
        rules_file: node.file_digest,
        envoy_files: node.envoy_digest,
        revision_at: Some(time(node.revision_since)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_bounds_of_buckets() {
        let histogram = HistogramSnapshot {
            buckets: vec![(0.001, 90), (0.01, 9), (f64::INFINITY, 1)],
            count: 100,
            sum: 1.0,
        };
        assert_eq!(quantile(&histogram, 0.5), Some(0.001));
        assert_eq!(quantile(&histogram, 0.95), Some(0.01));
        assert_eq!(quantile(&histogram, 1.0), None, "longer than the last bound");
        let none = HistogramSnapshot { buckets: vec![(0.001, 0)], count: 0, sum: 0.0 };
        assert_eq!(quantile(&none, 0.5), None);
    }
}
