//! Where a server is: checked once, so that every call can rely on it.

use std::fmt;

use http::Uri;
use http::uri::Scheme;

use super::builder::BuildError;

/// The address of a server, maybe with a path prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServerAddress {
    /// Without a slash at the end.
    text: String,
    is_https: bool,
}

impl ServerAddress {
    pub(super) fn parse(text: &str) -> Result<Self, BuildError> {
        // An error message must not repeat a password.
        if text.contains('@') {
            let why = "an address takes no user name or password: give a token instead";
            return Err(BuildError::Address(why.to_owned()));
        }
        // An error message must not repeat a query, which may hold a token.
        let end = text.find(['?', '#']).unwrap_or(text.len());
        let (shown, rest) = text.split_at(end);
        let unusable = |why: &str| {
            let example = "write it like http://127.0.0.1:8080";
            BuildError::Address(format!("cannot use the address {shown}: {why}; {example}"))
        };
        let uri: Uri = text.parse().map_err(|error| unusable(&format!("{error}")))?;
        let is_https = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTP => false,
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            Some(_) | None => return Err(unusable("it must be http or https")),
        };
        match rest.chars().next() {
            Some('?') => return Err(unusable("it has a query")),
            Some(_) => return Err(unusable("it has a fragment")),
            None => {}
        }
        Ok(Self { text: text.trim_end_matches('/').to_owned(), is_https })
    }

    pub(super) const fn is_https(&self) -> bool {
        self.is_https
    }

    #[cfg(feature = "http")]
    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    /// The address of a resource, whose path begins with a slash or is empty.
    pub(super) fn join(&self, path: &str) -> Result<Uri, BuildError> {
        let joined = format!("{}{path}", self.text);
        joined.parse().map_err(|error| BuildError::Address(format!("cannot use {joined}: {error}")))
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let check = |text: &str, expected: Result<&str, &str>| {
            let joined = ServerAddress::parse(text).and_then(|address| address.join("/check"));
            match (joined, expected) {
                (Ok(uri), Ok(expected)) => assert_eq!(uri.to_string(), expected),
                (Err(error), Err(part)) => {
                    assert!(error.to_string().contains(part), "{text}: {error}");
                    assert!(!error.to_string().contains("hush"), "{error}");
                }
                (joined, _) => panic!("{text}: {joined:?}"),
            }
        };
        check("http://127.0.0.1:8080", Ok("http://127.0.0.1:8080/check"));
        check("https://limits.example.com/", Ok("https://limits.example.com/check"));
        check("https://example.com/tollgate/", Ok("https://example.com/tollgate/check"));
        check("http://[::1]:8080", Ok("http://[::1]:8080/check"));
        check("localhost:8080", Err("write it like http://"));
        check("127.0.0.1", Err("must be http or https"));
        check("ftp://example.com", Err("must be http or https"));
        check("", Err("write it like"));
        check("http://a b", Err("write it like"));
        check("http://example.com/?a=b", Err("it has a query"));
        check("http://me:hush@example.com", Err("give a token"));
        check("http://example.com/?token=hush", Err("http://example.com/: it has a query"));
        check("http://example.com/#hush", Err("http://example.com/: it has a fragment"));
        check("http://a b?token=hush", Err("write it like"));
        check("localhost?token=hush", Err("write it like"));
    }
}
