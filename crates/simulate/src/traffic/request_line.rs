//! The first line of an HTTP request, as logs quote it: `GET /path?query HTTP/1.1`.

/// The parts of a request line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RequestLine<'a> {
    pub(super) method: &'a str,
    pub(super) target: &'a str,
}

/// Splits a request line; `None` if it is none, as when a client speaks TLS to a plain port.
pub(super) fn split(line: &str) -> Option<RequestLine<'_>> {
    let (method, rest) = line.split_once(' ')?;
    let target = match rest.rsplit_once(' ') {
        // The target may hold spaces: servers log what they got, not what was allowed.
        Some((target, protocol)) if protocol.starts_with("HTTP/") => target,
        // A line that was too long for the server is logged without its end.
        _ if rest.starts_with('/') => rest,
        _ => return None,
    };
    let is_method = !method.is_empty() && method.bytes().all(is_token_byte);
    (is_method && !target.is_empty()).then_some(RequestLine { method, target })
}

/// The path of a request target, without the query, which no rule matches.
pub(super) fn path(target: &str) -> &str {
    let path = authority_and_path(target).map_or(target, |(_, path)| path);
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    if path.is_empty() { "/" } else { path }
}

/// The host a request target names, as in `http://example.com/path`.
pub(super) fn host(target: &str) -> Option<&str> {
    authority_and_path(target).map(|(host, _)| host).filter(|host| !host.is_empty())
}

fn authority_and_path(target: &str) -> Option<(&str, &str)> {
    let rest = target.strip_prefix("http://").or_else(|| target.strip_prefix("https://"))?;
    let end = rest.find(['/', '\\', '?']).unwrap_or(rest.len());
    rest.split_at_checked(end)
}

fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_lines_are_split_and_garbage_is_not() {
        let check = |line: &str, expected: Option<(&str, &str, Option<&str>)>| {
            let found = split(line).map(|r| (r.method, path(r.target), host(r.target)));
            assert_eq!(found, expected, "{line}");
        };
        check("GET / HTTP/1.1", Some(("GET", "/", None)));
        check("GET /a/b?x=1&y=/?z HTTP/2.0", Some(("GET", "/a/b", None)));
        check("GET /a b c HTTP/1.0", Some(("GET", "/a b c", None)));
        check("GET /old", Some(("GET", "/old", None)));
        check("GET /too long to", Some(("GET", "/too long to", None)));
        check("M-SEARCH * HTTP/1.1", Some(("M-SEARCH", "*", None)));
        check("CONNECT example.com:443 HTTP/1.1", Some(("CONNECT", "example.com:443", None)));
        check("GET http://example.com/a?b HTTP/1.1", Some(("GET", "/a", Some("example.com"))));
        check("GET http://example.com HTTP/1.1", Some(("GET", "/", Some("example.com"))));
        check("GET https://example.com?q HTTP/1.1", Some(("GET", "/", Some("example.com"))));
        check("GET http:///a HTTP/1.1", Some(("GET", "/a", None)));
        check(r"GET http://h\a HTTP/1.1", Some(("GET", r"\a", Some("h"))));
        check("", None);
        check("-", None);
        check("GET", None);
        check("GET  HTTP/1.1", None);
        check(" / HTTP/1.1", None);
        check(r"\x16\x03\x01 / HTTP/1.1", None);
        check(r"\x16\x03\x01\x02 \x00", None);
        check("SSH-2.0-Go hello", None);
    }
}
