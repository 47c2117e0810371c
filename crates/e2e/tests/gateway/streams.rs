//! Bodies in both directions at once: an exchange that moves goes on, and one that does not ends.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, Request, Response};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::{Body, Frame, Incoming};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::timeout;
use tollgate::Stopwatch;

use crate::gateway::Gateway;
use crate::raw::{RawUpstream, field};
use crate::socket::Socket;
use crate::upstream::Upstream;
use tollgate_e2e::until;

const OPEN_POST: &[u8] =
    b"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n";
const OPEN_ANSWER: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
const PIECE_INTERVAL: Duration = Duration::from_millis(200);

/// Does something so many times, with a pause before each.
fn paced(times: u32, mut act: impl FnMut()) {
    let stopwatch = Stopwatch::start();
    for time in 1..=times {
        until("the next piece", || (stopwatch.elapsed() >= PIECE_INTERVAL * time).then_some(()));
        act();
    }
}

#[test]
fn a_response_that_moves_is_not_ended_by_a_paused_upload() {
    let upstream = RawUpstream::start(|wire| {
        if wire.head().is_some() {
            wire.say(OPEN_ANSWER);
            paced(10, || wire.say("1\r\nx\r\n"));
            wire.say("0\r\n\r\n");
        }
    });
    let gateway = Gateway::with_settings("gateway: {body_timeout: 1s}", upstream.address);
    let mut socket = Socket::open(gateway.address);
    socket.send(OPEN_POST);
    assert!(socket.head().starts_with("HTTP/1.1 200 "));
    let said = String::from_utf8(socket.rest()).expect("a text");
    assert_eq!(said.matches('x').count(), 10, "{said}");
    assert!(said.ends_with("0\r\n\r\n"), "{said}");
    assert_eq!(gateway.failures("upstream_body_broken"), 0);
    assert_eq!(gateway.failures("request_timeout"), 0);
}

/// Begins a response, and sends the rest when it has read the whole body.
fn patient_reader() -> RawUpstream {
    RawUpstream::start(|wire| {
        let Some(head) = wire.head() else { return };
        wire.say(OPEN_ANSWER);
        let length = wire.body(&head).map_or(0, |body| body.len());
        let said = format!("{length} bytes");
        wire.say(&format!("{:x}\r\n{said}\r\n0\r\n\r\n", said.len()));
    })
}

/// Neither a body nor a connection may be quiet for longer.
const A_SECOND: &str = "{gateway: {body_timeout: 1s}, limits: {idle_timeout: 1s}}";

#[test]
fn an_upload_that_moves_is_not_ended_by_a_paused_response() {
    let upstream = patient_reader();
    let gateway = Gateway::with_settings(A_SECOND, upstream.address);
    let mut socket = Socket::open(gateway.address);
    socket.send(OPEN_POST);
    assert!(socket.head().starts_with("HTTP/1.1 200 "));
    paced(20, || socket.send(b"1\r\nx\r\n"));
    socket.send(b"0\r\n\r\n");
    let said = String::from_utf8(socket.rest()).expect("a text");
    assert!(said.contains("23 bytes"), "{said}");
}

/// A body that is sent piece by piece.
struct Pieces(UnboundedReceiver<Bytes>);

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}

#[test]
fn an_upload_that_moves_is_not_ended_over_http2() {
    let upstream = patient_reader();
    let gateway = Gateway::with_settings(A_SECOND, upstream.address);
    let runtime = Runtime::new().expect("a runtime");
    let (sender, pieces) = unbounded_channel();
    let answer = runtime.block_on(async {
        let stream = TcpStream::connect(gateway.address).await.expect("a connection");
        let connected = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
        let (mut line, connection) = connected.expect("HTTP/2");
        tokio::spawn(connection);
        let request = Request::post(gateway.url("/x")).body(Pieces(pieces)).expect("a request");
        line.send_request(request).await.expect("a head")
    });
    paced(20, || sender.send(Bytes::from_static(b"x")).expect("a reader"));
    drop(sender);
    let said = runtime.block_on(answer.into_body().collect()).expect("all of it");
    assert_eq!(said.to_bytes(), "20 bytes");
}

#[test]
fn an_exchange_ends_when_neither_side_moves() {
    let upstream = RawUpstream::start(|wire| {
        if let Some(head) = wire.head() {
            wire.say(OPEN_ANSWER);
            assert_eq!(wire.body(&head), None, "it never ends");
        }
    });
    let gateway = Gateway::with_settings("gateway: {body_timeout: 500ms}", upstream.address);
    let mut socket = Socket::open(gateway.address);
    socket.send(OPEN_POST);
    assert!(socket.head().starts_with("HTTP/1.1 200 "));
    assert_eq!(socket.rest(), b"");
    until("a count", || (gateway.failures("upstream_body_timeout") == 1).then_some(()));
}

