//! One request and its response, over one connection, or over a second one where a retry is safe.

use std::error::Error;
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use parking_lot::Mutex;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;
use tracing::debug;

use crate::connect::Sender;
use crate::counts::GatewayCounts;
use crate::failure::ForwardError;
use crate::pool::UpstreamLease;
use crate::request_body::{RequestBody, UploadProgress};
use crate::request_head::{RequestHead, is_idempotent};
use crate::upstream::{ConnectionPreference, Upstream};

/// How often a request is retried.
const MAX_RETRIES: u32 = 3;
/// How often within the response timeout the progress of the request body is read.
const PROGRESS_CHECKS: u32 = 16;

/// The context of an exchange.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exchange<'a> {
    pub(crate) upstream: &'a Upstream,
    pub(crate) asked: &'a RequestHead,
    pub(crate) keeps_host: bool,
    pub(crate) response_timeout: Duration,
    pub(crate) counts: &'a GatewayCounts,
}

/// A response, and its connection.
pub(crate) struct Exchanged {
    pub(crate) response: Response<Incoming>,
    /// An HTTP/1.1 connection, which is free for another request after the response.
    pub(crate) sender: Option<http1::SendRequest<RequestBody>>,
    /// The stream permit of an HTTP/2 connection.
    pub(crate) stream: Option<OwnedSemaphorePermit>,
    pub(crate) upload: Option<Arc<UploadProgress>>,
}

/// Why there is no response.
pub(crate) enum ExchangeError {
    /// Nothing was sent, so another upstream can get the request.
    NotSent(Box<Request<RequestBody>>, ForwardError),
    /// The upstream may have processed it.
    Failed(ForwardError),
}

/// Why a connection returned no response.
enum Lost {
    /// Nothing was sent.
    NotSent(Box<Request<RequestBody>>),
    /// The connection ended, or the response was not HTTP.
    Broken(hyper::Error),
    Late,
}

impl Exchange<'_> {
    /// Sends a request and waits for the response head.
    ///
    /// A keep-alive connection may be closed before the request arrives, and an HTTP/2 connection may be closed to
    /// new requests while others are in progress. A request that was not sent is retried, and so is an idempotent one
    /// without a body: over another connection, a few times at most.
    pub(crate) async fn run(
        &self,
        mut request: Box<Request<RequestBody>>,
    ) -> Result<Exchanged, ExchangeError> {
        let upload = request.body().progress();
        let mut preference = if self.asked.upgrade.is_some() {
            ConnectionPreference::ToUpgrade
        } else {
            ConnectionPreference::Any
        };
        let mut retries = MAX_RETRIES;
        loop {
            let UpstreamLease { sender, is_reused, stream } =
                match self.upstream.lease(preference).await {
                    Ok(lease) => lease,
                    Err(failure) => return Err(ExchangeError::NotSent(request, failure)),
                };
            let spare = if retries > 0 { copy_of(&request) } else { None };
            let lost = match self.send(sender, request, upload.as_deref()).await {
                Ok((response, sender)) => {
                    return Ok(Exchanged { response, sender, stream, upload });
                }
                Err(lost) => lost,
            };
            if let Some(failure) = upload.as_ref().and_then(|upload| upload.failure()) {
                return Err(ExchangeError::Failed(failure));
            }
            let is_shared = stream.is_some();
            request = match (lost, spare) {
                (Lost::NotSent(unsent), _) if (is_reused || is_shared) && retries > 0 => unsent,
                (Lost::NotSent(unsent), _) => {
                    return Err(ExchangeError::NotSent(unsent, ForwardError::Broken));
                }
                (Lost::Broken(error), Some(spare))
                    if was_refused(&error) || is_reused && was_closed(&error) =>
                {
                    spare
                }
                (Lost::Broken(error), _) => {
                    debug!(upstream = %self.upstream.url, %error, "no answer");
                    return Err(ExchangeError::Failed(ForwardError::Broken));
                }
                (Lost::Late, _) => {
                    return Err(ExchangeError::Failed(ForwardError::ResponseTimeout));
                }
            };
            self.counts.count_retry();
            if let Some(stream) = stream {
                self.upstream.pool.retire(&stream);
            }
            retries -= 1;
            preference =
                if retries > 0 { ConnectionPreference::Fresh } else { ConnectionPreference::Own };
        }
    }

    async fn send(
        &self,
        sender: Sender,
        mut request: Box<Request<RequestBody>>,
        upload: Option<&UploadProgress>,
    ) -> Result<(Response<Incoming>, Option<http1::SendRequest<RequestBody>>), Lost> {
        let host = self.asked.host_for(&self.upstream.url, self.keeps_host);
        match sender {
            Sender::Http1(mut sender) => {
                self.asked.address_http1(&mut request, host);
                if self.asked.awaits_continue {
                    await_continue(&mut request);
                }
                // Pinned here: each future that it is passed to would hold it once more.
                let answer = pin!(sender.try_send_request(*request));
                let mut sender = Some(sender);
                let response = {
                    let answer = pin!(while_open(answer, &mut sender));
                    self.in_time(answer, upload).await?
                };
                Ok((response, sender))
            }
            Sender::Http2(mut sender) => {
                self.asked.address_http2(&mut request, self.upstream.url.scheme(), host);
                let answer = Box::pin(sender.try_send_request(*request));
                // A request left in the queue of a closed connection is returned when the last sender is dropped. The
                // pool drops its sender at the same time.
                drop(sender);
                Ok((self.in_time(answer, upload).await?, None))
            }
        }
    }

    /// Waits for the response head, with a timeout that starts when the upstream has received all that the client has
    /// sent.
    async fn in_time(
        &self,
        answer: impl Future<Output = Result<Response<Incoming>, TrySendError>> + Unpin,
        upload: Option<&UploadProgress>,
    ) -> Result<Response<Incoming>, Lost> {
        let answer = match upload {
            None => timeout(self.response_timeout, answer).await.ok(),
            Some(upload) => Box::pin(while_moving(answer, upload, self.response_timeout)).await,
        };
        answer.ok_or(Lost::Late)?.map_err(|mut error| match error.take_message() {
            Some(request) => Lost::NotSent(Box::new(request)),
            None => Lost::Broken(error.into_error()),
        })
    }
}

