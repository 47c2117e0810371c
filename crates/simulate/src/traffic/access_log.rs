//! The common and the combined log format of Apache and nginx, read by hand because logs are long.
//!
//! ```text
//! 203.0.113.9 - frank [17/May/2015:10:05:03 +0000] "GET /a?b HTTP/1.1" 200 512 "referer" "agent"
//! ```
//! A virtual host may stand before the line and more fields after it. What is unusual but still a
//! request is kept: a request line that is no HTTP, a line cut off within its headers.

use std::borrow::Cow;
use std::net::IpAddr;

use memchr::{memchr, memchr_iter};
use tollgate_core::Timestamp;

use super::BadLineReason;
use super::record::{LogEntry, Pairs};
use super::{request_line, time};

/// Reads a line in the combined format; referer and user agent may be missing.
pub(super) fn parse(line: &str) -> Result<LogEntry<'_>, BadLineReason> {
    let (before, time, after) = split_at_time(line)?;
    let client = client(before).ok_or("fewer than three fields before the time")?;
    let request = after.strip_prefix(" \"").ok_or("no quoted request after the time")?;
    let (request, after) = quoted(request).ok_or("no end of the quoted request")?;
    let (status, after) = word(after).ok_or("no status after the request")?;
    let status = self::status(status)?;
    let (_size, after) = word(after).ok_or("no size after the status")?;

    let mut entry = LogEntry::at(time);
    entry.ip = present(client.address).map(Cow::Borrowed);
    entry.user = present(client.user).map(unescape);
    entry.host = client.virtual_host.and_then(present).map(Cow::Borrowed);
    if let Some(request) = request_line::split(request) {
        entry.method = Some(Cow::Borrowed(request.method));
        entry.path = Some(unescape(request_line::path(request.target)));
        entry.host = entry.host.or(request_line::host(request.target).map(unescape));
    }
    entry.status = status;
    entry.headers = headers(after);
    Ok(entry)
}

/// A status of up to three digits; `-` and zero mean that none was sent.
pub(super) fn status(text: &str) -> Result<Option<u16>, BadLineReason> {
    if text == "-" {
        return Ok(None);
    }
    if text.len() > 3 || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("the status is not a number of up to three digits".into());
    }
    Ok(text.parse().ok().filter(|status| *status != 0))
}

/// The value of a field, unless it is empty or what servers write instead.
pub(super) fn present(text: &str) -> Option<&str> {
    (!matches!(text, "" | "-" | "\"\"")).then_some(text)
}

/// The first thing in brackets that is a time, and what stands before and after it. Users can be
/// called anything, so an earlier bracket does not count.
fn split_at_time(line: &str) -> Result<(&str, Timestamp, &str), BadLineReason> {
    for bracket in memchr_iter(b'[', line.as_bytes()) {
        let start = bracket + 1;
        let end = start + time::COMMON_LOG_LENGTH;
        let time = line.get(start..end).and_then(time::common_log);
        let after = line.get(end..).and_then(|rest| rest.strip_prefix(']'));
        if let (Some(time), Some(after)) = (time, after) {
            return Ok((line.get(..bracket).unwrap_or_default(), time, after));
        }
    }
    Err("no time like [17/May/2015:10:05:03 +0000]".into())
}

struct LoggedClient<'a> {
    virtual_host: Option<&'a str>,
    address: &'a str,
    user: &'a str,
}

/// Reads `address identity user`, with or without a virtual host before it.
fn client(before: &str) -> Option<LoggedClient<'_>> {
    let before = before.strip_suffix(' ')?;
    let (first, rest) = before.split_once(' ')?;
    let (second, more) = rest.split_once(' ')?;
    // With a fourth word the first is a virtual host, unless the user goes by two words.
    if let Some((_identity, user)) = more.split_once(' ')
        && let Some(host) = virtual_host(first, second)
    {
        return Some(LoggedClient { virtual_host: Some(host), address: second, user });
    }
    Some(LoggedClient { virtual_host: None, address: first, user: more })
}

/// The name of the virtual host, if the first of these words is one and the second a client.
fn virtual_host<'a>(first: &'a str, second: &str) -> Option<&'a str> {
    let is_address = |word: &str| word.parse::<IpAddr>().is_ok();
    if is_address(first) {
        return None;
    }
    match first.rsplit_once(':') {
        Some((host, port)) if port.parse::<u16>().is_ok() => Some(host),
        _ => is_address(second).then_some(first),
    }
}

/// Referer and user agent, as far as they are there.
fn headers(after: &str) -> Pairs<'_> {
    let mut headers = Pairs::new();
    let mut rest = after;
    for name in ["referer", "user-agent"] {
        let Some((value, after)) = rest.strip_prefix(" \"").and_then(quoted) else { break };
        if let Some(value) = present(value) {
            headers.push((Cow::Borrowed(name), unescape(value)));
        }
        rest = after;
    }
    headers
}

/// The next word after a space, and what follows it.
fn word(text: &str) -> Option<(&str, &str)> {
    let text = text.strip_prefix(' ')?;
    let end = text.find(' ').unwrap_or(text.len());
    text.split_at_checked(end).filter(|(word, _)| !word.is_empty())
}

/// What stands before the closing quote, and what follows it. A quote closes if no backslash
/// escapes it and a space or nothing follows: old servers did not escape quotes at all.
fn quoted(text: &str) -> Option<(&str, &str)> {
    memchr_iter(b'"', text.as_bytes()).find_map(|at| {
        let (inside, rest) = text.split_at_checked(at)?;
        let after = rest.strip_prefix('"')?;
        let ends = after.is_empty() || after.starts_with(' ');
        (ends && !is_escaped(inside)).then_some((inside, after))
    })
}

/// Whether the character after this text is escaped by it.
fn is_escaped(text: &str) -> bool {
    let backslashes = text.bytes().rev().take_while(|byte| *byte == b'\\').count();
    backslashes % 2 == 1
}

/// Undoes the escapes of both servers: `\"`, `\\`, `\xhh` and those of control characters.
fn unescape(text: &str) -> Cow<'_, str> {
    if memchr(b'\\', text.as_bytes()).is_none() {
        return Cow::Borrowed(text);
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let (byte, after) = match (first, after) {
            (b'\\', [b'x', high, low, after @ ..]) if let Some(byte) = hex(*high, *low) => {
                (byte, after)
            }
            (b'\\', [letter, after @ ..]) if let Some(byte) = escaped(*letter) => (byte, after),
            _ => (first, after),
        };
        bytes.push(byte);
        rest = after;
    }
    Cow::Owned(match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    })
}

/// What a letter after a backslash stands for.
fn escaped(letter: u8) -> Option<u8> {
    Some(match letter {
        b'"' | b'\\' => letter,
        b'b' => 0x08,
        b't' => b'\t',
        b'n' => b'\n',
        b'v' => 0x0b,
        b'r' => b'\r',
        _ => return None,
    })
}

fn hex(high: u8, low: u8) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    u8::try_from(digit(high)? * 16 + digit(low)?).ok()
}
