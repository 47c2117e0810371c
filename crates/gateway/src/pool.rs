//! The connection pool of one upstream: idle HTTP/1.1 connections, and shared HTTP/2 ones.

use std::sync::{Arc, Weak};
use std::time::Duration;

use hyper::client::conn::{http1, http2};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;
use tollgate::Stopwatch;

use crate::allowance::Allowance;
use crate::connect::Line;
use crate::upload::Upload;

/// The most idle connections.
const MOST_IDLE: usize = 256;
/// The most concurrent streams on one HTTP/2 connection, if its upstream allows as many.
const STREAMS: usize = 100;

/// Connections to one upstream.
#[derive(Debug)]
pub(crate) struct Pool {
    lines: Mutex<Lines>,
    /// How long a connection may be idle.
    limit: Duration,
    running: Stopwatch,
}

#[derive(Debug, Default)]
struct Lines {
    /// The last one was used last.
    idle: Vec<Idle>,
    shared: Vec<Shared>,
    is_swept: bool,
}

/// An idle HTTP/1.1 connection, and since when.
#[derive(Debug)]
struct Idle {
    line: http1::SendRequest<Upload>,
    since: Duration,
}

/// An HTTP/2 connection, and when it was last used.
#[derive(Debug)]
struct Shared {
    line: http2::SendRequest<Upload>,
    streams: Arc<Semaphore>,
    allowance: Allowance,
    used: Duration,
}

impl Shared {
    fn in_use(&self) -> usize {
        STREAMS.saturating_sub(self.streams.available_permits())
    }
}

/// A connection for one request.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) line: Line,
    /// Whether it has carried another request before, so that it may have been closed meanwhile.
    pub(crate) is_reused: bool,
    /// The stream permit of an HTTP/2 connection.
    pub(crate) stream: Option<OwnedSemaphorePermit>,
}

impl Lease {
    /// A new HTTP/2 connection that is not shared, and is closed after the request.
    pub(crate) fn unshared(line: http2::SendRequest<Upload>) -> Self {
        let stream = Arc::new(Semaphore::new(1)).try_acquire_owned().ok();
        Self { line: Line::Http2(line), is_reused: false, stream }
    }
}

impl Pool {
    pub(crate) fn new(limit: Duration) -> Arc<Self> {
        Arc::new(Self { lines: Mutex::default(), limit, running: Stopwatch::start() })
    }

    /// An existing connection.
    pub(crate) async fn take(&self) -> Option<Lease> {
        while let Some(mut line) = self.take_idle() {
            // The last response is complete, so it is ready at once, or closed.
            if line.is_ready() || line.ready().await.is_ok() {
                return Some(Lease { line: Line::Http1(line), is_reused: true, stream: None });
            }
        }
        self.take_stream()
    }

    fn take_idle(&self) -> Option<http1::SendRequest<Upload>> {
        let now = self.running.elapsed();
        let mut lines = self.lines.lock();
        while let Some(Idle { line, since }) = lines.idle.pop() {
            if !line.is_closed() && now.saturating_sub(since) < self.limit {
                return Some(line);
            }
        }
        None
    }

    /// Whether there may be a connection already.
    pub(crate) fn has_some(&self) -> bool {
        let lines = self.lines.lock();
        !lines.idle.is_empty() || !lines.shared.is_empty()
    }

    /// A stream of an existing HTTP/2 connection.
    pub(crate) fn take_stream(&self) -> Option<Lease> {
        let mut lines = self.lines.lock();
        lines.shared.retain(|shared| !shared.line.is_closed());
        let has_room = |shared: &&mut Shared| shared.in_use() < shared.allowance.streams();
        lines.shared.iter_mut().filter(has_room).find_map(|shared| {
            let stream = Arc::clone(&shared.streams).try_acquire_owned().ok()?;
            shared.used = self.running.elapsed();
            let line = Line::Http2(shared.line.clone());
            Some(Lease { line, is_reused: true, stream: Some(stream) })
        })
    }

    /// Shares a new connection with later requests.
    pub(crate) fn share(
        self: &Arc<Self>,
        line: http2::SendRequest<Upload>,
        allowance: Allowance,
    ) -> Lease {
        let streams = Arc::new(Semaphore::new(STREAMS));
        let stream = Arc::clone(&streams).try_acquire_owned().ok();
        let lease = Lease { line: Line::Http2(line.clone()), is_reused: false, stream };
        let mut lines = self.lines.lock();
        lines.shared.push(Shared { line, streams, allowance, used: self.running.elapsed() });
        self.sweep_later(&mut lines);
        lease
    }

    /// Takes a connection out of the pool. Requests in progress continue.
    pub(crate) fn retire(&self, stream: &OwnedSemaphorePermit) {
        let mut lines = self.lines.lock();
        lines.shared.retain(|shared| !Arc::ptr_eq(&shared.streams, stream.semaphore()));
    }

    /// Removes closed connections.
    pub(crate) fn forget_closed(&self) {
        self.lines.lock().shared.retain(|shared| !shared.line.is_closed());
    }

    /// Returns a connection whose response is complete.
    pub(crate) fn give_back(self: &Arc<Self>, line: http1::SendRequest<Upload>) {
        if line.is_closed() {
            return;
        }
        let mut lines = self.lines.lock();
        if lines.idle.len() < MOST_IDLE {
            lines.idle.push(Idle { line, since: self.running.elapsed() });
            self.sweep_later(&mut lines);
        }
    }

    fn sweep_later(self: &Arc<Self>, lines: &mut Lines) {
        if !lines.is_swept {
            lines.is_swept = true;
            tokio::spawn(sweep(Arc::downgrade(self), self.limit));
        }
    }

    /// Closes connections that were idle for too long. `false`: there are none left.
    fn forget_old(&self) -> bool {
        let now = self.running.elapsed();
        let is_young = |since: Duration| now.saturating_sub(since) < self.limit;
        let mut lines = self.lines.lock();
        lines.idle.retain(|idle| !idle.line.is_closed() && is_young(idle.since));
        lines.shared.retain(|shared| {
            !shared.line.is_closed() && (shared.in_use() > 0 || is_young(shared.used))
        });
        lines.is_swept = !lines.idle.is_empty() || !lines.shared.is_empty();
        lines.is_swept
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
