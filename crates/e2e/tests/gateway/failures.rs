//! Upstreams that are unreachable, slow, or die; and clients that do.

use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use tollgate::Stopwatch;

use crate::gateway::Gateway;
use crate::raw::RawUpstream;
use crate::socket::Socket;
use crate::upstream::Upstream;
use tollgate_e2e::until;

const TIMES: &str = "gateway: {connect_timeout: 1s, response_timeout: 500ms, body_timeout: 500ms}";

#[test]
fn an_unreachable_upstream_is_a_502_and_is_retried_once_a_second() {
    // A port without a listener.
    let address = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port");
    let gateway = Gateway::before(address);
    let first = gateway.get("/");
    assert_eq!((first.status, first.code().as_str()), (502, "upstream_unreachable"));
    // One request a second retries the upstream, and others do not wait.
    let other = until("an upstream that is not retried yet", || {
        Some(gateway.get("/")).filter(|answer| answer.status == 503)
    });
    assert_eq!(other.code(), "no_upstream");
    assert_eq!(other.header("retry-after"), Some("1"));
    for answer in [first, other] {
        assert!(!answer.text().contains(&address.to_string()), "{answer:?}");
    }
    // The upstream comes back.
    let listener = TcpListener::bind(address).expect("the port");
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n");
        }
    });
    until("an upstream that is back", || (gateway.get("/").status == 204).then_some(()));
    let said = until("the line about it", || {
        Some(gateway.server.process.errors()).filter(|said| said.contains("reachable again"))
    });
    assert_eq!(said.matches("cannot connect to upstream").count(), 1, "{said}");
    assert_eq!(said.matches("upstream is reachable again").count(), 1, "{said}");
}

#[test]
fn a_slow_upstream_is_a_504() {
    let upstream = Upstream::start();
    let gateway = Gateway::with_settings(TIMES, upstream.address);
    let late = gateway.get("/hang");
    assert_eq!((late.status, late.code().as_str()), (504, "upstream_timeout"));
    // Other requests are not delayed.
    assert_eq!(gateway.get("/").status, 200);

    let full = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = full.local_addr().expect("an address");
    // No connection is accepted: the TLS handshake never ends.
    let gateway = Gateway::start(crate::gateway::NO_RULES, TIMES, &[format!("https://{address}")]);
    let late = gateway.get("/");
    assert_eq!((late.status, late.code().as_str()), (504, "upstream_connect_timeout"));
}

/// What an upstream sends before it closes the connection or hangs, and what the client gets: a
/// status, or only the beginning of a response.
#[test]
fn an_upstream_that_dies_ends_the_response() {
    let check =
        |said: &'static str, stays: bool, expected: Result<(u16, &str), &str>, kind: &str| {
            let upstream = RawUpstream::start(move |wire| {
                if wire.head().is_some() {
                    wire.say(said);
                    let _ = stays && wire.ends();
                }
            });
            let gateway = Gateway::with_settings(TIMES, upstream.address);
            let mut socket = Socket::open(gateway.address);
            socket.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            let head = socket.head();
            match expected {
                Ok((status, code)) => {
                    assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{said:?}: {head}");
                    socket.finish();
                    let body = String::from_utf8(socket.rest()).expect("a text");
                    assert!(body.contains(&format!("\"code\":\"{code}\"")), "{said:?}: {body}");
                }
                Err(beginning) => {
                    assert!(head.starts_with("HTTP/1.1 200 "), "{said:?}: {head}");
                    let body = String::from_utf8(socket.rest()).expect("a text");
                    // The last chunk of a response is missing.
                    assert!(body.contains(beginning) && !body.ends_with("0\r\n\r\n"), "{body:?}");
                }
            }
            until("a count", || (gateway.failures(kind) == 1).then_some(()));
            assert_eq!(upstream.connections(), 1, "asked twice: {said:?}");
        };
    let broken = Ok((502, "upstream_broken"));
    check("", false, broken, "upstream_broken");
    check("HTTP/1.1 200 OK\r\nContent-Le", false, broken, "upstream_broken");
    check("SSH-2.0-OpenSSH_9.2\r\n", false, broken, "upstream_broken");
    check(
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
        false,
        broken,
        "upstream_broken",
    );
    check(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
        true,
        broken,
        "upstream_broken",
    );
    check("HTTP/1.1 200 OK\r\nContent-Le", true, Ok((504, "upstream_timeout")), "upstream_timeout");
    let half = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf";
    check(half, false, Err("half"), "upstream_body_broken");
    check(half, true, Err("half"), "upstream_body_timeout");
    let chunk = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n";
    check(chunk, false, Err("half"), "upstream_body_broken");
    check(chunk, true, Err("half"), "upstream_body_timeout");
}

#[test]
fn a_client_that_disconnects_cancels_its_request() {
    let upstream = Upstream::start();
    let gateway = Gateway::before(upstream.address);
    for head in ["Content-Length: 9\r\n\r\nhalf", "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"]
    {
        let before = upstream.arrived();
        let mut stream = TcpStream::connect(gateway.address).expect("a connection");
        write!(stream, "POST /sink HTTP/1.1\r\nHost: a\r\n{head}").expect("sent");
        // A client that disconnects earlier may cancel its request before it reaches the upstream.
        until("the request", || (upstream.arrived() > before).then_some(()));
        drop(stream);
        let seen = until("its end", || upstream.seen().get(before).cloned());
        assert_eq!(seen.length, None, "half a body was taken for a whole one");
    }
    until("a count", || (gateway.failures("request_incomplete") == 2).then_some(()));
}

#[test]
fn a_client_that_pauses_gets_a_408() {
    let upstream = Upstream::start();
    let gateway = Gateway::with_settings(TIMES, upstream.address);
    let mut connection = gateway.connect();
    connection
        .send(b"POST /sink HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf")
        .expect("sent");
    let answer = connection.answer().expect("an answer");
    assert_eq!((answer.status, answer.code().as_str()), (408, "request_timeout"));
}

/// It takes longer than the limit in all, but no pause does, and the rate is above the minimum.
#[test]
fn a_slow_body_passes_while_it_moves() {
    let upstream = Upstream::start();
    let gateway = Gateway::with_settings("gateway: {body_timeout: 1s}", upstream.address);
    let mut connection = gateway.connect();
    connection
        .send(b"POST /sink HTTP/1.1\r\nHost: a\r\nContent-Length: 576\r\n\r\n")
        .expect("sent");
    let stopwatch = Stopwatch::start();
    for piece in 1..=9 {
        let its_time = Duration::from_millis(150) * piece;
        until("the time of a piece", || (stopwatch.elapsed() >= its_time).then_some(()));
        connection.send(&[b'x'; 64]).expect("sent");
    }
    assert_eq!(connection.answer().expect("an answer").text(), "576 bytes");
}

#[test]
fn requests_in_flight_to_an_upstream_are_bounded() {
    let upstream = Upstream::start();
    let settings = "gateway: {requests: 1, connect_timeout: 100ms}";
    let gateway = Gateway::with_settings(settings, upstream.address);
    let mut hanging = gateway.connect();
    hanging.send(b"GET /hang HTTP/1.1\r\nHost: a\r\n\r\n").expect("sent");
    until("the request", || (!upstream.seen().is_empty()).then_some(()));
    let busy = gateway.get("/");
    assert_eq!((busy.status, busy.code().as_str()), (503, "upstream_busy"));
    drop(hanging);
    until("a free place", || (gateway.get("/").status == 200).then_some(()));
}
