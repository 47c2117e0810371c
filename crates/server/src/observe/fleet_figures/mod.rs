//! The figures of all nodes of a fleet. Each node announces itself once a second, and responds to others with its top
//! lists, counts and last decisions, through the shared store, or through the catalog if that is PostgreSQL.

mod exchange;
mod nodes;
mod query;
mod sealed;
mod sending;
mod tail;
mod top;

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tollgate::store::{Mailbox, StoreErrorKind};
use tollgate::{RuleCounts, Stopwatch, Timestamp};

use self::exchange::ExchangeState;
use self::nodes::HeardNodes;
use self::query::{FigureQuery, FigureResponse, merge_stats};
pub(super) use self::query::{SENT_ENTRIES, merge_top};
use self::sealed::{FigureHead, FigureMessageKind, FigureNumber, FigurePart, FigureParts};
use super::history::RequestFigures;
use crate::app::fleet_secret::FleetSecret;
use crate::app::readiness::NodeReadiness;
use crate::app::state::Shared;
use crate::check::decision_id::NodeName;

/// How long the others have to respond.
const QUERY_TIMEOUT: Duration = Duration::from_millis(700);
/// How long responses are used again.
const CACHED_FOR: Duration = Duration::from_millis(500);
/// To how many queries responses are cached.
const MAX_CACHED: usize = 64;
/// How many queries of other nodes wait for a response; more are lost.
const MAX_WAITING_QUERIES: usize = 64;
/// How many responses wait to be added up.
const MAX_WAITING_RESPONSES: usize = 1_024;

/// Whose figures are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FigureScope {
    /// Those of all nodes, where there is a fleet.
    #[default]
    Fleet,
    /// Those of this node.
    Node,
}

/// A node of the fleet, as it announced itself.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NodeStatus {
    /// The name that its decision ids have: another after every restart.
    pub(crate) name: String,
    /// The name of its machine.
    pub(crate) host: String,
    pub(crate) version: String,
    pub(crate) started: Timestamp,
    /// The revision of the policy in force there.
    pub(crate) revision: u64,
    /// Since when it is in force there.
    pub(crate) revision_since: Timestamp,
    /// The beginning of the SHA-256 of its rules file, if it has one.
    pub(crate) file_digest: Option<String>,
    /// The beginning of the digest of its files for Envoy, if it has any.
    pub(crate) envoy_digest: Option<String>,
    /// How it is now; `None` for a node that is silent, since what it said is of the past.
    pub(crate) state: Option<NodeState>,
    /// When it was last heard, by the clock of this node.
    pub(crate) last_seen: Timestamp,
    pub(crate) is_this: bool,
}

/// How a node is now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct NodeState {
    pub(crate) requests_per_second: f64,
    pub(crate) refused_per_second: f64,
    /// Of how many servers of the store the circuit breaker is closed.
    pub(crate) store_servers_up: u32,
    /// How many servers the store has; 0 for counters in memory.
    pub(crate) store_servers: u32,
    /// Why one of them cannot be used, if one cannot.
    pub(crate) store_failure: Option<StoreErrorKind>,
    pub(crate) readiness: NodeReadiness,
}

impl NodeState {
    /// How the store is, as the node sees it: memory, up, `partly_up` or down.
    pub(crate) const fn store_state(&self) -> &'static str {
        match (self.store_servers_up, self.store_servers) {
            (_, 0) => "memory",
            (up, all) if up >= all => "up",
            (0, _) => "down",
            _ => "partly_up",
        }
    }
}

/// Figures of several nodes together.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Merged<T> {
    pub(crate) figures: T,
    /// How many nodes they are of.
    pub(crate) nodes: usize,
    /// The names of nodes that did not respond, or have not been heard for seconds without a farewell.
    pub(crate) silent: Vec<String>,
    /// Since when other nodes cannot be reached; the figures are of this node only then.
    pub(crate) unreachable_since: Option<Timestamp>,
    /// What nodes decided before this time is in the figures, by the clock of this node.
    pub(crate) as_of: Timestamp,
}

/// Counts since the start of each node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StatsFigures {
    pub(crate) totals: RequestFigures,
    pub(crate) bans_in_force: u64,
    pub(crate) bans_made: u64,
    pub(crate) bans_not_made: u64,
    pub(crate) rules: Vec<(Arc<str>, RuleCounts)>,
}

