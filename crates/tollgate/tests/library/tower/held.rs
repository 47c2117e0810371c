//! Delayed requests: they leave one after the other, their number is bounded, and each ends when its
//! client disconnects.

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Empty;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tollgate::tower::{RateLimit, RateLimitLayer};
use tollgate::{ManualClock, MemoryStore, Peek};
use tollgate_testbed::{Stopwatch, tokio_now, until};
use tower::{Layer, Service, ServiceExt, service_fn};

use crate::tower::scene::request;
use crate::tower::site::Answer;
use crate::tower::{Site, layer, limiter};

type Body = Empty<Bytes>;

/// One request a second; ten may be on their way.
const SLOW: &str = "
rules: [{rule_id: slow, limit: 1, window: 1s, burst: 10, identifier_type: global, algorithm: leaky_bucket}]
";
const THROTTLED: &str = "
rules: [{rule_id: slow, limit: 1, window: 1s, identifier_type: global, algorithm: gcra, action: throttle, throttle: {max_delay_ms: 9000}}]
";

/// One rule that delays, one that does not, and a shadow rule.
const TURNED_AWAY: &str = "
rules:
  - {rule_id: slow, limit: 1, window: 1s, burst: 10, identifier_type: global, algorithm: leaky_bucket,
     penalty: {after: 1, within_seconds: 9, ban_seconds: 9}}
  - {rule_id: wide, limit: 100, window: 1h, identifier_type: global}
  - {rule_id: shadow, limit: 1, window: 1h, identifier_type: global, action: log_only}
";

fn served<S: Clone>(
    layer: &RateLimitLayer<MemoryStore, ManualClock>,
    service: S,
) -> RateLimit<S, MemoryStore, ManualClock> {
    layer.layer(service)
}

async fn pass(_: Request<Body>) -> Result<Response<Body>, Infallible> {
    Ok(Response::new(Empty::new()))
}

/// A request that is sent at once and answered in its turn.
fn send(
    layer: &RateLimitLayer<MemoryStore, ManualClock>,
) -> impl Future<Output = Answer> + Send + 'static {
    let sent = served(layer, service_fn(pass)).oneshot(Request::new(Empty::new()));
    async { Answer::read(sent.await.expect("an answer")).await }
}

#[tokio::test(start_paused = true)]
async fn delayed_requests_leave_one_by_one() {
    for policy in [SLOW, THROTTLED] {
        let layer = RateLimitLayer::new(limiter(policy));
        let start = tokio_now();
        let sent: Vec<_> = (0..10).map(|_| tokio::spawn(send(&layer))).collect();
        for (turn, answer) in (0..).zip(sent) {
            assert_eq!(answer.await.expect("no panic").status, 200);
            assert_eq!(tokio_now() - start, Duration::from_secs(turn), "{policy}");
        }
        assert_eq!(layer.delayed(), 0);
        // A request with too long a delay is refused by its rule.
        assert_eq!(send(&layer).await.status, 429);
    }
}

#[tokio::test(start_paused = true)]
async fn the_number_of_delayed_requests_is_bounded() {
    let layer = RateLimitLayer::new(limiter(SLOW)).max_delayed(2);
    let sent: Vec<_> = (0..3).map(|_| tokio::spawn(send(&layer))).collect();
    tokio::task::yield_now().await;
    assert_eq!(layer.delayed(), 2);
    let start = tokio_now();
    let refused = send(&layer).await;
    let expected = "429 retry-after=3 x-ratelimit-limit=10 content-type=application/problem+json";
    assert_eq!(refused.looked_at(expected), expected);
    assert!(refused.body.contains("\"violated-policies\":[\"slow\"]"), "{}", refused.body);
    assert_eq!(tokio_now(), start, "a refusal is not delayed");
    let left = layer.limiter().check(&Peek(&request(""))).now().remaining();
    assert_eq!(left, Some(7), "what is refused is not charged");
    for answer in sent {
        assert_eq!(answer.await.expect("no panic").status, 200);
    }
    assert_eq!(layer.delayed(), 0);
}