type TrySendError = hyper::client::conn::TrySendError<Request<RequestBody>>;

/// Waits for a response, and drops the sender of a connection that ends meanwhile: a request that was queued as the
/// connection ended is returned only when all senders are gone.
async fn while_open<T>(
    mut answer: impl Future<Output = T> + Unpin,
    sender: &mut Option<http1::SendRequest<RequestBody>>,
) -> T {
    if let Some(sender) = sender {
        let mut ready = pin!(sender.ready());
        let mut is_open = true;
        let answered = poll_fn(|context| {
            if let Poll::Ready(answer) = Pin::new(&mut answer).poll(context) {
                return Poll::Ready(Some(answer));
            }
            if is_open && let Poll::Ready(ready) = ready.as_mut().poll(context) {
                if ready.is_err() {
                    return Poll::Ready(None);
                }
                is_open = false;
            }
            Poll::Pending
        });
        if let Some(answer) = answered.await {
            return answer;
        }
    }
    *sender = None;
    answer.await
}

/// Waits for a response, with a timeout since the last frame of the body; `None` if it passes. The client has a
/// separate timeout for its body.
async fn while_moving<T>(
    mut answer: impl Future<Output = T> + Unpin,
    upload: &UploadProgress,
    limit: Duration,
) -> Option<T> {
    let (mut still, mut seen) = (0, upload.pieces());
    while still < PROGRESS_CHECKS {
        if let Ok(answer) = timeout(limit / PROGRESS_CHECKS, &mut answer).await {
            return Some(answer);
        }
        let pieces = upload.pieces();
        let is_moving = pieces > seen || upload.awaits_client();
        still = if is_moving { 0 } else { still + 1 };
        seen = pieces;
    }
    None
}

/// Sends `100 Continue` to the client when the upstream does.
fn await_continue(request: &mut Request<RequestBody>) {
    let Some(word) = request.body_mut().await_continue() else { return };
    let word = Mutex::new(Some(word));
    hyper::ext::on_informational(request, move |response| {
        if response.status() == StatusCode::CONTINUE {
            // The receiver may have timed out.
            let _ = word.lock().take().map(|word| word.send(()));
        }
    });
}

/// A copy of the request, if it is idempotent and has no body.
fn copy_of(request: &Request<RequestBody>) -> Option<Box<Request<RequestBody>>> {
    if !request.body().is_empty() || !is_idempotent(request.method()) {
        return None;
    }
    let mut copy = Request::new(RequestBody::empty());
    *copy.method_mut() = request.method().clone();
    *copy.headers_mut() = request.headers().clone();
    Some(Box::new(copy))
}

/// True if the connection closed before any response. `RST_STREAM` does not count: the upstream may have processed the
/// request.
fn was_closed(error: &hyper::Error) -> bool {
    use ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    const ENDS: [ErrorKind; 4] = [BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof];
    if let Some(error) = cause::<h2::Error>(error) {
        return error.is_io() || error.is_go_away() && error.is_remote();
    }
    error.is_incomplete_message()
        || error.is_timeout()
        || error.is_canceled()
        || error.is_closed()
        || cause::<io::Error>(error).is_some_and(|error| ENDS.contains(&error.kind()))
}

/// Whether the upstream refused the stream unprocessed (`REFUSED_STREAM`, `GOAWAY`).
fn was_refused(error: &hyper::Error) -> bool {
    cause::<h2::Error>(error).is_some_and(|error| {
        let is_end = error.is_go_away() && error.reason() == Some(h2::Reason::NO_ERROR);
        error.is_remote() && (is_end || error.reason() == Some(h2::Reason::REFUSED_STREAM))
    })
}

/// The first cause of this type.
fn cause<E: Error + 'static>(error: &hyper::Error) -> Option<&E> {
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        cause = error.source();
    }
    None
}
