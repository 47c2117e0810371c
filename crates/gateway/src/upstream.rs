//! One upstream, and a group of equal ones: round robin, without those that are unreachable.

use std::fmt::Display;
use std::future::poll_fn;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tollgate::Stopwatch;
use tracing::{info, warn};

use crate::config::{GatewayConfig, share_of};
use crate::connect::{TlsRoots, connect};
use crate::failure::ForwardError;
use crate::pool::{Pool, UpstreamLease};
use crate::share::{ClientShare, ClientShares};
use crate::url::{UpstreamProtocol, UpstreamUrl};

/// How often an unreachable upstream is probed.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// One upstream.
#[derive(Debug)]
pub(crate) struct Upstream {
    pub(crate) url: UpstreamUrl,
    pub(crate) pool: Arc<Pool>,
    trust: Option<TlsRoots>,
    connect_timeout: Duration,
    /// Bounds concurrent requests.
    places: Arc<Semaphore>,
    /// Bounds concurrent requests of each client.
    shares: Arc<ClientShares>,
    /// Requests that wait for an HTTP/2 connection share one attempt.
    turn: Semaphore,
    speaks_http2: AtomicBool,
    /// The last attempt to connect failed. Existing connections may still work.
    is_unreachable: AtomicBool,
    running: Stopwatch,
    /// When the next probe of an unreachable upstream is due, in milliseconds of `running`.
    next_probe: AtomicU64,
}

/// The permit of one request at its upstream, until it is dropped.
#[derive(Debug)]
pub(crate) struct RequestPlace {
    _permit: Option<OwnedSemaphorePermit>,
    _share: ClientShare,
}

/// Why there is no permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Full {
    /// The client has used up its share.
    Client,
    /// The upstream has no permit left.
    Upstream,
}

/// What a connection is needed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionPreference {
    /// A request.
    Any,
    /// A request whose keep-alive connection was closed.
    Fresh,
    /// A request whose other connections were closed as well: a connection that is not shared.
    Own,
    /// A request that upgrades to another protocol.
    ToUpgrade,
}

impl Upstream {
    pub(crate) fn new(
        url: UpstreamUrl,
        trust: Option<TlsRoots>,
        config: &GatewayConfig,
    ) -> Arc<Self> {
        Arc::new(Self {
            pool: Pool::new(config.timeouts.idle),
            trust,
            connect_timeout: config.timeouts.connect,
            places: Arc::new(Semaphore::new(config.requests.min(Semaphore::MAX_PERMITS))),
            shares: ClientShares::new(
                config.requests_per_client.unwrap_or(share_of(config.requests)),
            ),
            turn: Semaphore::new(1),
            speaks_http2: AtomicBool::new(url.protocol() == UpstreamProtocol::PlainHttp2),
            is_unreachable: AtomicBool::new(false),
            running: Stopwatch::start(),
            next_probe: AtomicU64::new(0),
            url,
        })
    }

    /// A permit for a request, if one is free.
    fn try_place(&self, client: IpAddr) -> Result<RequestPlace, Full> {
        let Some(share) = self.shares.try_take(client) else {
            let is_full = self.places.available_permits() == 0;
            return Err(if is_full { Full::Upstream } else { Full::Client });
        };
        let permit = Arc::clone(&self.places).try_acquire_owned().map_err(|_| Full::Upstream)?;
        Ok(RequestPlace { _permit: Some(permit), _share: share })
    }

    /// Waits for a permit. A client that has used up its share does not queue with the others.
    async fn place(&self, client: IpAddr) -> RequestPlace {
        let share = Arc::clone(&self.shares).take(client).await;
        // The semaphore is never closed.
        let permit = Arc::clone(&self.places).acquire_owned().await.ok();
        RequestPlace { _permit: permit, _share: share }
    }

    /// A connection for one request.
    pub(crate) async fn lease(
        &self,
        preference: ConnectionPreference,
    ) -> Result<UpstreamLease, ForwardError> {
        // Nearly always: no timer is needed for that.
        if preference == ConnectionPreference::Any
            && let Some(lease) = self.pool.take_ready()
        {
            return Ok(lease);
        }
        // On the heap: the future of every request would have to hold it.
        Box::pin(timeout(self.connect_timeout, self.find(preference))).await.unwrap_or_else(|_| {
            self.mark_unreachable(&"connecting timed out");
            Err(ForwardError::ConnectTimeout)
        })
    }

    async fn find(&self, preference: ConnectionPreference) -> Result<UpstreamLease, ForwardError> {
        if preference == ConnectionPreference::Any
            && let Some(lease) = self.pool.take().await
        {
            return Ok(lease);
        }
        let mut turn = None;
        if preference != ConnectionPreference::ToUpgrade && self.speaks_http2.load(Relaxed) {
            turn = self.turn.acquire().await.ok();
            // The attempt before this one may have succeeded.
            if preference != ConnectionPreference::Own
                && let Some(lease) = self.pool.take_stream()
            {
                return Ok(lease);
            }
        }
        if !self.may_connect() {
            return Err(ForwardError::NoUpstream);
        }
        let lease = self.connect(preference).await;
        drop(turn);
        lease
    }

