//! Slow clients: one address must not exhaust what all clients share.

use std::time::Duration;

use tollgate::Stopwatch;

use crate::gateway::Gateway;
use crate::socket::Socket;
use crate::upstream::Upstream;
use tollgate_e2e::client::Connection;
use tollgate_e2e::program::curl_from;
use tollgate_e2e::until;

/// The default size of both pools, and what one client may have of them.
const POOL: usize = 1_024;
const SHARE: usize = POOL / 4;
/// So that a client that waits for a place does not wait for long.
const SETTINGS: &str = "gateway: {connect_timeout: 1s}";
/// An address that is not the one of the other clients here.
const OTHER: &str = "127.0.0.2";

/// A client that sends the first byte of a large body, and then nothing.
fn slow_upload(gateway: &Gateway, fields: &str) -> Socket {
    let mut socket = Socket::open(gateway.address);
    let head =
        format!("POST /sink HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n{fields}\r\nx");
    socket.send(head.as_bytes());
    socket
}

fn ask_to_upgrade(gateway: &Gateway) -> Connection {
    let mut connection = gateway.connect();
    let head = "GET /upgrade HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n";
    connection.send(head.as_bytes()).expect("sent");
    connection
}

/// Waits until so many requests have failed for that reason.
fn await_failures(gateway: &Gateway, kind: &str, count: usize) {
    until(kind, || (gateway.failures(kind) == count as u64).then_some(()));
}

#[test]
fn slow_uploads_from_one_address_leave_room_for_others() {
    let upstream = Upstream::start();
    let gateway = Gateway::with_settings(SETTINGS, upstream.address);
    let uploads: Vec<Socket> = (0..POOL).map(|_| slow_upload(&gateway, "")).collect();
    await_failures(&gateway, "too_many_concurrent_requests", POOL - SHARE);
    let answer = curl_from(OTHER, &gateway.url("/"), &[]);
    assert_eq!(answer.status, 200, "{answer:?}");
    let refused = gateway.get("/");
    assert_eq!((refused.status, refused.code().as_str()), (429, "too_many_concurrent_requests"));
    assert_eq!(refused.header("retry-after"), Some("1"));
    drop(uploads);
    until("a free place", || (gateway.get("/").status == 200).then_some(()));
}

#[test]
fn upgrades_from_one_address_leave_room_for_others() {
    let upstream = Upstream::start();
    let gateway = Gateway::with_settings(SETTINGS, upstream.address);
    let connections: Vec<Connection> = (0..POOL).map(|_| ask_to_upgrade(&gateway)).collect();
    await_failures(&gateway, "too_many_client_upgrades", POOL - SHARE);
    until("upgrades", || (gateway.upgrades() == SHARE as u64).then_some(()));
    // A client behind the trusted proxy that this machine is.
    let mut other = Socket::open(gateway.address);
    let head = "GET /upgrade HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n";
    other.send(format!("{head}X-Forwarded-For: 203.0.113.1\r\n\r\n").as_bytes());
    assert!(other.head().starts_with("HTTP/1.1 101 "));
    let refused = gateway.connect().ask(format!("{head}\r\n").as_bytes());
    assert_eq!((refused.status, refused.code().as_str()), (429, "too_many_client_upgrades"));
    drop(connections);
}

/// Each client behind a trusted proxy has a share, not the proxy.
#[test]
fn clients_behind_a_trusted_proxy_have_their_own_shares() {
    let upstream = Upstream::start();
    let settings = "gateway: {requests: 8, requests_per_client: 2, connect_timeout: 100ms}";
    let gateway = Gateway::with_settings(settings, upstream.address);
    let from = |client: &str| gateway.ask("GET", "/", &[("X-Forwarded-For", client)], b"").status;
    let uploads: Vec<Socket> =
        (0..4).map(|_| slow_upload(&gateway, "X-Forwarded-For: 203.0.113.1\r\n")).collect();
    await_failures(&gateway, "too_many_concurrent_requests", 2);
    assert_eq!(from("203.0.113.1"), 429);
    assert_eq!(from("203.0.113.2"), 200);
    // A client in the same /64 is the same client.
    let fields = "X-Forwarded-For: 2001:db8::1\r\n";
    let site: Vec<Socket> = (0..3).map(|_| slow_upload(&gateway, fields)).collect();
    await_failures(&gateway, "too_many_concurrent_requests", 4);
    assert_eq!(from("2001:db8::2"), 429);
    assert_eq!(from("2001:db8:0:1::2"), 200);
    drop((uploads, site));
}

/// Sends a byte every 100 ms until there is a response. Returns how long that took, and the status.
fn drip(gateway: &Gateway) -> (Duration, u16) {
    let mut connection = gateway.connect();
    let head = b"POST /sink HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n";
    connection.send(head).expect("sent");
    let stopwatch = Stopwatch::start();
    let mut sent = 0;
    while gateway.failures("request_timeout") == 0 {
        sent += 1;
        let its_time = Duration::from_millis(100) * sent;
        until("the time of a byte", || (stopwatch.elapsed() >= its_time).then_some(()));
        // The response may have come by now.
        let _ = connection.send(b"x");
        assert!(stopwatch.elapsed() < Duration::from_secs(20), "it goes on");
    }
    let took = stopwatch.elapsed();
    (took, connection.answer().expect("an answer").status)
}

#[test]
fn single_bytes_do_not_keep_a_request_alive() {
    let upstream = Upstream::start();
    let gateway = Gateway::with_settings("gateway: {body_timeout: 1s}", upstream.address);
    let (took, status) = drip(&gateway);
    assert_eq!(status, 408);
    assert!(took < Duration::from_secs(5), "{took:?}");
}

#[test]
fn an_upload_has_a_total_time() {
    let upstream = Upstream::start();
    let settings = "gateway: {min_body_rate: 0, upload_timeout: 1s}";
    let gateway = Gateway::with_settings(settings, upstream.address);
    let (took, status) = drip(&gateway);
    assert_eq!(status, 408);
    assert!(took < Duration::from_secs(5), "{took:?}");
}
