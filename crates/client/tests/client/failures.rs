//! Servers that are away, silent, slow or something else: the failure policy decides, in time.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::thread;
use std::time::Duration;

use tokio::task::JoinSet;
use tollgate_client::{Check, Client, Decision, Error, OnFailure, Source};
use tollgate_testbed::{Fault, FaultProxy, Stopwatch, WAIT_TIMEOUT};

use crate::server::{PROTOCOLS, Protocol, Server};

const TIMEOUT: Duration = Duration::from_millis(200);
/// A busy machine is given more, but far less than what is wrong takes.
const IN_TIME: Duration = Duration::from_secs(4);
const LONG: Duration = Duration::from_secs(5);

fn alice() -> Check {
    Check::new().user_id("alice")
}

fn client(protocol: Protocol, url: &str, on_failure: OnFailure) -> Client {
    let builder = protocol.builder(url).timeout(TIMEOUT).on_failure(on_failure);
    builder.build().expect("a client")
}

/// Checks until the server responds.
async fn until_answered(client: &Client) {
    let answered = async { while !client.check(&alice().cost(0)).await.is_from_server() {} };
    tokio::time::timeout(WAIT_TIMEOUT, answered).await.expect("an answer in the end");
}

/// Whether a decision is that of the policy, for the reason that the fault gives.
fn is_fitting(decision: &Decision, on_failure: OnFailure, fault: Fault) -> bool {
    let error = match (on_failure, &decision.source) {
        (OnFailure::Open, Source::FailedOpen(error)) if decision.allowed => error,
        (OnFailure::Closed, Source::FailedClosed(error)) if !decision.allowed => error,
        _ => return false,
    };
    match error {
        Error::TimedOut { timeout, .. } => *timeout == TIMEOUT,
        Error::Unreachable { .. } => fault == Fault::Refuse,
        _ => false,
    }
}

async fn suffer(server: SocketAddr, protocol: Protocol, on_failure: OnFailure, fault: Fault) {
    let proxy = FaultProxy::start(server);
    let client = client(protocol, &format!("http://{}", proxy.address()), on_failure);
    until_answered(&client).await;
    proxy.set(fault);
    // On the open connection, and on a new one.
    for _ in 0..2 {
        let stopwatch = Stopwatch::start();
        let decision = client.check(&alice()).await;
        let took = stopwatch.elapsed();
        let case = format!("{protocol:?} {on_failure:?} {fault:?} {took:?}: {decision:?}");
        assert!(took < IN_TIME, "{case}");
        assert!(is_fitting(&decision, on_failure, fault), "{case}");
        let decisions = client.check_batch(&[alice(), alice()]).await;
        assert_eq!(decisions.len(), 2, "{case}");
        assert!(decisions.iter().all(|decision| is_fitting(decision, on_failure, fault)), "{case}");
    }
    proxy.set(Fault::Pass);
    until_answered(&client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_policy_decides_in_time_whatever_is_wrong() {
    let slow = Fault::Latency { to_server: LONG, to_client: Duration::ZERO };
    let late = Fault::Latency { to_server: Duration::ZERO, to_client: LONG };
    let server = Server::start();
    let mut cases = JoinSet::new();
    for protocol in PROTOCOLS {
        for on_failure in [OnFailure::Open, OnFailure::Closed] {
            for fault in [Fault::Refuse, Fault::Silence, slow, late] {
                cases.spawn(suffer(server.address(protocol), protocol, on_failure, fault));
            }
        }
    }
    cases.join_all().await;
}

#[tokio::test]
async fn a_server_that_has_ended_is_said_to_be_unreachable() {
    for protocol in PROTOCOLS {
        let server = Server::start();
        let url = server.url(protocol);
        let client = server.client(protocol);
        until_answered(&client).await;
        drop(server);
        let error = client.try_check(&alice()).await.expect_err("no server is there");
        assert!(matches!(error, Error::Unreachable { .. }), "{protocol:?} {error:?}");
        assert!(error.to_string().contains(&url), "{error}");
        for error in [client.peek(&alice()).await, client.try_check(&alice()).await] {
            assert!(error.is_err());
        }
    }
}

/// A port where every connection gets these bytes, and is then closed.
fn answering(bytes: &'static [u8]) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.expect("a connection");
            // Some of the request must be read, or closing would look like a reset.
            let _ = connection.read(&mut [0; 4_096]);
            let _ = connection.write_all(bytes);
        }
    });
    format!("http://127.0.0.1:{port}")
}

#[tokio::test]
async fn what_is_no_server_is_recognised() {
    let check = async |bytes: &'static [u8], expected: &str| {
        let client = Protocol::Http.builder(&answering(bytes)).build().expect("a client");
        let error = client.try_check(&alice()).await.expect_err(expected);
        assert!(error.to_string().contains(expected), "no {expected:?} in {error}");
    };
    let unreadable = "cannot be read";
    check(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n<html>", unreadable).await;
    check(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}", "missing field `allowed`").await;
    check(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", "404 Not Found").await;
    check(b"HTTP/1.1 200 OK\r\ncontent-length: 60\r\n\r\n{", "cannot reach").await;
    check(b"220 mail.example.com ESMTP\r\n", "cannot reach").await;
    check(b"", "cannot reach").await;
    let rubbish = answering(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n<html>");
    let client = Protocol::Grpc.builder(&rubbish).build().expect("a client");
    assert!(client.try_check(&alice()).await.is_err());
    // A batch with another number of results than checks is invalid.
    let short = answering(b"HTTP/1.1 200 OK\r\ncontent-length: 14\r\n\r\n{\"results\":[]}");
    let client = Protocol::Http.builder(&short).build().expect("a client");
    let error = client.try_check_batch(&[alice()]).await.expect_err("no answer");
    assert!(error.to_string().contains("0 answers to 1 checks"), "{error}");
}
