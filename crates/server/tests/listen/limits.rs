//! Limits of a connection: headers, timeouts, connections.

use std::net::SocketAddr;
use std::time::Duration;

use http::Version;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tollgate_server::listen::Listener;
use tollgate_server::settings::Limits;

use crate::client::{connect, connect_from, get, read_answer, read_to_end, send};
use crate::server::{Server, soon};

const ASK: &str = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";

fn short() -> Limits {
    Limits {
        header_timeout: Duration::from_millis(100),
        idle_timeout: Duration::from_millis(400),
        ..Limits::default()
    }
}

#[tokio::test]
async fn both_protocols_are_served_on_one_port() {
    let server = Server::start(&Limits::default(), None).await;
    for (version, shown) in [(Version::HTTP_11, "HTTP/1.1"), (Version::HTTP_2, "HTTP/2.0")] {
        let stream = connect(server.address).await;
        let own_address = stream.local_addr().expect("an address");
        let (status, body) = get(stream, version, "/").await.expect("an answer");
        assert_eq!((status, body), (200, format!("{own_address} false {shown}")));
    }
}

#[tokio::test]
async fn heads_that_are_too_large_are_refused() {
    let server = Server::start(&Limits::default(), None).await;
    let many_bytes = format!("X-Long: {}\r\n", "a".repeat(80_000));
    let many_fields = "X-Field: 1\r\n".repeat(150);
    for (fields, expected) in [("", "200"), (&many_bytes, "431"), (&many_fields, "431")] {
        let mut stream = connect(server.address).await;
        let head = format!("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{fields}\r\n");
        send(&mut stream, &head).await;
        let answer = read_to_end(&mut stream).await;
        let status = answer.split(' ').nth(1).unwrap_or_default();
        assert_eq!(status, expected, "{} bytes of fields: {answer:.100}", fields.len());
    }
}

#[tokio::test]
async fn fewer_or_more_header_fields_can_be_allowed() {
    for (allowed, sent, expected) in [(10, 20, "431"), (200, 150, "200"), (200, 250, "431")] {
        let limits = Limits { header_count: allowed, ..Limits::default() };
        let server = Server::start(&limits, None).await;
        let fields = "X-Field: 1\r\n".repeat(sent);
        let mut stream = connect(server.address).await;
        let head = format!("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{fields}\r\n");
        send(&mut stream, &head).await;
        let answer = read_to_end(&mut stream).await;
        assert_eq!(answer.split(' ').nth(1), Some(expected), "{sent} of {allowed}: {answer:.100}");
    }
}

#[tokio::test]
async fn a_head_that_never_ends_is_cut_off() {
    let server = Server::start(&short(), None).await;
    // No bytes at all, the beginning of either protocol, and an incomplete head.
    for beginning in ["", "GET / HT", "PRI * HTTP/2.0\r\n", "GET / HTTP/1.1\r\nHost: a\r\nX-"] {
        let mut stream = connect(server.address).await;
        send(&mut stream, beginning).await;
        assert_eq!(read_to_end(&mut stream).await, "", "{beginning:?}");
    }
    let patient = Limits { idle_timeout: Duration::from_hours(1), ..short() };
    let server = Server::start(&patient, None).await;
    let mut stream = connect(server.address).await;
    send(&mut stream, ASK).await;
    read_answer(&mut stream).await;
    send(&mut stream, "GET / HTTP/1.1\r\nHost: a\r\nX-").await;
    assert_eq!(read_to_end(&mut stream).await, "");
}

#[tokio::test]
async fn a_connection_may_be_idle_up_to_the_idle_timeout() {
    let limits = Limits { idle_timeout: Duration::from_secs(5), ..short() };
    let server = Server::start(&limits, None).await;
    let mut stream = connect(server.address).await;
    send(&mut stream, ASK).await;
    assert!(read_answer(&mut stream).await.contains("200 OK"));
    // Longer than the header timeout, which does not apply between requests.
    let pause = tokio::time::timeout(Duration::from_millis(300), read_to_end(&mut stream)).await;
    assert!(pause.is_err(), "the connection ended during a short pause");
    send(&mut stream, ASK).await;
    assert!(read_answer(&mut stream).await.contains("200 OK"));
    assert_eq!(read_to_end(&mut stream).await, "", "a long pause ends it");
}

