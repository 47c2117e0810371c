//! Connections and responses that come after the deadline serve the next check.

use std::io::{BufRead, BufReader, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tokio::time::timeout;
use tollgate_client::{Check, Client, Error, Source};
use tollgate_testbed::{Fault, FaultProxy, WAIT_TIMEOUT};

use crate::server::Protocol;
use crate::trust::{read, with_certificate};

/// Checks until the server responds.
async fn until_answered(client: &Client) {
    let answered = async { while !client.check(&Check::new()).await.is_from_server() {} };
    timeout(WAIT_TIMEOUT, answered).await.expect("an answer in the end");
}

/// Checks over connections that take longer to make than the timeout.
async fn ask_over_slow_connections(protocol: Protocol) {
    // A check is a few hundred bytes, so it is in time; the certificate takes three times as long.
    const BYTES_PER_SECOND: u32 = 20_000;
    const TIMEOUT: Duration = Duration::from_millis(300);
    let server = with_certificate(500);
    let proxy = FaultProxy::start(server.address(protocol));
    proxy.set(Fault::Bandwidth(BYTES_PER_SECOND));
    let url = format!("https://localhost:{}", proxy.address().port());
    let builder = protocol.builder(&url).authority(read(&server, "server.pem"));
    let client = builder.clone().timeout(TIMEOUT).build().expect("a client");
    let first = client.check(&Check::new()).await;
    let Source::FailedOpen(Error::TimedOut { .. }) = first.source else { panic!("{first:?}") };
    until_answered(&client).await;
    // The same holds if the caller drops the call.
    let client = builder.build().expect("a client");
    let asked = async { while timeout(TIMEOUT, client.check(&Check::new())).await.is_err() {} };
    timeout(WAIT_TIMEOUT, asked).await.expect("an answer in the end");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_takes_longer_than_the_timeout_serves_later_checks_over_http() {
    ask_over_slow_connections(Protocol::Http).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_takes_longer_than_the_timeout_serves_later_checks_over_grpc() {
    ask_over_slow_connections(Protocol::Grpc).await;
}

/// Reads a request to its end; none if there is no other.
fn read_request(connection: &mut impl BufRead) -> Option<()> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if connection.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    connection.read_exact(&mut vec![0; length]).ok()
}

/// A server that takes one connection and no other, and sends its first response on a signal.
fn with_one_connection() -> (String, mpsc::Sender<()>) {
    const ANSWER: &str = r#"{"allowed": true, "state": "normal"}"#;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let (connection, _) = listener.accept().expect("a connection");
        let mut connection = BufReader::new(connection);
        let mut is_released = false;
        while read_request(&mut connection).is_some() {
            if !is_released {
                is_released = told.recv().is_ok();
            }
            let length = ANSWER.len();
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
            let written = connection.get_mut().write_all(format!("{head}{ANSWER}").as_bytes());
            if written.is_err() {
                return;
            }
        }
    });
    (format!("http://127.0.0.1:{port}"), tell)
}

/// Whether the one connection serves a second check after the first was late.
async fn is_served_again() -> bool {
    let (url, tell) = with_one_connection();
    let client = Protocol::Http.builder(&url).timeout(Duration::from_millis(100)).build();
    let client = client.expect("a client");
    let late = client.try_check(&Check::new()).await.expect_err("no answer yet");
    assert!(matches!(late, Error::TimedOut { .. }), "{late}");
    tell.send(()).expect("a server");
    loop {
        match client.try_check(&Check::new()).await {
            Ok(_) => return true,
            // The connection was closed, and the server has gone with it.
            Err(Error::Unreachable { .. }) => return false,
            Err(_) => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_comes_late_leaves_its_connection_to_the_next_check() {
    // The library loses a connection that it hands to a call that has just made another. That is rare, and
    // costs a connection only.
    let served = async {
        for _ in 0..3 {
            if is_served_again().await {
                return true;
            }
        }
        false
    };
    assert!(timeout(WAIT_TIMEOUT, served).await.expect("an answer in the end"));
}
