//! Requests that two servers could read in two ways: refused, or forwarded in an unambiguous form.
//!
//! The upstream here reads lengths as they are written and keeps every head, so that a request that was
//! hidden in the body of another would be seen.

use crate::gateway::Gateway;
use crate::raw::{RawUpstream, field};
use tollgate_e2e::program::curl_from;

/// Follows the bytes under test. If it gets a response, everything before it was understood.
const LAST: &str = "GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

/// Where requests go whose bodies break off.
const BROKEN: &str = "/broken";

/// Sends bytes, and compares the statuses, without that of the last request, and the request lines that
/// the upstream receives.
fn check(
    gateway: &Gateway,
    upstream: &RawUpstream,
    bytes: &[u8],
    statuses: &[u16],
    lines: &[&str],
) {
    let before = upstream.heads().len();
    let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(300)]).into_owned();
    let mut connection = gateway.connect();
    // The gateway may close the connection before the end.
    let _ = connection.send(&[bytes, LAST.as_bytes()].concat());
    let mut answered = Vec::new();
    while let Ok(answer) = connection.answer() {
        answered.push(answer.status);
    }
    let mut heads = upstream.heads().split_off(before);
    // The upstream may see a broken request after its client got a response.
    heads.retain(|head| !head.contains(BROKEN));
    let mut seen: Vec<&str> = heads.iter().filter_map(|head| head.lines().next()).collect();
    if seen.last() == Some(&"GET /last HTTP/1.1") {
        seen.pop();
        assert_eq!(answered.pop(), Some(200), "{shown}");
    }
    assert_eq!((answered.as_slice(), seen.as_slice()), (statuses, lines), "{shown}");
    for head in &heads {
        let lengths =
            ["content-length", "transfer-encoding"].map(|name| field(head, name).is_some());
        assert!(!(lengths[0] && lengths[1]), "two lengths: {head}");
    }
}

/// What came before the last request.
fn last_but_one(upstream: &RawUpstream) -> String {
    upstream.heads().into_iter().rfind(|head| !head.contains("/last")).expect("a head")
}

