//! The figures of a view: what four calls of the admin API respond, put together. Texts from the server are made
//! printable here, so that nothing else has to.

use std::collections::{BTreeMap, VecDeque};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tollgate::{Clock as _, SystemClock, Timestamp};

use super::events::PollOrder;
use crate::failure::Failure;
use crate::remote::client::Remote;
use crate::terminal::printable;

/// A node that has not announced itself for so many seconds does not count.
const MAX_NODE_AGE: f64 = 5.0;
/// How many points a line of bars has at most.
const MAX_POINTS: usize = 120;
/// How far back lines of bars go: the resolution of a minute is a second.
const HISTORY: &str = "/api/v1/history?range=2m";

/// The lists, in the order in which they are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListKind {
    Refused,
    NearLimit,
    Busiest,
    WouldRefuse,
}

impl ListKind {
    pub(super) const ALL: [Self; 4] =
        [Self::Refused, Self::NearLimit, Self::Busiest, Self::WouldRefuse];

    /// The name of the list in responses.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::NearLimit => "near_limit",
            Self::Busiest => "busiest",
            Self::WouldRefuse => "would_refuse",
        }
    }

    /// The heading of the list.
    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Refused => "most refused",
            Self::NearLimit => "near limit",
            Self::Busiest => "busiest",
            Self::WouldRefuse => "would be refused by shadow rules",
        }
    }
}

/// The responses of the server, as they came.
pub(super) struct PolledResponses {
    pub(super) stats: Value,
    pub(super) top: Value,
    /// `None` for a tenant-admin, which does not see nodes.
    pub(super) nodes: Option<Value>,
    history: Value,
}

/// Everything that is shown.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct LiveFigures {
    pub(super) at: Timestamp,
    pub(super) uptime_seconds: f64,
    pub(super) revision: u64,
    /// Bans in force; `None` for a tenant-admin.
    pub(super) bans: Option<u64>,
    /// Nodes that are alive, and how the store is, as the worst of them sees it; `None` for a tenant-admin.
    pub(super) fleet: Option<FleetState>,
    /// How many nodes did not respond.
    pub(super) silent: usize,
    /// Since when the others cannot be reached; the figures are of the node that is asked.
    pub(super) unreachable_since: Option<String>,
    /// Of all nodes; for a tenant-admin decisions of the rules of its tenant.
    pub(super) requests: RateSeries,
    pub(super) refused: RateSeries,
    /// How long checks took on the node that was asked, if there were any.
    pub(super) latency: Option<CheckLatency>,
    pub(super) by: String,
    pub(super) window_seconds: u64,
    /// In the order of [`ListKind::ALL`].
    pub(super) lists: [ShownList; 4],
}

/// The nodes of a fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FleetState {
    pub(super) nodes: usize,
    /// memory, up, `partly_up` or down.
    pub(super) store: String,
    pub(super) draining: usize,
}

/// A rate per second, and what it was before, the oldest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct RateSeries {
    pub(super) now: f64,
    pub(super) points: Vec<u64>,
}

/// How long checks took, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct CheckLatency {
    pub(super) p50: f64,
    pub(super) p95: f64,
    pub(super) p99: f64,
}

/// A ranking.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ShownList {
    pub(super) rows: Vec<ShownRow>,
    /// How much any count may be too low, at most.
    pub(super) may_lack: u64,
}

/// An entry of a ranking.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ShownRow {
    pub(super) count: u64,
    pub(super) name: String,
    pub(super) tenant: String,
    pub(super) rule: String,
    /// How much of a limit was used, in percent.
    pub(super) used: Option<u64>,
}

#[derive(Deserialize)]
struct StatsPart {
    uptime_seconds: f64,
    revision: u64,
    silent_nodes: Vec<String>,
    others_unreachable_since: Option<String>,
    bans: Option<BTreeMap<String, u64>>,
}

#[derive(Deserialize)]
struct NodePart {
    // Of a node that is silent, these three are null.
    requests_per_second: Option<f64>,
    refused_per_second: Option<f64>,
    store: Option<StorePart>,
    draining: bool,
    age_seconds: f64,
}

#[derive(Deserialize)]
struct StorePart {
    state: String,
}

#[derive(Deserialize)]
struct HistoryPart {
    node: Option<NodeCourse>,
    rules: Vec<RuleCourse>,
}

