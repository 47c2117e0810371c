//! Removes hop-by-hop header fields.

use http::header::{
    CONNECTION, CONTENT_LENGTH, COOKIE, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING,
};

/// Removes all hop-by-hop fields, and those that `Connection` names.
pub(crate) fn strip_hop_by_hop(fields: &mut HeaderMap) {
    // Heads are short: comparing their names takes less time than looking up every name to remove.
    let mut unwanted: Vec<HeaderName> =
        fields.keys().filter(|name| is_hop_by_hop(name)).cloned().collect();
    if unwanted.contains(&CONNECTION) {
        // `keep-alive`, which most servers send, is one of those above.
        let named = tokens(fields, &CONNECTION).filter(|token| *token != b"keep-alive");
        unwanted.extend(named.filter_map(|token| HeaderName::from_bytes(token).ok()));
    }
    for name in unwanted {
        fields.remove(name);
    }
}

fn is_hop_by_hop(name: &HeaderName) -> bool {
    matches!(
        name.as_str(),
        "connection"
            | "keep-alive"
            | "proxy-connection"
            | "http2-settings"
            | "proxy-authenticate"
            | "proxy-authorization"
            | "te"
            | "transfer-encoding"
            | "upgrade"
    )
}

/// Removes the hop-by-hop fields of a response. Its length is removed if it was chunked: of two lengths, the client
/// might use the other.
pub(crate) fn strip_response(fields: &mut HeaderMap) {
    if fields.contains_key(TRANSFER_ENCODING) {
        fields.remove(CONTENT_LENGTH);
    }
    strip_hop_by_hop(fields);
}

/// Joins several `Cookie` lines: HTTP/2 may split them, and HTTP/1.1 may not.
pub(crate) fn join_cookies(fields: &mut HeaderMap) {
    if !fields.contains_key(COOKIE) {
        return;
    }
    let lines: Vec<&[u8]> = fields.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if lines.len() < 2 {
        return;
    }
    // Valid values stay valid when joined.
    if let Ok(line) = HeaderValue::from_bytes(&lines.join(&b"; "[..])) {
        fields.insert(COOKIE, line);
    }
}

/// The items of a list that may be in several lines.
pub(crate) fn tokens<'a>(
    fields: &'a HeaderMap,
    name: &HeaderName,
) -> impl Iterator<Item = &'a [u8]> {
    let lines = fields.get_all(name).iter();
    lines
        .flat_map(|line| line.as_bytes().split(|byte| *byte == b','))
        .map(<[u8]>::trim_ascii)
        .filter(|token| !token.is_empty())
}

/// Whether a list has an item, case-insensitively.
pub(crate) fn has_token(fields: &HeaderMap, name: &HeaderName, token: &str) -> bool {
    tokens(fields, name).any(|found| found.eq_ignore_ascii_case(token.as_bytes()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn left(lines: &[(&'static str, &'static str)], strip: fn(&mut HeaderMap)) -> String {
        let mut fields = HeaderMap::new();
        for (name, value) in lines {
            fields.append(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        strip(&mut fields);
        let mut left: Vec<String> = fields
            .iter()
            .map(|(name, value)| format!("{name}={}", value.to_str().unwrap()))
            .collect();
        left.sort();
        left.join(" ")
    }

    #[test]
    fn hop_by_hop_fields_are_removed() {
        let check = |lines: &[(&'static str, &'static str)], expected: &str| {
            assert_eq!(left(lines, strip_hop_by_hop), expected, "{lines:?}");
        };
        check(&[("host", "a"), ("accept", "b")], "accept=b host=a");
        check(
            &[
                ("connection", "keep-alive"),
                ("keep-alive", "x"),
                ("te", "trailers"),
                ("transfer-encoding", "chunked"),
                ("upgrade", "x"),
                ("proxy-connection", "x"),
                ("proxy-authorization", "x"),
                ("http2-settings", "x"),
                ("trailer", "x-sum"),
            ],
            "trailer=x-sum",
        );
        check(
            &[
                ("connection", "X-One , close,,"),
                ("connection", "x-two"),
                ("x-one", "1"),
                ("x-one", "1"),
                ("x-two", "2"),
                ("x-three", "3"),
            ],
            "x-three=3",
        );
        check(&[("connection", "a b, @, é"), ("x", "1")], "x=1");
    }

    #[test]
    fn cookies_are_one_line() {
        let check = |lines: &[(&'static str, &'static str)], expected: &str| {
            assert_eq!(left(lines, join_cookies), expected, "{lines:?}");
        };
        check(&[], "");
        check(&[("cookie", "a=1")], "cookie=a=1");
        check(&[("cookie", "a=1"), ("x", "y"), ("cookie", "b=2")], "cookie=a=1; b=2 x=y");
    }

    proptest! {
        /// Only hop-by-hop fields and those that `Connection` names are removed.
        #[test]
        fn only_fields_named_by_connection_are_removed(
            connection in "[ -~]{0,40}",
            names in prop::collection::vec("[a-e-]{1,3}", 0..8),
        ) {
            let mut fields = HeaderMap::new();
            for name in &names {
                fields.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_static("1"));
            }
            fields.insert(CONNECTION, HeaderValue::from_str(&connection).unwrap());
            strip_hop_by_hop(&mut fields);
            for name in &names {
                let is_named = connection.split(',').any(|token| token.trim().eq_ignore_ascii_case(name));
                prop_assert_eq!(fields.contains_key(name), !is_named, "{} {}", connection, name);
            }
            prop_assert!(!fields.contains_key(CONNECTION));
        }
    }

    #[test]
    fn of_two_lengths_none_is_passed_on() {
        let check = |lines: &[(&'static str, &'static str)], expected: &str| {
            assert_eq!(left(lines, strip_response), expected, "{lines:?}");
        };
        check(&[("content-length", "5")], "content-length=5");
        check(&[("content-length", "5"), ("transfer-encoding", "chunked")], "");
    }
}