#[test]
fn the_length_of_a_body_has_one_meaning() {
    let upstream = RawUpstream::echo();
    let gateway = Gateway::before(upstream.address);
    let post = |fields: &str, body: &str| {
        format!("POST /a HTTP/1.1\r\nHost: a\r\n{fields}\r\n{body}").into_bytes()
    };
    let check = |fields: &str, body: &str, statuses: &[u16], lines: &[&str]| {
        check(&gateway, &upstream, &post(fields, body), statuses, lines);
    };
    let hidden = "GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n";
    let after_chunks = format!("0\r\n\r\n{hidden}");
    // CL.TE: one server takes the length, the other the chunks.
    let length =
        format!("Content-Length: {}\r\nTransfer-Encoding: chunked\r\n", after_chunks.len());
    // Both servers use the chunks, and what follows them is not read.
    check(&length, &after_chunks, &[200], &["POST /a HTTP/1.1"]);
    // TE.CL: the chunks hold what the length cuts off.
    let chunk = format!("{:x}\r\n{hidden}\r\n0\r\n\r\n", hidden.len());
    check(
        "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
        &chunk,
        &[200],
        &["POST /a HTTP/1.1"],
    );
    check(
        "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
        &chunk,
        &[200],
        &["POST /a HTTP/1.1"],
    );
    // Two lengths.
    check("Content-Length: 0\r\nContent-Length: 5\r\n", "12345", &[400], &[]);
    check("Content-Length: 0, 5\r\n", "12345", &[400], &[]);
    check("Content-Length: 5\r\nContent-Length: 5\r\n", "12345", &[200], &["POST /a HTTP/1.1"]);
    for length in ["+5", "-5", "5x", "0x5", "5.0", "", "99999999999999999999999999"] {
        check(&format!("Content-Length: {length}\r\n"), "12345", &[400], &[]);
    }
    // Codings that one server knows and the other does not.
    for coding in
        ["xchunked", "chunked, identity", "identity", "\"chunked\"", "chunked;", "chunked\u{b}"]
    {
        check(&format!("Transfer-Encoding: {coding}\r\n"), &after_chunks, &[400], &[]);
    }
    for coding in ["gzip, chunked", "chunked, chunked", "identity, chunked"] {
        check(&format!("Transfer-Encoding: {coding}\r\n"), &after_chunks, &[501], &[]);
    }
    check(
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        &after_chunks,
        &[501],
        &[],
    );
    check("Transfer-Encoding: x\r\nTransfer-Encoding: chunked\r\n", &after_chunks, &[501], &[]);
    let hidden_so_far = || upstream.heads().iter().filter(|head| head.contains("/hidden")).count();
    let before = hidden_so_far();
    // Invalid chunks. What follows them is never a request.
    for chunk in [
        "x\r\n",
        "-1\r\nx\r\n",
        "0x1\r\nx\r\n0\r\n\r\n",
        "1 1\r\nx\r\n",
        "ffffffffffffffffff\r\n",
        "2\r\nabc\r\n0\r\n\r\n",
    ] {
        let fields = "Host: a\r\nTransfer-Encoding: chunked";
        let request = format!("POST {BROKEN} HTTP/1.1\r\n{fields}\r\n\r\n{chunk}{hidden}");
        let answered = gateway.connect().ask(request.as_bytes());
        assert!([400, 502].contains(&answered.status), "{chunk:?}: {answered:?}");
    }
    assert_eq!(hidden_so_far(), before);
    // HTTP/1.0 has no chunks.
    let old = b"POST /a HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    crate::smuggling::check(&gateway, &upstream, old, &[400], &[]);
    // Chunk extensions are not forwarded.
    check(
        "Transfer-Encoding: chunked\r\n",
        "3;a=\"b\"\r\nabc\r\n0\r\n\r\n",
        &[200],
        &["POST /a HTTP/1.1"],
    );
    // Two requests in a row are two.
    let two = [post("Content-Length: 3\r\n", "abc"), hidden.as_bytes().to_vec()].concat();
    crate::smuggling::check(
        &gateway,
        &upstream,
        &two,
        &[200, 200],
        &["POST /a HTTP/1.1", "GET /hidden HTTP/1.1"],
    );
}

#[test]
fn heads_have_one_meaning() {
    let upstream = RawUpstream::echo();
    let gateway = Gateway::before(upstream.address);
    let check = |head: &str, statuses: &[u16], lines: &[&str]| {
        check(&gateway, &upstream, head.as_bytes(), statuses, lines);
    };
    let refused = |head: &str| check(head, &[400], &[]);
    refused("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n");
    refused("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n");
    refused("GET / HTTP/1.1\r\n\r\n");
    refused("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n");
    refused("GET / HTTP/1.1\r\nHost: user@a\r\n\r\n");
    refused("GET http://user@a/ HTTP/1.1\r\nHost: a\r\n\r\n");
    refused("GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\n folded\r\n\r\n");
    refused("GET / HTTP/1.1\r\n Host: a\r\n\r\n");
    refused("GET / HTTP/1.1\r\nHost : a\r\n\r\n");
    refused("GET / HTTP/1.1\r\nHost: a\r\nX\u{0}: 1\r\n\r\n");
    refused("GET / HTTP/1.1\r\nHost: a\r\nX: 1\rY: 2\r\n\r\n");
    refused("GET / HTTP/1.1\r\nHost: a\r\nX: 1\u{0}2\r\n\r\n");
    refused("GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n");
    refused("GET / HTTP/1.1 \r\nHost: a\r\n\r\n");
    refused("GET /a b HTTP/1.1\r\nHost: a\r\n\r\n");
    refused("G\u{1}T / HTTP/1.1\r\nHost: a\r\n\r\n");
    // Of an absolute URL and a `Host`, the URL counts: for rules and for the upstream.
    check("GET http://b/x HTTP/1.1\r\nHost: a\r\n\r\n", &[200], &["GET /x HTTP/1.1"]);
    let head = last_but_one(&upstream);
    assert_eq!((field(&head, "host"), field(&head, "x-forwarded-host")), (Some("b"), Some("b")));
    // A client cannot remove fields that the gateway writes.
    check(
        "GET /x HTTP/1.1\r\nHost: a\r\nConnection: host, x-forwarded-for, forwarded, content-length, close\r\n\r\n",
        &[200],
        &["GET /x HTTP/1.1"],
    );
    let head = last_but_one(&upstream);
    assert_eq!(
        (field(&head, "host"), field(&head, "x-forwarded-for")),
        (Some("a"), Some("127.0.0.1"))
    );
    let many = "X: y\r\n".repeat(200);
    check(&format!("GET / HTTP/1.1\r\nHost: a\r\n{many}\r\n"), &[431], &[]);
    let long = "y".repeat(100_000);
    check(&format!("GET / HTTP/1.1\r\nHost: a\r\nX: {long}\r\n\r\n"), &[431], &[]);
    check(&format!("GET /{long} HTTP/1.1\r\nHost: a\r\n\r\n"), &[431], &[]);
}

