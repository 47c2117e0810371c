//! Activity on a connection, and its header and idle timeouts.
//!
//! The HTTP library can limit how long a head takes, but its limit also covers the pause before it, and
//! it sets up a timer for every request. Here a request costs a few atomic additions, and a connection
//! reads them periodically: timeouts are exact to within half the shorter one.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use http::Version;
use hyper::body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::share::ConnectionPermit;
use super::stalled_stream::StalledStream;
use super::transport::Transport;

/// Counters of what happened on a connection so far.
#[derive(Debug, Default)]
pub(super) struct Activity {
    /// Requests that started, frames of responses that were handed over, and frames of request bodies
    /// that arrived meanwhile.
    steps: AtomicU32,
    /// Requests in progress.
    running: AtomicU32,
    /// Bytes arrived that do not form a request yet.
    has_unread: AtomicBool,
    /// HTTP/2: frames arrive that have nothing to do with requests.
    is_multiplexed: AtomicBool,
}

impl Activity {
    /// Counts a request that has started.
    pub(super) fn begin(self: &Arc<Self>, version: Version) -> Running {
        self.steps.fetch_add(1, Relaxed);
        self.running.fetch_add(1, Relaxed);
        self.has_unread.store(false, Relaxed);
        let is_multiplexed = version == Version::HTTP_2;
        if is_multiplexed {
            self.is_multiplexed.store(true, Relaxed);
        }
        Running { activity: Arc::clone(self), pace: is_multiplexed.then(Arc::default) }
    }

    /// Whether a head is expected: a part of it arrived, or the connection has had no request yet.
    fn awaits_head(&self) -> bool {
        let is_new = self.steps.load(Relaxed) == 0;
        is_new || (self.has_unread.load(Relaxed) && !self.is_multiplexed.load(Relaxed))
    }
}

/// A request in progress, until this is dropped.
#[derive(Debug)]
pub(super) struct Running {
    activity: Arc<Activity>,
    /// Only for HTTP/2: a connection that carries one response at a time is watched as a whole.
    pace: Option<Arc<StalledStream>>,
}

impl Running {
    /// How its response is sent.
    pub(super) const fn pace(&self) -> Option<&Arc<StalledStream>> {
        self.pace.as_ref()
    }

    /// Counts a request body that still arrives while the response is sent.
    pub(super) fn steps(&self) -> ActivityCounter {
        ActivityCounter(Arc::clone(&self.activity))
    }

    /// Wraps the body of the response, which is still to be sent; `None` if the request was refused.
    pub(super) fn answer<B>(self, body: Option<B>) -> AnswerBody<B> {
        AnswerBody { body, activity: Arc::clone(&self.activity), pace: self.pace.clone() }
    }
}

/// Counts activity that keeps a connection alive.
#[derive(Debug)]
pub(crate) struct ActivityCounter(Arc<Activity>);

impl ActivityCounter {
    /// Counts one frame.
    pub(crate) fn count(&self) {
        self.0.steps.fetch_add(1, Relaxed);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // What arrived since the head was the body of the request.
        self.activity.has_unread.store(false, Relaxed);
        self.activity.running.fetch_sub(1, Relaxed);
    }
}

/// The body of a response. Each frame that is sent shows that the client still reads.
#[derive(Debug)]
pub(super) struct AnswerBody<B> {
    body: Option<B>,
    activity: Arc<Activity>,
    pace: Option<Arc<StalledStream>>,
}

impl<B: Body + Unpin> Body for AnswerBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let frame = Pin::new(body).poll_frame(context);
        match &frame {
            Poll::Ready(Some(Ok(_))) => {
                self.activity.steps.fetch_add(1, Relaxed);
                if let Some(pace) = &self.pace {
                    pace.give();
                }
            }
            Poll::Ready(_) => {}
            Poll::Pending => {
                if let Some(pace) = &self.pace {
                    pace.await_service();
                }
            }
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

/// A stream that notes when bytes arrive, and holds its connection permits until it is closed.
#[derive(Debug)]
pub(super) struct Noticing {
    stream: Transport,
    /// Bytes that were read and are to be read again.
    unread: Vec<u8>,
    activity: Arc<Activity>,
    _seat: ConnectionPermit,
}

impl Noticing {
    pub(super) const fn new(
        stream: Transport,
        activity: Arc<Activity>,
        seat: ConnectionPermit,
    ) -> Self {
        Self { stream, unread: Vec::new(), activity, _seat: seat }
    }

    /// Counts a call that was responded to, and notes whether further bytes have arrived.
    pub(super) fn count_call(&self, has_unread: bool) {
        self.activity.steps.fetch_add(1, Relaxed);
        self.activity.has_unread.store(has_unread, Relaxed);
    }

    /// Reads these bytes again, before any others.
    pub(super) fn read_again(&mut self, bytes: Vec<u8>) {
        // Its memory is not kept where there is nothing to read.
        self.unread = if bytes.is_empty() { Vec::new() } else { bytes };
    }
}

impl AsyncRead for Noticing {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.unread.is_empty() {
            let count = self.unread.len().min(buffer.remaining());
            buffer.put_slice(&self.unread[..count]);
            self.unread.drain(..count);
            if self.unread.is_empty() {
                self.unread = Vec::new();
            }
            self.activity.has_unread.store(true, Relaxed);
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.activity.has_unread.store(true, Relaxed);
        }
        read
    }
}

