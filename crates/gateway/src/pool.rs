//! The connection pool of one upstream: idle HTTP/1.1 connections, and shared HTTP/2 ones.

use std::sync::{Arc, Weak};
use std::time::Duration;

use hyper::client::conn::{http1, http2};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;
use tollgate::Stopwatch;

use crate::connect::Sender;
use crate::max_streams::MaxStreams;
use crate::request_body::RequestBody;

/// The most idle connections.
const MAX_IDLE: usize = 256;
/// The most concurrent streams on one HTTP/2 connection, if its upstream allows as many.
const MAX_CONCURRENT_STREAMS: usize = 100;

/// Connections to one upstream.
#[derive(Debug)]
pub(crate) struct Pool {
    connections: Mutex<IdleConnections>,
    /// How long a connection may be idle.
    limit: Duration,
    running: Stopwatch,
}

#[derive(Debug, Default)]
struct IdleConnections {
    /// The last one was used last.
    idle: Vec<Idle>,
    shared: Vec<SharedConnection>,
    is_swept: bool,
}

/// An idle HTTP/1.1 connection, and since when.
#[derive(Debug)]
struct Idle {
    sender: http1::SendRequest<RequestBody>,
    since: Duration,
}

/// An HTTP/2 connection, and when it was last used.
#[derive(Debug)]
struct SharedConnection {
    sender: http2::SendRequest<RequestBody>,
    streams: Arc<Semaphore>,
    max_streams: MaxStreams,
    used: Duration,
}

impl SharedConnection {
    fn in_use(&self) -> usize {
        MAX_CONCURRENT_STREAMS.saturating_sub(self.streams.available_permits())
    }
}

/// A connection for one request.
#[derive(Debug)]
pub(crate) struct UpstreamLease {
    pub(crate) sender: Sender,
    /// Whether it has carried another request before, so that it may have been closed meanwhile.
    pub(crate) is_reused: bool,
    /// The stream permit of an HTTP/2 connection.
    pub(crate) stream: Option<OwnedSemaphorePermit>,
}

impl UpstreamLease {
    /// An HTTP/1.1 connection that was idle.
    const fn reused(sender: http1::SendRequest<RequestBody>) -> Self {
        Self { sender: Sender::Http1(sender), is_reused: true, stream: None }
    }

    /// A new HTTP/2 connection that is not shared, and is closed after the request.
    pub(crate) fn unshared(sender: http2::SendRequest<RequestBody>) -> Self {
        let stream = Arc::new(Semaphore::new(1)).try_acquire_owned().ok();
        Self { sender: Sender::Http2(sender), is_reused: false, stream }
    }
}

impl Pool {
    pub(crate) fn new(limit: Duration) -> Arc<Self> {
        Arc::new(Self { connections: Mutex::default(), limit, running: Stopwatch::start() })
    }

    /// An idle connection that can be used at once, as nearly all can.
    pub(crate) fn take_ready(&self) -> Option<UpstreamLease> {
        let now = self.running.elapsed();
        let mut connections = self.connections.lock();
        let is_usable = |idle: &mut Idle| idle.sender.is_ready() && self.is_young(now, idle.since);
        connections.idle.pop_if(is_usable).map(|idle| UpstreamLease::reused(idle.sender))
    }

    fn is_young(&self, now: Duration, since: Duration) -> bool {
        now.saturating_sub(since) < self.limit
    }

    /// An existing connection.
    pub(crate) async fn take(&self) -> Option<UpstreamLease> {
        while let Some(mut sender) = self.take_idle() {
            // The last response is complete, so it is ready at once, or closed.
            if sender.is_ready() || sender.ready().await.is_ok() {
                return Some(UpstreamLease::reused(sender));
            }
        }
        self.take_stream()
    }

    fn take_idle(&self) -> Option<http1::SendRequest<RequestBody>> {
        let now = self.running.elapsed();
        let mut connections = self.connections.lock();
        while let Some(Idle { sender, since }) = connections.idle.pop() {
            if !sender.is_closed() && self.is_young(now, since) {
                return Some(sender);
            }
        }
        None
    }

    /// Whether there may be a connection already.
    pub(crate) fn has_some(&self) -> bool {
        let connections = self.connections.lock();
        !connections.idle.is_empty() || !connections.shared.is_empty()
    }

    /// A stream of an existing HTTP/2 connection.
    pub(crate) fn take_stream(&self) -> Option<UpstreamLease> {
        let mut connections = self.connections.lock();
        connections.shared.retain(|shared| !shared.sender.is_closed());
        let has_room =
            |shared: &&mut SharedConnection| shared.in_use() < shared.max_streams.streams();
        connections.shared.iter_mut().filter(has_room).find_map(|shared| {
            let stream = Arc::clone(&shared.streams).try_acquire_owned().ok()?;
            shared.used = self.running.elapsed();
            let sender = Sender::Http2(shared.sender.clone());
            Some(UpstreamLease { sender, is_reused: true, stream: Some(stream) })
        })
    }

    /// Shares a new connection with later requests.
    pub(crate) fn share(
        self: &Arc<Self>,
        sender: http2::SendRequest<RequestBody>,
        max_streams: MaxStreams,
    ) -> UpstreamLease {
        let streams = Arc::new(Semaphore::new(MAX_CONCURRENT_STREAMS));
        let stream = Arc::clone(&streams).try_acquire_owned().ok();
        let lease =
            UpstreamLease { sender: Sender::Http2(sender.clone()), is_reused: false, stream };
        let mut connections = self.connections.lock();
        connections.shared.push(SharedConnection {
            sender,
            streams,
            max_streams,
            used: self.running.elapsed(),
        });
        self.sweep_later(&mut connections);
        lease
    }

    /// Takes a connection out of the pool. Requests in progress continue.
    pub(crate) fn retire(&self, stream: &OwnedSemaphorePermit) {
        let mut connections = self.connections.lock();
        connections.shared.retain(|shared| !Arc::ptr_eq(&shared.streams, stream.semaphore()));
    }

    /// Removes closed connections.
    pub(crate) fn forget_closed(&self) {
        self.connections.lock().shared.retain(|shared| !shared.sender.is_closed());
    }

    /// Returns a connection whose response is complete.
    pub(crate) fn give_back(self: &Arc<Self>, sender: http1::SendRequest<RequestBody>) {
        if sender.is_closed() {
            return;
        }
        let mut connections = self.connections.lock();
        if connections.idle.len() < MAX_IDLE {
            connections.idle.push(Idle { sender, since: self.running.elapsed() });
            self.sweep_later(&mut connections);
        }
    }

    fn sweep_later(self: &Arc<Self>, connections: &mut IdleConnections) {
        if !connections.is_swept {
            connections.is_swept = true;
            tokio::spawn(sweep(Arc::downgrade(self), self.limit));
        }
    }

    /// Closes connections that were idle for too long. `false`: there are none left.
    fn forget_old(&self) -> bool {
        let now = self.running.elapsed();
        let mut connections = self.connections.lock();
        connections.idle.retain(|idle| !idle.sender.is_closed() && self.is_young(now, idle.since));
        connections.shared.retain(|shared| {
            !shared.sender.is_closed() && (shared.in_use() > 0 || self.is_young(now, shared.used))
        });
        connections.is_swept = !connections.idle.is_empty() || !connections.shared.is_empty();
        connections.is_swept
    }
}

/// Closes idle connections as long as there are any.
async fn sweep(pool: Weak<Pool>, period: Duration) {
    loop {
        sleep(period).await;
        let Some(pool) = pool.upgrade() else { return };
        if !pool.forget_old() {
            return;
        }
    }
}
