//! Where a server is, as it was typed: checked once, so that every call can rely on it.

use std::fmt::{self, Write as _};

use http::Uri;
use http::uri::Scheme;

use crate::failure::Failure;

/// The address of a server, maybe with a path in front of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// Without a slash at the end.
    text: String,
    is_https: bool,
}

impl Address {
    pub(super) fn parse(text: &str) -> Result<Self, Failure> {
        // A password in an address does not belong into a message.
        if text.contains('@') {
            let advice = "give a token with --token or TOLLGATE_TOKEN instead";
            return Err(Failure::usage(format!(
                "--server takes no user name or password: {advice}"
            )));
        }
        let unusable = |why: &str| Failure::usage(format!("cannot use --server {text}: {why}"));
        let example = "write it like http://127.0.0.1:8080";
        let uri: Uri = text.parse().map_err(|error| unusable(&format!("{error}; {example}")))?;
        let is_https = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTP => false,
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            Some(_) | None => {
                return Err(unusable(&format!("it must be http or https; {example}")));
            }
        };
        if uri.query().is_some() {
            return Err(unusable(&format!("it has a query; {example}")));
        }
        Ok(Self { text: text.trim_end_matches('/').to_owned(), is_https })
    }

    pub(super) const fn is_https(&self) -> bool {
        self.is_https
    }

    /// The address of a resource, whose path begins with a slash.
    pub(super) fn join(&self, path: &str) -> String {
        format!("{}{path}", self.text)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A text as one segment of a path, whatever it contains.
pub(crate) fn segment(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // A string takes everything.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let check =
            |text: &str, expected: Result<&str, &str>| match (Address::parse(text), expected) {
                (Ok(address), Ok(expected)) => assert_eq!(address.join("/rules"), expected),
                (Err(Failure::Usage(message)), Err(part)) => {
                    assert!(message.contains(part), "{text}: {message}");
                    assert!(!message.contains("hush"), "{message}");
                }
                (address, _) => panic!("{text}: {address:?}"),
            };
        check("http://127.0.0.1:8080", Ok("http://127.0.0.1:8080/rules"));
        check("https://limits.example.com/", Ok("https://limits.example.com/rules"));
        check("https://example.com/tollgate/", Ok("https://example.com/tollgate/rules"));
        check("http://[::1]:8080", Ok("http://[::1]:8080/rules"));
        check("localhost:8080", Err("write it like http://"));
        check("127.0.0.1", Err("must be http or https"));
        check("ftp://example.com", Err("must be http or https"));
        check("", Err("write it like"));
        check("http://", Err("write it like"));
        check("http://a b", Err("write it like"));
        check("http://example.com/?a=b", Err("it has a query"));
        check("http://me:hush@example.com", Err("--token"));
    }

    #[test]
    fn segments_hold_anything() {
        assert_eq!(segment("api_default.v-2"), "api_default.v-2");
        assert_eq!(segment("a/b?c d%é"), "a%2Fb%3Fc%20d%25%C3%A9");
    }
}
