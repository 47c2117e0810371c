//! One request and its answer, over one connection, or over a second one where that is safe.

use std::error::Error;
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::pin::pin;
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

use crate::connect::Line;
use crate::counts::Counts;
use crate::failure::Failure;
use crate::pool::Lease;
use crate::request::{Asked, is_idempotent};
use crate::upload::{Progress, Upload};
use crate::upstream::{Upstream, Wish};

/// How often a request is sent again, at the most.
const RETRIES: u32 = 3;
/// How often to look within the time for an answer whether the body of the request still moves.
const GLANCES: u32 = 16;

/// What an exchange needs to know besides its request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exchange<'a> {
    pub(crate) upstream: &'a Upstream,
    pub(crate) asked: &'a Asked,
    pub(crate) keeps_host: bool,
    pub(crate) response_timeout: Duration,
    pub(crate) counts: &'a Counts,
}

/// An answer, and the connection that it comes over.
pub(crate) struct Answered {
    pub(crate) response: Response<Incoming>,
    /// One of HTTP/1.1, which is free for another request after the answer.
    pub(crate) line: Option<http1::SendRequest<Upload>>,
    /// The place on one of HTTP/2.
    pub(crate) stream: Option<OwnedSemaphorePermit>,
    pub(crate) upload: Option<Arc<Progress>>,
}

/// Why there is no answer.
pub(crate) enum Unanswered {
    /// Nothing was sent, so the request can go elsewhere.
    NotSent(Box<Request<Upload>>, Failure),
    /// The upstream may have acted upon it.
    Failed(Failure),
}

/// Why a connection gave no answer.
enum Lost {
    /// Nothing was sent.
    NotSent(Box<Request<Upload>>),
    /// It ended, or sent what is no HTTP.
    Broken(hyper::Error),
    Late,
}

impl Exchange<'_> {
    /// Sends a request and waits for the head of its answer.
    ///
    /// A connection that has waited for its next request may be closed before it arrives, and one of
    /// HTTP/2 may be closed to new requests while others are answered. What was not sent then is sent
    /// again, and so is what may be sent twice and has no body: over another connection, and not often.
    pub(crate) async fn run(
        &self,
        mut request: Box<Request<Upload>>,
    ) -> Result<Answered, Unanswered> {
        let upload = request.body().progress();
        let mut wish = if self.asked.upgrade.is_some() { Wish::ToUpgrade } else { Wish::Any };
        let mut retries = RETRIES;
        loop {
            let Lease { line, is_reused, stream } = match self.upstream.lease(wish).await {
                Ok(lease) => lease,
                Err(failure) => return Err(Unanswered::NotSent(request, failure)),
            };
            let spare = if retries > 0 { copy_of(&request) } else { None };
            let lost = match self.send(line, request, upload.as_deref()).await {
                Ok((response, line)) => return Ok(Answered { response, line, stream, upload }),
                Err(lost) => lost,
            };
            if let Some(failure) = upload.as_ref().and_then(|upload| upload.failure()) {
                return Err(Unanswered::Failed(failure));
            }
            let is_shared = stream.is_some();
            request = match (lost, spare) {
                (Lost::NotSent(unsent), _) if (is_reused || is_shared) && retries > 0 => unsent,
                (Lost::NotSent(unsent), _) => {
                    return Err(Unanswered::NotSent(unsent, Failure::Broken));
                }
                (Lost::Broken(error), Some(spare))
                    if was_refused(&error) || is_reused && was_closed(&error) =>
                {
                    spare
                }
                (Lost::Broken(error), _) => {
                    debug!(upstream = %self.upstream.url, %error, "no answer");
                    return Err(Unanswered::Failed(Failure::Broken));
                }
                (Lost::Late, _) => return Err(Unanswered::Failed(Failure::ResponseTimeout)),
            };
            self.counts.count_retry();
            if let Some(stream) = stream {
                self.upstream.pool.retire(&stream);
            }
            retries -= 1;
            wish = if retries > 0 { Wish::Fresh } else { Wish::Own };
        }
    }

    async fn send(
        &self,
        line: Line,
        mut request: Box<Request<Upload>>,
        upload: Option<&Progress>,
    ) -> Result<(Response<Incoming>, Option<http1::SendRequest<Upload>>), Lost> {
        let host = self.asked.host_for(&self.upstream.url, self.keeps_host);
        match line {
            Line::Http1(mut line) => {
                self.asked.address_http1(&mut request, host);
                if self.asked.awaits_word {
                    await_word(&mut request);
                }
                let answer = line.try_send_request(*request);
                let mut line = Some(line);
                let response = self.in_time(while_open(answer, &mut line), upload).await?;
                Ok((response, line))
            }
            Line::Http2(mut line) => {
                self.asked.address_http2(&mut request, self.upstream.url.scheme(), host);
                let answer = line.try_send_request(*request);
                // What is left in the queue of a connection at its end comes back when the last way to
                // send has gone. The pool lets go of its own at the same time.
                drop(line);
                Ok((self.in_time(answer, upload).await?, None))
            }
        }
    }

    /// Waits for the head of an answer, for so long after the upstream has got all that the client
    /// has sent.
    async fn in_time(
        &self,
        answer: impl Future<Output = Result<Response<Incoming>, TrySendError>>,
        upload: Option<&Progress>,
    ) -> Result<Response<Incoming>, Lost> {
        let answer = match upload {
            None => timeout(self.response_timeout, answer).await.ok(),
            Some(upload) => while_moving(answer, upload, self.response_timeout).await,
        };
        answer.ok_or(Lost::Late)?.map_err(|mut error| match error.take_message() {
            Some(request) => Lost::NotSent(Box::new(request)),
            None => Lost::Broken(error.into_error()),
        })
    }
}

