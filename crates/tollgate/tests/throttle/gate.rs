//! A layer in front of a service that records which requests are admitted, and when.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Empty;
use tollgate::tower::{RateLimit, RateLimitLayer, ResponseBody, ResponseFuture};
use tollgate::{Clock, Limiter, MemoryStore, Policy, SystemClock, Timestamp};
use tower::{Layer as _, Service};

type Body = Empty<Bytes>;
pub(crate) type Answer = Response<ResponseBody<Body>>;
pub(crate) type Sent = ResponseFuture<Body, Infallible>;

/// Records the number of each request, and when it came.
#[derive(Clone)]
pub(crate) struct Behind {
    came: Arc<Mutex<Vec<(usize, Timestamp)>>>,
}

impl Service<Request<Body>> for Behind {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (_, number) = request.uri().path().rsplit_once('/').expect("a path");
        let mut came = self.came.lock().expect("a lock");
        // Read under the lock, so that moments are in the order of the list.
        came.push((number.parse().expect("a number"), SystemClock.now()));
        ready(Ok(Response::new(Empty::new())))
    }
}

/// A service behind a layer.
pub(crate) struct Gate<C> {
    pub(crate) layer: RateLimitLayer<MemoryStore, C>,
    service: RateLimit<Behind, MemoryStore, C>,
    came: Arc<Mutex<Vec<(usize, Timestamp)>>>,
}

impl<C: Clock + 'static> Gate<C> {
    pub(crate) fn new(policy: &str, clock: C, held: usize) -> Self {
        let policy = Policy::from_text(policy).expect("a valid policy");
        let limiter = Limiter::builder().policy(policy).clock(clock).build();
        let layer = RateLimitLayer::new(limiter).max_delayed(held);
        // With capacity, so that the record is not measured as memory of delayed requests.
        let came = Arc::new(Mutex::new(Vec::with_capacity(2 * held)));
        let service = layer.layer(Behind { came: Arc::clone(&came) });
        Self { layer, service, came }
    }

    /// A request that is sent when it is first polled.
    pub(crate) fn request(&self, number: usize) -> Sent {
        let request = Request::get(format!("/orders/{number}"))
            .header("host", "api.example.com")
            .header("user-agent", "orders/1.0")
            .header("accept", "application/json")
            .body(Empty::new());
        self.service.clone().call(request.expect("a request"))
    }

    /// A request that was checked already; the response, if it has one.
    pub(crate) async fn judged(&self, number: usize) -> Result<Sent, Answer> {
        let mut sent = self.request(number);
        let look = |context: &mut Context<'_>| Poll::Ready(Pin::new(&mut sent).poll(context));
        match std::future::poll_fn(look).await {
            Poll::Pending => Ok(sent),
            Poll::Ready(Ok(answer)) => Err(answer),
            Poll::Ready(Err(never)) => match never {},
        }
    }

    /// The requests that came, in order, and when.
    pub(crate) fn came(&self) -> Vec<(usize, Timestamp)> {
        self.came.lock().expect("a lock").clone()
    }
}
