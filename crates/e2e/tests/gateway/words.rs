//! `Expect: 100-continue`: the client is asked for its body when the upstream wants it, and not before.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::gateway::Gateway;
use crate::raw::{RawUpstream, field};
use tollgate_e2e::until;

const HEAD: &[u8] =
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n";

#[test]
fn a_100_continue_of_the_upstream_is_forwarded() {
    let may_ask = Arc::new(AtomicBool::new(false));
    let is_allowed = Arc::clone(&may_ask);
    let upstream = RawUpstream::start(move |wire| {
        let Some(head) = wire.head() else { return };
        until("leave to ask", || is_allowed.load(Ordering::SeqCst).then_some(()));
        wire.say("HTTP/1.1 100 Continue\r\n\r\n");
        let body = wire.body(&head).expect("a body");
        assert_eq!(body, b"body");
        wire.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    });
    let gateway = Gateway::before(upstream.address);
    let mut connection = gateway.connect();
    connection.send(HEAD).expect("sent");
    until("the head", || (!upstream.heads().is_empty()).then_some(()));
    assert_eq!(field(&upstream.heads()[0], "expect"), Some("100-continue"));
    may_ask.store(true, Ordering::SeqCst);
    connection.send(b"body").expect("sent");
    let said = String::from_utf8(connection.rest()).expect("a text");
    assert!(said.starts_with("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n"), "{said}");
}

#[test]
fn a_refusal_comes_without_a_100_continue() {
    let check = |gateway: &Gateway, expected: &str| {
        let mut connection = gateway.connect();
        connection.send(HEAD).expect("sent");
        let said = String::from_utf8(connection.rest()).expect("a text");
        assert!(said.starts_with(expected), "{said}");
    };
    let upstream = RawUpstream::start(|wire| {
        if wire.head().is_some() {
            wire.say("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n");
            assert!(wire.ends(), "a body that was not asked for");
        }
    });
    check(&Gateway::before(upstream.address), "HTTP/1.1 403 Forbidden\r\n");
    let rules = "rules: [{rule_id: none, limit: 0, window: 1h, identifier_type: global}]";
    check(&Gateway::with_rules(rules, upstream.address), "HTTP/1.1 429 Too Many Requests\r\n");
    assert_eq!(upstream.heads().len(), 1);
}

#[test]
fn an_upstream_that_sends_no_100_continue_gets_the_body() {
    let upstream = RawUpstream::echo();
    let gateway = Gateway::before(upstream.address);
    let mut connection = gateway.connect();
    connection.send(&[HEAD, b"body"].concat()).expect("sent");
    let answer = connection.answer().expect("an answer");
    assert!(answer.text().starts_with("4 POST / "), "{answer:?}");
}