/// What a node knows of the others.
#[derive(Debug)]
pub(crate) struct FleetFigures {
    node: NodeName,
    host: String,
    started: Timestamp,
    heard: HeardNodes,
    exchange: ExchangeState,
    parts: Mutex<FigureParts>,
    /// Queries of this node that wait for responses.
    pending: Mutex<HashMap<FigureNumber, mpsc::Sender<(NodeName, FigureResponse)>>>,
    cached: Mutex<HashMap<FigureQuery, (Stopwatch, NodeResponses)>>,
    /// Queries of other nodes, until they are responded to.
    waiting: mpsc::Sender<(FigureHead, FigureQuery)>,
    queries: Mutex<Option<mpsc::Receiver<(FigureHead, FigureQuery)>>>,
}

/// What other nodes responded, and which of them did not.
#[derive(Clone, Debug, Default)]
struct NodeResponses {
    responses: Vec<FigureResponse>,
    silent: Vec<NodeName>,
    unreachable_since: Option<Timestamp>,
    /// When they were asked.
    as_of: Timestamp,
}

impl NodeResponses {
    /// Figures with what is known of the nodes that they are of.
    fn merged<T>(&self, figures: T, nodes: usize) -> Merged<T> {
        let silent = names(&self.silent);
        let Self { unreachable_since, as_of, .. } = *self;
        Merged { figures, nodes, silent, unreachable_since, as_of }
    }
}

/// Forgets a query when its caller has the responses, or stopped waiting.
struct PendingFigures<'f> {
    figures: &'f FleetFigures,
    number: FigureNumber,
}

impl Drop for PendingFigures<'_> {
    fn drop(&mut self) {
        self.figures.pending.lock().remove(&self.number);
    }
}

impl FleetFigures {
    pub(crate) fn new(node: NodeName, started: Timestamp) -> Self {
        let (waiting, queries) = mpsc::channel(MAX_WAITING_QUERIES);
        Self {
            node,
            host: host_name(),
            started,
            heard: HeardNodes::default(),
            exchange: ExchangeState::default(),
            parts: Mutex::default(),
            pending: Mutex::default(),
            cached: Mutex::default(),
            waiting,
            queries: Mutex::new(Some(queries)),
        }
    }

    /// Takes a message of another node. Returns false if it is none about figures.
    pub(crate) fn hear(&self, secret: &FleetSecret, text: &str, now: Timestamp) -> bool {
        let Some(part) = FigurePart::read(text) else { return false };
        let head = part.head;
        let is_for_this = head.receiver.is_none_or(|receiver| receiver == self.node);
        if head.sender == self.node && head.kind == FigureMessageKind::Announcement {
            self.exchange.note_echo(now);
        }
        if head.sender == self.node || !is_for_this {
            return true;
        }
        // Before it is opened, so that responses to nothing cost nothing.
        let pending = match head.kind {
            FigureMessageKind::Response => match self.pending.lock().get(&head.number) {
                Some(pending) => Some(pending.clone()),
                None => return true,
            },
            FigureMessageKind::Announcement | FigureMessageKind::Query => None,
        };
        let Some(content) = self.parts.lock().add(secret, &part) else { return true };
        match head.kind {
            FigureMessageKind::Announcement => {
                if let Ok(said) = serde_json::from_slice(&content) {
                    self.heard.hear(head.sender, said, now);
                }
            }
            FigureMessageKind::Query => {
                if let Ok(query) = serde_json::from_slice(&content) {
                    // The node that asked does not wait long.
                    let _ = self.waiting.try_send((head, query));
                }
            }
            FigureMessageKind::Response => {
                if let (Some(pending), Ok(said)) = (pending, serde_json::from_slice(&content)) {
                    let _ = pending.try_send((head.sender, said));
                }
            }
        }
        true
    }

    fn cached(&self, query: &FigureQuery) -> Option<NodeResponses> {
        let cached = self.cached.lock();
        let (since, responses) = cached.get(query)?;
        (since.elapsed() < CACHED_FOR).then(|| responses.clone())
    }