#[derive(Deserialize)]
struct NodeCourse {
    step_seconds: u64,
    allowed: Vec<u64>,
    refused: Vec<u64>,
    denied: Vec<u64>,
    throttled: Vec<u64>,
    unlimited: Vec<u64>,
    error: Vec<u64>,
    check_seconds: QuantileCourse,
}

#[derive(Deserialize)]
struct QuantileCourse {
    p50: Vec<Option<f64>>,
    p95: Vec<Option<f64>>,
    p99: Vec<Option<f64>>,
}

#[derive(Deserialize)]
struct RuleCourse {
    step_seconds: u64,
    allowed: Vec<u64>,
    refused: Vec<u64>,
    would_refuse: Vec<u64>,
}

#[derive(Deserialize)]
struct TopPart {
    by: String,
    window_seconds: u64,
    #[serde(flatten)]
    lists: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
struct ListPart {
    may_lack: u64,
    top: Vec<EntryPart>,
}

#[derive(Deserialize)]
struct EntryPart {
    name: String,
    tenant: Option<String>,
    rule_id: Option<String>,
    used_percent: Option<u64>,
    count: u64,
}

/// Asks a server for its figures, and remembers those of a fleet, which no node has over time.
pub(super) struct FigureReader {
    remote: Remote,
    limit: u64,
    /// Requests and refusals per second of all nodes, whenever they were asked.
    seen: VecDeque<(f64, f64)>,
}

impl FigureReader {
    pub(super) fn new(remote: Remote, limit: u64) -> Self {
        Self { remote, limit, seen: VecDeque::new() }
    }

    /// Makes all calls.
    pub(super) fn poll(&self, order: &PollOrder) -> Result<PolledResponses, Failure> {
        let PollOrder { by, window, .. } = order;
        let get = |path: &str| self.remote.get::<Value>(path).map(|response| response.value);
        let stats = get("/api/v1/stats")?;
        let path = format!("/api/v1/top?by={}&window={window}&limit={}", by.name(), self.limit);
        let top = get(&path)?;
        // A tenant-admin sees no totals, and may not ask for nodes.
        let is_operator = stats.get("totals").is_some_and(|totals| !totals.is_null());
        let nodes = if is_operator { Some(get("/api/v1/nodes")?) } else { None };
        Ok(PolledResponses { stats, top, nodes, history: get(HISTORY)? })
    }

    /// Makes figures of responses.
    pub(super) fn figures(&mut self, polled: &PolledResponses) -> Result<LiveFigures, Failure> {
        let stats: StatsPart = part(&polled.stats)?;
        let top: TopPart = part(&polled.top)?;
        let history: HistoryPart = part(&polled.history)?;
        let nodes = polled.nodes.as_ref().map(|it| part::<Vec<NodePart>>(&it["nodes"]));
        let nodes = nodes.transpose()?.map(|mut nodes| {
            nodes.retain(|node| node.store.is_some() && node.age_seconds <= MAX_NODE_AGE);
            nodes
        });
        let (requests, refused) = match (&nodes, &history.node) {
            (Some(nodes), Some(course)) => self.rates(nodes, course),
            _ => rates_of_rules(&history.rules),
        };
        let mut lists = [const { ShownList { rows: Vec::new(), may_lack: 0 } }; 4];
        for (list, kind) in lists.iter_mut().zip(ListKind::ALL) {
            if let Some(value) = top.lists.get(kind.name()) {
                *list = part::<ListPart>(value)?.into();
            }
        }
        Ok(LiveFigures {
            at: SystemClock.now(),
            uptime_seconds: stats.uptime_seconds,
            revision: stats.revision,
            bans: stats.bans.and_then(|bans| bans.get("in_force").copied()),
            fleet: nodes.as_deref().map(FleetState::new),
            silent: stats.silent_nodes.len(),
            unreachable_since: stats.others_unreachable_since.map(|it| printable(&it)),
            requests,
            refused,
            latency: history.node.and_then(|node| node.check_seconds.last()),
            by: printable(&top.by),
            window_seconds: top.window_seconds,
            lists,
        })
    }

