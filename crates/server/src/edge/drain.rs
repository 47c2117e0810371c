//! Request bodies that nobody reads: a refusal is often written before its body has arrived.
//!
//! HTTP/2 takes it for a cancelled request if the body is dropped before the answer is out, and the
//! answer is lost; and some clients lose it if their body is cut short. So a refusal waits a moment for
//! a small body, without keeping any of it, and what is left goes when the answer has gone.

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

use crate::edge::listen::Steps;

/// Bodies up to this size are waited for.
const SMALL: usize = 64 << 10;
/// But not for long.
const PATIENCE: Duration = Duration::from_millis(500);

/// The body of a request, for its handler and for whoever answers.
#[derive(Clone, Debug)]
pub(crate) struct SharedBody(Arc<Mutex<Reading>>);

#[derive(Debug)]
struct Reading {
    body: Incoming,
    /// A body in chunks does not know it by itself.
    is_over: bool,
    /// Where pieces are counted.
    steps: Option<Steps>,
}

impl SharedBody {
    pub(crate) fn new(body: Incoming) -> Self {
        Self(Arc::new(Mutex::new(Reading { body, is_over: false, steps: None })))
    }

    /// Has each piece counted that comes from now on: the connection lives on while its answer pauses.
    /// Whoever answers before the body has come puts the body into the extensions of the answer for that.
    pub(crate) fn count_by(&self, steps: Steps) {
        self.0.lock().steps = Some(steps);
    }

    /// Sees to it that an answer is not lost for the sake of a body that nobody read.
    pub(crate) async fn answered_by(mut self, response: Response) -> Response {
        let is_refusal = response.status().is_client_error() || response.status().is_server_error();
        if !is_refusal || self.is_end_stream() {
            return response;
        }
        self.wait_out().await;
        response.map(|body| Body::new(Keeper { body, _unread: self }))
    }

    /// Waits a moment for a small body, without keeping any of it.
    pub(crate) async fn wait_out(&mut self) {
        // Whether it came to its end or not: it was waited for.
        let _ = timeout(PATIENCE, self.skip()).await;
    }

    async fn skip(&mut self) {
        let mut skipped = 0;
        while let Some(Ok(frame)) = self.frame().await {
            skipped += frame.data_ref().map_or(0, Bytes::len);
            if skipped > SMALL {
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

/// An answer that holds the body of its request.
struct Keeper {
    body: Body,
    _unread: SharedBody,
}

impl hyper::body::Body for Keeper {
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
