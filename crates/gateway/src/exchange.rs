//! One request and its answer, over one connection, or over a second one where that is safe.

use std::error::Error;
use std::io::{self, ErrorKind};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use parking_lot::Mutex;
use tokio::time::timeout;
use tracing::debug;

use crate::connect::Line;
use crate::counts::Counts;
use crate::failure::Failure;
use crate::pool::Lease;
use crate::request::{Asked, is_idempotent};
use crate::upload::{Progress, Upload};
use crate::upstream::{Upstream, Wish};

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
    pub(crate) lease: Lease,
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
    /// again, and so is what may be sent twice and has no body: once, and over another connection.
    pub(crate) async fn run(
        &self,
        mut request: Box<Request<Upload>>,
    ) -> Result<Answered, Unanswered> {
        let upload = request.body().progress();
        let mut wish = if self.asked.upgrade.is_some() { Wish::ToUpgrade } else { Wish::Any };
        loop {
            let mut lease = match self.upstream.lease(wish).await {
                Ok(lease) => lease,
                Err(failure) => return Err(Unanswered::NotSent(request, failure)),
            };
            let is_old = lease.is_reused && wish == Wish::Any;
            let spare = if is_old { copy_of(&request) } else { None };
            let lost = match self.send(&mut lease.line, request, upload.as_deref()).await {
                Ok(response) => return Ok(Answered { response, lease, upload }),
                Err(lost) => lost,
            };
            if let Some(failure) = upload.as_ref().and_then(|upload| upload.failure()) {
                return Err(Unanswered::Failed(failure));
            }
            request = match (lost, spare) {
                (Lost::NotSent(unsent), _) if is_old => unsent,
                (Lost::NotSent(unsent), _) => {
                    return Err(Unanswered::NotSent(unsent, Failure::Broken));
                }
                (Lost::Broken(error), Some(spare)) if lease.is_http2() || was_closed(&error) => {
                    spare
                }
                (Lost::Broken(error), _) => {
                    debug!(upstream = %self.upstream.url, %error, "no answer");
                    return Err(Unanswered::Failed(Failure::Broken));
                }
                (Lost::Late, _) => return Err(Unanswered::Failed(Failure::ResponseTimeout)),
            };
            self.counts.count_retry();
            self.upstream.pool.retire(&lease);
            wish = Wish::Fresh;
        }
    }

    async fn send(
        &self,
        line: &mut Line,
        mut request: Box<Request<Upload>>,
        upload: Option<&Progress>,
    ) -> Result<Response<Incoming>, Lost> {
        let host = self.asked.host_for(&self.upstream.url, self.keeps_host);
        match line {
            Line::Http1(line) => {
                self.asked.address_http1(&mut request, host);
                if self.asked.awaits_word {
                    await_word(&mut request);
                }
                self.in_time(line.try_send_request(*request), upload).await
            }
            Line::Http2(line) => {
                self.asked.address_http2(&mut request, self.upstream.url.scheme(), host);
                self.in_time(line.try_send_request(*request), upload).await
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
        let mut answer = pin!(answer);
        let pieces = || upload.map_or(0, Progress::pieces);
        loop {
            let seen = pieces();
            match timeout(self.response_timeout, answer.as_mut()).await {
                Ok(Ok(response)) => return Ok(response),
                Ok(Err(mut error)) => {
                    return Err(match error.take_message() {
                        Some(request) => Lost::NotSent(Box::new(request)),
                        None => Lost::Broken(error.into_error()),
                    });
                }
                // The client has its own time to send its body.
                Err(_) if pieces() > seen || upload.is_some_and(Progress::awaits_client) => {}
                Err(_) => return Err(Lost::Late),
            }
        }
    }
}

type TrySendError = hyper::client::conn::TrySendError<Request<Upload>>;

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

/// Whether a connection ended without a word.
fn was_closed(error: &hyper::Error) -> bool {
    if error.is_incomplete_message() || error.is_canceled() || error.is_closed() {
        return true;
    }
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            use ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
            return matches!(
                error.kind(),
                BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof
            );
        }
        cause = error.source();
    }
    false
}
