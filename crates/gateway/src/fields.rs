//! Header fields that are about one connection and go no further.

use http::header::{
    CONNECTION, CONTENT_LENGTH, HeaderMap, HeaderName, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE,
    TRANSFER_ENCODING, UPGRADE,
};

const ALWAYS: [HeaderName; 9] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    HeaderName::from_static("http2-settings"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// Removes all fields that are about the connection they came over, those too that it names itself.
pub(crate) fn strip_hop_by_hop(fields: &mut HeaderMap) {
    if fields.contains_key(CONNECTION) {
        let named: Vec<HeaderName> = tokens(fields, &CONNECTION)
            .filter_map(|token| HeaderName::from_bytes(token).ok())
            .collect();
        for name in named {
            fields.remove(name);
        }
    }
    for name in ALWAYS {
        fields.remove(name);
    }
}

/// The same for an answer. Its length goes if it was sent in chunks: of two lengths, the client might
/// believe the other.
pub(crate) fn strip_response(fields: &mut HeaderMap) {
    if fields.contains_key(TRANSFER_ENCODING) {
        fields.remove(CONTENT_LENGTH);
    }
    strip_hop_by_hop(fields);
}

/// The items of a list that may stand in several lines.
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

/// Whether a list has an item, in any case.
pub(crate) fn has_token(fields: &HeaderMap, name: &HeaderName, token: &str) -> bool {
    tokens(fields, name).any(|found| found.eq_ignore_ascii_case(token.as_bytes()))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

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
    fn what_goes_no_further() {
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
    fn of_two_lengths_none_is_passed_on() {
        let check = |lines: &[(&'static str, &'static str)], expected: &str| {
            assert_eq!(left(lines, strip_response), expected, "{lines:?}");
        };
        check(&[("content-length", "5")], "content-length=5");
        check(&[("content-length", "5"), ("transfer-encoding", "chunked")], "");
    }
}
