//! The figures of all nodes of a fleet. Each node announces itself once a second, and responds to others with its top
//! lists and counts, through the shared store, or through the catalog if that is PostgreSQL.

mod nodes;
mod query;
mod sealed;
mod sending;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};
use tollgate::store::{BreakerState, Mailbox};
use tollgate::{RuleCounts, Stopwatch, Timestamp};

use self::nodes::{Announcement, HeardNodes};
use self::query::{FigureQuery, FigureResponse, merge_stats};
pub(super) use self::query::{SENT_ENTRIES, merge_top};
use self::sealed::{FigureHead, FigureMessageKind, FigureNumber, FigurePart, FigureParts};
use super::history::RequestFigures;
use super::recent_traffic::top::{TopAsk, TopFigures};
use crate::app::fleet_secret::FleetSecret;
use crate::app::state::Shared;
use crate::check::decision_id::NodeName;

/// How often a node announces itself.
const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(1);
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
/// The time from one response to the next, at least: a flood of queries takes little of this node's time.
const MIN_RESPONSE_INTERVAL: Duration = Duration::from_millis(2);

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
    pub(crate) requests_per_second: f64,
    pub(crate) refused_per_second: f64,
    /// Of how many servers of the store the circuit breaker is closed.
    pub(crate) store_servers_up: u32,
    /// How many servers the store has; 0 for counters in memory.
    pub(crate) store_servers: u32,
    pub(crate) is_draining: bool,
    /// When it was last heard, by the clock of this node.
    pub(crate) last_seen: Timestamp,
    pub(crate) is_this: bool,
}

impl NodeStatus {
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
    /// The names of nodes that were heard within the last seconds, but did not respond.
    pub(crate) silent: Vec<String>,
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
        now: Timestamp,
    ) -> NodeResponses {
        if let Some(cached) = self.cached(query) {
            return cached;
        }
        let mut silent = self.heard.live(now);
        let mut responses = Vec::new();
        let began = Stopwatch::start();
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
        let responses = NodeResponses { responses, silent };
        let mut cached = self.cached.lock();
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
    /// The nodes of the fleet, this one first. Those that have not been heard for ten minutes are forgotten.
    pub(crate) fn nodes(&self) -> Vec<NodeStatus> {
        let now = self.now();
        let this = self.announcement(now).status(self.fleet_figures.node, now, true);
        [this].into_iter().chain(self.fleet_figures.heard.list(now)).collect()
    }

    /// The top lists, at most a second old.
    pub(crate) async fn top(&self, scope: FigureScope, ask: &TopAsk) -> Merged<TopFigures> {
        let sent = TopAsk { limit: SENT_ENTRIES.max(ask.limit), ..ask.clone() };
        let asking = self.others(scope, FigureQuery::Top(sent.clone()));
        let (own, others) = tokio::join!(self.own_top(sent), asking);
        let tops = others.responses.into_iter().filter_map(|response| match response {
            FigureResponse::Top(figures) => Some(figures),
            FigureResponse::Stats(_) => None,
        });
        let tops: Vec<TopFigures> = tops.collect();
        let nodes = 1 + tops.len();
        Merged { figures: merge_top(&own, &tops, ask.limit), nodes, silent: names(&others.silent) }
    }

    /// The counts, at most a second old.
    pub(crate) async fn stats(&self, scope: FigureScope) -> Merged<StatsFigures> {
        let others = self.others(scope, FigureQuery::Stats).await;
        let stats = others.responses.into_iter().filter_map(|response| match response {
            FigureResponse::Stats(figures) => Some(figures),
            FigureResponse::Top(_) => None,
        });
        let stats: Vec<_> = stats.collect();
        let nodes = 1 + stats.len();
        let figures = merge_stats(self.own_stats(), stats);
        Merged { figures, nodes, silent: names(&others.silent) }
    }

    async fn others(&self, scope: FigureScope, query: FigureQuery) -> NodeResponses {
        match (scope, self.remote_journal.mailbox(), self.fleet.secret()) {
            (FigureScope::Fleet, Some(mailbox), Some(secret)) => {
                self.fleet_figures.ask(mailbox, secret, &query, self.now()).await
            }
            _ => NodeResponses::default(),
        }
    }

    async fn own_top(&self, ask: TopAsk) -> TopFigures {
        let (traffic, now) = (Arc::clone(&self.recent_traffic), self.now());
        // On another thread than those of checks. It fails only if the runtime ends.
        spawn_blocking(move || traffic.top(&ask, now)).await.unwrap_or_default()
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

    fn announcement(&self, now: Timestamp) -> Announcement {
        let in_force = self.policy_source.in_force();
        let servers = self.limiter.store().status();
        let up = servers.iter().filter(|server| server.breaker == BreakerState::Closed).count();
        let last = self.history.last().map(|point| point.requests).unwrap_or_default();
        Announcement {
            host: self.fleet_figures.host.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started: self.fleet_figures.started.as_micros(),
            revision: in_force.revision.number,
            revision_since: in_force.since.as_micros(),
            requests_per_second: last.all() as f64,
            refused_per_second: (last.refused + last.denied + last.error) as f64,
            store_servers_up: u32::try_from(up).unwrap_or(u32::MAX),
            store_servers: u32::try_from(servers.len()).unwrap_or(u32::MAX),
            is_draining: self.is_draining.load(Relaxed),
            at: now.as_micros(),
        }
    }

    /// Announces this node to the others, and responds to their queries, until it is dropped.
    pub(crate) async fn exchange_figures(&self) {
        let Some(mailbox) = self.remote_journal.mailbox() else { return };
        let Some(mut queries) = self.fleet_figures.queries.lock().take() else { return };
        let announcing = async {
            loop {
                self.learn_secret().await;
                if let Some(secret) = self.fleet.secret() {
                    self.announce(mailbox, secret).await;
                }
                sleep(ANNOUNCE_INTERVAL).await;
            }
        };
        let responding = async {
            while let Some((head, query)) = queries.recv().await {
                if let Some(secret) = self.fleet.secret() {
                    self.respond_with_figures(mailbox, secret, head, query).await;
                }
                sleep(MIN_RESPONSE_INTERVAL).await;
            }
        };
        tokio::join!(announcing, responding);
    }
}

fn names(nodes: &[NodeName]) -> Vec<String> {
    let mut names: Vec<String> = nodes.iter().map(|node| node.text()).collect();
    names.sort_unstable();
    names
}
