//! What counters are kept by, and what clients are named by.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use tollgate_document::{Problem, closest};

use crate::attributes::Attribute;
use crate::compile::flaw::Flaw;

/// One kind of identifier. The order is the order in which the tier of a client is looked up.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Identifier {
    /// The authenticated user.
    UserId,
    /// The API key.
    ApiKey,
    /// The tenant.
    Tenant,
    /// The address of the client; an IPv6 address counts by its /64, which is what one site gets.
    Ip,
    /// A header, by its name in lower case.
    Header(Arc<str>),
    /// A claim of a verified token.
    Claim(Arc<str>),
    /// An attribute of the caller's own.
    Attribute(Arc<str>),
    /// The pattern of the rule that matched the path.
    Endpoint,
    /// The path in its normal form. The raw one would hand out a fresh counter for every spelling
    /// of the same path.
    Path,
    /// Nothing: all requests share one counter.
    Global,
}

/// The longest name of a header, claim or attribute.
const MAX_NAME: usize = 100;

impl Identifier {
    /// Reads the spelling used in policies.
    pub(crate) fn parse(text: &str) -> Result<Self, Flaw> {
        let (kind, name) = match text.split_once(':') {
            Some((kind, name)) => (kind, Some(name)),
            None => (text, None),
        };
        match (kind, name) {
            ("user_id", None) => Ok(Self::UserId),
            ("api_key", None) => Ok(Self::ApiKey),
            ("ip", None) => Ok(Self::Ip),
            ("tenant", None) => Ok(Self::Tenant),
            ("endpoint", None) => Ok(Self::Endpoint),
            ("path", None) => Ok(Self::Path),
            ("global", None) => Ok(Self::Global),
            ("header", Some(name)) if is_name(name) && name.bytes().all(is_token) => {
                Ok(Self::Header(name.to_ascii_lowercase().into()))
            }
            ("claim", Some(name)) if is_name(name) => Ok(Self::Claim(name.into())),
            ("attribute", Some(name)) if is_name(name) => Ok(Self::Attribute(name.into())),
            ("header" | "claim" | "attribute", _) => Err(Flaw::new(
                format!("`{text}` does not name a {kind}"),
                format!("write {kind}:NAME, with a name of 1 to {MAX_NAME} characters"),
            )),
            _ => Err(Flaw::new(
                match meant(text) {
                    Some(meant) => {
                        format!("unknown identifier type `{text}`; did you mean {meant}?")
                    }
                    None => format!("unknown identifier type `{text}`"),
                },
                "known are user_id, api_key, ip, tenant, endpoint, path, global, header:NAME, \
                 claim:NAME and attribute:NAME",
            )),
        }
    }

    /// Whether the identifier names a client, rather than what is requested.
    #[must_use]
    pub fn names_client(&self) -> bool {
        !matches!(self, Self::Endpoint | Self::Path | Self::Global)
    }

    /// Whether values must not be shown in full: an API key is a secret, and a header may be one.
    #[must_use]
    pub fn is_secret(&self) -> bool {
        matches!(self, Self::ApiKey | Self::Header(_))
    }

    /// The attribute of the request that holds the value as it is.
    pub(crate) fn attribute(&self) -> Option<Attribute<'_>> {
        match self {
            Self::UserId => Some(Attribute::UserId),
            Self::ApiKey => Some(Attribute::ApiKey),
            Self::Tenant => Some(Attribute::Tenant),
            Self::Header(name) => Some(Attribute::Header(name)),
            Self::Claim(name) => Some(Attribute::Claim(name)),
            Self::Attribute(name) => Some(Attribute::Custom(name)),
            Self::Ip | Self::Endpoint | Self::Path | Self::Global => None,
        }
    }
}

/// What was meant by a name that is none: a typo, or the word that other limiters use.
fn meant(text: &str) -> Option<&'static str> {
    let synonyms = [
        ("user", "user_id"),
        ("key", "api_key"),
        ("address", "ip"),
        ("ip_address", "ip"),
        ("client_ip", "ip"),
        ("tenant_id", "tenant"),
        ("route", "endpoint"),
    ];
    let synonym = synonyms.into_iter().find(|(word, _)| *word == text).map(|(_, meant)| meant);
    let names = ["user_id", "api_key", "ip", "tenant", "endpoint", "path", "global"];
    synonym.or_else(|| closest(text, names))
}

fn is_name(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len()) && !name.chars().any(char::is_control)
}

/// Whether HTTP allows the byte in a header name or a method.
pub(crate) fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

impl FromStr for Identifier {
    type Err = Problem;

    fn from_str(text: &str) -> Result<Self, Problem> {
        Self::parse(text).map_err(Problem::from)
    }
}

impl fmt::Display for Identifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UserId => f.write_str("user_id"),
            Self::ApiKey => f.write_str("api_key"),
            Self::Tenant => f.write_str("tenant"),
            Self::Ip => f.write_str("ip"),
            Self::Header(name) => write!(f, "header:{name}"),
            Self::Claim(name) => write!(f, "claim:{name}"),
            Self::Attribute(name) => write!(f, "attribute:{name}"),
            Self::Endpoint => f.write_str("endpoint"),
            Self::Path => f.write_str("path"),
            Self::Global => f.write_str("global"),
        }
    }
}
