//! The `Forwarded` header of RFC 7239, one element at a time.
//!
//! A client writes what stands on the left, so a quote that it leaves open must not swallow what
//! proxies add on the right. Elements are therefore parted at every comma, and each must be whole in
//! itself. An element with a comma in quotes is not, and counts as unreadable: addresses have none.

use std::net::IpAddr;

use super::address;

/// The address that an element names with `for`; `None` if the element is not well-formed, or names
/// none.
pub(super) fn client(element: &str) -> Option<IpAddr> {
    let mut rest = element.trim_matches(BLANK);
    let mut client = None;
    while !rest.is_empty() {
        let (name, value, behind) = pair(rest)?;
        if name.eq_ignore_ascii_case("for") && client.replace(value).is_some() {
            return None;
        }
        let behind = behind.trim_start_matches(BLANK);
        rest = match behind.strip_prefix(';') {
            Some(next) => next.trim_start_matches(BLANK),
            None if behind.is_empty() => behind,
            None => return None,
        };
    }
    address::parse(client?)
}

const BLANK: [char; 2] = [' ', '\t'];

/// The first pair of a text: its name, its value without quotes, and what is behind it.
fn pair(text: &str) -> Option<(&str, &str, &str)> {
    let (name, rest) = text.split_once('=')?;
    let is_name = !name.is_empty() && name.bytes().all(is_token);
    let (value, behind) = match rest.strip_prefix('"') {
        Some(quoted) => {
            let end = closing_quote(quoted)?;
            (&quoted[..end], &quoted[end + 1..])
        }
        None => {
            // Addresses should be in quotes for their colons and brackets, but not all proxies do it.
            let is_plain = |byte: u8| is_token(byte) || b":[]".contains(&byte);
            rest.split_at(rest.bytes().position(|byte| !is_plain(byte)).unwrap_or(rest.len()))
        }
    };
    is_name.then_some((name, value, behind))
}

/// Where the first quote is that no backslash escapes.
fn closing_quote(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    text.bytes().position(|byte| {
        let closes = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        closes
    })
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
