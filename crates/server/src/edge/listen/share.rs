//! How many connections each client has, so that no client takes the connections of all others.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::OwnedSemaphorePermit;
use tollgate::client_network;

/// A client may have this many connections even if few are allowed in all: a browser opens six.
const MIN_SHARE: usize = 16;

/// The number of connections of each client that has any.
#[derive(Debug)]
pub(super) struct Shares {
    most: usize,
    taken: Mutex<HashMap<IpAddr, usize>>,
}

impl Shares {
    /// One client may have half of all connections.
    pub(super) fn of(connections: usize) -> Arc<Self> {
        Arc::new(Self { most: MIN_SHARE.max(connections / 2), taken: Mutex::default() })
    }

    /// Counts a connection of a client until the share is dropped; `None` if it has too many.
    pub(super) fn take(self: &Arc<Self>, address: IpAddr) -> Option<ClientConnections> {
        // All addresses of an IPv6 /64 belong to one client.
        let client = client_network(address);
        let mut taken = self.taken.lock();
        match taken.entry(client) {
            Entry::Occupied(entry) if *entry.get() >= self.most => return None,
            Entry::Occupied(mut entry) => *entry.get_mut() += 1,
            Entry::Vacant(entry) => drop(entry.insert(1)),
        }
        Some(ClientConnections { client, shares: Arc::clone(self) })
    }
}

/// One connection of a client.
#[derive(Debug)]
pub(super) struct ClientConnections {
    client: IpAddr,
    shares: Arc<Shares>,
}

impl Drop for ClientConnections {
    fn drop(&mut self) {
        if let Entry::Occupied(mut entry) = self.shares.taken.lock().entry(self.client) {
            *entry.get_mut() -= 1;
            if *entry.get() == 0 {
                entry.remove();
            }
        }
    }
}

/// The permits of a connection. They belong to its stream, which may be upgraded to another protocol and
/// outlive its requests.
#[derive(Debug)]
pub(super) struct ConnectionPermit {
    _place: Option<OwnedSemaphorePermit>,
    _share: ClientConnections,
}

impl ConnectionPermit {
    pub(super) const fn new(place: Option<OwnedSemaphorePermit>, share: ClientConnections) -> Self {
        Self { _place: place, _share: share }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(shares: &Arc<Shares>, address: &str) -> Option<ClientConnections> {
        shares.take(address.parse().expect("an address"))
    }

    #[test]
    fn a_client_may_have_half_of_all_connections_and_at_least_16() {
        let check = |connections: usize, expected: usize| {
            let shares = Shares::of(connections);
            let taken: Vec<_> = std::iter::from_fn(|| take(&shares, "192.0.2.1")).collect();
            assert_eq!(taken.len(), expected, "of {connections}");
        };
        check(1, 16);
        check(32, 16);
        check(34, 17);
        check(10_000, 5_000);
    }

    #[test]
    fn connections_of_one_address_or_network_are_counted_together() {
        let check = |first: &str, second: &str, is_same: bool| {
            let shares = Shares::of(0);
            let _taken: Vec<_> = std::iter::from_fn(|| take(&shares, first)).collect();
            assert_eq!(take(&shares, second).is_none(), is_same, "{first} {second}");
        };
        check("192.0.2.1", "192.0.2.1", true);
        check("192.0.2.1", "192.0.2.2", false);
        check("192.0.2.1", "::ffff:192.0.2.1", true);
        check("::ffff:192.0.2.1", "::ffff:192.0.2.2", false);
        check("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", true);
        check("2001:db8:1:2::1", "2001:db8:1:3::1", false);
    }

    #[test]
    fn clients_without_connections_are_forgotten() {
        let shares = Shares::of(100);
        let mut taken: Vec<_> = ["192.0.2.1", "192.0.2.1", "192.0.2.2", "2001:db8::1"]
            .map(|address| take(&shares, address).expect("room"))
            .into();
        for clients_left in [3, 2, 1, 1] {
            assert_eq!(shares.taken.lock().len(), clients_left);
            taken.pop();
        }
        assert!(shares.taken.lock().is_empty());
    }
}
