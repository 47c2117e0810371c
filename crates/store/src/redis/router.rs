//! Finds the server of each counter, as masters are replaced by sentinels and slots of a cluster move.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use redis::{Cmd, Value, cmd};
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};

use super::address::{Address, Discovery, RedisUrl};
use super::calls;
use super::node::RedisNode;
use super::old_counters::OldCounters;
use super::script;
use super::slot::SLOTS;
use crate::remote::{Job, Queue, RemoteSettings};

/// How many requests share a call.
const MAX_BATCH: usize = 64;
/// How many calls to a server may be in flight.
const MAX_CONCURRENT_CALLS: usize = 4;
/// How often sentinels and clusters are polled.
const SENTINEL_POLL_INTERVAL: Duration = Duration::from_secs(1);
const CLUSTER_POLL_INTERVAL: Duration = Duration::from_secs(10);
/// How often they are polled while none of them responds.
const SEARCH_INTERVAL: Duration = Duration::from_millis(500);
/// The least time between two polls.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(100);
/// How many redirection targets outside the slot table are kept.
const MAX_GUESTS: usize = 64;
/// The slot has no server.
const NO_SERVER: u16 = u16::MAX;

/// A server with counters, and the queue to it.
#[derive(Clone, Debug)]
pub(super) struct ServerRoute {
    pub(super) node: Arc<RedisNode>,
    pub(super) queue: Queue,
}

/// The server of each slot.
#[derive(Debug, Default)]
pub(super) struct SlotTable {
    routes: Vec<ServerRoute>,
    /// For each slot the index of its server; empty: all are on the first.
    owners: Vec<u16>,
}

impl SlotTable {
    /// The server of a slot.
    pub(super) fn route(&self, slot: u16) -> Option<&ServerRoute> {
        if self.owners.is_empty() {
            return self.routes.first();
        }
        let owner = self.owners.get(usize::from(slot)).filter(|owner| **owner != NO_SERVER)?;
        self.routes.get(usize::from(*owner))
    }

    pub(super) fn routes(&self) -> &[ServerRoute] {
        &self.routes
    }
}

/// Discovers servers.
#[derive(Debug)]
pub(super) struct Router {
    pub(super) url: RedisUrl,
    pub(super) settings: RemoteSettings,
    pub(super) slot_table: ArcSwap<SlotTable>,
    /// The servers or sentinels in the URL.
    seeds: Vec<Arc<RedisNode>>,
    wake: Arc<Notify>,
    /// Becomes true when the servers are known.
    found: watch::Sender<bool>,
    /// Servers that calls were redirected to before they were in the slot table.
    guests: Mutex<Vec<Arc<RedisNode>>>,
    pub(super) script: Box<str>,
    digest: String,
    pub(super) old_counters: OldCounters,
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
        let slot_table = ArcSwap::from_pointee(SlotTable::default());
        let found = watch::Sender::new(url.kind == Discovery::Single);
        let router = Arc::new(Self {
            url,
            settings,
            slot_table,
            seeds,
            wake: Arc::clone(&wake),
            found,
            guests: Mutex::default(),
            script: script.into(),
            digest: script::digest(script),
            old_counters: OldCounters::default(),
        });
        let period = match router.url.kind {
            Discovery::Single => {
                let route = router.seeds.first().map(|node| router.route_to(Arc::clone(node)));
                let routes = route.into_iter().collect();
                router.slot_table.store(Arc::new(SlotTable { routes, owners: Vec::new() }));
                return Ok(router);
            }
            Discovery::Sentinel(_) => SENTINEL_POLL_INTERVAL,
            Discovery::Cluster => CLUSTER_POLL_INTERVAL,
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
        self.url.kind == Discovery::Cluster
    }

    /// Polls soon: a counter was not where it was expected.
    pub(super) fn poll_soon(&self) {
        self.wake.notify_one();
    }

    /// The server at an address, which may be a new one.
    pub(super) fn node_at(&self, address: &Address) -> Option<Arc<RedisNode>> {
        let slot_table = self.slot_table.load();
        let known = slot_table.routes.iter().find(|route| route.node.address == *address);
        known.map(|route| Arc::clone(&route.node)).or_else(|| self.guest(address))
    }

    /// A server outside the slot table, with one connection for all calls.
    fn guest(&self, address: &Address) -> Option<Arc<RedisNode>> {
        let mut guests = self.guests.lock();
        if let Some(guest) = guests.iter().find(|guest| guest.address == *address) {
            return Some(Arc::clone(guest));
        }
        let guest = self.new_node(address)?;
        guests.truncate(MAX_GUESTS - 1);
        guests.push(Arc::clone(&guest));
        Some(guest)
    }