type TrySendError = hyper::client::conn::TrySendError<Request<Upload>>;

/// Waits for an answer, and lets go of a connection that ends meanwhile: a request that was put into
/// its queue as it ended comes back when nobody can send any more, and not before.
async fn while_open<T>(
    answer: impl Future<Output = T>,
    line: &mut Option<http1::SendRequest<Upload>>,
) -> T {
    let mut answer = pin!(answer);
    if let Some(line) = line {
        let mut ready = pin!(line.ready());
        let mut is_open = true;
        let answered = poll_fn(|context| {
            if let Poll::Ready(answer) = answer.as_mut().poll(context) {
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
    *line = None;
    answer.await
}

/// Waits for an answer for so long after the last piece of the body; none if it takes longer. The client has
/// its own time to send its body.
async fn while_moving<T>(
    answer: impl Future<Output = T>,
    upload: &Progress,
    limit: Duration,
) -> Option<T> {
    let mut answer = pin!(answer);
    let (mut still, mut seen) = (0, upload.pieces());
    while still < GLANCES {
        if let Ok(answer) = timeout(limit / GLANCES, answer.as_mut()).await {
            return Some(answer);
        }
        let pieces = upload.pieces();
        let is_moving = pieces > seen || upload.awaits_client();
        still = if is_moving { 0 } else { still + 1 };
        seen = pieces;
    }
    None
}

/// Asks the client for its body when the upstream does.
fn await_word(request: &mut Request<Upload>) {
    let Some(word) = request.body_mut().await_word() else { return };
    let word = Mutex::new(Some(word));
    hyper::ext::on_informational(request, move |response| {
        if response.status() == StatusCode::CONTINUE {
            // Whoever waits may have waited long enough.
            let _ = word.lock().take().map(|word| word.send(()));
        }
    });
}

/// The same request once more, if it may be sent twice and has no body.
fn copy_of(request: &Request<Upload>) -> Option<Box<Request<Upload>>> {
    if !request.body().is_empty() || !is_idempotent(request.method()) {
        return None;
    }
    let mut copy = Request::new(Upload::empty());
    *copy.method_mut() = request.method().clone();
    *copy.headers_mut() = request.headers().clone();
    Some(Box::new(copy))
}

/// Whether a connection ended without a word. An upstream that resets one stream alone has had its word:
/// it may have acted upon the request, or wants to hear less.
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

/// Whether the upstream has said over HTTP/2 that it has not looked at the request.
fn was_refused(error: &hyper::Error) -> bool {
    cause::<h2::Error>(error).is_some_and(|error| {
        let is_end = error.is_go_away() && error.reason() == Some(h2::Reason::NO_ERROR);
        error.is_remote() && (is_end || error.reason() == Some(h2::Reason::REFUSED_STREAM))
    })
}

/// The first cause of a kind.
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
