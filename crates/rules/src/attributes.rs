//! Attributes of a request, looked up by name: the one thing an entry point has to provide.

/// An attribute of a request that rules can match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Attribute<'a> {
    /// The authenticated user.
    UserId,
    /// The API key, as it was sent and verified.
    ApiKey,
    /// The address of the client, without port or brackets.
    Ip,
    /// The tenant the request belongs to.
    Tenant,
    /// The requested host, with or without a port.
    Host,
    /// The requested path, with or without a query.
    Path,
    /// The HTTP method.
    Method,
    /// The tier the request claims for its client, from a verified token for example.
    Tier,
    /// A header; the name is in lower case.
    Header(&'a str),
    /// A claim of a verified token.
    Claim(&'a str),
    /// Anything else the caller knows.
    Custom(&'a str),
}

/// A request, as far as rules can see it.
///
/// An empty value counts as absent everywhere: an empty user id identifies no user.
pub trait Attributes {
    /// The value of an attribute, exactly as the request has it.
    fn get(&self, attribute: Attribute<'_>) -> Option<&str>;

    /// How much this request costs before a rule multiplies it.
    fn cost(&self) -> u64 {
        1
    }

    /// The SHA-256 digest of the API key as policies write it, `sha256:` and hexadecimal digits, where only that is
    /// known: then [`Attribute::ApiKey`] is the digest too.
    fn api_key_digest(&self) -> Option<&str> {
        None
    }
}
