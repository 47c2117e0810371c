//! One upstream, and several equal ones: who is next, and who is left out for a moment.

use std::fmt::Display;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tollgate::Stopwatch;
use tracing::{info, warn};

use crate::config::GatewayConfig;
use crate::connect::{Line, Trust, connect};
use crate::failure::Failure;
use crate::pool::{Lease, Pool};
use crate::url::{Protocol, UpstreamUrl};

/// How long an upstream is left out that could not be connected to.
const LEFT_OUT: Duration = Duration::from_secs(1);

/// One upstream.
#[derive(Debug)]
pub(crate) struct Upstream {
    pub(crate) url: UpstreamUrl,
    pub(crate) pool: Arc<Pool>,
    trust: Option<Trust>,
    connect_timeout: Duration,
    /// For as many requests at a time.
    places: Arc<Semaphore>,
    /// Those who wait for a connection of HTTP/2 wait for the same one.
    turn: Semaphore,
    speaks_http2: AtomicBool,
    running: Stopwatch,
    /// In milliseconds of `running`.
    left_out_until: AtomicU64,
    is_away: AtomicBool,
}

/// What a connection is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// A request.
    Any,
    /// A request that found an old connection closed.
    Fresh,
    /// A request that found others closed as well: a connection that nobody has used before.
    Own,
    /// A request that changes to another protocol.
    ToUpgrade,
}

impl Upstream {
    pub(crate) fn new(url: UpstreamUrl, trust: Option<Trust>, config: &GatewayConfig) -> Arc<Self> {
        Arc::new(Self {
            pool: Pool::new(config.timeouts.idle),
            trust,
            connect_timeout: config.timeouts.connect,
            places: Arc::new(Semaphore::new(config.requests.min(Semaphore::MAX_PERMITS))),
            turn: Semaphore::new(1),
            speaks_http2: AtomicBool::new(url.protocol() == Protocol::PlainHttp2),
            running: Stopwatch::start(),
            left_out_until: AtomicU64::new(0),
            is_away: AtomicBool::new(false),
            url,
        })
    }

    /// A place among the requests to this upstream.
    pub(crate) async fn place(&self) -> Result<OwnedSemaphorePermit, Failure> {
        let places = Arc::clone(&self.places);
        if let Ok(place) = Arc::clone(&places).try_acquire_owned() {
            return Ok(place);
        }
        let place = timeout(self.connect_timeout, places.acquire_owned()).await;
        place.ok().and_then(Result::ok).ok_or(Failure::Busy)
    }

    /// A connection for one request.
    pub(crate) async fn lease(&self, wish: Wish) -> Result<Lease, Failure> {
        if wish == Wish::Any
            && let Some(lease) = self.pool.take().await
        {
            return Ok(lease);
        }
        match timeout(self.connect_timeout, self.connect(wish)).await {
            Ok(Ok(lease)) => {
                if self.is_away.swap(false, Relaxed) {
                    info!(upstream = %self.url, "upstream is back");
                }
                Ok(lease)
            }
            Ok(Err(error)) => {
                self.leave_out(&error);
                Err(Failure::Unreachable)
            }
            Err(_) => {
                self.leave_out(&"it takes too long");
                Err(Failure::ConnectTimeout)
            }
        }
    }

    async fn connect(&self, wish: Wish) -> io::Result<Lease> {
        let mut turn = None;
        if wish != Wish::ToUpgrade && self.speaks_http2.load(Relaxed) {
            turn = self.turn.acquire().await.ok();
            // Whoever had the turn before may have found one, or none.
            if wish != Wish::Own
                && let Some(lease) = self.pool.take_stream()
            {
                return Ok(lease);
            }
            if self.is_left_out() {
                return Err(io::Error::other("another request could not connect just now"));
            }
        }
        let line =
            connect(&self.url, self.trust.as_ref(), wish == Wish::ToUpgrade, &self.pool).await?;
        let lease = match line {
            Line::Http1(_) => Lease { line, is_reused: false, stream: None },
            Line::Http2(line) => {
                self.speaks_http2.store(true, Relaxed);
                self.pool.share(line)
            }
        };
        drop(turn);
        Ok(lease)
    }

    /// Whether a connection to it failed a moment ago.
    pub(crate) fn is_left_out(&self) -> bool {
        self.left_out_until.load(Relaxed) > self.millis()
    }

    fn leave_out(&self, why: &dyn Display) {
        let pause = u64::try_from(LEFT_OUT.as_millis()).unwrap_or(u64::MAX);
        self.left_out_until.store(self.millis().saturating_add(pause), Relaxed);
        if !self.is_away.swap(true, Relaxed) {
            warn!(upstream = %self.url, "upstream cannot be connected to: {why}");
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

    /// Each upstream once, beginning with the next, without those that are left out.
    pub(crate) fn turns(&self) -> impl Iterator<Item = &Arc<Upstream>> {
        let first = self.next.fetch_add(1, Relaxed) % self.all.len().max(1);
        let (before, from) = self.all.split_at(first.min(self.all.len()));
        from.iter().chain(before).filter(|upstream| !upstream.is_left_out())
    }
}
