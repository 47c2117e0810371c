//! Checks as nearly all clients send them over HTTP/1.1, read from the bytes of their connection, and their responses.
//!
//! A check takes less time than the HTTP library to read and write it. So what is plain is read here: a head of fields
//! that are well known, of which none changes how the body is framed, and a body that has arrived with it. Everything
//! else, also everything that is wrong, is left to the library, so that there is one place that refuses.

use std::cell::Cell;

use memchr::memchr;
use tollgate::Timestamp;

use super::time::http_date;
use crate::edge::listen::MAX_FIELDS;

/// The first line of a plain call.
const FIRST_LINE: &[u8] = b"POST /api/v1/rate-limit/check HTTP/1.1\r\n";

/// A check whose head is plain and whose body is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlainCall<'a> {
    pub(crate) host: &'a str,
    pub(crate) authorization: Option<&'a str>,
    pub(crate) body: &'a [u8],
    /// How many bytes it takes.
    pub(crate) bytes: usize,
}

impl<'a> PlainCall<'a> {
    /// Reads the call that the bytes begin with; `None` if the HTTP library has to.
    pub(crate) fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut rest = bytes.strip_prefix(FIRST_LINE)?;
        let (mut host, mut content_type, mut length, mut authorization) = (None, None, None, None);
        for _ in 0..=MAX_FIELDS {
            let (line, after) = rest.split_at(memchr(b'\r', rest)?);
            rest = after.strip_prefix(b"\r\n")?;
            if line.is_empty() {
                let length: usize = length?;
                let is_json = content_type == Some("application/json");
                let body = rest.get(..length).filter(|_| is_json)?;
                let bytes = bytes.len() - rest.len() + length;
                return Some(Self { host: host?, authorization, body, bytes });
            }
            let (name, value) = line.split_at(memchr(b':', line)?);
            let value = value.get(1..)?;
            // Before white space is trimmed, of which a line feed would end the line for others.
            if !value.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\t')) {
                return None;
            }
            let value = str::from_utf8(value).ok()?.trim_matches([' ', '\t']);
            let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
            match name.len() {
                4 if is(b"host") => set(&mut host, value)?,
                6 if is(b"accept") => {}
                10 if is(b"user-agent") => {}
                10 if is(b"connection") && value.eq_ignore_ascii_case("keep-alive") => {}
                12 if is(b"content-type") => set(&mut content_type, value)?,
                13 if is(b"authorization") => set(&mut authorization, value)?,
                14 if is(b"content-length") => set(&mut length, decimal(value)?)?,
                15 if is(b"accept-encoding") || is(b"accept-language") => {}
                _ => return None,
            }
        }
        None
    }
}

/// Sets a field that must not be there twice.
fn set<T>(field: &mut Option<T>, value: T) -> Option<()> {
    field.is_none().then(|| *field = Some(value))
}

