//! Shutdown of a gateway: requests in flight are answered, and upgraded connections are cut off.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use crate::gateway::Gateway;
use crate::raw::RawUpstream;
use crate::socket::Socket;
use crate::upstream::Upstream;
use tollgate_e2e::client::{Connection, request};
use tollgate_e2e::{beside, until};

/// The client gets a response to every request that reached the upstream.
#[test]
fn no_request_is_lost_at_shutdown() {
    let upstream = RawUpstream::echo();
    let mut gateway = Gateway::before(upstream.address);
    let (address, answered) = (gateway.address, AtomicU64::new(0));
    let ask = |is_over: &std::sync::atomic::AtomicBool| {
        let mut connection = Connection::open(address);
        while !is_over.load(SeqCst) {
            // A connection that ends between two requests has lost none.
            if connection.send(&request("POST", "/x", &[], b"body")).is_err() {
                return;
            }
            match connection.answer() {
                Ok(answer) => {
                    assert_eq!(answer.status, 200, "{answer:?}");
                    answered.fetch_add(1, SeqCst);
                    if answer.header("connection") == Some("close") {
                        return;
                    }
                }
                Err(_) => return,
            }
        }
    };
    beside(8, ask, || {
        until("some answers", || (answered.load(SeqCst) > 500).then_some(()));
        gateway.server.process.signal("TERM");
        assert_eq!(
            gateway.server.process.end().code(),
            Some(0),
            "{}",
            gateway.server.process.errors()
        );
    });
    assert_eq!(answered.load(SeqCst), upstream.heads().len() as u64);
    assert!(!gateway.server.process.errors().contains("cut off"));
}

#[test]
fn a_response_in_flight_arrives_and_an_upgrade_is_cut_off() {
    let upstream = Upstream::start();
    let mut gateway = Gateway::with_settings("limits: {shutdown_grace: 300ms}", upstream.address);
    let mut socket = Socket::open(gateway.address);
    socket
        .send(b"GET /upgrade HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n");
    assert!(socket.head().starts_with("HTTP/1.1 101 "));
    let mut upload = gateway.connect();
    upload.send(b"POST /sink HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n\r\nhalf").expect("sent");
    socket.send(b"before");
    assert_eq!(socket.exactly(6), b"before");
    gateway.server.process.signal("TERM");
    gateway
        .server
        .process
        .until("word of the end", |process| process.errors().contains("finishing").then_some(()));
    // Both go on for a while.
    socket.send(b"after");
    assert_eq!(socket.exactly(5), b"after");
    upload.send(b"half").expect("sent");
    let answer = upload.answer().expect("an answer");
    assert_eq!((answer.status, answer.text().as_str()), (200, "8 bytes"));
    assert_eq!(socket.rest(), b"");
    assert_eq!(gateway.server.process.end().code(), Some(0));
    let said = gateway.server.process.errors();
    assert!(said.contains("connections=1") && said.contains("cut off"), "{said}");
}
