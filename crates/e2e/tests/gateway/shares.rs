//! The share of one client in upgraded connections, and how long they may be idle.

use std::time::Duration;

use tollgate::Stopwatch;

use crate::gateway::Gateway;
use crate::socket::Socket;
use crate::upstream::Upstream;
use tollgate_e2e::client::request;
use tollgate_e2e::until;

/// The smallest share.
const SHARE: usize = 16;

fn ask_to_upgrade(gateway: &Gateway, path: &str) -> Socket {
    let mut socket = Socket::open(gateway.address);
    let fields = "Host: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n";
    socket.send(format!("GET {path} HTTP/1.1\r\n{fields}").as_bytes());
    socket
}

fn upgraded(gateway: &Gateway) -> Socket {
    let mut socket = ask_to_upgrade(gateway, "/upgrade");
    assert!(socket.head().starts_with("HTTP/1.1 101 "));
    socket
}

#[test]
fn upgraded_connections_stay_in_the_share_of_their_address() {
    let upstream = Upstream::start();
    let gateway = Gateway::with_settings("limits: {connections: 32}", upstream.address);
    let is_served = || {
        let mut connection = gateway.connect();
        // It may be closed before anything is sent.
        let sent = connection.send(&request("GET", "/", &[], b""));
        sent.and_then(|()| connection.answer()).is_ok()
    };
    let mut sockets: Vec<Socket> = (0..SHARE).map(|_| upgraded(&gateway)).collect();
    assert!(!is_served(), "all of the share are upgraded");
    sockets.pop();
    until("a free place", || is_served().then_some(()));
}

#[test]
fn only_upgraded_connections_are_counted() {
    let upstream = Upstream::start();
    let gateway = Gateway::before(upstream.address);
    let _asking = ask_to_upgrade(&gateway, "/hang");
    until("the request", || (!upstream.seen().is_empty()).then_some(()));
    assert_eq!(gateway.upgrades(), 0);
    let _upgraded = upgraded(&gateway);
    assert_eq!(gateway.upgrades(), 1);
}

/// The last piece comes after the first idle timeout has begun.
#[test]
fn the_idle_timeout_of_an_upgrade_begins_with_its_last_piece() {
    let upstream = Upstream::start();
    let gateway = Gateway::with_settings("gateway: {upgrade_timeout: 4s}", upstream.address);
    let mut socket = upgraded(&gateway);
    let stopwatch = Stopwatch::start();
    socket.send(b"x");
    assert_eq!(socket.exactly(1), b"x");
    assert_eq!(socket.rest(), b"");
    let took = stopwatch.elapsed();
    assert!(took >= Duration::from_secs(4) && took < Duration::from_millis(7_500), "{took:?}");
}