    /// Asks all nodes that are alive, and waits for their responses.
    async fn ask(
        &self,
        mailbox: &Mailbox,
        secret: &FleetSecret,
        query: &FigureQuery,
        (began, now): (Stopwatch, Timestamp),
    ) -> NodeResponses {
        if let Some(unreachable_since) = self.exchange.lost_since(now) {
            let silent = self.heard.known(unreachable_since);
            let unreachable_since = Some(unreachable_since);
            return NodeResponses { responses: Vec::new(), silent, unreachable_since, as_of: now };
        }
        if let Some(cached) = self.cached(query) {
            return cached;
        }
        let mut silent = self.heard.live(now);
        let mut responses = Vec::new();
        if let Some(number) = FigureNumber::random().filter(|_| !silent.is_empty()) {
            let (sender, mut heard) = mpsc::channel(MAX_WAITING_RESPONSES);
            self.pending.lock().insert(number, sender);
            let _pending = PendingFigures { figures: self, number };
            let kind = FigureMessageKind::Query;
            let head = FigureHead { kind, sender: self.node, receiver: None, number };
            let content = serde_json::to_vec(query).unwrap_or_default();
            let texts = head.seal(secret, &content).unwrap_or_default();
            let asking = async {
                if let Err(error) = mailbox.send(Mailbox::ALL_NODES, &texts).await {
                    tracing::debug!("other nodes cannot be asked for their figures: {error}");
                    return;
                }
                while !silent.is_empty()
                    && let Some((node, response)) = heard.recv().await
                {
                    if let Some(place) = silent.iter().position(|it| *it == node) {
                        silent.swap_remove(place);
                        responses.push(response);
                    }
                }
            };
            // Those that did not respond by then are silent.
            let _ = timeout(QUERY_TIMEOUT, asking).await;
        }
        // Those that have not been heard for a while were not waited for.
        silent.extend(self.heard.silent(now));
        let responses = NodeResponses { responses, silent, unreachable_since: None, as_of: now };
        let mut cached = self.cached.lock();
        cached.retain(|_, (since, _)| since.elapsed() < CACHED_FOR);
        if cached.len() >= MAX_CACHED {
            cached.clear();
        }
        cached.insert(query.clone(), (began, responses.clone()));
        responses
    }
}

/// The name of this machine; empty if it is not known.
fn host_name() -> String {
    let read = |file| std::fs::read_to_string(file).ok();
    let name = read("/proc/sys/kernel/hostname").or_else(|| read("/etc/hostname"));
    name.map(|name| name.trim().to_owned()).unwrap_or_default()
}

impl Shared {
    /// The nodes of the fleet, this one first. Those that have not been heard for ten minutes are forgotten, and those
    /// that said farewell at once.
    pub(crate) fn nodes(&self) -> Vec<NodeStatus> {
        let (now, figures) = (self.now(), &self.fleet_figures);
        let mut this = self.announcement(now).status(figures.node, now);
        this.is_this = true;
        let lost_since = self.unreachable_since();
        let mut others = figures.heard.list(lost_since.unwrap_or(now));
        if lost_since.is_some() {
            // What they said is of the past.
            others.iter_mut().for_each(|node| node.state = None);
        }
        [this].into_iter().chain(others).collect()
    }

    /// Since when the others cannot be reached, because what nodes exchange messages through is away.
    pub(crate) fn unreachable_since(&self) -> Option<Timestamp> {
        self.fleet_figures.exchange.lost_since(self.now())
    }

    /// How many nodes share the work, this one included. While the others cannot be reached, those that were alive before:
    /// by the same moment also while that is not known yet, so that no page shows fewer meanwhile.
    pub(crate) fn live_nodes(&self) -> usize {
        let FleetFigures { exchange, heard, .. } = &self.fleet_figures;
        1 + exchange.heard_at().map_or(0, |heard_at| heard.alive_at(heard_at))
    }

    /// The counts, at most a second old.
    pub(crate) async fn stats(&self, scope: FigureScope) -> Merged<StatsFigures> {
        let mut others = self.others(scope, FigureQuery::Stats).await;
        let stats =
            mem::take(&mut others.responses).into_iter().filter_map(|response| match response {
                FigureResponse::Stats(figures) => Some(figures),
                FigureResponse::Top(_) | FigureResponse::Tail(_) => None,
            });
        let stats: Vec<_> = stats.collect();
        let nodes = 1 + stats.len();
        let figures = merge_stats(self.own_stats(), stats);
        others.merged(figures, nodes)
    }

    async fn others(&self, scope: FigureScope, query: FigureQuery) -> NodeResponses {
        // In this order: responses are never used again for longer than their time says.
        let (began, now) = (Stopwatch::start(), self.now());
        match (scope, self.remote_journal.mailbox(), self.fleet.secret()) {
            (FigureScope::Fleet, Some(mailbox), Some(secret)) => {
                self.fleet_figures.ask(mailbox, secret, &query, (began, now)).await
            }
            _ => NodeResponses { as_of: now, ..NodeResponses::default() },
        }
    }

    fn own_stats(&self) -> StatsFigures {
        let bans = self.limiter.ban_counts();
        StatsFigures {
            totals: self.request_figures(),
            bans_in_force: bans.in_force as u64,
            bans_made: bans.made,
            bans_not_made: bans.not_made,
            rules: self.rule_counts().collect(),
        }
    }
}

fn names(nodes: &[NodeName]) -> Vec<String> {
    let mut names: Vec<String> = nodes.iter().map(|node| node.text()).collect();
    names.sort_unstable();
    names
}
