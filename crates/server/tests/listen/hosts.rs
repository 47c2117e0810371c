//! The host of a request: HTTP/1.1 requires one, and two are refused.

use http::{Request, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tollgate_server::settings::Limits;

use crate::client::{connect, get, read_to_end, send};
use crate::server::Server;

#[tokio::test]
async fn a_request_names_one_host() {
    let server = Server::start(&Limits::default(), None).await;
    for (version, fields, expected) in [
        ("1.1", "Host: a\r\n", 200),
        ("1.1", "Host:\r\n", 200),
        ("1.1", "", 400),
        ("1.1", "X-Forwarded-Host: a\r\n", 400),
        ("1.1", "Host: a\r\nHost: b\r\n", 400),
        ("1.1", "Host: a\r\nhost: a\r\n", 400),
        ("1.0", "", 200),
        ("1.0", "Host: a\r\n", 200),
        ("1.0", "Host: a\r\nHost: b\r\n", 400),
    ] {
        let mut stream = connect(server.address).await;
        let head = format!("GET / HTTP/{version}\r\nConnection: close\r\n{fields}\r\n");
        send(&mut stream, &head).await;
        let answer = read_to_end(&mut stream).await.to_ascii_lowercase();
        let status = answer.split(' ').nth(1).unwrap_or_default();
        assert_eq!(status, expected.to_string(), "{head:?}: {answer}");
        if expected == 400 {
            assert!(answer.contains("\r\ncontent-length: 0\r\n"), "{head:?}: {answer}");
        }
    }
}

#[tokio::test]
async fn a_host_in_the_request_line_does_not_replace_the_host_header() {
    let server = Server::start(&Limits::default(), None).await;
    let mut stream = connect(server.address).await;
    send(&mut stream, "GET http://a/ HTTP/1.1\r\nConnection: close\r\n\r\n").await;
    assert!(read_to_end(&mut stream).await.starts_with("HTTP/1.1 400 "));
}

#[tokio::test]
async fn http2_needs_no_host_header_but_two_are_refused() {
    let server = Server::start(&Limits::default(), None).await;
    let answer = get(connect(server.address).await, Version::HTTP_2, "/").await;
    assert_eq!(answer.expect("an answer").0, 200);
    let stream = TokioIo::new(connect(server.address).await);
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.expect("HTTP/2");
    tokio::spawn(connection);
    let twice = Request::get("http://localhost/").header("host", "a").header("host", "b");
    let answer = sender.send_request(twice.body(String::new()).expect("a request")).await;
    assert_eq!(answer.expect("an answer").status(), 400);
}