    /// Of one node its history; of several what was seen of them.
    fn rates(&mut self, nodes: &[NodePart], course: &NodeCourse) -> (RateSeries, RateSeries) {
        let sum = |rate: fn(&NodePart) -> Option<f64>| nodes.iter().filter_map(rate).sum::<f64>();
        let now = (sum(|it| it.requests_per_second), sum(|it| it.refused_per_second));
        if nodes.len() > 1 {
            if self.seen.len() >= MAX_POINTS {
                self.seen.pop_front();
            }
            self.seen.push_back(now);
            let points = |rate: fn(&(f64, f64)) -> f64| {
                self.seen.iter().map(|it| rate(it).round() as u64).collect()
            };
            return (
                RateSeries { now: now.0, points: points(|it| it.0) },
                RateSeries { now: now.1, points: points(|it| it.1) },
            );
        }
        self.seen.clear();
        let NodeCourse { allowed, refused, denied, throttled, unlimited, error, .. } = course;
        let all = added([allowed, refused, denied, throttled, unlimited, error]);
        let points = |counts: &[u64]| per_second(counts, course.step_seconds);
        (
            RateSeries { now: now.0, points: points(&all) },
            RateSeries { now: now.1, points: points(&added([refused, denied, error])) },
        )
    }
}

impl FleetState {
    fn new(nodes: &[NodePart]) -> Self {
        // From the worst to the best.
        let states = ["down", "partly_up", "up", "memory"];
        let place = |it: &&StorePart| states.iter().position(|state| *state == it.state);
        let worst = nodes.iter().filter_map(|node| node.store.as_ref()).min_by_key(place);
        Self {
            nodes: nodes.len(),
            store: worst.map(|store| printable(&store.state)).unwrap_or_default(),
            draining: nodes.iter().filter(|node| node.draining).count(),
        }
    }
}

impl QuantileCourse {
    /// Those of the last step with checks.
    fn last(&self) -> Option<CheckLatency> {
        let last = self.p99.iter().rposition(Option::is_some)?;
        let of = |list: &[Option<f64>]| list.get(last).copied().flatten();
        Some(CheckLatency { p50: of(&self.p50)?, p95: of(&self.p95)?, p99: of(&self.p99)? })
    }
}

impl From<ListPart> for ShownList {
    fn from(list: ListPart) -> Self {
        let text = |text: Option<String>| printable(&text.unwrap_or_default());
        let row = |entry: EntryPart| ShownRow {
            count: entry.count,
            name: printable(&entry.name),
            tenant: text(entry.tenant),
            rule: text(entry.rule_id),
            used: entry.used_percent,
        };
        Self { may_lack: list.may_lack, rows: list.top.into_iter().map(row).collect() }
    }
}

/// Decisions of some rules together. Their last steps are the same.
fn rates_of_rules(rules: &[RuleCourse]) -> (RateSeries, RateSeries) {
    let step = rules.first().map_or(1, |rule| rule.step_seconds);
    let lists = |of: fn(&RuleCourse) -> [&Vec<u64>; 3]| added(rules.iter().flat_map(of));
    let all = lists(|it| [&it.allowed, &it.refused, &it.would_refuse]);
    let refused = added(rules.iter().map(|it| &it.refused));
    let series = |counts: &[u64]| RateSeries {
        now: counts.last().map_or(0.0, |last| *last as f64 / step.max(1) as f64),
        points: per_second(counts, step),
    };
    (series(&all), series(&refused))
}

/// Adds lists of counts up that end at the same time.
fn added<'a>(lists: impl IntoIterator<Item = &'a Vec<u64>>) -> Vec<u64> {
    let mut sums = VecDeque::new();
    for list in lists {
        while sums.len() < list.len() {
            sums.push_front(0_u64);
        }
        for (sum, count) in sums.iter_mut().rev().zip(list.iter().rev()) {
            *sum = sum.saturating_add(*count);
        }
    }
    sums.into()
}

/// The last counts as rates, rounded up, so that a little is not nothing.
fn per_second(counts: &[u64], step_seconds: u64) -> Vec<u64> {
    let first = counts.len().saturating_sub(MAX_POINTS);
    counts[first..].iter().map(|count| count.div_ceil(step_seconds.max(1))).collect()
}

fn part<T: DeserializeOwned>(value: &Value) -> Result<T, Failure> {
    T::deserialize(value)
        .map_err(|error| Failure::usage(format!("the server's figures cannot be read: {error}")))
}

#[cfg(test)]
pub(super) mod tests;
