//! The service: checks a request, calls the inner service, and completes its response.

use std::fmt;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use ::http::{Request, Response};
use tollgate_store::{MemoryStore, Store};
use tower_service::Service;

use super::body::ResponseBody;
use super::gate::{Admission, Gate};
use crate::clock::{Clock, SystemClock};

/// A service behind a limiter. Made by [`RateLimitLayer`](super::RateLimitLayer).
pub struct RateLimit<Inner, S = MemoryStore, C = SystemClock> {
    inner: Inner,
    gate: Arc<Gate<S, C>>,
}

/// The response.
pub type ResponseFuture<B, E> =
    Pin<Box<dyn Future<Output = Result<Response<ResponseBody<B>>, E>> + Send>>;

impl<Inner, S, C> RateLimit<Inner, S, C> {
    pub(super) const fn new(inner: Inner, gate: Arc<Gate<S, C>>) -> Self {
        Self { inner, gate }
    }
}

impl<Inner: Clone, S, C> Clone for RateLimit<Inner, S, C> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), gate: Arc::clone(&self.gate) }
    }
}

impl<Inner: fmt::Debug, S, C> fmt::Debug for RateLimit<Inner, S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimit").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl<Inner, S, C, B, R> Service<Request<B>> for RateLimit<Inner, S, C>
where
    Inner: Service<Request<B>, Response = Response<R>, Future: Send> + Clone + Send + 'static,
    S: Store,
    C: Clock,
    B: Send + 'static,
    R: Send + 'static,
{
    type Response = Response<ResponseBody<R>>;
    type Error = Inner::Error;
    type Future = ResponseFuture<R, Inner::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // A clone may not be ready; the service that is goes with this request.
        let not_asked = self.inner.clone();
        let ready = mem::replace(&mut self.inner, not_asked);
        let (parts, body) = request.into_parts();
        let admission = Arc::clone(&self.gate).admit(parts);
        Box::pin(pass(Arc::clone(&self.gate), ready, admission, body))
    }
}

async fn pass<Inner, S, C, B, R>(
    gate: Arc<Gate<S, C>>,
    mut inner: Inner,
    admission: impl Future<Output = Admission>,
    body: B,
) -> Result<Response<ResponseBody<R>>, Inner::Error>
where
    Inner: Service<Request<B>, Response = Response<R>>,
    S: Store,
    C: Clock,
{
    let (decision, parts) = match admission.await {
        Ok(admitted) => admitted,
        Err(refusal) => return Ok(refusal.map(ResponseBody::own)),
    };
    let response = inner.call(Request::from_parts(parts, body)).await?;
    Ok(gate.settle_up(decision, response).await.map(ResponseBody::inner))
}
