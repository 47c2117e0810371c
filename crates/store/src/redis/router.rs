//! Finds the server of each counter, as masters are replaced by sentinels and slots of a cluster move.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use redis::{Cmd, Value, cmd};
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};

use super::address::{Address, Kind, RedisUrl};
use super::calls;
use super::node::Node;
use super::script;
use super::slot::SLOTS;
use crate::remote::{Job, Queue, RemoteSettings};

/// How many requests share a call.
const MOST_TOGETHER: usize = 64;
/// How many calls to a server may be in flight.
const CALLS_AT_ONCE: usize = 4;
/// How often sentinels and clusters are polled.
const SENTINEL_PERIOD: Duration = Duration::from_secs(1);
const CLUSTER_PERIOD: Duration = Duration::from_secs(10);
/// How often they are polled while none of them responds.
const SEARCH_PERIOD: Duration = Duration::from_millis(500);
/// The least time between two polls.
const PAUSE: Duration = Duration::from_millis(100);
/// How many redirection targets outside the slot table are kept.
const MOST_GUESTS: usize = 64;
/// The slot has no server.
const NOBODY: u16 = u16::MAX;

/// A server with counters, and the queue to it.
#[derive(Clone, Debug)]
pub(super) struct Way {
    pub(super) node: Arc<Node>,
    pub(super) queue: Queue,
}

/// The server of each slot.
#[derive(Debug, Default)]
pub(super) struct Routes {
    ways: Vec<Way>,
    /// For each slot the index of its server; empty: all are on the first.
    owners: Vec<u16>,
}

impl Routes {
    /// The server of a slot.
    pub(super) fn way(&self, slot: u16) -> Option<&Way> {
        if self.owners.is_empty() {
            return self.ways.first();
        }
        let owner = self.owners.get(usize::from(slot)).filter(|owner| **owner != NOBODY)?;
        self.ways.get(usize::from(*owner))
    }

    pub(super) fn ways(&self) -> &[Way] {
        &self.ways
    }
}

/// Discovers servers.
#[derive(Debug)]
pub(super) struct Router {
    pub(super) url: RedisUrl,
    pub(super) settings: RemoteSettings,
    pub(super) routes: ArcSwap<Routes>,
    /// The servers or sentinels in the URL.
    seeds: Vec<Arc<Node>>,
    wake: Arc<Notify>,
    /// Becomes true when the servers are known.
    found: watch::Sender<bool>,
    /// Servers that calls were redirected to before they were in the slot table.
    guests: Mutex<Vec<Arc<Node>>>,
    pub(super) script: Box<str>,
    digest: String,
}

impl Router {
    /// Starts to discover servers, and continues until the router is dropped.
    pub(super) fn start(
        url: RedisUrl,
        settings: RemoteSettings,
        script: &str,
    ) -> Result<Arc<Self>, String> {
        let seeds = seeds(&url, &settings)?;
        let wake = Arc::new(Notify::new());
        let routes = ArcSwap::from_pointee(Routes::default());
        let found = watch::Sender::new(url.kind == Kind::Single);
        let router = Arc::new(Self {
            url,
            settings,
            routes,
            seeds,
            wake: Arc::clone(&wake),
            found,
            guests: Mutex::default(),
            script: script.into(),
            digest: script::digest(script),
        });
        let period = match router.url.kind {
            Kind::Single => {
                let way = router.seeds.first().map(|node| router.way_to(Arc::clone(node)));
                let ways = way.into_iter().collect();
                router.routes.store(Arc::new(Routes { ways, owners: Vec::new() }));
                return Ok(router);
            }
            Kind::Sentinel(_) => SENTINEL_PERIOD,
            Kind::Cluster => CLUSTER_PERIOD,
        };
        let weak = Arc::downgrade(&router);
        tokio::spawn(follow(weak, wake, period));
        Ok(router)
    }

    /// The digest by which servers cache the script.
    pub(super) fn digest(&self) -> &str {
        &self.digest
    }

