//! Several equal upstreams.

use std::net::TcpListener;

use crate::gateway::{Gateway, NO_RULES};
use crate::raw::RawUpstream;
use tollgate_e2e::client::request;

#[test]
fn equal_upstreams_take_turns() {
    let upstreams: Vec<RawUpstream> = (0..3).map(|_| RawUpstream::echo()).collect();
    let urls: Vec<String> = upstreams.iter().map(|it| format!("http://{}", it.address)).collect();
    let gateway = Gateway::start(NO_RULES, "", &urls);
    let mut connection = gateway.connect();
    for _ in 0..30 {
        assert_eq!(connection.ask(&request("POST", "/", &[], b"x")).status, 200);
    }
    for upstream in &upstreams {
        assert_eq!((upstream.heads().len(), upstream.connections()), (10, 1));
    }
}

#[test]
fn an_unreachable_upstream_fails_no_request() {
    let alive = RawUpstream::echo();
    let dead = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port");
    let urls = [format!("http://{dead}"), format!("http://{}", alive.address)];
    let gateway = Gateway::start(NO_RULES, "", &urls);
    for _ in 0..20 {
        let answer = gateway.ask("POST", "/", &[], b"body");
        assert!(answer.text().starts_with("4 POST / "), "{answer:?}");
    }
    assert_eq!(alive.heads().len(), 20);
}
