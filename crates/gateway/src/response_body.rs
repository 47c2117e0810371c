//! The body of a response on its way to the client, frame by frame.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use tokio::sync::OwnedSemaphorePermit;

use crate::BodyError;
use crate::counts::GatewayCounts;
use crate::failure::ForwardError;
use crate::idle_timeout::IdleTimeout;
use crate::pool::Pool;
use crate::request_body::{RequestBody, UploadProgress};
use crate::trailers::passed_on;
use crate::upstream::RequestPlace;

/// The body of a response: that of an upstream, or a few bytes of the gateway.
#[derive(Debug)]
pub struct ResponseBody(BodyContent);

#[derive(Debug)]
enum BodyContent {
    Own(Bytes),
    Upstream(Box<ResponseStream>),
}

#[derive(Debug)]
struct ResponseStream {
    body: Incoming,
    idle_timeout: IdleTimeout,
    counts: Arc<GatewayCounts>,
    /// Kept until the response is complete.
    held: Option<Held>,
}

/// What an exchange keeps until its end.
#[derive(Debug)]
pub(crate) struct Held {
    /// The connection, and the pool that it returns to.
    sender: Option<(http1::SendRequest<RequestBody>, Arc<Pool>)>,
    /// The connection is not reused before the request body is complete too.
    upload: Option<Arc<UploadProgress>>,
    _stream: Option<OwnedSemaphorePermit>,
    _place: RequestPlace,
}

impl Held {
    pub(crate) fn new(
        sender: Option<http1::SendRequest<RequestBody>>,
        stream: Option<OwnedSemaphorePermit>,
        pool: &Arc<Pool>,
        upload: Option<Arc<UploadProgress>>,
        place: RequestPlace,
    ) -> Self {
        let sender = sender.map(|sender| (sender, Arc::clone(pool)));
        Self { sender, upload, _stream: stream, _place: place }
    }

    /// The response is complete.
    fn release(mut self) {
        if self.unfinished_upload().is_none()
            && let Some((sender, pool)) = self.sender.take()
        {
            pool.give_back(sender);
        }
    }

    fn unfinished_upload(&self) -> Option<&UploadProgress> {
        self.upload.as_deref().filter(|upload| !upload.is_over())
    }
}

/// However the response ends, the rest of the request is not needed.
impl Drop for Held {
    fn drop(&mut self) {
        if let Some(upload) = self.unfinished_upload() {
            upload.stop();
        }
    }
}

impl ResponseBody {
    /// A body of the gateway.
    pub(crate) const fn own(bytes: Bytes) -> Self {
        Self(BodyContent::Own(bytes))
    }

    /// The body of an upstream. It fails if nothing arrives within `limit` after the last frame of the request or of
    /// the response.
    pub(crate) fn new(
        body: Incoming,
        held: Held,
        limit: Duration,
        counts: Arc<GatewayCounts>,
    ) -> Self {
        let mut piecewise = ResponseStream {
            body,
            idle_timeout: IdleTimeout::new(limit),
            counts,
            held: Some(held),
        };
        piecewise.release_at_end();
        Self(BodyContent::Upstream(Box::new(piecewise)))
    }
}

impl ResponseStream {
    fn release_at_end(&mut self) {
        if self.body.is_end_stream() {
            self.release();
        }
    }

    fn release(&mut self) {
        if let Some(held) = self.held.take() {
            held.release();
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        loop {
            let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) else {
                let upload = self.held.as_ref().and_then(Held::unfinished_upload);
                if self
                    .idle_timeout
                    .poll_run_out(upload.map(UploadProgress::moved), context)
                    .is_pending()
                {
                    return Poll::Pending;
                }
                self.counts.count_failure(ForwardError::BodyTimeout);
                return Poll::Ready(Some(Err("the response body timed out".into())));
            };
            self.idle_timeout.renew();
            match frame {
                None => {
                    self.release();
                    return Poll::Ready(None);
                }
                Some(Err(error)) => {
                    self.counts.count_failure(self.broken_by());
                    return Poll::Ready(Some(Err(error.into())));
                }
                Some(Ok(piece)) => {
                    self.release_at_end();
                    if let Some(piece) = passed_on(piece, None) {
                        return Poll::Ready(Some(Ok(piece)));
                    }
                }
            }
        }
    }

    /// A client that aborts its request aborts the response too.
    fn broken_by(&self) -> ForwardError {
        let upload = self.held.as_ref().and_then(|held| held.upload.as_deref());
        upload.and_then(UploadProgress::failure).unwrap_or(ForwardError::BodyBroken)
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut self.0 {
            BodyContent::Own(bytes) if bytes.is_empty() => Poll::Ready(None),
            BodyContent::Own(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            BodyContent::Upstream(body) => body.poll(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            BodyContent::Own(bytes) => bytes.is_empty(),
            BodyContent::Upstream(body) => body.body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            BodyContent::Own(bytes) => SizeHint::with_exact(bytes.len() as u64),
            BodyContent::Upstream(body) => body.body.size_hint(),
        }
    }
}
