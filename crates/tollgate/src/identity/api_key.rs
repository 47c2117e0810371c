//! API keys: which are known, and whose they are. Known keys are held as digests only.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use aws_lc_rs::digest;
use http::header::{HeaderName, HeaderValue};

use super::error::IdentityError;

/// The longest key, in bytes.
const MAX_KEY: usize = 512;
const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// Where API keys are found, and which count.
#[derive(Clone, Debug)]
pub struct ApiKeyConfig {
    /// The header that carries the key: `X-API-Key` by default.
    pub header: HeaderName,
    /// Which keys count.
    pub accept: ApiKeys,
}

impl Default for ApiKeyConfig {
    fn default() -> Self {
        Self { header: X_API_KEY, accept: ApiKeys::default() }
    }
}

/// Which API keys count as an identity.
#[derive(Clone, Debug)]
pub enum ApiKeys {
    /// These keys. Any other key is not an identity.
    Known(Vec<KnownKey>),
    /// Every key. A proxy must have verified it before: a client that invents keys has a fresh quota
    /// with each of them.
    Any,
}

impl Default for ApiKeys {
    fn default() -> Self {
        Self::Known(Vec::new())
    }
}

/// A key and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownKey {
    /// The key.
    pub key: KeyDigest,
    /// The user it belongs to, unless a token names another.
    pub owner: Option<String>,
    /// The tier of its requests.
    pub tier: Option<String>,
    /// The tenant it belongs to.
    pub tenant: Option<String>,
}

impl KnownKey {
    /// A key without an owner, tier or tenant.
    #[must_use]
    pub const fn new(key: KeyDigest) -> Self {
        Self { key, owner: None, tier: None, tenant: None }
    }
}

/// The SHA-256 digest of an API key.
///
/// Read from `sha256:` and 64 hexadecimal digits, or from the key itself, which is not kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyDigest([u8; 32]);

impl KeyDigest {
    /// The digest of a key.
    #[must_use]
    pub fn of(key: &str) -> Self {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest::digest(&digest::SHA256, key.as_bytes()).as_ref());
        Self(bytes)
    }
}

impl FromStr for KeyDigest {
    type Err = IdentityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let flaw = |problem: String| IdentityError::new("api_key", problem);
        if let Some(digits) = text.strip_prefix("sha256:") {
            let problem = "`sha256:` is followed by the 64 hexadecimal digits of the key's digest";
            return from_hex(digits).map(Self).ok_or_else(|| flaw(problem.to_owned()));
        }
        if !is_key(text) {
            let problem = format!(
                "a key has 1 to {MAX_KEY} printable ASCII characters without spaces; this one has \
                 {} bytes",
                text.len()
            );
            return Err(flaw(problem));
        }
        Ok(Self::of(text))
    }
}

/// The digest of a short key gives the key away, so it is not shown either.
impl fmt::Debug for KeyDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

fn from_hex(digits: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if digits.len() != 2 * bytes.len() {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    for (byte, pair) in bytes.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

fn is_key(text: &str) -> bool {
    (1..=MAX_KEY).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// [`ApiKeyConfig`], checked.
#[derive(Debug)]
pub(super) struct ApiKeyring {
    header: HeaderName,
    accepted: Accepted,
}

#[derive(Debug)]
enum Accepted {
    Known {
        fixed: KnownKeys,
        /// Keys that change while requests are checked.
        changing: ArcSwap<KnownKeys>,
    },
    Any,
}

type KnownKeys = HashMap<KeyDigest, Arc<KnownKey>>;

/// The key of a request, and what is known about it.
pub(super) struct Presented<'a> {
    pub(super) key: &'a str,
    pub(super) known: Option<Arc<KnownKey>>,
}

impl ApiKeyring {
    pub(super) fn new(config: ApiKeyConfig) -> Result<Self, IdentityError> {
        let accepted = match config.accept {
            ApiKeys::Any => Accepted::Any,
            ApiKeys::Known(keys) => {
                let mut known = HashMap::with_capacity(keys.len());
                for (at, key) in keys.into_iter().enumerate() {
                    if known.insert(key.key, Arc::new(key)).is_some() {
                        let setting = format!("api_key.accept[{at}]");
                        return Err(IdentityError::new(setting, "the same key is there twice"));
                    }
                }
                Accepted::Known { fixed: known, changing: ArcSwap::default() }
            }
        };
        Ok(Self { header: config.header, accepted })
    }

    /// Replaces the keys that come and go. Where every key counts, none is special.
    pub(super) fn set_changing(&self, keys: impl IntoIterator<Item = KnownKey>) {
        if let Accepted::Known { changing, .. } = &self.accepted {
            let keys = keys.into_iter().map(|key| (key.key, Arc::new(key)));
            changing.store(Arc::new(keys.collect()));
        }
    }

    /// The header that carries the key.
    pub(super) const fn header(&self) -> &HeaderName {
        &self.header
    }

    /// The key in a header, if it counts. It is looked up by its digest, so how long that takes
    /// says nothing about known keys.
    pub(super) fn find<'a>(&'a self, value: &'a HeaderValue) -> Option<Presented<'a>> {
        let key = str::from_utf8(value.as_bytes().trim_ascii()).ok().filter(|key| is_key(key))?;
        let known = match &self.accepted {
            Accepted::Any => None,
            Accepted::Known { fixed, changing } => {
                let digest = KeyDigest::of(key);
                let known = fixed.get(&digest).cloned();
                Some(known.or_else(|| changing.load().get(&digest).cloned())?)
            }
        };
        Some(Presented { key, known })
    }
}
