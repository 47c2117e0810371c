//! The service that backs off.

use std::fmt;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use tower_service::Service;

use super::call::{RetryingCall, SharedBackoff};
use super::layer::CopyBody;

/// Waits as services ask and retries what may be retried. Made by
/// [`BackoffLayer`](super::BackoffLayer).
#[derive(Clone, Debug)]
pub struct Backoff<S, C> {
    inner: S,
    copy_body: C,
    shared: Arc<SharedBackoff>,
}

/// Why a call has no response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackoffError<E> {
    /// The service below failed.
    Inner(E),
    /// Nothing was sent: the service asked not to be called for a while.
    CoolingDown {
        /// The service.
        authority: String,
        /// How long the cooldown still lasts.
        wait: Duration,
    },
}

impl<E: fmt::Display> fmt::Display for BackoffError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inner(error) => error.fmt(f),
            Self::CoolingDown { authority, wait } => {
                write!(f, "not sent: {authority} asked not to be called for another {wait:?}")
            }
        }
    }
}

impl<E: std::error::Error> std::error::Error for BackoffError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Inner(error) => error.source(),
            Self::CoolingDown { .. } => None,
        }
    }
}

impl<S, C> Backoff<S, C> {
    pub(super) const fn new(inner: S, copy_body: C, shared: Arc<SharedBackoff>) -> Self {
        Self { inner, copy_body, shared }
    }
}

impl<S, C, B, R> Service<Request<B>> for Backoff<S, C>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    C: CopyBody<B> + Send + Sync + 'static,
    B: Send + 'static,
    R: Send + 'static,
{
    type Response = Response<R>;
    type Error = BackoffError<S::Error>;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context).map_err(BackoffError::Inner)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let spare = self.inner.clone();
        // The one that has said it is ready must be the one that is called.
        let ready = mem::replace(&mut self.inner, spare.clone());
        let call = RetryingCall::new(Arc::clone(&self.shared), self.copy_body.clone(), &request);
        Box::pin(call.run(ready, spare, request))
    }
}
