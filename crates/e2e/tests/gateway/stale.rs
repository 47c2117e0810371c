//! Connections that an upstream closed while they waited for their next request.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, TryRecvError};
use std::time::Duration;

use crate::gateway::Gateway;
use crate::raw::RawUpstream;
use tollgate_e2e::client::request;

const ANSWER: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// Responds to one request of a connection, and closes it when the next one has come: as if the two
/// had crossed.
fn forgetful() -> (RawUpstream, Arc<AtomicUsize>) {
    let lost = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&lost);
    let upstream = RawUpstream::start(move |wire| {
        let Some(head) = wire.head() else { return };
        if wire.body(&head).is_none() {
            return;
        }
        wire.say(ANSWER);
        if wire.head().is_some() {
            count.fetch_add(1, Ordering::SeqCst);
        }
    });
    (upstream, lost)
}

#[test]
fn an_idempotent_request_is_retried_once() {
    let check = |method: &str, body: &[u8], expected: u16| {
        let (upstream, lost) = forgetful();
        let gateway = Gateway::before(upstream.address);
        let mut connection = gateway.connect();
        assert_eq!(connection.ask(&request("GET", "/first", &[], b"")).status, 200);
        let answer = connection.ask(&request(method, "/second", &[], body));
        assert_eq!(answer.status, expected, "{method} {answer:?}");
        assert_eq!(lost.load(Ordering::SeqCst), 1, "{method}");
        let sent = upstream.heads().iter().filter(|head| head.contains("/second")).count();
        assert_eq!(sent, if expected == 200 { 2 } else { 1 }, "{method}");
        assert_eq!(gateway.count("tollgate_gateway_retries_total"), sent as u64 - 1, "{method}");
    };
    for method in ["GET", "HEAD", "OPTIONS", "DELETE", "PUT"] {
        check(method, b"", 200);
    }
    // The upstream may have processed these.
    check("POST", b"", 502);
    check("PATCH", b"", 502);
    check("PUT", b"body", 502);
    check("POST", b"body", 502);
}

#[test]
fn a_connection_that_was_seen_to_close_is_not_used() {
    // It closes right after its response, without `Connection: close`.
    let upstream = RawUpstream::start(|wire| {
        let Some(head) = wire.head() else { return };
        if wire.body(&head).is_some() {
            wire.say(ANSWER);
        }
    });
    let gateway = Gateway::before(upstream.address);
    let mut connection = gateway.connect();
    for number in 0..20 {
        let answer = connection.ask(&request("GET", &format!("/{number}"), &[], b""));
        assert_eq!((answer.status, answer.text().as_str()), (200, "ok"), "{answer:?}");
    }
    assert_eq!(upstream.heads().len(), upstream.connections());
}

/// A connection with an idle timeout of an hour stays when one with a short timeout has ended.
#[test]
fn idle_connections_have_a_timeout() {
    let serve = |idle: &str| {
        let (sender, ended) = mpsc::channel();
        let upstream = RawUpstream::start(move |wire| {
            if wire.head().is_some() {
                wire.say(ANSWER);
                // The client may be gone at the end of the test.
                let _ = sender.send(wire.ends());
            }
        });
        let settings = format!("gateway: {{idle_timeout: {idle}}}");
        let gateway = Gateway::with_settings(&settings, upstream.address);
        assert_eq!(gateway.get("/").status, 200);
        (gateway, upstream, ended)
    };
    let (_patient, _upstream, not_ended) = serve("1h");
    let (_impatient, _other, ended) = serve("100ms");
    assert_eq!(ended.recv_timeout(Duration::from_secs(20)), Ok(true));
    assert_eq!(not_ended.try_recv(), Err(TryRecvError::Empty));
}
