//! The contract of tower: readiness, clones, errors, and bodies that are not read.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, Empty, Full};
use tollgate::Peek;
use tollgate::tower::RateLimitLayer;
use tower::{Layer, Service, ServiceExt, service_fn};

use crate::tower::limiter;
use crate::tower::scene::request;
use crate::tower::site::Answer;

const TWO_FOR_ALL: &str = "
rules: [{rule_id: all, limit: 2, window: 1m, identifier_type: global, algorithm: fixed_window}]
";

fn ask() -> Request<Empty<Bytes>> {
    Request::new(Empty::new())
}

async fn hello(_: Request<Empty<Bytes>>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::from("hello")))
}

/// A service that serves one request each time it was polled ready; a clone has to be polled again.
struct OncePerReady {
    is_ready: bool,
    polls: Arc<AtomicUsize>,
}

impl Clone for OncePerReady {
    fn clone(&self) -> Self {
        Self { is_ready: false, polls: Arc::clone(&self.polls) }
    }
}

impl Service<Request<Empty<Bytes>>> for OncePerReady {
    type Response = Response<Empty<Bytes>>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Self::Response, Infallible>>;

    /// Pending on every other poll.
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.is_ready = self.polls.fetch_add(1, Ordering::Relaxed) % 2 == 1;
        if self.is_ready {
            return Poll::Ready(Ok(()));
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }

    fn call(&mut self, _: Request<Empty<Bytes>>) -> Self::Future {
        assert!(self.is_ready, "called without having been polled ready");
        self.is_ready = false;
        std::future::ready(Ok(Response::new(Empty::new())))
    }
}

#[tokio::test]
async fn the_service_that_was_ready_is_the_one_that_is_called() {
    let polls = Arc::new(AtomicUsize::new(0));
    let inner = OncePerReady { is_ready: false, polls: Arc::clone(&polls) };
    let mut service = RateLimitLayer::new(limiter(TWO_FOR_ALL)).layer(inner);
    for status in [200, 200, 429] {
        let ready = service.ready().await.expect("ready");
        assert_eq!(ready.call(ask()).await.expect("an answer").status(), status);
    }
    assert_eq!(polls.load(Ordering::Relaxed), 6, "it was polled until it was ready, each time");
}

#[tokio::test]
async fn readiness_is_that_of_the_service_and_checks_nothing() {
    let layer = RateLimitLayer::new(limiter(TWO_FOR_ALL));
    let inner = OncePerReady { is_ready: false, polls: Arc::default() };
    let mut service = layer.layer(inner);
    let mut context = Context::from_waker(Waker::noop());
    for is_pending in [true, false, true, false] {
        assert_eq!(service.poll_ready(&mut context).is_pending(), is_pending);
    }
    assert_eq!(layer.limiter().check(&Peek(&request(""))).now().remaining(), Some(2));
}

#[tokio::test]
async fn clones_and_services_of_one_layer_count_together() {
    let layer = RateLimitLayer::new(limiter(TWO_FOR_ALL));
    let service = |layer: &RateLimitLayer<_, _>| layer.layer(service_fn(hello));
    let (first, second) = (service(&layer), service(&layer.clone()));
    let mut statuses = Vec::new();
    for service in [first.clone(), second, first] {
        statuses.push(service.oneshot(ask()).await.expect("an answer").status().as_u16());
    }
    assert_eq!(statuses, [200, 200, 429]);
}

#[tokio::test]
async fn errors_of_the_service_are_its_own() {
    let service = RateLimitLayer::new(limiter(TWO_FOR_ALL)).layer(service_fn(
        |_: Request<Empty<Bytes>>| async { Err::<Response<Empty<Bytes>>, _>("out of order") },
    ));
    for _ in 0..2 {
        assert_eq!(service.clone().oneshot(ask()).await.expect_err("it fails"), "out of order");
    }
    assert_eq!(service.oneshot(ask()).await.expect("a refusal").status(), 429);
}

/// A body that must not be read.
struct Untouchable;

impl Body for Untouchable {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        panic!("the body of a refused request was read")
    }
}

#[tokio::test]
async fn the_body_of_a_refused_request_is_not_read() {
    let never = "rules: [{rule_id: none, limit: 0, window: 1m, identifier_type: global}]";
    let reading = service_fn(|request: Request<Untouchable>| async {
        let read = request.into_body().collect().await?.to_bytes();
        Ok::<_, Infallible>(Response::new(Full::from(read)))
    });
    let service = RateLimitLayer::new(limiter(never)).layer(reading);
    let refused = service.oneshot(Request::new(Untouchable)).await.expect("a refusal");
    let expected = "429 retry-after=-";
    assert_eq!(Answer::read(refused).await.looked_at(expected), expected);
}

#[tokio::test]
async fn bodies_know_their_length() {
    let service = RateLimitLayer::new(limiter(TWO_FOR_ALL)).layer(service_fn(hello));
    for status in [200, 200, 429] {
        let response = service.clone().oneshot(ask()).await.expect("an answer");
        assert_eq!(response.status(), status);
        let mut body = response.into_body();
        let hint: SizeHint = body.size_hint();
        assert!(!body.is_end_stream());
        let frame = body.frame().await.expect("a frame").expect("no error");
        assert_eq!(hint.exact(), frame.data_ref().map(|data| data.len() as u64));
        assert!(body.is_end_stream());
        assert!(body.frame().await.is_none());
    }
}
