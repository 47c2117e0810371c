//! The path of a URL: callers and proxies send what the client requested, which may be a whole URL.

/// The path and query of a text that may be a whole URL. Anything else is returned as it is.
#[inline]
pub(crate) fn url_path(text: &str) -> &str {
    // Nearly all are paths.
    if text.starts_with('/') {
        return text;
    }
    match text.split_once("://") {
        Some((scheme, rest)) if is_scheme(scheme) => {
            rest.find(['/', '?']).map_or("/", |start| &rest[start..])
        }
        _ => text,
    }
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
    }
}
