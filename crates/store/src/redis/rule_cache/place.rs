//! Finds the server that has the rules, and calls it within a timeout.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use redis::{Client, Cmd, Value};
use tokio::time::timeout;

use crate::redis::address::{Address, Discovery, RedisUrl};
use crate::redis::node::{CallFailure, RedisNode};
use crate::redis::router::{ask_cluster, ask_sentinels, seeds};
use crate::redis::slot::slot_of_key;
use crate::remote::RemoteSettings;
use crate::{StoreError, StoreErrorKind};

/// The timeout of a call, with everything needed to make it.
const CALL_TIMEOUT: Duration = Duration::from_secs(2);
/// The timeout of a sentinel or cluster node that is asked for the server.
const DISCOVERY_TIMEOUT: Duration = Duration::from_millis(300);
/// How often a call is redirected before it fails.
const MAX_REDIRECTS: usize = 4;

/// The server that has the rules.
#[derive(Debug)]
pub(in crate::redis) struct RuleServer {
    url: RedisUrl,
    slot: u16,
    settings: RemoteSettings,
    /// The servers or sentinels in the URL.
    seeds: Vec<Arc<RedisNode>>,
    /// Other nodes of the cluster, for when those of the URL are unreachable.
    peers: Mutex<Vec<Arc<RedisNode>>>,
    /// The server that has the rules, as far as is known.
    holder: Mutex<Option<Arc<RedisNode>>>,
}

impl RuleServer {
    pub(in crate::redis) fn new(
        url: RedisUrl,
        key: &str,
        settings: &RemoteSettings,
    ) -> Result<Self, String> {
        let settings = RemoteSettings { deadline: DISCOVERY_TIMEOUT, ..settings.clone() };
        Ok(Self {
            seeds: seeds(&url, &settings)?,
            slot: slot_of_key(key),
            url,
            settings,
            peers: Mutex::default(),
            holder: Mutex::default(),
        })
    }

    /// Whether the server can be replaced by an election that it does not notice.
    pub(in crate::redis) fn is_elected(&self) -> bool {
        matches!(self.url.kind, Discovery::Sentinel(_))
    }

    /// Asks sentinels or the cluster for the server.
    pub(in crate::redis) async fn find(&self) -> Result<Arc<RedisNode>, StoreError> {
        let address = match &self.url.kind {
            Discovery::Single => self.url.addresses.first().cloned(),
            Discovery::Sentinel(name) => ask_sentinels(&self.seeds, name).await,
            Discovery::Cluster => self.find_in_cluster().await,
        };
        let not_found = "no sentinel or cluster node named the server";
        self.hold_at(
            address.ok_or_else(|| StoreError::new(StoreErrorKind::Unavailable, not_found))?,
        )
    }

    /// A client for a separate connection to a server, to subscribe.
    pub(in crate::redis) fn listening_client(
        &self,
        address: &Address,
    ) -> Result<Client, StoreError> {
        self.url.listening_client(address).map_err(no_client)
    }

    /// Calls the server that has the rules.
    pub(in crate::redis) async fn call(&self, command: &Cmd) -> Result<Value, CallFailure> {
        let answer = timeout(CALL_TIMEOUT, self.deliver(command)).await;
        let answer =
            answer.unwrap_or_else(|_| Err(CallFailure::Silent(StoreErrorKind::Timeout.into())));
        if answer.is_err() {
            // The next call searches again, on a new connection: this one may be half open.
            self.holder.lock().take();
        }
        answer
    }

    async fn deliver(&self, command: &Cmd) -> Result<Value, CallFailure> {
        let known = self.holder.lock().clone();
        let mut node = match known {
            Some(node) => node,
            None => self.find().await.map_err(CallFailure::Silent)?,
        };
        let mut asks = false;
        for _ in 0..MAX_REDIRECTS {
            let error = match node.call(command, asks).await {
                Err(CallFailure::Said(error)) => error,
                answer => return answer,
            };
            let place = error.redirect_node().map(|(place, _slot)| place);
            let place = place.and_then(|place| Address::named_by(&node.address, place));
            let next = match (error.code(), place) {
                (Some("MOVED"), Some(owner)) => self.hold_at(owner),
                (Some("ASK"), Some(heir)) => self.node(heir, CALL_TIMEOUT),
                _ => return Err(CallFailure::Said(error)),
            };
            asks = error.code() == Some("ASK");
            node = next.map_err(CallFailure::Silent)?;
        }
        let redirects = "too many redirects";
        Err(CallFailure::Silent(StoreError::new(StoreErrorKind::Unavailable, redirects)))
    }

    async fn find_in_cluster(&self) -> Option<Address> {
        let known = self.peers.lock().clone();
        let owners = ask_cluster(known.iter().chain(&self.seeds)).await?;
        let mut addresses: Vec<&Address> = owners.iter().flatten().collect();
        addresses.sort_unstable();
        addresses.dedup();
        let peers = addresses.into_iter().filter_map(|address| {
            let peer = known.iter().find(|peer| peer.address == *address).cloned();
            peer.or_else(|| self.node(address.clone(), DISCOVERY_TIMEOUT).ok())
        });
        *self.peers.lock() = peers.collect();
        owners.into_iter().nth(usize::from(self.slot))?
    }

    /// Stores which server has the rules.
    fn hold_at(&self, address: Address) -> Result<Arc<RedisNode>, StoreError> {
        let mut holder = self.holder.lock();
        match &*holder {
            Some(node) if node.address == address => Ok(Arc::clone(node)),
            _ => Ok(Arc::clone(holder.insert(self.node(address, CALL_TIMEOUT)?))),
        }
    }

    fn node(&self, address: Address, deadline: Duration) -> Result<Arc<RedisNode>, StoreError> {
        let client = self.url.client(&address).map_err(no_client)?;
        let settings = RemoteSettings { deadline, ..self.settings.clone() };
        Ok(Arc::new(RedisNode::new(address, client, &settings)))
    }
}

fn no_client(problem: String) -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, problem)
}

#[cfg(test)]
mod tests {
    use redis::cmd;
    use tollgate_testbed::{Sentinels, WAIT_TIMEOUT};

    use super::*;

    /// A failed call makes the next one search for the server, also without a subscription.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_failed_call_makes_the_next_one_find_the_server() {
        let sentinels = Sentinels::start(3, "mymaster", 1);
        let url = RedisUrl::parse(&sentinels.url()).expect("a valid URL");
        let place = RuleServer::new(url, "a key", &RemoteSettings::default()).expect("a valid URL");
        place.call(&cmd("PING")).await.expect("a response of the first master");
        sentinels.kill_master();
        let answered = timeout(WAIT_TIMEOUT, async {
            while place.call(&cmd("PING")).await.is_err() {
                tokio::task::yield_now().await;
            }
        });
        answered.await.expect("a response of the second master");
    }
}
