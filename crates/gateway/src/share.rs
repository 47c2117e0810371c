//! Bounds what one client takes of a pool that all clients share, so that one address cannot exhaust it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tollgate::client_network;

/// The permits of all clients that have or wait for one. Clients without any are removed.
#[derive(Debug)]
pub(crate) struct ClientShares {
    max_per_client: usize,
    clients: Mutex<HashMap<IpAddr, ClientUse>>,
}

#[derive(Debug)]
struct ClientUse {
    permits: Arc<Semaphore>,
    /// How many [`Membership`]s refer to this entry.
    members: usize,
}

impl ClientShares {
    pub(crate) fn new(max_per_client: usize) -> Arc<Self> {
        let max_per_client = max_per_client.min(Semaphore::MAX_PERMITS);
        Arc::new(Self { max_per_client, clients: Mutex::default() })
    }

    /// A permit, if the client has one left. An IPv6 client is its /64.
    pub(crate) fn try_take(self: &Arc<Self>, client: IpAddr) -> Option<ClientShare> {
        let member = self.join(client);
        let permit = Arc::clone(&member.permits).try_acquire_owned().ok()?;
        Some(ClientShare { _permit: Some(permit), _member: member })
    }

    /// Waits until the client has a permit left.
    pub(crate) async fn take(self: Arc<Self>, client: IpAddr) -> ClientShare {
        let member = self.join(client);
        // The semaphore is never closed.
        let permit = Arc::clone(&member.permits).acquire_owned().await.ok();
        ClientShare { _permit: permit, _member: member }
    }

    fn join(self: &Arc<Self>, client: IpAddr) -> Membership {
        let client = client_network(client);
        let mut clients = self.clients.lock();
        let entry = clients.entry(client).or_insert_with(|| ClientUse {
            permits: Arc::new(Semaphore::new(self.max_per_client)),
            members: 0,
        });
        entry.members += 1;
        Membership { shares: Arc::clone(self), client, permits: Arc::clone(&entry.permits) }
    }
}

/// One permit of a client, returned on drop.
#[derive(Debug)]
pub(crate) struct ClientShare {
    // Dropped first: the entry of the client must outlive its permits.
    _permit: Option<OwnedSemaphorePermit>,
    _member: Membership,
}

/// Keeps the entry of a client while it has or waits for a permit.
#[derive(Debug)]
struct Membership {
    shares: Arc<ClientShares>,
    client: IpAddr,
    permits: Arc<Semaphore>,
}

impl Drop for Membership {
    fn drop(&mut self) {
        if let Entry::Occupied(mut entry) = self.shares.clients.lock().entry(self.client) {
            entry.get_mut().members -= 1;
            if entry.get().members == 0 {
                entry.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::Poll;

    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect(text)
    }

    #[test]
    fn one_client_cannot_take_the_share_of_another() {
        let shares = ClientShares::new(2);
        let take = |client: &str| shares.try_take(address(client));
        let _held = [take("192.0.2.1").expect("the first"), take("192.0.2.1").expect("the second")];
        assert!(take("192.0.2.1").is_none());
        assert!(take("::ffff:192.0.2.1").is_none(), "the same client");
        assert!(take("192.0.2.2").is_some());
        let _site = [take("2001:db8::1").expect("one"), take("2001:db8::2").expect("two")];
        assert!(take("2001:db8::ffff:3").is_none(), "the same /64");
        assert!(take("2001:db8:0:1::1").is_some());
    }

    #[test]
    fn clients_without_permits_are_not_kept() {
        let shares = ClientShares::new(1);
        let held = shares.try_take(address("192.0.2.1"));
        assert!(shares.try_take(address("192.0.2.1")).is_none());
        assert_eq!(shares.clients.lock().len(), 1);
        drop(held);
        assert_eq!(shares.clients.lock().len(), 0);
    }

    #[tokio::test]
    async fn a_client_waits_for_its_own_permits() {
        let shares = ClientShares::new(1);
        let held = shares.try_take(address("192.0.2.1"));
        let mut waiting = pin!(Arc::clone(&shares).take(address("192.0.2.1")));
        let is_waiting =
            poll_fn(|context| Poll::Ready(waiting.as_mut().poll(context).is_pending())).await;
        assert!(is_waiting);
        drop(held);
        drop(waiting.await);
        assert_eq!(shares.clients.lock().len(), 0);
    }
}