    fn new_node(&self, address: &Address) -> Option<Arc<RedisNode>> {
        let client = self.url.client(address).ok()?;
        Some(Arc::new(RedisNode::new(address.clone(), client, &self.settings)))
    }

    fn route_to(self: &Arc<Self>, node: Arc<RedisNode>) -> ServerRoute {
        let router = Arc::downgrade(self);
        let served = Arc::clone(&node);
        // The first request should not wait for the connection.
        node.begin_to_connect();
        // Recorded traffic has to keep its order.
        let at_once = if self.settings.uses_callers_clock { 1 } else { MAX_CONCURRENT_CALLS };
        let queue = Queue::new(MAX_BATCH, at_once, move |jobs: Vec<Job>| {
            let (router, node) = (router.clone(), Arc::clone(&served));
            async move {
                if let Some(router) = router.upgrade() {
                    calls::settle(router, node, jobs).await;
                }
            }
        });
        ServerRoute { node, queue }
    }

    /// Returns whether the servers are known.
    async fn refresh(self: &Arc<Self>) -> bool {
        let found = match &self.url.kind {
            Discovery::Single => return true,
            Discovery::Sentinel(name) => {
                ask_sentinels(&self.seeds, name).await.map(|master| vec![Some(master)])
            }
            Discovery::Cluster => {
                let known = self.slot_table.load_full();
                ask_cluster(known.routes.iter().map(|route| &route.node).chain(&self.seeds)).await
            }
        };
        let Some(owners) = found else { return false };
        let before = self.slot_table.load();
        let mut routes: Vec<ServerRoute> = Vec::new();
        let mut places: HashMap<&Address, u16> = HashMap::new();
        for address in owners.iter().flatten() {
            if places.contains_key(address) {
                continue;
            }
            let known = before.routes.iter().find(|route| route.node.address == *address).cloned();
            let route = known.or_else(|| self.guest(address).map(|node| self.route_to(node)));
            if let Some(route) = route {
                let place = u16::try_from(routes.len()).unwrap_or(NO_SERVER);
                places.insert(address, place);
                routes.push(route);
            }
        }
        let owners = if self.is_cluster() {
            let place = |owner: &Option<Address>| owner.as_ref().and_then(|at| places.get(at));
            owners.iter().map(|owner| place(owner).copied().unwrap_or(NO_SERVER)).collect()
        } else {
            Vec::new()
        };
        let address = |routes: &[ServerRoute]| -> Vec<Address> {
            routes.iter().map(|route| route.node.address.clone()).collect()
        };
        let (old, new) = (address(&before.routes), address(&routes));
        if old != new && !old.is_empty() {
            tracing::info!(before = ?old, now = ?new, "the Redis servers of the counters changed");
        }
        self.slot_table.store(Arc::new(SlotTable { routes, owners }));
        self.guests.lock().clear();
        self.found.send_replace(true);
        true
    }

    /// Waits until the servers are known, at most for `max_wait`. Returns whether they are.
    pub(super) async fn found(&self, max_wait: Duration) -> bool {
        let mut found = self.found.subscribe();
        timeout(max_wait, found.wait_for(|found| *found)).await.is_ok_and(|found| found.is_ok())
    }
}

/// The servers or sentinels in a URL.
pub(super) fn seeds(
    url: &RedisUrl,
    settings: &RemoteSettings,
) -> Result<Vec<Arc<RedisNode>>, String> {
    let seed = |address: &Address| {
        let client = match url.kind {
            Discovery::Sentinel(_) => url.sentinel_client(address)?,
            Discovery::Single | Discovery::Cluster => url.client(address)?,
        };
        Ok(Arc::new(RedisNode::new(address.clone(), client, settings)))
    };
    url.addresses.iter().map(seed).collect()
}

/// The master of this name, by the majority of the sentinels that respond.
pub(super) async fn ask_sentinels(sentinels: &[Arc<RedisNode>], name: &str) -> Option<Address> {
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
    nodes: impl Iterator<Item = &Arc<RedisNode>>,
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
        sleep(MIN_POLL_INTERVAL).await;
        // Polls after the interval if it is not woken.
        let period = if is_found { period } else { period.min(SEARCH_INTERVAL) };
        let _ = timeout(period, wake.notified()).await;
    }
}

async fn ask(node: &RedisNode, question: &Cmd) -> Option<Value> {
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
