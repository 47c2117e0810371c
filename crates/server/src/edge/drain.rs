//! Drains request bodies that no handler reads: a refusal is often written before the body has arrived.
//!
//! If the body is dropped before the response is sent, HTTP/2 cancels the request and the response is
//! lost; some clients also lose it if their body is cut short. So a refusal waits shortly for a small
//! body, without keeping any of it, and the rest is dropped after the response is sent.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Frame, Incoming, SizeHint};
use parking_lot::Mutex;
use tokio::time::timeout;

use crate::edge::listen::ActivityCounter;

/// Bodies up to this size are drained.
const MAX_DRAINED_BYTES: usize = 64 << 10;
/// How long a refusal waits for a body.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);

/// The body of a request, shared by its handler and its response.
#[derive(Clone, Debug)]
pub(crate) struct SharedBody(Arc<Mutex<BodyState>>);

#[derive(Debug)]
struct BodyState {
    body: Incoming,
    /// Whether the body has ended; a chunked body does not report it itself.
    is_over: bool,
    /// Where frames are counted.
    steps: Option<ActivityCounter>,
}

impl SharedBody {
    pub(crate) fn new(body: Incoming) -> Self {
        Self(Arc::new(Mutex::new(BodyState { body, is_over: false, steps: None })))
    }

    /// Counts each further frame, so that the connection stays alive while its response pauses. A
    /// service that responds before the body has arrived puts the body into the extensions of the
    /// response for that.
    pub(crate) fn count_by(&self, steps: ActivityCounter) {
        self.0.lock().steps = Some(steps);
    }

    /// Makes sure that a response is not lost because the body was not read.
    pub(crate) async fn answered_by(mut self, response: Response) -> Response {
        let is_refusal = response.status().is_client_error() || response.status().is_server_error();
        if !is_refusal || self.is_end_stream() {
            return response;
        }
        self.wait_out().await;
        response.map(|body| Body::new(BodyHolder { body, _unread: self }))
    }

    /// Waits for a small body, up to the timeout, without keeping any of it.
    pub(crate) async fn wait_out(&mut self) {
        // Draining is best effort.
        let _ = timeout(DRAIN_TIMEOUT, self.skip()).await;
    }

    async fn skip(&mut self) {
        let mut skipped = 0;
        while let Some(Ok(frame)) = self.frame().await {
            skipped += frame.data_ref().map_or(0, Bytes::len);
            if skipped > MAX_DRAINED_BYTES {
                return;
            }
        }
    }
}

impl hyper::body::Body for SharedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let mut reading = self.0.lock();
        let polled = Pin::new(&mut reading.body).poll_frame(context);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                reading.is_over = frame.is_trailers();
                if let Some(steps) = &reading.steps {
                    steps.count();
                }
            }
            Poll::Ready(None) => reading.is_over = true,
            Poll::Ready(Some(Err(_))) | Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        let reading = self.0.lock();
        reading.is_over || reading.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.lock().body.size_hint()
    }
}

/// A response that holds the body of its request.
struct BodyHolder {
    body: Body,
    _unread: SharedBody,
}

impl hyper::body::Body for BodyHolder {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
