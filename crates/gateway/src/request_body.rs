//! The body of a request on its way to the upstream, frame by frame.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::BodyError;
use crate::failure::ForwardError;
use crate::guard::FieldGuard;
use crate::idle_timeout::{IdleTimeout, LastMove};
use crate::trailers::passed_on;
use crate::upload_timer::{UploadLimits, UploadTimer};

/// How long an upstream may take to send `100 Continue`. Some never do.
const CONTINUE_TIMEOUT: Duration = Duration::from_secs(1);

/// The body of a request; `None` if it is empty. Boxed: most are empty, and requests are moved often.
pub(crate) struct RequestBody(Option<Box<RequestStream>>);

struct RequestStream {
    body: UnsyncBoxBody<Bytes, BodyError>,
    progress: Arc<UploadProgress>,
    timer: UploadTimer,
    /// Filters its trailers.
    guard: Arc<FieldGuard>,
    word: Option<ContinueSignal>,
    stop: oneshot::Receiver<()>,
}

/// The `100 Continue` that is awaited before the body is read.
struct ContinueSignal {
    /// `None` once a response came instead.
    said: Option<oneshot::Receiver<()>>,
    idle_timeout: IdleTimeout,
}

/// The progress of the body, for the task that waits for the response.
#[derive(Debug)]
pub(crate) struct UploadProgress {
    pieces: AtomicU64,
    /// When the last frame came, once there is a response.
    moved: LastMove,
    /// The upstream has begun to respond.
    has_answer: AtomicBool,
    /// The upstream would take more, but the client has sent nothing yet.
    awaits_client: AtomicBool,
    /// The client has not been sent `100 Continue` yet.
    awaits_continue: AtomicBool,
    is_over: AtomicBool,
    is_late: AtomicBool,
    is_broken: AtomicBool,
    stop: Mutex<Option<oneshot::Sender<()>>>,
}

impl UploadProgress {
    fn new(stop: oneshot::Sender<()>) -> Self {
        Self {
            pieces: AtomicU64::new(0),
            moved: LastMove::now(),
            has_answer: AtomicBool::new(false),
            awaits_client: AtomicBool::new(false),
            awaits_continue: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            is_late: AtomicBool::new(false),
            is_broken: AtomicBool::new(false),
            stop: Mutex::new(Some(stop)),
        }
    }

    /// How many frames have arrived.
    pub(crate) fn pieces(&self) -> u64 {
        self.pieces.load(Relaxed)
    }

    pub(crate) fn awaits_client(&self) -> bool {
        self.awaits_client.load(Relaxed)
    }

    /// Whether it is complete.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Relaxed)
    }

    /// When the last frame came, for the idle timeout of the response.
    pub(crate) const fn moved(&self) -> &LastMove {
        &self.moved
    }

    /// The upstream has begun to respond. From now on a client may pause for as long as the response continues. `100
    /// Continue` is no longer sent.
    pub(crate) fn answer_begins(&self) {
        self.has_answer.store(true, Relaxed);
        if self.awaits_continue.load(Relaxed) {
            self.stop();
        }
    }

    /// Stops reading: the rest is not needed.
    pub(crate) fn stop(&self) {
        // The body may have ended by itself.
        let _ = self.stop.lock().take().map(|stop| stop.send(()));
    }

    /// The failure of the client, if any.
    pub(crate) fn failure(&self) -> Option<ForwardError> {
        if self.is_late.load(Relaxed) {
            Some(ForwardError::ClientTimeout)
        } else {
            self.is_broken.load(Relaxed).then_some(ForwardError::ClientGone)
        }
    }
}

impl RequestBody {
    /// A body that has to arrive within these limits.
    pub(crate) fn new<B>(body: B, limits: UploadLimits, guard: &Arc<FieldGuard>) -> Self
    where
        B: Body<Data = Bytes, Error: Into<BodyError>> + Send + 'static,
    {
        if body.is_end_stream() {
            return Self(None);
        }
        let (sender, stop) = oneshot::channel();
        Self(Some(Box::new(RequestStream {
            body: body.map_err(Into::into).boxed_unsync(),
            progress: Arc::new(UploadProgress::new(sender)),
            timer: UploadTimer::new(limits),
            guard: Arc::clone(guard),
            word: None,
            stop,
        })))
    }

    /// No body.
    pub(crate) const fn empty() -> Self {
        Self(None)
    }

    pub(crate) fn progress(&self) -> Option<Arc<UploadProgress>> {
        self.0.as_ref().map(|body| Arc::clone(&body.progress))
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Delays reading the body until the returned sender is used, or a timeout has passed; for ever if it is dropped
    /// before.
    pub(crate) fn await_continue(&mut self) -> Option<oneshot::Sender<()>> {
        let body = self.0.as_mut()?;
        let (sender, said) = oneshot::channel();
        body.progress.awaits_continue.store(true, Relaxed);
        body.word = Some(ContinueSignal {
            said: Some(said),
            idle_timeout: IdleTimeout::new(CONTINUE_TIMEOUT),
        });
        Some(sender)
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let Some(body) = &mut self.0 else { return Poll::Ready(None) };
        let polled = body.poll(context);
        if let Poll::Ready(Some(Err(_))) = polled {
            self.0 = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.0.as_ref().is_none_or(|body| body.body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.0.as_ref().map_or_else(|| SizeHint::with_exact(0), |body| body.body.size_hint())
    }
}

impl RequestStream {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Poll::Ready(Ok(())) = Pin::new(&mut self.stop).poll(context) {
            return Poll::Ready(Some(Err("the response is complete".into())));
        }
        if let Some(word) = &mut self.word {
            let Some(said) = &mut word.said else { return Poll::Pending };
            match Pin::new(said).poll(context) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => {
                    word.said = None;
                    return Poll::Pending;
                }
                Poll::Pending if word.idle_timeout.poll_run_out(None, context).is_ready() => {}
                Poll::Pending => return Poll::Pending,
            }
            self.word = None;
            self.progress.awaits_continue.store(false, Relaxed);
        }
        loop {
            let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) else {
                return self.poll_late(context);
            };
            self.note(&frame);
            match frame {
                None => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                Some(Ok(piece)) => {
                    if let Some(piece) = passed_on(piece, Some(&self.guard)) {
                        return Poll::Ready(Some(Ok(piece)));
                    }
                }
            }
        }
    }

    /// Nothing arrived; an error after the timeout. Once there is a response, the timeout of the response applies.
    fn poll_late(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        self.progress.awaits_client.store(true, Relaxed);
        if self.progress.has_answer.load(Relaxed) || self.timer.poll_expired(context).is_pending() {
            return Poll::Pending;
        }
        self.progress.is_late.store(true, Relaxed);
        Poll::Ready(Some(Err("the request body timed out".into())))
    }

    /// Records a frame.
    fn note(&mut self, frame: &Option<Result<Frame<Bytes>, BodyError>>) {
        let progress = &self.progress;
        let data = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref());
        self.timer.received(data.map_or(0, Bytes::len));
        if progress.has_answer.load(Relaxed) {
            progress.moved.renew();
        }
        progress.pieces.fetch_add(1, Relaxed);
        progress.awaits_client.store(false, Relaxed);
        match frame {
            Some(Err(_)) => progress.is_broken.store(true, Relaxed),
            None => progress.is_over.store(true, Relaxed),
            Some(Ok(_)) if self.body.is_end_stream() => progress.is_over.store(true, Relaxed),
            Some(Ok(_)) => {}
        }
    }
}

impl fmt::Debug for RequestBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestBody").field("size", &self.size_hint()).finish_non_exhaustive()
    }
}