#[tokio::test(start_paused = true)]
async fn one_client_does_not_take_all_places() {
    let layer = RateLimitLayer::new(limiter(SLOW))
        .max_delayed(8)
        .client_address(|parts| parts.extensions.get::<IpAddr>().copied());
    let send = |client: &str| {
        let mut request = Request::<Body>::new(Empty::new());
        request.extensions_mut().insert(client.parse::<IpAddr>().expect(client));
        let sent = served(&layer, service_fn(pass)).oneshot(request);
        async { Answer::read(sent.await.expect("an answer")).await.status }
    };
    assert_eq!(send("192.0.2.1").await, 200);
    let mut sent: Vec<_> = (0..2).map(|_| tokio::spawn(send("192.0.2.1"))).collect();
    tokio::task::yield_now().await;
    assert_eq!(layer.delayed(), 2);
    assert_eq!(send("192.0.2.1").await, 429, "it has its share");
    assert_eq!(
        layer.limiter().check(&Peek(&request(""))).now().remaining(),
        Some(7),
        "not charged"
    );
    sent.extend(["192.0.2.2", "2001:db8::1"].map(|client| tokio::spawn(send(client))));
    tokio::task::yield_now().await;
    assert_eq!(layer.delayed(), 4, "others wait as before");
    for status in sent {
        assert_eq!(status.await.expect("no panic"), 200);
    }
    assert_eq!(layer.delayed(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_request_without_a_place_counts_as_refused_by_its_rule() {
    let layer = RateLimitLayer::new(limiter(TURNED_AWAY)).max_delayed(0);
    assert_eq!([send(&layer).await.status, send(&layer).await.status], [200, 429]);
    let limiter = layer.limiter();
    let counts: Vec<_> = limiter
        .stats()
        .into_iter()
        .map(|(_, counts)| [counts.admitted, counts.refused, counts.would_refuse, counts.delayed])
        .collect();
    assert_eq!(counts, [[1, 1, 0, 0], [1, 0, 0, 0], [1, 0, 1, 0]]);
    assert_eq!(limiter.ban_counts().made, 0, "the client has not exceeded its limit");
    assert_eq!(limiter.check(&Peek(&request(""))).now().remaining(), Some(9), "not charged");
}

#[tokio::test(start_paused = true)]
async fn without_places_only_undelayed_requests_pass() {
    let layer = RateLimitLayer::new(limiter(SLOW)).max_delayed(0);
    assert_eq!(send(&layer).await.status, 200);
    assert_eq!(send(&layer).await.status, 429);
    // The largest number of places means no bound.
    let layer = RateLimitLayer::new(limiter(SLOW)).max_delayed(usize::MAX);
    assert_eq!(send(&layer).await.status, 200);
    assert_eq!(send(&layer).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn a_disconnected_client_frees_its_place_but_stays_charged() {
    let layer = RateLimitLayer::new(limiter(SLOW)).max_delayed(1);
    assert_eq!(send(&layer).await.status, 200);
    {
        let mut left = pin!(send(&layer));
        let polled = left.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(polled, Poll::Pending));
        assert_eq!(layer.delayed(), 1);
        assert_eq!(send(&layer).await.status, 429);
    }
    assert_eq!(layer.delayed(), 0);
    let start = tokio_now();
    assert_eq!(send(&layer).await.status, 200);
    assert_eq!(tokio_now() - start, Duration::from_secs(2), "behind the one that left");
}

#[tokio::test]
async fn a_closed_connection_frees_its_place() {
    let policy = "
rules: [{rule_id: slow, limit: 1, window: 1h, burst: 9, identifier_type: global, algorithm: leaky_bucket}]
";
    let layer = layer(limiter(policy));
    let site = Site::start(&layer).await;
    assert_eq!(site.ask("/").await.status, 200);
    let mut stream = TcpStream::connect(site.address).await.expect("a connection");
    stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.expect("written");
    wait_until_held(&layer, 1).await;
    drop(stream);
    wait_until_held(&layer, 0).await;
    assert_eq!(layer.limiter().check(&Peek(&request(""))).now().remaining(), Some(7));
}

async fn wait_until_held(layer: &RateLimitLayer<MemoryStore, ManualClock>, held: usize) {
    let layer = layer.clone();
    let wait = move || until("requests held", || (layer.delayed() == held).then_some(()));
    tokio::task::spawn_blocking(wait).await.expect("no panic");
}

#[tokio::test]
async fn a_real_clock_spaces_delayed_requests() {
    let policy = "
rules: [{rule_id: slow, limit: 20, window: 1s, identifier_type: global, algorithm: leaky_bucket}]
";
    let site = Site::start(&layer(limiter(policy))).await;
    let stopwatch = Stopwatch::start();
    let (a, b, c) = tokio::join!(site.ask("/"), site.ask("/"), site.ask("/"));
    assert_eq!([a.status, b.status, c.status], [200; 3]);
    assert!(stopwatch.elapsed() >= Duration::from_millis(100));
}

#[tokio::test(start_paused = true)]
async fn the_service_is_called_after_the_delay() {
    let layer = RateLimitLayer::new(limiter(SLOW));
    let start = tokio_now();
    let mut service = served(
        &layer,
        service_fn(move |_: Request<Body>| async move {
            Ok::<_, Infallible>(Response::new((tokio_now() - start).as_secs().to_string()))
        }),
    );
    for turn in ["0", "1", "3"] {
        let response = service.ready().await.expect("ready").call(Request::new(Empty::new()));
        assert_eq!(Answer::read(response.await.expect("an answer")).await.body, turn);
    }
}
