//! Host names: one spelling of each, and the patterns that match them.

use std::borrow::Cow;

use crate::compile::flaw::Flaw;

/// The longest name DNS allows. Anything longer names no host.
const MAX_HOST: usize = 253;

/// The spelling of a host that rules match: lower case, without a port and a trailing dot. `None`
/// if this cannot be a host.
pub(crate) fn normalise(raw: &str) -> Option<Cow<'_, str>> {
    let is_plain = |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.');
    let is_plain = raw.len() <= MAX_HOST && raw.bytes().all(is_plain);
    let host = if is_plain { raw } else { without_port(raw) };
    let host = host.strip_suffix('.').unwrap_or(host);
    if host.is_empty() || host.len() > MAX_HOST {
        return None;
    }
    let is_lower = is_plain || !host.bytes().any(|byte| byte.is_ascii_uppercase());
    Some(if is_lower { Cow::Borrowed(host) } else { Cow::Owned(host.to_ascii_lowercase()) })
}

/// A colon within brackets belongs to an IPv6 address.
fn without_port(raw: &str) -> &str {
    match raw.rfind([':', ']']) {
        Some(colon) if raw[colon..].starts_with(':') => &raw[..colon],
        _ => raw,
    }
}

/// Which hosts a rule applies to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum HostMatcher {
    /// `*.example.com`: one or more labels before this suffix. Holds `example.com`.
    Below(Box<str>),
    /// This host and no other.
    Exact(Box<str>),
}

impl HostMatcher {
    pub(crate) fn parse(text: &str) -> Result<Self, Flaw> {
        let (name, is_below) = match text.strip_prefix("*.") {
            Some(suffix) => (suffix, true),
            None => (text, false),
        };
        let flaw = |advice| Flaw::new(format!("`{text}` is not a host"), advice);
        if name.contains('*') {
            return Err(flaw("`*` stands for whole labels at the front, as in `*.example.com`"));
        }
        if name.contains(['/', ' ']) || (name.contains(':') && !name.ends_with(']')) {
            return Err(flaw("write the name alone, without scheme, port and path"));
        }
        let name = normalise(name).ok_or_else(|| flaw("write a name like `api.example.com`"))?;
        Ok(if is_below { Self::Below(name.into()) } else { Self::Exact(name.into()) })
    }

    /// Whether a host in its normal form matches.
    pub(crate) fn matches(&self, host: &str) -> bool {
        match self {
            Self::Exact(name) => **name == *host,
            Self::Below(suffix) => suffixes(host).any(|below| *below == **suffix),
        }
    }

    /// Whether every host that matches `other` matches this pattern too.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Exact(_), _) => self == other,
            (Self::Below(_), Self::Exact(name)) => self.matches(name),
            (Self::Below(wide), Self::Below(narrow)) => wide == narrow || self.matches(narrow),
        }
    }
}

/// What follows each dot of a host: the names it is below.
pub(crate) fn suffixes(host: &str) -> impl Iterator<Item = &str> {
    let dots = host.bytes().enumerate().filter(|(at, byte)| *byte == b'.' && *at > 0);
    dots.map(|(at, _)| &host[at + 1..])
}
