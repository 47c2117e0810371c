//! The requests that are delayed: bounded, since each keeps a connection and memory.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;
use tollgate_core::{Micros, Mode, decide};
use tollgate_rules::client_network;

use crate::decision::{Decision, RuleResult};
use crate::stats::Event;

/// The places of delayed requests. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct DelayPlaces(Arc<DelayPool>);

#[derive(Debug)]
struct DelayPool {
    free: Arc<Semaphore>,
    all: usize,
    /// How many places one client may have; `None`: a quarter of all.
    per_client: Option<usize>,
    /// How many places each client has. Clients without any are removed.
    clients: Mutex<HashMap<IpAddr, usize>>,
}

impl DelayPlaces {
    pub(super) fn new(all: usize) -> Self {
        Self::with(all, None)
    }

    fn with(all: usize, per_client: Option<usize>) -> Self {
        let all = all.min(Semaphore::MAX_PERMITS);
        let clients = Mutex::default();
        Self(Arc::new(DelayPool { free: Arc::new(Semaphore::new(all)), all, per_client, clients }))
    }

    /// New places, `all` in number, with the same share per client.
    pub(super) fn resized(&self, all: usize) -> Self {
        Self::with(all, self.0.per_client)
    }

    /// New places, of which one client may have `per_client`.
    pub(super) fn shared_by(&self, per_client: usize) -> Self {
        Self::with(self.0.all, Some(per_client))
    }

    /// How many are taken.
    pub(super) fn taken(&self) -> usize {
        self.0.all.saturating_sub(self.0.free.available_permits())
    }

    /// A place until the delay has ended or the client disconnects; `None` if all are taken, or all that
    /// this client may have. A client without an address takes from the places of all.
    pub(super) fn take(&self, delay: Micros, client: Option<IpAddr>) -> Option<DelayTurn> {
        let share = match client {
            Some(client) => Some(ClientDelays::take(&self.0, client)?),
            None => None,
        };
        let place = Arc::clone(&self.0.free).try_acquire_owned().ok()?;
        Some(DelayTurn { _place: place, _share: share, delay })
    }
}

impl DelayPool {
    fn clients(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One place of the share of a client, returned on drop.
#[derive(Debug)]
struct ClientDelays {
    pool: Arc<DelayPool>,
    client: IpAddr,
}

impl ClientDelays {
    /// `None` if the client has its share. An IPv6 client is its /64.
    fn take(pool: &Arc<DelayPool>, client: IpAddr) -> Option<Self> {
        let client = client_network(client);
        let mut clients = pool.clients();
        let taken = clients.get(&client).copied().unwrap_or(0);
        if taken >= pool.per_client.unwrap_or(pool.all.div_ceil(4)) {
            return None;
        }
        clients.insert(client, taken + 1);
        drop(clients);
        Some(Self { pool: Arc::clone(pool), client })
    }
}

impl Drop for ClientDelays {
    fn drop(&mut self) {
        let mut clients = self.pool.clients();
        if let Some(taken) = clients.get_mut(&self.client) {
            *taken -= 1;
            if *taken == 0 {
                clients.remove(&self.client);
            }
        }
    }
}

/// A place, and how long the request is delayed.
#[derive(Debug)]
pub(super) struct DelayTurn {
    _place: OwnedSemaphorePermit,
    _share: Option<ClientDelays>,
    delay: Micros,
}

impl DelayTurn {
    /// Waits for the delay, and frees the place.
    pub(super) async fn wait(self) {
        sleep(self.delay.into()).await;
    }
}

impl Decision {
    /// Refuses a request that would be delayed: there is no free place. Each rule that would delay it reports its
    /// delay as the time to retry.
    pub(super) fn turn_away(&mut self) {
        for result in &mut self.parts.results {
            let delay = result.report.delay.take().filter(|delay| *delay > Micros::ZERO);
            if delay.is_some() && result.mode != Mode::Shadow {
                result.admitted = false;
                result.report.retry_after = delay;
            }
        }
        self.parts.verdict = decide(self.parts.results.iter().map(RuleResult::vote));
    }

    /// Counts a request that found no place as refused by each rule that would have delayed it. It has not exceeded a
    /// limit, so no penalty follows.
    pub(super) fn record_turned_away(&self) {
        for result in &self.parts.results {
            let Some(planned) = self.planned(result) else { continue };
            let Some(stats) = self.snapshot.stats.get(planned.rule) else { continue };
            if result.admitted || planned.cost == 0 {
                continue;
            }
            if result.mode != Mode::Shadow {
                stats.count(Event::Refused);
            } else if self.is_would_refuse_counted(planned.rule) {
                stats.count(Event::WouldRefuse);
            }
        }
        if self.parts.degraded.is_some() {
            self.record_fallbacks();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_client_cannot_take_the_places_of_others() {
        let places = DelayPlaces::new(8);
        let take = |client: &str| places.take(Micros::new(1), Some(client.parse().expect(client)));
        let held = [take("192.0.2.1").expect("the first"), take("192.0.2.1").expect("the second")];
        assert!(take("192.0.2.1").is_none(), "a quarter");
        assert!(take("::ffff:192.0.2.1").is_none(), "the same client");
        let site = [take("2001:db8::1").expect("one"), take("2001:db8::2").expect("two")];
        assert!(take("2001:db8::ffff:3").is_none(), "the same /64");
        let other = take("2001:db8:0:1::1").expect("another network");
        assert_eq!(places.taken(), 5);
        let unknown = [(); 3].map(|()| places.take(Micros::new(1), None).expect("a place"));
        assert!(take("192.0.2.9").is_none(), "all are taken");
        drop((held, site, other, unknown));
        assert_eq!((places.taken(), places.0.clients().len()), (0, 0), "clients are not kept");
    }

    #[test]
    fn the_share_of_a_client_can_be_chosen() {
        for places in
            [DelayPlaces::new(9).shared_by(3), DelayPlaces::new(1).shared_by(3).resized(9)]
        {
            let client = Some("192.0.2.1".parse().expect("an address"));
            let _held = [(); 3].map(|()| places.take(Micros::new(1), client).expect("a place"));
            assert!(places.take(Micros::new(1), client).is_none());
        }
        assert!(DelayPlaces::new(0).take(Micros::new(1), None).is_none());
    }
}
