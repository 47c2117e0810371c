//! Requests that share an HTTP/2 connection, when the upstream resets a stream, sends GOAWAY, or allows
//! few streams at a time.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::frames::{END_HEADERS, END_STREAM, GOAWAY, HEADERS, PREFACE, RESET, SETTINGS, frame};
use crate::gateway::{Gateway, NO_RULES};
use crate::raw::{RawUpstream, Wire};
use crate::socket::Socket;
use tollgate_e2e::client::request;
use tollgate_e2e::until;

const ACKNOWLEDGED: u8 = 1;
const MAX_CONCURRENT_STREAMS: u8 = 3;
const NO_ERROR: u8 = 0;
const INTERNAL_ERROR: u8 = 2;
const REFUSED_STREAM: u8 = 7;
const CANCEL: u8 = 8;
const ENHANCE_YOUR_CALM: u8 = 11;

/// An HTTP/2 server with these settings, which calls `serve` for each stream, and ends when `serve`
/// says so.
fn upstream(
    settings: &'static [u8],
    serve: impl Fn(&mut Wire, u32) -> bool + Send + Sync + 'static,
) -> RawUpstream {
    RawUpstream::start(move |wire| {
        if wire.exactly(PREFACE.len()).is_none() {
            return;
        }
        wire.send(&frame(SETTINGS, 0, 0, settings));
        while let Some(stream) = next_request(wire) {
            if !serve(wire, stream) {
                return;
            }
        }
    })
}

/// The stream of the next request; none at the end of the connection.
fn next_request(wire: &mut Wire) -> Option<u32> {
    loop {
        let head = wire.exactly(9)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let payload = wire.exactly(length)?;
        match (head[3], head[4] & ACKNOWLEDGED) {
            (HEADERS, _) => {
                wire.note(format!("{} compressed bytes", payload.len()));
                return Some(u32::from_be_bytes([head[5], head[6], head[7], head[8]]));
            }
            (SETTINGS, 0) => wire.send(&frame(SETTINGS, ACKNOWLEDGED, 0, b"")),
            _ => {}
        }
    }
}

/// Responds 200 without a body.
fn answer(wire: &mut Wire, stream: u32) {
    const STATUS_200: u8 = 0x88;
    wire.send(&frame(HEADERS, END_HEADERS | END_STREAM, stream, &[STATUS_200]));
}

fn before(upstream: &RawUpstream, settings: &str) -> Gateway {
    Gateway::start(NO_RULES, settings, &[format!("h2c://{}", upstream.address)])
}

/// The second request of the first connection meets `trouble`; all others are answered. `true`: it was
/// sent again, over another connection.
fn is_sent_again(trouble: impl Fn(&mut Wire) -> bool + Send + Sync + 'static) -> bool {
    let is_over = AtomicBool::new(false);
    let upstream = upstream(b"", move |wire, stream| {
        if stream == 3 && !is_over.swap(true, Ordering::SeqCst) {
            return trouble(wire);
        }
        answer(wire, stream);
        true
    });
    let gateway = before(&upstream, "");
    let mut connection = gateway.connect();
    let mut ask = || connection.ask(&request("GET", "/", &[], b"")).status;
    assert_eq!(ask(), 200);
    let second = ask();
    assert_eq!(ask(), 200);
    assert!([200, 502].contains(&second), "{second}");
    assert_eq!(upstream.connections(), if second == 200 { 2 } else { 1 });
    second == 200
}

/// The upstream may have processed a request that it resets.
#[test]
fn a_request_is_retried_only_if_the_upstream_has_not_processed_it() {
    let reset = |wire: &mut Wire, reason: u8| {
        wire.send(&frame(RESET, 0, 3, &[0, 0, 0, reason]));
        true
    };
    assert!(is_sent_again(move |wire| reset(wire, REFUSED_STREAM)));
    assert!(is_sent_again(|wire| {
        wire.send(&frame(GOAWAY, 0, 0, &[0, 0, 0, 1, 0, 0, 0, NO_ERROR]));
        false
    }));
    // The end of an idle connection.
    assert!(is_sent_again(|_| false));
    assert!(!is_sent_again(move |wire| reset(wire, INTERNAL_ERROR)));
    assert!(!is_sent_again(move |wire| reset(wire, ENHANCE_YOUR_CALM)));
    assert!(!is_sent_again(move |wire| reset(wire, CANCEL)));
}

/// Requests beyond the maximum of a connection once waited in a queue, like those to a slow upstream.
#[test]
fn an_upstream_that_allows_few_streams_gets_more_connections() {
    // The first two requests of a connection get no response, and it allows two at a time.
    let upstream = upstream(&[0, MAX_CONCURRENT_STREAMS, 0, 0, 0, 2], |_, stream| {
        assert!(stream <= 3, "more than two at a time");
        true
    });
    let gateway = before(&upstream, "gateway: {response_timeout: 20s}");
    let mut waiting: Vec<Socket> = Vec::new();
    for number in 1..=6 {
        let mut socket = Socket::open(gateway.address);
        socket.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        waiting.push(socket);
        until("a request that is sent", || (upstream.heads().len() == number).then_some(()));
    }
    assert_eq!(upstream.connections(), 3);
}

/// The first requests were once sent before the SETTINGS of the upstream had arrived.
#[test]
fn concurrent_requests_share_connections_as_the_upstream_allows() {
    let upstream = upstream(&[0, MAX_CONCURRENT_STREAMS, 0, 0, 0, 4], |_, stream| {
        assert!(stream <= 7, "more than four at a time");
        true
    });
    let gateway = before(&upstream, "gateway: {response_timeout: 20s}");
    let _waiting: Vec<Socket> = (0..12)
        .map(|_| {
            let mut socket = Socket::open(gateway.address);
            socket.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            socket
        })
        .collect();
    until("all requests", || (upstream.heads().len() == 12).then_some(()));
    assert_eq!(upstream.connections(), 3);
}
