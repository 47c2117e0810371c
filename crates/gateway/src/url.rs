//! The URL of an upstream: its protocol, its host and its port.

use std::fmt;
use std::str::FromStr;

use http::uri::{Authority, Scheme, Uri};

/// The URL of an upstream: `http://host:port`, `https://host` or `h2c://host:port`. It has no path:
/// requests keep theirs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UpstreamUrl {
    protocol: UpstreamProtocol,
    authority: Authority,
    port: u16,
}

/// The protocol of an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum UpstreamProtocol {
    /// HTTP/1.1.
    Plain,
    /// HTTP/2 without TLS, with prior knowledge.
    PlainHttp2,
    /// TLS, which negotiates HTTP/2 or HTTP/1.1.
    Tls,
}

const PROTOCOLS: [(&str, UpstreamProtocol, u16); 3] = [
    ("http", UpstreamProtocol::Plain, 80),
    ("h2c", UpstreamProtocol::PlainHttp2, 80),
    ("https", UpstreamProtocol::Tls, 443),
];

impl UpstreamUrl {
    pub(crate) const fn protocol(&self) -> UpstreamProtocol {
        self.protocol
    }

    /// Host and port, as written.
    pub(crate) const fn authority(&self) -> &Authority {
        &self.authority
    }

    /// The scheme of requests to it.
    pub(crate) fn scheme(&self) -> Scheme {
        if self.protocol == UpstreamProtocol::Tls { Scheme::HTTPS } else { Scheme::HTTP }
    }

    /// The host, without the brackets of IPv6.
    pub(crate) fn host(&self) -> &str {
        let host = self.authority.host();
        host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
    }

    pub(crate) const fn port(&self) -> u16 {
        self.port
    }
}

impl FromStr for UpstreamUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = "expected http://HOST:PORT, https://HOST or h2c://HOST:PORT";
        let uri: Uri = text.parse().map_err(|_| expected.to_owned())?;
        let scheme = uri.scheme_str().unwrap_or_default();
        let known = PROTOCOLS.iter().find(|(name, _, _)| *name == scheme);
        let (Some((_, protocol, port)), Some(authority)) = (known, uri.authority()) else {
            return Err(expected.to_owned());
        };
        if authority.as_str().contains('@') {
            return Err("an upstream URL has no user and no password".to_owned());
        }
        let port = match authority.port_u16() {
            Some(port) => port,
            None if authority.as_str() == authority.host() => *port,
            None => return Err(expected.to_owned()),
        };
        if authority.host().is_empty() || port == 0 {
            return Err(expected.to_owned());
        }
        if uri.path() != "/" || uri.query().is_some() {
            return Err("an upstream URL has no path: requests keep theirs".to_owned());
        }
        Ok(Self { protocol: *protocol, authority: authority.clone(), port })
    }
}

impl fmt::Display for UpstreamUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = PROTOCOLS.iter().find(|(_, protocol, _)| *protocol == self.protocol);
        write!(f, "{}://{}", name.map_or("", |(name, _, _)| name), self.authority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_understood_or_refused() {
        let check = |text: &str, expected: Option<(&str, u16, UpstreamProtocol)>| {
            let url = text.parse::<UpstreamUrl>().ok();
            let found = url.as_ref().map(|url| (url.host(), url.port(), url.protocol()));
            assert_eq!(found, expected, "{text}");
        };
        check("http://10.0.0.1:3000", Some(("10.0.0.1", 3000, UpstreamProtocol::Plain)));
        check("http://backend", Some(("backend", 80, UpstreamProtocol::Plain)));
        check("http://backend/", Some(("backend", 80, UpstreamProtocol::Plain)));
        check("https://api.example.com", Some(("api.example.com", 443, UpstreamProtocol::Tls)));
        check("h2c://[::1]:50051", Some(("::1", 50051, UpstreamProtocol::PlainHttp2)));
        for wrong in [
            "",
            "backend",
            "backend:80",
            "10.0.0.1:80",
            "/",
            "ftp://backend",
            "http://",
            "http://backend/path",
            "http://backend?x",
            "http://user:pw@backend",
            "http://backend:0",
            "http://backend:65536",
            "http://back end",
            "http://:80",
            "http://backend:",
        ] {
            check(wrong, None);
        }
    }

    #[test]
    fn urls_are_shown_as_they_are_written() {
        for text in ["http://10.0.0.1:3000", "https://api.example.com", "h2c://[::1]:50051"] {
            assert_eq!(text.parse::<UpstreamUrl>().expect(text).to_string(), text);
        }
    }
}
