//! An HTTP request as rules see it: its client, and its attributes.

use http::header::{HOST, HeaderMap};
use tollgate_rules::{Attribute, Attributes};

use super::extractor::Identity;
use super::secret::Secret;

/// What stands for a header value that is not UTF-8: U+FFFD, the replacement character.
const NOT_UTF_8: &str = "\u{fffd}";

/// A request and its client, to be checked by a limiter.
#[derive(Clone, Copy, Debug)]
pub struct HttpRequest<'a> {
    /// The client.
    pub identity: &'a Identity,
    /// The method.
    pub method: &'a str,
    /// The host of the request. `None`: that of the `Host` header.
    pub host: Option<&'a str>,
    /// The path, with or without a query.
    pub path: &'a str,
    /// All headers.
    pub headers: &'a HeaderMap,
    /// How much it costs before rules multiply it. Zero is a peek.
    pub cost: u64,
}

impl HttpRequest<'_> {
    /// The first value of a header. Values that are not UTF-8 count as one: taken for missing, they
    /// would let a client leave out a rule that counts by them.
    fn header(&self, name: &str) -> Option<&str> {
        Some(str::from_utf8(self.headers.get(name)?.as_bytes()).unwrap_or(NOT_UTF_8))
    }
}

impl Attributes for HttpRequest<'_> {
    fn get(&self, attribute: Attribute<'_>) -> Option<&str> {
        let identity = self.identity;
        match attribute {
            Attribute::UserId => identity.user_id.as_deref(),
            Attribute::ApiKey => identity.api_key.as_ref().map(Secret::expose),
            Attribute::Ip => Some(&identity.ip),
            Attribute::Tenant => identity.tenant.as_deref(),
            Attribute::Tier => identity.tier.as_deref(),
            Attribute::Host => self.host.or_else(|| self.header(HOST.as_str())),
            Attribute::Path => Some(self.path),
            Attribute::Method => Some(self.method),
            Attribute::Header(name) => self.header(name),
            Attribute::Claim(name) => identity.claims.get(name),
            Attribute::Custom(_) => None,
        }
    }

    fn cost(&self) -> u64 {
        self.cost
    }
}
