//! The client knows the bounds of the server: one check that is too large must not fail a whole batch.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use tollgate_client::{Check, Error, KeyType, RefusalKind};

use crate::server::{PROTOCOLS, Protocol, Server};

/// Far longer than what a client of HTTP can send in a path or a header.
const LONG: usize = 100_000;

/// A field, and a check with this text in it.
type Case = (&'static str, fn(String) -> Check);

const TEXTS: [Case; 11] = [
    ("user_id", |text| Check::new().user_id(text)),
    ("api_key", |text| Check::new().api_key(text)),
    ("tenant", |text| Check::new().tenant(text)),
    ("endpoint", |text| Check::new().endpoint(text)),
    ("method", |text| Check::new().method(text)),
    ("host", |text| Check::new().host(text)),
    ("tier", |text| Check::new().tier(text)),
    ("key", |text| Check::new().rule("per_user").key(KeyType::User, text)),
    ("attributes", |text| Check::new().attribute("plan", text)),
    ("attributes", |text| Check::new().attribute(text, "gold")),
    ("rule", |text| Check::new().rule(text)),
];

fn with_attributes(count: usize) -> Check {
    (0..count).fold(Check::new(), |check, number| check.attribute(number.to_string(), "value"))
}

#[tokio::test]
async fn what_is_too_large_for_the_server_is_not_sent() {
    let refuse = async |protocol: Protocol, check: Check, field: &str| {
        // No server listens there.
        let client = protocol.builder("http://127.0.0.1:1").build().expect("a client");
        let error = client.try_check(&check).await.expect_err("too large");
        let Error::Refused { kind, code, detail } = &error else { panic!("{field}: {error}") };
        assert_eq!((*kind, &**code), (RefusalKind::Invalid, "invalid_check"), "{error}");
        assert!(detail.starts_with(&format!("{field}: at most ")), "{error}");
        // The error does not repeat the value.
        assert!(error.to_string().len() < 100, "{error}");
    };
    for protocol in PROTOCOLS {
        refuse(protocol, with_attributes(65), "attributes").await;
        let key = Check::new().idempotency_key("k".repeat(256));
        refuse(protocol, key, "idempotency_key").await;
    }
}

#[tokio::test]
async fn what_the_server_takes_is_sent() {
    let server = Server::start();
    for protocol in PROTOCOLS {
        let client = server.client(protocol);
        for (field, check) in TEXTS {
            let result = client.try_check(&check("x".repeat(LONG))).await;
            if field == "rule" {
                let unknown = RefusalKind::Unknown;
                assert!(matches!(result, Err(Error::Refused { kind, .. }) if kind == unknown));
            } else {
                assert!(result.is_ok(), "{protocol:?} {field}: {result:?}");
            }
        }
        assert!(client.check(&with_attributes(64)).await.is_from_server(), "{protocol:?}");
    }
    let key = Check::new().idempotency_key("k".repeat(255));
    assert!(server.client(Protocol::Http).check(&key).await.is_from_server());
}

/// The status of a check that is sent as it is.
fn status(server: &Server, body: &str) -> String {
    let mut stream = TcpStream::connect(server.http).expect("a connection");
    let head = "POST /api/v1/rate-limit/check HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";
    let fields = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
    stream.write_all(format!("{head}{fields}\r\n{body}").as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer.split(' ').nth(1).expect("a status").to_owned()
}

#[test]
fn the_server_has_the_same_bounds() {
    let server = Server::start();
    let attributes = |count: usize| {
        let all: Vec<String> = (0..count).map(|number| format!(r#""{number}": "v""#)).collect();
        format!(r#"{{"attributes": {{{}}}}}"#, all.join(", "))
    };
    assert_eq!(status(&server, &attributes(64)), "200");
    assert_eq!(status(&server, &attributes(65)), "422");
    let key = |length: usize| format!(r#"{{"idempotency_key": "{}"}}"#, "k".repeat(length));
    assert_eq!(status(&server, &key(255)), "200");
    assert_eq!(status(&server, &key(256)), "400");
}
