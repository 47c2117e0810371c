//! Malformed requests.

use Expected::{End, Status, StatusOrEnd};

use super::random::Random;

/// The expected result of sending bytes.
pub(super) enum Expected {
    /// A response with this status.
    Status(u16),
    /// No response: the client ends in the middle of a request, and so does the connection.
    End,
    /// This status, unless the server notices first that the client has gone.
    StatusOrEnd(u16),
}

/// A check, up to and with the type of its body.
pub(super) fn check_with(rest: &[u8]) -> Vec<u8> {
    let head = "POST /api/v1/rate-limit/check HTTP/1.1\r\nHost: localhost\r\n\
                Content-Type: application/json\r\n";
    [head.as_bytes(), rest].concat()
}

/// A forward-auth request with one header field.
pub(super) fn authorize_with(name: &str, value: &[u8]) -> Vec<u8> {
    let head = format!("GET /api/v1/rate-limit/authorize HTTP/1.1\r\nHost: localhost\r\n{name}: ");
    [head.as_bytes(), value, b"\r\n\r\n"].concat()
}

/// Bytes that are not a valid request, and a few that are, although they look odd.
pub(super) fn hand_made() -> Vec<(Vec<u8>, Expected)> {
    let live = "GET /health/live HTTP/1.1\r\n";
    let text = |text: &str, expected| (text.as_bytes().to_vec(), expected);
    let live_with = |rest: &str, expected| (format!("{live}{rest}").into_bytes(), expected);
    let check_with = |rest: &str, expected| (check_with(rest.as_bytes()), expected);
    let long = "a".repeat(200_000);
    vec![
        text("", End),
        text("\r\n\r\n", End),
        text("GET", End),
        text("GET /health/live HTTP/1.1", End),
        text("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nnonsense", End),
        text("GET /health/live\r\n\r\n", Status(400)),
        text("GET /health/live HTTP/9.9\r\n\r\n", Status(400)),
        text("GET /health/live HTTP/2.0\r\n\r\n", Status(400)),
        text("GET  /health/live HTTP/1.1\r\n\r\n", Status(400)),
        text("GET /health live HTTP/1.1\r\nHost: localhost\r\n\r\n", Status(400)),
        text("GET /\u{0} HTTP/1.1\r\nHost: localhost\r\n\r\n", Status(400)),
        text("GET health/live HTTP/1.1\r\nHost: localhost\r\n\r\n", Status(400)),
        text("EHLO mail.example\r\n", Status(400)),
        // The beginning of TLS.
        text("\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}\u{0}\u{1}\u{3}", Status(400)),
        (vec![0; 100_000], Status(400)),
        (vec![0xff; 100_000], Status(400)),
        live_with("Host: localhost\r\n no name\r\n\r\n", Status(400)),
        live_with("Host: localhost\r\nNo colon\r\n\r\n", Status(400)),
        live_with("Host : a\r\n\r\n", Status(400)),
        live_with(": a\r\n\r\n", Status(400)),
        live_with("X-\u{0}: a\r\n\r\n", Status(400)),
        live_with("X-A: \u{0}\r\n\r\n", Status(400)),
        // The response comes before everything was sent, so it may get lost.
        live_with(&format!("Host: localhost\r\nX: {long}\r\n\r\n"), StatusOrEnd(431)),
        live_with(&format!("Host: localhost\r\n{}\r\n", "X: 1\r\n".repeat(101)), StatusOrEnd(431)),
        live_with(
            &format!("Host: localhost\r\n{}\r\n", "X: 1\r\n".repeat(10_000)),
            StatusOrEnd(431),
        ),
        text(&format!("GET /{long} HTTP/1.1\r\nHost: localhost\r\n\r\n"), StatusOrEnd(431)),
        check_with("Content-Length: abc\r\n\r\n{}", Status(400)),
        check_with("Content-Length: -1\r\n\r\n{}", Status(400)),
        check_with("Content-Length: 99999999999999999999\r\n\r\n{}", Status(400)),
        check_with("Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", Status(400)),
        check_with("Content-Length: 10\r\n\r\n{}", StatusOrEnd(400)),
        check_with("Transfer-Encoding: chunked\r\n\r\n2\r\n{}", StatusOrEnd(400)),
        check_with("Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n", Status(400)),
        check_with("Transfer-Encoding: chunked\r\n\r\nffffffffffffffff1\r\n{}", Status(400)),
        check_with("Transfer-Encoding: gzip\r\n\r\n", Status(400)),
        check_with("Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", Status(400)),
        check_with("Expect: miracles\r\nContent-Length: 3\r\n\r\n{]}", Status(400)),
        // With two lengths the chunks count, so this body is empty.
        check_with("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", Status(400)),
        // A server on loopback that needs no token accepts only its own host names.
        live_with("\r\n", Status(400)),
        live_with("Host: localhost\r\nHost: b\r\n\r\n", Status(400)),
        text(
            "GET http://elsewhere.example/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n",
            Status(421),
        ),
    ]
}

