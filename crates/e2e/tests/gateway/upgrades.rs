//! Connections that are upgraded to another protocol.

use crate::gateway::Gateway;
use crate::raw::field;
use crate::socket::Socket;
use crate::upstream::Upstream;
use tollgate_e2e::until;

const HANDSHAKE: &str = "GET /upgrade?x=1 HTTP/1.1\r\nHost: chat.example\r\nConnection: keep-alive, Upgrade\r\n\
    Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// A masked text frame, as clients send them.
const FRAME: [u8; 11] = [0x81, 0x85, 1, 2, 3, 4, b'h' ^ 1, b'e' ^ 2, b'l' ^ 3, b'l' ^ 4, b'o' ^ 1];

/// Upgrades a connection, and returns the response.
fn change(gateway: &Gateway) -> (Socket, String) {
    let mut socket = Socket::open(gateway.address);
    socket.send(HANDSHAKE.as_bytes());
    let head = socket.head();
    (socket, head)
}

fn is_changed(head: &str) -> bool {
    head.starts_with("HTTP/1.1 101 ")
}

#[test]
fn frames_of_a_web_socket_go_both_ways_until_both_sides_end() {
    let upstream = Upstream::start();
    let gateway = Gateway::before(upstream.address);
    let (mut socket, head) = change(&gateway);
    assert!(is_changed(&head), "{head}");
    assert_eq!(field(&head, "upgrade"), Some("websocket"));
    assert_eq!(field(&head, "connection"), Some("upgrade"));
    assert_eq!(field(&head, "sec-websocket-accept"), Some("yes"));
    let seen = upstream.last();
    assert_eq!(seen.target, "/upgrade?x=1");
    assert_eq!(seen.field("sec-websocket-key"), Some("dGhlIHNhbXBsZSBub25jZQ=="));
    assert_eq!(seen.field("x-forwarded-host"), Some("chat.example"));
    for _ in 0..100 {
        socket.send(&FRAME);
        assert_eq!(socket.exactly(FRAME.len()), FRAME);
    }
    assert_eq!(gateway.upgrades(), 1);
    // One side ends; what the other still sends arrives.
    socket.send(&FRAME);
    socket.finish();
    assert_eq!(socket.rest(), FRAME);
    until("no open upgrade", || (gateway.upgrades() == 0).then_some(()));
}

#[test]
fn the_number_of_upgrades_is_bounded() {
    let upstream = Upstream::start();
    let gateway =
        Gateway::with_settings("gateway: {upgrades: 2, upgrades_per_client: 2}", upstream.address);
    let (first, second) = (change(&gateway), change(&gateway));
    assert!(is_changed(&first.1) && is_changed(&second.1));
    let refused = gateway.connect().ask(HANDSHAKE.as_bytes());
    assert_eq!((refused.status, refused.code().as_str()), (503, "too_many_upgrades"));
    drop(first);
    until("a free place", || is_changed(&change(&gateway).1).then_some(()));
}

#[test]
fn idle_upgrades_end() {
    let upstream = Upstream::start();
    let gateway = Gateway::with_settings("gateway: {upgrade_timeout: 100ms}", upstream.address);
    let (mut socket, head) = change(&gateway);
    assert!(is_changed(&head), "{head}");
    assert_eq!(socket.rest(), b"");
}

#[test]
fn h2c_and_malformed_upgrades_are_not_forwarded() {
    let upstream = Upstream::start();
    let gateway = Gateway::before(upstream.address);
    for fields in [
        "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n",
        "Upgrade: websocket\r\n",
        "Connection: Upgrade\r\n",
        "Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 1\r\n",
    ] {
        let body = if fields.contains("Length") { "x" } else { "" };
        let request = format!("GET /upgrade HTTP/1.1\r\nHost: a\r\n{fields}\r\n{body}");
        let answer = gateway.connect().ask(request.as_bytes());
        assert_eq!((answer.status, answer.text().as_str()), (200, "no upgrade"), "{fields}");
        let seen = upstream.last();
        for name in ["upgrade", "connection", "http2-settings"] {
            assert_eq!(seen.field(name), None, "{fields}: {seen:?}");
        }
    }
    // HTTP/2 cannot be upgraded.
    let url = format!("h2c://{}", upstream.address);
    let gateway = Gateway::start(crate::gateway::NO_RULES, "", &[url]);
    let answer = gateway.connect().ask(HANDSHAKE.as_bytes());
    assert_eq!((answer.status, answer.text().as_str()), (200, "no upgrade"));
}
