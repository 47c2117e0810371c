//! HTTP/2 frame by frame: invalid heads must not reach the upstream.

use crate::gateway::Gateway;
use crate::raw::{RawUpstream, field};
use crate::socket::Socket;

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RESET: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a short frame").to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Encodes fields as literals, neither indexed nor compressed.
fn fields(lines: &[(&str, &str)]) -> Vec<u8> {
    let text = |text: &str| {
        let length = u8::try_from(text.len()).ok().filter(|length| *length < 127);
        [&[length.expect("a short text")], text.as_bytes()].concat()
    };
    lines.iter().flat_map(|(name, value)| [vec![0], text(name), text(value)].concat()).collect()
}

/// The result of a head: a status of three digits, or the kind of frame that refuses it.
fn outcome(gateway: &Gateway, lines: &[(&str, &str)], body: Option<&[u8]>) -> String {
    let mut socket = Socket::open(gateway.address);
    let flags = END_HEADERS | if body.is_some() { 0 } else { END_STREAM };
    let mut bytes =
        [PREFACE, &frame(SETTINGS, 0, 0, b""), &frame(HEADERS, flags, 1, &fields(lines))].concat();
    if let Some(body) = body {
        bytes.extend(frame(0, END_STREAM, 1, body));
    }
    socket.send(&bytes);
    loop {
        let head = socket.exactly(9);
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let payload = socket.exactly(length);
        match head[3] {
            HEADERS => return status(&payload),
            RESET => return "reset".to_owned(),
            GOAWAY => return "goaway".to_owned(),
            _ => {}
        }
    }
}

/// The status stands first: a well-known one as a number, others as text.
fn status(payload: &[u8]) -> String {
    match payload[0] & 0x7f {
        8 => "200".to_owned(),
        12 => "400".to_owned(),
        13 => "404".to_owned(),
        _ => "other".to_owned(),
    }
}

const VALID: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "http"), (":path", "/x"), (":authority", "a.example")];

#[test]
fn valid_heads_pass_and_others_do_not() {
    let upstream = RawUpstream::echo();
    let gateway = Gateway::before(upstream.address);
    let passes = |lines: &[(&str, &str)], body: Option<&[u8]>| {
        let before = upstream.heads().len();
        assert_eq!(outcome(&gateway, lines, body), "200", "{lines:?}");
        assert_eq!(upstream.heads().len(), before + 1, "{lines:?}");
        upstream.heads().pop().expect("a head")
    };
    let head = passes(&VALID, None);
    assert!(
        head.starts_with("GET /x HTTP/1.1\r\n") && field(&head, "host") == Some("a.example"),
        "{head}"
    );
    let more = |lines: &[(&'static str, &'static str)]| [&VALID[..], lines].concat();
    passes(&more(&[("host", "a.example")]), None);
    let head = passes(&more(&[("content-length", "3")]), Some(b"abc"));
    assert_eq!(field(&head, "content-length"), Some("3"));
    // A body without a content-length is forwarded with its length.
    for method in ["GET", "HEAD", "POST"] {
        let head = passes(&[&[(":method", method)], &VALID[1..]].concat(), Some(b"abc"));
        assert_eq!(field(&head, "transfer-encoding"), Some("chunked"), "{method}");
    }
    let head = passes(&[&[(":method", "POST")], &VALID[1..]].concat(), None);
    assert_eq!(field(&head, "content-length"), Some("0"));
    let head = passes(&more(&[("te", "trailers"), ("cookie", "a=1"), ("cookie", "b=2")]), None);
    assert_eq!(field(&head, "te"), Some("trailers"));
    assert_eq!(field(&head, "cookie"), Some("a=1; b=2"));

    let before = upstream.heads().len();
    let fails = |lines: &[(&str, &str)], body: Option<&[u8]>| {
        let outcome = outcome(&gateway, lines, body);
        assert!(["reset", "goaway", "400"].contains(&outcome.as_str()), "{lines:?}: {outcome}");
    };
    // Two hosts.
    fails(&more(&[("host", "b.example")]), None);
    fails(&more(&[(":authority", "b.example")]), None);
    fails(&more(&[("host", "a.example"), ("host", "a.example")]), None);
    // Pseudo fields twice, behind others, unknown, missing, or wrong.
    fails(&more(&[(":path", "/y")]), None);
    fails(&more(&[(":method", "POST")]), None);
    fails(&[&VALID[..3], &[("x", "1"), (":authority", "a")]].concat(), None);
    fails(&more(&[(":status", "200")]), None);
    fails(&more(&[(":other", "1")]), None);
    fails(&VALID[1..], None);
    fails(&[VALID[0], VALID[1], VALID[3]], None);
    fails(&[(":method", "GET"), (":scheme", "http"), (":path", ""), (":authority", "a")], None);
    fails(&[(":method", "GET /y HTTP/1.1\r\nx: "), VALID[1], VALID[2], VALID[3]], None);
    fails(&[VALID[0], VALID[1], (":path", "/x HTTP/1.1\r\nx: "), VALID[3]], None);
    fails(&[VALID[0], VALID[1], VALID[2], (":authority", "a\r\nx: 1")], None);
    fails(&[VALID[0], VALID[1], VALID[2], (":authority", "user@a")], None);
    // Fields that would become two in HTTP/1.1, or are invalid in HTTP/2.
    fails(&more(&[("x", "1\r\ny: 2")]), None);
    fails(&more(&[("x", "1\ny: 2")]), None);
    fails(&more(&[("x\r\ny", "1")]), None);
    fails(&more(&[("x y", "1")]), None);
    fails(&more(&[("X-Upper", "1")]), None);
    fails(&more(&[("", "1")]), None);
    fails(&more(&[("connection", "x")]), None);
    fails(
        &more(&[("transfer-encoding", "chunked")]),
        Some(b"0\r\n\r\nGET /hidden HTTP/1.1\r\n\r\n"),
    );
    fails(&more(&[("upgrade", "websocket")]), None);
    fails(&more(&[("te", "gzip")]), None);
    let seen = upstream.heads().split_off(before);
    assert!(seen.is_empty(), "{seen:?}");
}

/// The length must be that of the body, or the rest becomes another request.
#[test]
fn a_content_length_must_match_the_body() {
    let upstream = RawUpstream::echo();
    let gateway = Gateway::before(upstream.address);
    let more = |length: &'static str| [&VALID[..], &[("content-length", length)]].concat();
    for (length, body) in [
        ("0", &b"GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n"[..]),
        ("2", b"abc"),
        ("9", b"abc"),
        ("x", b"abc"),
    ] {
        let outcome = outcome(&gateway, &more(length), Some(body));
        assert_ne!(outcome, "200", "{length}");
    }
    assert!(upstream.heads().iter().all(|head| !head.contains("hidden")), "{:?}", upstream.heads());
    // Connections to the upstream still work.
    assert_eq!(gateway.get("/").status, 200);
}
