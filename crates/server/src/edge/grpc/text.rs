//! Text of Envoy that may hold any byte: header values need not be UTF-8, but rules and files are.

use std::fmt::Write as _;
use std::mem::take;

/// Makes bytes valid UTF-8. Each byte that is not part of a character becomes `%XX`, as in a URL, so that
/// different bytes stay different values.
pub(super) fn make_readable(bytes: &mut Vec<u8>) {
    if str::from_utf8(bytes).is_err() {
        *bytes = escaped(&take(bytes)).into_bytes();
    }
}

/// Bytes that were made readable, as text.
pub(super) fn read(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).unwrap_or_default()
}

#[cold]
fn escaped(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() + 16);
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            // Writing to a string cannot fail.
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_not_utf_8_are_escaped_and_stay_different() {
        let check = |bytes: &[u8], expected: &str| {
            let mut bytes = bytes.to_vec();
            make_readable(&mut bytes);
            assert_eq!(read(&bytes), expected);
        };
        check(b"", "");
        check("/caf\u{e9}".as_bytes(), "/caf\u{e9}");
        check(b"/login?\xff", "/login?%FF");
        check(b"j\xf6rg", "j%F6rg");
        check(b"j\xe4rg", "j%E4rg");
        check(b"\xe2\x82", "%E2%82");
    }
}