#[tokio::test]
async fn an_idle_connection_of_http2_is_closed() {
    let server = Server::start(&short(), None).await;
    let stream = hyper_util::rt::TokioIo::new(connect(server.address).await);
    let executor = hyper_util::rt::TokioExecutor::new();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(executor, stream).await.expect("HTTP/2");
    let connection = tokio::spawn(connection);
    let request = http::Request::get("http://localhost/").body(String::new()).expect("a request");
    assert_eq!(sender.send_request(request).await.expect("an answer").status(), 200);
    let ended = soon("the end of an idle connection", connection).await.expect("no panic");
    assert!(ended.is_ok(), "it was closed with GOAWAY, not cut off: {ended:?}");
}

#[tokio::test]
async fn a_slow_response_is_not_cut_off() {
    let server = Server::start(&short(), None).await;
    let mut stream = connect(server.address).await;
    send(&mut stream, "GET /slow HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await;
    soon("the request", server.gate.arrived.notified()).await;
    // Longer than all timeouts of connections, which do not apply during a request.
    let early = tokio::time::timeout(Duration::from_millis(800), read_to_end(&mut stream)).await;
    assert!(early.is_err(), "the connection ended before the answer");
    server.gate.open.add_permits(1);
    assert!(read_to_end(&mut stream).await.contains("200 OK"));
}

#[tokio::test]
async fn connections_beyond_the_limit_wait() {
    let server = Server::start(&Limits { connections: 1, ..Limits::default() }, None).await;
    let mut first = connect(server.address).await;
    send(&mut first, ASK).await;
    assert!(read_answer(&mut first).await.contains("200 OK"));
    let second = connect(server.address).await;
    let mut waiting = Box::pin(get(second, Version::HTTP_11, "/"));
    let early = tokio::time::timeout(Duration::from_millis(200), &mut waiting).await;
    assert!(early.is_err(), "only one connection is allowed");
    drop(first);
    let (status, _) = soon("room", waiting).await.expect("an answer");
    assert_eq!(status, 200);
}

#[tokio::test]
async fn one_client_cannot_take_all_connections() {
    let server = Server::start(&Limits { connections: 34, ..Limits::default() }, None).await;
    let (greedy, modest) = ([127, 0, 0, 1], [127, 0, 0, 2]);
    let ask = async |own| {
        let mut stream = connect_from(own, server.address).await;
        // A connection that is not admitted is cut off at any time, even while it sends.
        stream.write_all(ASK.as_bytes()).await.ok()?;
        let mut first = [0; 12];
        soon("an answer or the end", stream.read_exact(&mut first)).await.ok()?;
        assert_eq!(&first, b"HTTP/1.1 200");
        Some(stream)
    };
    let mut taken = Vec::new();
    for _ in 0..17 {
        taken.push(ask(greedy).await.expect("room"));
    }
    assert!(ask(greedy).await.is_none(), "one client may have half of all connections");
    let other = ask(modest).await;
    assert!(other.is_some(), "the other half is for others");
    taken.pop();
    let again = soon("room", async {
        loop {
            if let Some(stream) = ask(greedy).await {
                return stream;
            }
        }
    });
    again.await;
}

#[tokio::test]
async fn a_port_that_cannot_be_opened_is_an_error() {
    let taken = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let address = taken.local_addr().expect("an address");
    let error = Listener::bind(address, None, &Limits::default()).await.expect_err("it is taken");
    let expected = format!("cannot listen on {address}: another program listens there already");
    assert_eq!(error.to_string(), expected);
    let foreign: SocketAddr = "192.0.2.1:80".parse().expect("an address");
    let error = Listener::bind(foreign, None, &Limits::default()).await.expect_err("not ours");
    let expected = "cannot listen on 192.0.2.1:80: this machine has no such address";
    assert_eq!(error.to_string(), expected);
}