/// A valid head with random damage.
pub(super) fn damaged(random: &mut Random) -> Vec<u8> {
    const VALID: &[&str] = &[
        "POST /api/v1/rate-limit/check HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
        "GET /api/v1/rate-limit/authorize/a/b?c HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: 192.0.2.1, 10.0.0.1\r\nAuthorization: Bearer a.b.c\r\n\r\n",
        "POST /api/v1/rate-limit/check/batch HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nd\r\n{\"checks\":[]}\r\n0\r\n\r\n",
        "GET /api/v1/rate-limits/status?endpoint=/a&method=GET HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ];
    let mut bytes = random.pick(VALID).as_bytes().to_vec();
    random.damage(&mut bytes);
    bytes
}

/// Valid requests for unknown paths and methods.
pub(super) fn odd_requests() -> Vec<(&'static str, &'static str)> {
    let mut requests: Vec<(&str, &str)> = [
        "/nowhere",
        "//",
        "//api/v1/rate-limit/check",
        "/api//v1/rate-limit/check",
        "/api/v1/rate-limit/check/",
        "/api/v1/rate-limit/CHECK",
        "/API/V1/RULES",
        "/api/v1/rate-limit/%63heck",
        "/api/v1/rate-limit/../rules",
        "/api/v1/./rules",
        "/api/v1/rate-limit/%2e%2e/rules",
        "/api/v1%2frules",
        "/api/v1/rules/",
        "/api/v1/rules/%ff",
        "/api/v1/rules/%00",
        "/api/v1/rules/%zz",
        "/api/v1/rules/..%2f..%2fetc%2fpasswd",
        "/api/v1/rules/a/b",
        "/api/v1/decisions/",
        "/api/v1/decisions/%ff%fe",
        "/api/v1/decisions/d00000000-a1",
        "/api/v1/decisions/-",
        "/docs/../../etc/passwd",
        "/docs/%2e%2e/%2e%2e/etc/passwd",
        "/docs/nothing.js",
        "/health",
        "/health/ready/now",
        "/.env",
        "/api/v1/rate-limits/status?endpoint=/a&endpoint=/b",
        "/api/v1/rate-limits/status?unknown=1",
        "*",
    ]
    .iter()
    .map(|path| ("GET", *path))
    .collect();
    for method in
        ["GET", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "HEAD", "BREW", "get", "M-SEARCH"]
    {
        requests.push((method, "/api/v1/rate-limit/check"));
        requests.push((method, "/api/v1/rate-limit/check/batch"));
        requests.push((method, "/api/v1/rate-limit/refund"));
        if !["GET", "HEAD"].contains(&method) {
            requests.push((method, "/api/v1/rules"));
            requests.push((method, "/health/live"));
            requests.push((method, "/metrics"));
        }
    }
    requests
}

/// Header fields that identify no client. It is limited all the same.
pub(super) fn odd_headers() -> Vec<(&'static str, Vec<u8>)> {
    let mut headers: Vec<(&str, Vec<u8>)> = Vec::new();
    let long = "1.2.3.4, ".repeat(5_000);
    let addresses = [
        "",
        ",",
        ",,,",
        "unknown",
        "1.2.3",
        "1.2.3.4.5",
        "999.1.1.1",
        "::",
        "[::1]:99999",
        "::ffff:1.2.3.4",
        "fe80::1%eth0",
        "1.2.3.4:x",
        "\"",
        "%",
        &long,
    ];
    for address in addresses {
        headers.push(("X-Forwarded-For", address.into()));
        headers.push(("Forwarded", format!("for={address}").into()));
    }
    for token in [
        "Bearer",
        "Bearer ",
        "Bearer a.b.c",
        "Bearer ...",
        "Bearer eyJhbGciOiJub25lIn0.e30.",
        "Basic Og==",
        "\t",
    ] {
        headers.push(("Authorization", token.into()));
    }
    for uri in ["", "?", "#", "/%", "/%f", "/%00", "http://", "http://[", "://", "\\..\\", "/a b"] {
        headers.push(("X-Original-URI", uri.into()));
        headers.push(("X-Forwarded-Uri", uri.into()));
    }
    for method in ["", "GET POST", "get", "ü"] {
        headers.push(("X-Forwarded-Method", method.into()));
    }
    headers.push(("X-Forwarded-For", vec![0xff; 100]));
    headers.push(("X-Original-URI", vec![0xfe, b'/', 0xff]));
    headers.push(("X-API-Key", vec![0x80; 1_000]));
    headers.push(("X-API-Key", "k".repeat(50_000).into()));
    headers.push(("X-Forwarded-Host", "h".repeat(50_000).into()));
    headers.push(("X-Original-URI", format!("/{}", "a/../".repeat(10_000)).into()));
    headers.push(("X-Original-URI", "/".repeat(50_000).into()));
    headers
}

pub(super) fn odd_idempotency_keys() -> Vec<Vec<u8>> {
    vec![Vec::new(), vec![b'k'; 256], vec![b'k'; 50_000], vec![0xff, 0xfe], "schlüssel".into()]
}

/// An invalid token. Each has its own number.
pub(super) fn odd_token(random: &mut Random, number: usize) -> Vec<u8> {
    let schemes: [&[u8]; 7] = [
        b"Bearer secret",
        b"bearer  secret",
        b"Bearer\tsecret",
        b"Basic secret",
        b"secret",
        b"Bearer ",
        b"Bearer \xff",
    ];
    let mut token = random.pick(&schemes).to_vec();
    token.extend_from_slice(format!("{number}").as_bytes());
    token.extend((0..random.below(300)).map(|_| random.byte() | 0x80));
    token
}