    /// Whether several servers share the counters, so that not all can be charged in one call.
    pub(super) fn is_cluster(&self) -> bool {
        self.url.kind == Kind::Cluster
    }

    /// Polls soon: a counter was not where it was expected.
    pub(super) fn look_again(&self) {
        self.wake.notify_one();
    }

    /// The server at an address, which may be a new one.
    pub(super) fn node_at(&self, address: &Address) -> Option<Arc<Node>> {
        let routes = self.routes.load();
        let known = routes.ways.iter().find(|way| way.node.address == *address);
        known.map(|way| Arc::clone(&way.node)).or_else(|| self.guest(address))
    }

    /// A server outside the slot table, with one connection for all calls.
    fn guest(&self, address: &Address) -> Option<Arc<Node>> {
        let mut guests = self.guests.lock();
        if let Some(guest) = guests.iter().find(|guest| guest.address == *address) {
            return Some(Arc::clone(guest));
        }
        let guest = self.new_node(address)?;
        guests.truncate(MOST_GUESTS - 1);
        guests.push(Arc::clone(&guest));
        Some(guest)
    }

    fn new_node(&self, address: &Address) -> Option<Arc<Node>> {
        let client = self.url.client(address).ok()?;
        Some(Arc::new(Node::new(address.clone(), client, &self.settings)))
    }

    fn way_to(self: &Arc<Self>, node: Arc<Node>) -> Way {
        let router = Arc::downgrade(self);
        let served = Arc::clone(&node);
        // The first request should not wait for the connection.
        node.begin_to_connect();
        // Recorded traffic has to keep its order.
        let at_once = if self.settings.uses_callers_clock { 1 } else { CALLS_AT_ONCE };
        let queue = Queue::new(MOST_TOGETHER, at_once, move |jobs: Vec<Job>| {
            let (router, node) = (router.clone(), Arc::clone(&served));
            async move {
                if let Some(router) = router.upgrade() {
                    calls::settle(router, node, jobs).await;
                }
            }
        });
        Way { node, queue }
    }

    /// Returns whether the servers are known.
    async fn refresh(self: &Arc<Self>) -> bool {
        let found = match &self.url.kind {
            Kind::Single => return true,
            Kind::Sentinel(name) => {
                ask_sentinels(&self.seeds, name).await.map(|master| vec![Some(master)])
            }
            Kind::Cluster => {
                let known = self.routes.load_full();
                ask_cluster(known.ways.iter().map(|way| &way.node).chain(&self.seeds)).await
            }
        };
        let Some(owners) = found else { return false };
        let before = self.routes.load();
        let mut ways: Vec<Way> = Vec::new();
        let mut places: HashMap<&Address, u16> = HashMap::new();
        for address in owners.iter().flatten() {
            if places.contains_key(address) {
                continue;
            }
            let known = before.ways.iter().find(|way| way.node.address == *address).cloned();
            let way = known.or_else(|| self.guest(address).map(|node| self.way_to(node)));
            if let Some(way) = way {
                let place = u16::try_from(ways.len()).unwrap_or(NOBODY);
                places.insert(address, place);
                ways.push(way);
            }
        }
        let owners = if self.is_cluster() {
            let place = |owner: &Option<Address>| owner.as_ref().and_then(|at| places.get(at));
            owners.iter().map(|owner| place(owner).copied().unwrap_or(NOBODY)).collect()
        } else {
            Vec::new()
        };
        let address = |routes: &[Way]| -> Vec<Address> {
            routes.iter().map(|way| way.node.address.clone()).collect()
        };
        let (old, new) = (address(&before.ways), address(&ways));
        if old != new && !old.is_empty() {
            tracing::info!(before = ?old, now = ?new, "the Redis servers of the counters changed");
        }
        self.routes.store(Arc::new(Routes { ways, owners }));
        self.guests.lock().clear();
        self.found.send_replace(true);
        true
    }