/// A number of at most seven digits.
fn decimal(text: &str) -> Option<usize> {
    let is_number = (1..=7).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

/// Writes the beginning of a response to a plain call that was checked.
pub(crate) fn begin_response(out: &mut Vec<u8>) {
    out.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
}

/// Writes a field of the response. The value is visible ASCII.
pub(crate) fn write_field(out: &mut Vec<u8>, name: &str, value: &str) {
    for part in [name, ": ", value, "\r\n"] {
        out.extend_from_slice(part.as_bytes());
    }
}

/// Writes the rest of the response, in the order in which the HTTP library does.
pub(crate) fn finish_response(out: &mut Vec<u8>, now: Timestamp, body: &[u8]) {
    out.extend_from_slice(b"content-type: application/json\r\ncontent-length: ");
    out.extend_from_slice(itoa::Buffer::new().format(body.len()).as_bytes());
    out.extend_from_slice(b"\r\ndate: ");
    out.extend_from_slice(&date_at(now));
    out.extend_from_slice(b"\r\n\r\n");
    out.extend_from_slice(body);
}

/// The `Date` of a response. Its text is made once a second.
fn date_at(now: Timestamp) -> [u8; 29] {
    thread_local! {
        static LAST: Cell<(u64, [u8; 29])> = const { Cell::new((u64::MAX, [0; 29])) };
    }
    let second = now.as_micros() / 1_000_000;
    let (last, date) = LAST.get();
    if last == second {
        return date;
    }
    let date = http_date(now);
    LAST.set((second, date));
    date
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "POST /api/v1/rate-limit/check HTTP/1.1\r\nHost: localhost:8080\r\n\
                        Content-Type: application/json\r\nContent-Length: 2\r\n";

    #[test]
    fn a_call_is_read_with_what_follows_it() {
        let text = format!("{HEAD}AUTHORIZATION:Bearer a b \r\nuser-agent: \r\n\r\n{{}}POST /api");
        let call = PlainCall::read(text.as_bytes()).expect("it is plain");
        let expected = PlainCall {
            host: "localhost:8080",
            authorization: Some("Bearer a b"),
            body: b"{}",
            bytes: text.len() - "POST /api".len(),
        };
        assert_eq!(call, expected);
    }

    #[test]
    fn what_is_unusual_is_left_to_the_library() {
        let check = |text: &str, expected: bool| {
            assert_eq!(PlainCall::read(text.as_bytes()).is_some(), expected, "{text:?}");
        };
        let with = |field: &str| format!("{HEAD}{field}\r\n\r\n{{}}");
        for field in [
            "Accept: */*",
            "Accept:\t\ta \t",
            "Connection: Keep-Alive",
            "accept-encoding: gzip, br",
        ] {
            check(&with(field), true);
        }
        for field in [
            // What changes the framing, the connection or the response.
            "Transfer-Encoding: chunked",
            "Expect: 100-continue",
            "Connection: close",
            "Connection: upgrade",
            "Content-Encoding: gzip",
            "X-Idempotency-Key: a",
            "traceparent: 00-a-b-01",
            "Origin: https://evil.example",
            // What is there twice.
            "Host: localhost",
            "Content-Length: 2",
            "Content-Type: application/json",
            // What is wrong.
            "Accept : */*",
            " Accept: */*",
            "Accept",
            ": a",
            "",
            "Accept: \u{e9}",
            "Accept: a\0b",
            "Accept: a\rb",
            "Accept: a\nHost: b",
            "Accept: \nTransfer-Encoding: chunked",
            "Accept: a\n",
            "Accept: \x0c",
            "Content-Language:\x0ba",
        ] {
            check(&with(field), field.is_empty());
        }
        for (change, into) in [
            ("POST", "GET"),
            ("POST", "post"),
            ("POST", "\r\nPOST"),
            ("check ", "check/ "),
            ("check ", "check?a "),
            ("HTTP/1.1", "HTTP/1.0"),
            ("Host: localhost:8080\r\n", ""),
            ("Content-Type: application/json\r\n", ""),
            ("application/json", "application/json; charset=utf-8"),
            ("application/json", "text/plain"),
            ("Host", "Content-Type: text/plain\r\nHost"),
            ("Content-Length: 2\r\n", ""),
            ("Length: 2", "Length: +2"),
            ("Length: 2", "Length: 3"),
            ("Length: 2", "Length: 0x2"),
            ("Length: 2", "Length: 2, 2"),
            ("Length: 2", "Length: 00000002"),
            ("\r\nHost", "\nHost"),
        ] {
            check(&format!("{HEAD}\r\n{{}}").replacen(change, into, 1), false);
        }
        check(&format!("{HEAD}{}\r\n{{}}", "Accept: a\r\n".repeat(MAX_FIELDS - 3)), true);
        check(&format!("{HEAD}{}\r\n{{}}", "Accept: a\r\n".repeat(MAX_FIELDS - 2)), false);
    }

    #[test]
    fn no_beginning_of_a_call_is_a_call() {
        let text = format!("{HEAD}\r\n{{}}");
        for end in 0..text.len() {
            assert_eq!(PlainCall::read(&text.as_bytes()[..end]), None, "{end}");
        }
    }
}
