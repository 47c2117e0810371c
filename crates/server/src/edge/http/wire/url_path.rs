//! The path of a URL: callers and proxies send what the client requested, which may be a whole URL. It is found where
//! browsers find it (the URL standard of WHATWG), so that no spelling of a URL hides its path from the rules.

const SLASHES: [char; 2] = ['/', '\\'];

/// The path and query of a text that may be a whole URL. Anything else is returned as it is.
#[inline]
pub(crate) fn url_path(text: &str) -> &str {
    // Nearly all are paths.
    if text.starts_with('/') {
        return text;
    }
    let Some((scheme, rest)) = text.split_once(':').filter(|(scheme, _)| is_scheme(scheme)) else {
        return text;
    };
    let authority = if is_web(scheme) {
        // Any number of slashes, of either kind.
        rest.trim_start_matches(SLASHES)
    } else if let Some(authority) = rest.strip_prefix("//") {
        authority
    } else {
        return text;
    };
    authority.find(['/', '\\', '?', '#']).map_or("/", |start| &authority[start..])
}

/// The schemes of the web, whose URLs may have backslashes for slashes.
fn is_web(scheme: &str) -> bool {
    ["http", "https", "ws", "wss"].iter().any(|known| scheme.eq_ignore_ascii_case(known))
}

/// RFC 3986: a letter, then letters, digits, `+`, `-` and `.`.
fn is_scheme(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_read_as_its_path() {
        let check = |text: &str, expected: &str| assert_eq!(url_path(text), expected, "{text}");
        check("/login", "/login");
        check("login", "login");
        check("", "");
        check("https://api.example/login", "/login");
        check("HTTPS://user@api.example:8443/a/b?c=d", "/a/b?c=d");
        check("https://api.example", "/");
        check("https://api.example?q", "?q");
        check("/redirect?to=https://e.example/x", "/redirect?to=https://e.example/x");
        check("redirect?to=https://e.example/x", "redirect?to=https://e.example/x");
        check("1x://e.example/x", "1x://e.example/x");
        check("grpc://e.example/x", "/x");
        check("users:42", "users:42");
        check("https://api.example#/login", "#/login");
    }

    /// The backslash was read as part of the host, and the path as `/`.
    #[test]
    fn a_backslash_in_a_url_is_a_slash() {
        let check = |text: &str, expected: &str| assert_eq!(url_path(text), expected, "{text}");
        check(r"https://h\login", r"\login");
        check(r"https:\\h\login?x", r"\login?x");
        check(r"HTTP:/\h/login", "/login");
        check("https:h/login", "/login");
        check("https:///h/login", "/login");
        check(r"\login", r"\login");
        check(r"login\https://h/x", r"login\https://h/x");
    }
}