#[test]
fn an_early_response_has_connection_close() {
    let upstream = RawUpstream::start(|wire| {
        while let Some(head) = wire.head() {
            let is_early = head.starts_with("POST /early ");
            if !is_early && wire.body(&head).is_none() {
                return;
            }
            wire.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
    });
    let gateway = Gateway::before(upstream.address);
    let answer = |path: &str, framing: &str, body: &str| {
        let mut socket = Socket::open(gateway.address);
        let head = format!("POST {path} HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n{body}");
        socket.send(head.as_bytes());
        let head = socket.head();
        assert_eq!(socket.exactly(2), b"ok", "{path} {framing}");
        (socket, field(&head, "connection").map(str::to_owned))
    };
    for (framing, half, whole) in [
        ("Content-Length: 9", "half", "all of it"),
        ("Transfer-Encoding: chunked", "4\r\nhalf\r\n", "4\r\nhalf\r\n0\r\n\r\n"),
    ] {
        let (mut socket, connection) = answer("/early", framing, half);
        assert_eq!(connection.as_deref(), Some("close"), "{framing}");
        assert_eq!(socket.rest(), b"", "{framing}");
        let (mut socket, connection) = answer("/late", framing, whole);
        assert_eq!(connection, None, "{framing}");
        socket.send(b"GET /again HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(socket.head().starts_with("HTTP/1.1 200 "), "{framing}");
    }
}

#[test]
fn fields_removed_from_heads_are_removed_from_trailers() {
    let upstream = Upstream::start();
    let trailers = [
        ("x-check", "42"),
        ("x-forwarded-for", "192.0.2.1"),
        ("x_forwarded_for", "192.0.2.1"),
        ("forwarded", "for=192.0.2.1"),
        ("x-real-ip", "192.0.2.1"),
        ("connection", "x-named"),
        ("x-named", "1"),
        ("host", "b"),
    ];
    let names = trailers.map(|(name, _)| name).join(", ");
    let lines = trailers.map(|(name, value)| format!("{name}: {value}\r\n")).concat();
    for scheme in ["http", "h2c"] {
        let url = format!("{scheme}://{}", upstream.address);
        let gateway = Gateway::start(crate::gateway::NO_RULES, "", &[url]);
        let mut socket = Socket::open(gateway.address);
        let head = "POST /sink HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n";
        socket.send(format!("{head}Trailer: {names}\r\n\r\n0\r\n{lines}\r\n").as_bytes());
        assert!(socket.head().starts_with("HTTP/1.1 200 "), "{scheme}");
        let trailers = upstream.last().trailers.expect("trailers");
        let names: Vec<&str> = trailers.keys().map(HeaderName::as_str).collect();
        assert_eq!(names, ["x-check"], "{scheme}");
    }
}

#[test]
fn trailers_of_responses_are_stripped_too() {
    let upstream = RawUpstream::start(|wire| {
        while wire.head().is_some() {
            wire.say("HTTP/1.1 200 OK\r\nTrailer: x-sum, connection, x-named, keep-alive\r\n");
            wire.say("Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nx-sum: 7\r\n");
            wire.say("connection: x-named\r\nx-named: 1\r\nkeep-alive: timeout=5\r\n\r\n");
        }
    });
    let gateway = Gateway::before(upstream.address);
    let mut socket = Socket::open(gateway.address);
    socket.send(b"GET / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: TE, close\r\n\r\n");
    socket.head();
    let said = String::from_utf8(socket.rest()).expect("a text");
    assert_eq!(said, "1\r\nx\r\n0\r\nx-sum: 7\r\n\r\n");
}

/// An HTTP/2 connection whose window lets no response through.
struct ClosedWindow {
    runtime: Runtime,
    line: http2::SendRequest<Empty<Bytes>>,
    gateway: SocketAddr,
}

impl ClosedWindow {
    fn open(gateway: SocketAddr) -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let (line, connection) = runtime.block_on(async {
            let stream = TcpStream::connect(gateway).await.expect("a connection");
            http2::Builder::new(TokioExecutor::new())
                .initial_stream_window_size(0)
                .handshake(TokioIo::new(stream))
                .await
                .expect("HTTP/2")
        });
        runtime.spawn(connection);
        Self { runtime, line, gateway }
    }

    fn head(&mut self, path: &str) -> Response<Incoming> {
        let request = Request::get(format!("http://{}{path}", self.gateway)).body(Empty::new());
        let answer = self.line.send_request(request.expect("a request"));
        self.runtime.block_on(answer).expect("a head")
    }
}

/// Other streams of the same connection that move do not keep it alive.
#[test]
fn a_stream_whose_client_does_not_read_is_reset() {
    let upstream = Upstream::start();
    let settings = "{gateway: {requests: 4, requests_per_client: 4, connect_timeout: 100ms, body_timeout: 1s}, limits: {idle_timeout: 1s}}";
    let gateway = Gateway::with_settings(settings, upstream.address);
    let mut closed = ClosedWindow::open(gateway.address);
    let stuck: Vec<_> = (0..4).map(|_| closed.head("/source/10000000")).collect();
    assert!(stuck.iter().all(|answer| answer.status() == 200));
    assert_eq!(gateway.get("/").code(), "upstream_busy");
    until("a free place", || {
        closed.head("/moves");
        (gateway.get("/").status == 200).then_some(())
    });
    for answer in stuck {
        let reset = async { timeout(Duration::from_secs(20), answer.into_body().frame()).await };
        let piece = closed.runtime.block_on(reset).expect("an end");
        assert!(piece.expect("no end").is_err());
    }
    assert_eq!(closed.head("/moves").status(), 200, "the connection goes on");
}