#[test]
fn a_response_has_one_meaning() {
    let upstream = RawUpstream::start(|wire| {
        while wire.head().is_some() {
            wire.say(
                "HTTP/1.1 200 OK\r\nContent-Length: 40\r\nTransfer-Encoding: chunked\r\n\r\n\
                 2\r\nok\r\n0\r\n\r\n",
            );
        }
    });
    let gateway = Gateway::before(upstream.address);
    let answer = gateway.get("/");
    assert_eq!(
        (answer.text().as_str(), answer.header("content-length")),
        ("ok", None),
        "{answer:?}"
    );
}

/// A client that could choose its address would have no limit.
#[test]
fn a_client_cannot_choose_its_address() {
    let upstream = RawUpstream::echo();
    let rules = "rules: [{rule_id: per_address, limit: 2, window: 1h, identifier_type: ip}]";
    let settings = "identity: {trusted_proxies: [127.0.0.2]}";
    let gateway = Gateway::start(rules, settings, &[format!("http://{}", upstream.address)]);
    let statuses: Vec<u16> = (0..4)
        .map(|number| {
            let claim = format!("X-Forwarded-For: 192.0.2.{number}");
            curl_from("127.0.0.9", &gateway.url("/"), &["--header", &claim]).status
        })
        .collect();
    assert_eq!(statuses, [200, 200, 429, 429]);
}

/// RFC 9112 lets a server end lines at a bare line feed, and the HTTP library does. It is harmless as long as
/// no bare line feed is forwarded: what follows it is a separate line, here and for the upstream.
#[test]
fn bare_line_feeds_are_not_passed_on() {
    let upstream = RawUpstream::echo();
    let settings = "identity: {trusted_proxies: [127.0.0.2]}";
    let gateway = Gateway::with_settings(settings, upstream.address);
    let head = "GET /a HTTP/1.1\nHost: a\nX-One: 1\nX-Forwarded-For: 192.0.2.1\nX-Two: 2\n\n";
    check(&gateway, &upstream, head.as_bytes(), &[200], &["GET /a HTTP/1.1"]);
    let seen = last_but_one(&upstream);
    assert!(!seen.replace("\r\n", "").contains('\n'), "{seen:?}");
    assert_eq!((field(&seen, "x-one"), field(&seen, "x-two")), (Some("1"), Some("2")));
    assert_eq!(field(&seen, "x-forwarded-for"), Some("127.0.0.1"), "a claim like any other");
    // A bare carriage return ends no line, and may stand nowhere.
    let head = "GET /a HTTP/1.1\r\nHost: a\r\nX-One: 1\rX-Two: 2\r\n\r\n";
    check(&gateway, &upstream, head.as_bytes(), &[400], &[]);
}