    async fn connect(
        &self,
        preference: ConnectionPreference,
    ) -> Result<UpstreamLease, ForwardError> {
        let (trust, time) = (self.trust.as_ref(), self.connect_timeout);
        match connect(&self.url, trust, preference, &self.pool, time).await {
            Ok(lease) => {
                if lease.stream.is_some() {
                    self.speaks_http2.store(true, Relaxed);
                }
                if self.is_unreachable.swap(false, Relaxed) {
                    info!(upstream = %self.url, "upstream is reachable again");
                }
                Ok(lease)
            }
            Err(error) => {
                self.mark_unreachable(&error);
                Err(ForwardError::Unreachable)
            }
        }
    }

    /// Whether it is reachable, or has an open connection.
    fn is_reachable(&self) -> bool {
        !self.is_unreachable.load(Relaxed)
            || self.next_probe.load(Relaxed) <= self.millis()
            || self.pool.has_some()
    }

    /// Whether to connect. While it is unreachable, one request probes it once a second, and the others fail at once.
    fn may_connect(&self) -> bool {
        if !self.is_unreachable.load(Relaxed) {
            return true;
        }
        let (now, due) = (self.millis(), self.next_probe.load(Relaxed));
        let pause = u64::try_from(PROBE_INTERVAL.as_millis()).unwrap_or(u64::MAX);
        let next = now.saturating_add(pause);
        due <= now && self.next_probe.compare_exchange(due, next, Relaxed, Relaxed).is_ok()
    }

    fn mark_unreachable(&self, why: &dyn Display) {
        if !self.is_unreachable.swap(true, Relaxed) {
            warn!(upstream = %self.url, "cannot connect to upstream: {why}");
        }
    }

    fn millis(&self) -> u64 {
        u64::try_from(self.running.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// Equal upstreams, which take turns.
#[derive(Debug)]
pub(crate) struct Upstreams {
    all: Vec<Arc<Upstream>>,
    next: AtomicUsize,
}

impl Upstreams {
    pub(crate) fn new(all: Vec<Arc<Upstream>>) -> Arc<Self> {
        Arc::new(Self { all, next: AtomicUsize::new(0) })
    }

    pub(crate) fn first(&self) -> Option<&Upstream> {
        self.all.first().map(Arc::as_ref)
    }

    /// The upstreams for one request, beginning with the next. Unreachable ones come last.
    pub(crate) fn turns(&self, client: IpAddr) -> Turns<'_> {
        let first = self.next.fetch_add(1, Relaxed) % self.all.len().max(1);
        let (before, from) = self.all.split_at(first.min(self.all.len()));
        let all = from.iter().chain(before);
        let (mut order, away): (Vec<_>, Vec<_>) = all.partition(|upstream| upstream.is_reachable());
        order.extend(away);
        Turns {
            client,
            order: order.into_iter(),
            full: Vec::new(),
            failure: ForwardError::ClientBusy,
        }
    }
}

/// The upstreams for one request, in the order in which it tries them.
#[derive(Debug)]
pub(crate) struct Turns<'a> {
    client: IpAddr,
    order: std::vec::IntoIter<&'a Arc<Upstream>>,
    /// The upstreams without a free permit.
    full: Vec<&'a Arc<Upstream>>,
    /// The response to a client that waits for a permit in vain.
    failure: ForwardError,
}

impl<'a> Turns<'a> {
    /// The next upstream, and a permit there. A request waits only if no upstream has one.
    pub(crate) async fn next(
        &mut self,
    ) -> Result<Option<(&'a Arc<Upstream>, RequestPlace)>, ForwardError> {
        for upstream in self.order.by_ref() {
            match upstream.try_place(self.client) {
                Ok(place) => return Ok(Some((upstream, place))),
                Err(full) => {
                    if full == Full::Upstream {
                        self.failure = ForwardError::Busy;
                    }
                    self.full.push(upstream);
                }
            }
        }
        let full = std::mem::take(&mut self.full);
        let Some(limit) = full.first().map(|upstream| upstream.connect_timeout) else {
            return Ok(None);
        };
        let (client, failure) = (self.client, self.failure);
        let free = Box::pin(timeout(limit, first_free(&full, client)));
        free.await.map(Some).map_err(|_| failure)
    }
}

/// Waits for a permit at any of these.
async fn first_free<'a>(
    full: &[&'a Arc<Upstream>],
    client: IpAddr,
) -> (&'a Arc<Upstream>, RequestPlace) {
    let wait = |upstream: &&'a Arc<Upstream>| (*upstream, Box::pin(upstream.place(client)));
    let mut waiting: Vec<_> = full.iter().map(wait).collect();
    poll_fn(|context| {
        for (upstream, place) in &mut waiting {
            if let Poll::Ready(place) = place.as_mut().poll(context) {
                return Poll::Ready((*upstream, place));
            }
        }
        Poll::Pending
    })
    .await
}
