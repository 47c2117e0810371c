//! Bounds how long a client may take to send its body: its pauses, a minimum rate, and a total time.
//!
//! Waiting for the client uses up its pause time, and bytes earn it back at the minimum rate. So one pause may be as
//! long as the limit, a steady upload may go on, and single bytes now and then do not keep a request alive.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderValue, Version};
use tokio::time::{Sleep, sleep};
use tollgate::Stopwatch;

/// The limits of a request body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UploadLimits {
    /// The longest pause.
    pub(crate) pause: Duration,
    /// In bytes per second; 0 for any.
    pub(crate) min_rate: u64,
    /// The longest time in all, until the upstream begins to respond; zero for none.
    pub(crate) total: Duration,
}

impl UploadLimits {
    /// The limits for one request. Streams of gRPC have none: messages come when there is something to send.
    pub(crate) fn of(self, parts: &Parts) -> Self {
        let content_type = parts.headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
        let is_grpc = parts.version == Version::HTTP_2
            && content_type.is_some_and(|kind| kind.starts_with(b"application/grpc"));
        if is_grpc { Self { min_rate: 0, total: Duration::ZERO, ..self } } else { self }
    }

    /// What is left of the pause time after a wait that ended with `bytes`.
    fn left_after(&self, left: Duration, waited: Duration, bytes: usize) -> Duration {
        if self.min_rate == 0 {
            return self.pause;
        }
        let nanos = (bytes as u128).saturating_mul(1_000_000_000) / u128::from(self.min_rate);
        let earned = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        left.saturating_sub(waited).saturating_add(earned).min(self.pause)
    }
}

/// Measures one request body. Only waiting for the client uses up its pause time: a slow upstream is not its fault.
#[derive(Debug)]
pub(crate) struct UploadTimer {
    limits: UploadLimits,
    /// What is left of the pause time.
    left: Duration,
    /// Runs while the client is awaited.
    waiting: Option<Stopwatch>,
    /// Runs since the client was first awaited.
    running: Option<Stopwatch>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl UploadTimer {
    pub(crate) const fn new(limits: UploadLimits) -> Self {
        Self { limits, left: limits.pause, waiting: None, running: None, timer: None }
    }

    /// A piece of the body arrived.
    pub(crate) fn received(&mut self, bytes: usize) {
        let waited = self.waiting.take().map_or(Duration::ZERO, Stopwatch::elapsed);
        self.left = self.limits.left_after(self.left, waited, bytes);
    }

    /// Nothing has arrived yet; ready if the client has taken too long.
    pub(crate) fn poll_expired(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.waiting.is_none() {
            self.waiting = Some(Stopwatch::start());
            let time = self.left.min(self.total_left());
            match &mut self.timer {
                Some(timer) => timer.set(sleep(time)),
                None => self.timer = Some(Box::pin(sleep(time))),
            }
        }
        self.timer.as_mut().map_or(Poll::Pending, |timer| timer.as_mut().poll(context))
    }

    fn total_left(&mut self) -> Duration {
        let running = self.running.get_or_insert_with(Stopwatch::start);
        if self.limits.total.is_zero() {
            return Duration::MAX;
        }
        self.limits.total.saturating_sub(running.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    const LIMITS: UploadLimits = UploadLimits {
        pause: Duration::from_secs(60),
        min_rate: 256,
        total: Duration::from_hours(6),
    };

    /// How many pieces come through, of up to ten thousand.
    fn pieces_until_expiry(limits: UploadLimits, pause: Duration, bytes: usize) -> Option<usize> {
        let mut left = limits.pause;
        (0..10_000).find(|_| {
            let is_late = pause >= left;
            left = limits.left_after(left, pause, bytes);
            is_late
        })
    }

    #[test]
    fn single_bytes_do_not_keep_a_request_alive() {
        let check = |seconds: u64, bytes: usize, expected: Option<usize>| {
            let pieces = pieces_until_expiry(LIMITS, Duration::from_secs(seconds), bytes);
            assert_eq!(pieces, expected, "{bytes} bytes every {seconds} s");
        };
        // One byte at a time, as an attack on a pool would send them.
        check(10, 1, Some(6));
        check(59, 1, Some(1));
        // A little below the minimum rate.
        check(1, 240, Some(944));
        // At the minimum rate, in small and in large pieces.
        check(1, 256, None);
        check(10, 2_560, None);
        check(59, 256 * 59, None);
        check(60, 1 << 20, Some(0));
    }

    #[test]
    fn without_a_minimum_rate_every_byte_renews_the_pause() {
        let limits = UploadLimits { min_rate: 0, ..LIMITS };
        assert_eq!(pieces_until_expiry(limits, Duration::from_secs(59), 1), None);
        assert_eq!(pieces_until_expiry(limits, Duration::from_secs(60), 1), Some(0));
    }

    #[test]
    fn streams_of_grpc_may_be_slow() {
        let check = |version: Version, kind: &str, expected: u64| {
            let request = Request::builder().version(version).header("content-type", kind);
            let (parts, ()) = request.body(()).expect("a request").into_parts();
            assert_eq!(LIMITS.of(&parts).min_rate, expected, "{version:?} {kind}");
            assert_eq!(LIMITS.of(&parts).total.is_zero(), expected == 0, "{version:?} {kind}");
        };
        check(Version::HTTP_2, "application/grpc", 0);
        check(Version::HTTP_2, "application/grpc+proto", 0);
        check(Version::HTTP_11, "application/grpc", 256);
        check(Version::HTTP_2, "application/json", 256);
    }
}