impl AsyncWrite for Noticing {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionVerdict {
    /// Within its timeouts.
    Alive,
    /// Nothing has happened for longer than the idle timeout.
    Idle,
    /// A head takes longer than the header timeout.
    LateHead,
}

/// Checks a connection periodically.
#[derive(Debug)]
pub(super) struct ActivityWatch {
    looks_for_head: u32,
    looks_for_idle: u32,
    steps: u32,
    quiet: u32,
    awaiting: u32,
}

impl ActivityWatch {
    /// How often to check.
    pub(super) fn period(header_timeout: Duration, idle_timeout: Duration) -> Duration {
        (header_timeout.min(idle_timeout) / 2).max(Duration::from_millis(1))
    }

    pub(super) fn new(header_timeout: Duration, idle_timeout: Duration) -> Self {
        let period = Self::period(header_timeout, idle_timeout).as_nanos();
        let looks = |timeout: Duration| {
            u32::try_from(timeout.as_nanos().div_ceil(period)).unwrap_or(u32::MAX)
        };
        Self {
            looks_for_head: looks(header_timeout),
            looks_for_idle: looks(idle_timeout),
            steps: 0,
            quiet: 0,
            awaiting: 0,
        }
    }

    /// How many checks in sequence may see no activity.
    pub(super) const fn most_quiet(&self) -> u32 {
        self.looks_for_idle
    }

    /// Checks once. What is seen for the first time may have begun up to a period ago, so a timeout
    /// takes one check more than fits into it.
    pub(super) fn look(&mut self, activity: &Activity) -> ConnectionVerdict {
        let steps = activity.steps.load(Relaxed);
        if activity.running.load(Relaxed) > 0 || steps != self.steps {
            (self.steps, self.quiet, self.awaiting) = (steps, 0, 0);
            return ConnectionVerdict::Alive;
        }
        self.quiet += 1;
        self.awaiting = if activity.awaits_head() { self.awaiting + 1 } else { 0 };
        if self.awaiting > self.looks_for_head {
            ConnectionVerdict::LateHead
        } else if self.quiet > self.looks_for_idle {
            ConnectionVerdict::Idle
        } else {
            ConnectionVerdict::Alive
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays events: `r` a request starts, `e` it ends, `b` bytes arrive, `p` a frame of a response is
    /// sent, `2` a request of HTTP/2 starts and ends, `.` a check. Two checks fit into the header
    /// timeout, six into the idle timeout.
    fn check(events: &str, expected: ConnectionVerdict) {
        let activity = Arc::new(Activity::default());
        let mut watch = ActivityWatch::new(Duration::from_secs(2), Duration::from_secs(6));
        let mut running = Vec::new();
        let mut verdict = ConnectionVerdict::Alive;
        for event in events.chars() {
            match event {
                'r' => running.push(activity.begin(Version::HTTP_11)),
                'e' => drop(running.pop()),
                'b' => activity.has_unread.store(true, Relaxed),
                'p' => drop(activity.steps.fetch_add(1, Relaxed)),
                '2' => drop(activity.begin(Version::HTTP_2)),
                _ => verdict = watch.look(&activity),
            }
        }
        assert_eq!(verdict, expected, "{events}");
    }

    #[test]
    fn connections_end_after_the_header_or_idle_timeout() {
        // A connection without a request.
        check("..", ConnectionVerdict::Alive);
        check("...", ConnectionVerdict::LateHead);
        // Single bytes do not extend the header timeout.
        check("b.b.b.", ConnectionVerdict::LateHead);
        // A pause between requests may be longer than the header timeout.
        check("re.......", ConnectionVerdict::Alive);
        check("re........", ConnectionVerdict::Idle);
        check("re......re......", ConnectionVerdict::Alive);
        // But a head that has begun must be finished.
        check("re....b..", ConnectionVerdict::Alive);
        check("re....b...", ConnectionVerdict::LateHead);
        // A request in progress has no timeout here, whatever its body does.
        check("r..........b.b.b.", ConnectionVerdict::Alive);
        check("rb.e......", ConnectionVerdict::Alive);
        // A long response keeps the connection alive as long as frames are sent.
        check("re...p...p...p...p", ConnectionVerdict::Alive);
        check("re...p........", ConnectionVerdict::Idle);
        // Frames of HTTP/2 are not heads.
        check("2.b.b.b.b.b", ConnectionVerdict::Alive);
        check("2.b.b.b.b.b.b.b.", ConnectionVerdict::Idle);
    }
}