    /// Waits until the servers are known, at most for `patience`. Returns whether they are.
    pub(super) async fn found(&self, patience: Duration) -> bool {
        let mut found = self.found.subscribe();
        timeout(patience, found.wait_for(|found| *found)).await.is_ok_and(|found| found.is_ok())
    }
}

/// The servers or sentinels in a URL.
pub(super) fn seeds(url: &RedisUrl, settings: &RemoteSettings) -> Result<Vec<Arc<Node>>, String> {
    let seed = |address: &Address| {
        let client = match url.kind {
            Kind::Sentinel(_) => url.sentinel_client(address)?,
            Kind::Single | Kind::Cluster => url.client(address)?,
        };
        Ok(Arc::new(Node::new(address.clone(), client, settings)))
    };
    url.addresses.iter().map(seed).collect()
}

/// The master of this name, by the majority of the sentinels that respond.
pub(super) async fn ask_sentinels(sentinels: &[Arc<Node>], name: &str) -> Option<Address> {
    let mut question = cmd("SENTINEL");
    question.arg("GET-MASTER-ADDR-BY-NAME").arg(name);
    let mut votes: HashMap<Address, usize> = HashMap::new();
    for sentinel in sentinels {
        if let Some(Value::Array(parts)) = ask(sentinel, &question).await
            && let [host, port] = &parts[..]
            && let (Some(host), Some(port)) = (text(host), text(port))
            && let Ok(port) = port.parse()
        {
            *votes.entry(Address { host, port }).or_default() += 1;
        }
    }
    votes.into_iter().max_by_key(|(_, count)| *count).map(|(winner, _)| winner)
}

/// The owner of each slot, by the first server that responds.
pub(super) async fn ask_cluster(
    nodes: impl Iterator<Item = &Arc<Node>>,
) -> Option<Vec<Option<Address>>> {
    let mut question = cmd("CLUSTER");
    question.arg("SLOTS");
    for node in nodes {
        let Some(Value::Array(ranges)) = ask(node, &question).await else { continue };
        let mut owners = vec![None; usize::from(SLOTS)];
        for range in &ranges {
            if let Some((first, last, owner)) = read_range(range, &node.address) {
                owners.iter_mut().take(last + 1).skip(first).for_each(|place| {
                    *place = Some(owner.clone());
                });
            }
        }
        if owners.iter().any(Option::is_some) {
            return Some(owners);
        }
    }
    None
}

/// Polls regularly and on demand, until the router is dropped.
async fn follow(router: Weak<Router>, wake: Arc<Notify>, period: Duration) {
    loop {
        let is_found = match router.upgrade() {
            Some(router) => router.refresh().await,
            None => return,
        };
        // Many callers that wake it cause one poll.
        sleep(PAUSE).await;
        // Polls after the interval if it is not woken.
        let period = if is_found { period } else { period.min(SEARCH_PERIOD) };
        let _ = timeout(period, wake.notified()).await;
    }
}

async fn ask(node: &Node, question: &Cmd) -> Option<Value> {
    node.call(question, false).await.ok()
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes.clone()).ok(),
        Value::SimpleString(text) => Some(text.clone()),
        _ => None,
    }
}

/// `[first, last, [host, port, ...], ...]`. A server that does not know its own name leaves it out.
fn read_range(range: &Value, asked: &Address) -> Option<(usize, usize, Address)> {
    let Value::Array(parts) = range else { return None };
    let [Value::Int(first), Value::Int(last), Value::Array(owner), ..] = &parts[..] else {
        return None;
    };
    let [host, Value::Int(port), ..] = &owner[..] else { return None };
    let host = text(host).filter(|host| !host.is_empty()).unwrap_or_else(|| asked.host.clone());
    let port = u16::try_from(*port).ok()?;
    let (first, last) = (usize::try_from(*first).ok()?, usize::try_from(*last).ok()?);
    Some((first, last, Address { host, port }))
}

impl Drop for Router {
    fn drop(&mut self) {
        // Ends the task that polls.
        self.wake.notify_one();
    }
}
