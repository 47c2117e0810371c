//! Who may do what: tokens for this server, and API keys that count as an identity. Both are kept as
//! digests.

use std::fmt;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand;
use serde::{Deserialize, Serialize};
use tollgate_core::Timestamp;
use tollgate_rules::parse_time;

/// The prefix of every token, so that a leaked one can be recognised.
const TOKEN_PREFIX: &str = "tg_";
/// The prefix of every API key that was created here.
const KEY_PREFIX: &str = "tk_";
const ID_BYTES: usize = 6;
const SECRET_BYTES: usize = 32;

/// What the holder of a token may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Everything.
    Admin,
    /// Everything but tokens.
    Operator,
    /// Read everything but tokens, change nothing.
    Viewer,
    /// Ask whether requests may pass.
    Caller,
    /// Change rules, overrides and lists of one tenant, which can only tighten.
    TenantAdmin,
}

impl Role {
    /// All roles.
    pub const ALL: [Self; 5] =
        [Self::Admin, Self::Operator, Self::Viewer, Self::Caller, Self::TenantAdmin];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Operator => "operator",
            Self::Viewer => "viewer",
            Self::Caller => "caller",
            Self::TenantAdmin => "tenant-admin",
        }
    }

    /// The role of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == name)
    }
}

/// A token for this server, without its secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Token {
    /// Names it, also in the audit log.
    pub token_id: String,
    /// The SHA-256 digest of the whole token, in hexadecimal digits.
    pub digest: String,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What its holder may do.
    pub role: Role,
    /// The tenant of a tenant's administrator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// When it expires, as an RFC 3339 time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
}

/// An API key that counts as an identity, without the key.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApiKey {
    /// Names it, also in the audit log.
    pub key_id: String,
    /// The SHA-256 digest of the key, in hexadecimal digits.
    pub digest: String,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The user it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The tier of its requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<String>,
    /// The tenant it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
}

/// The system gives no random numbers.
#[derive(Clone, Copy, Debug)]
pub struct NoRandomNumbers;

impl fmt::Display for NoRandomNumbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the system gives no random numbers")
    }
}

impl std::error::Error for NoRandomNumbers {}

impl Token {
    /// A new token, and its secret text, which is not kept.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn create(role: Role) -> Result<(Self, String), NoRandomNumbers> {
        let (token_id, secret) = secret(TOKEN_PREFIX)?;
        let digest = digest_of(&secret);
        let token = Self { token_id, digest, name: None, role, tenant: None, expires_at: None };
        Ok((token, secret))
    }

    /// The id in the text of a token; none if the text is not a token of this server.
    #[must_use]
    pub fn id_in(shown: &[u8]) -> Option<&str> {
        let shown = std::str::from_utf8(shown).ok()?.strip_prefix(TOKEN_PREFIX)?;
        let (id, _) = shown.split_once('_')?;
        (id.len() == 2 * ID_BYTES).then_some(id)
    }

    /// Whether the text is this token. Compares in constant time.
    #[must_use]
    pub fn is(&self, shown: &[u8]) -> bool {
        let shown = hexadecimal(digest(&SHA256, shown).as_ref());
        verify_slices_are_equal(shown.as_bytes(), self.digest.as_bytes()).is_ok()
    }

    /// Whether it has expired.
    #[must_use]
    pub fn is_over(&self, now: Timestamp) -> bool {
        let end = self.expires_at.as_deref();
        // A time that cannot be parsed counts as expired.
        end.is_some_and(|end| parse_time(end).is_none_or(|end| end <= now))
    }
}

impl ApiKey {
    /// A new key, and the text that clients send, which is not kept.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn create() -> Result<(Self, String), NoRandomNumbers> {
        let (key_id, secret) = secret(KEY_PREFIX)?;
        let digest = digest_of(&secret);
        Ok((Self { key_id, digest, name: None, owner: None, tier: None, tenant: None }, secret))
    }

    /// A key that clients have already.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn known(key: &str) -> Result<Self, NoRandomNumbers> {
        let (mut known, _) = Self::create()?;
        known.digest = digest_of(key);
        Ok(known)
    }
}

/// A secret that cannot be guessed.
pub(crate) fn random_secret() -> Result<String, NoRandomNumbers> {
    let mut bytes = [0; SECRET_BYTES];
    rand::fill(&mut bytes).map_err(|_| NoRandomNumbers)?;
    Ok(hexadecimal(&bytes))
}

/// A random name, and a secret that begins with it.
fn secret(prefix: &str) -> Result<(String, String), NoRandomNumbers> {
    let mut bytes = [0; ID_BYTES + SECRET_BYTES];
    rand::fill(&mut bytes).map_err(|_| NoRandomNumbers)?;
    let (id, secret) = bytes.split_at(ID_BYTES);
    let id = hexadecimal(id);
    let shown = format!("{prefix}{id}_{}", hexadecimal(secret));
    Ok((id, shown))
}

/// The SHA-256 digest of a text, in hexadecimal digits.
#[must_use]
pub fn digest_of(text: &str) -> String {
    hexadecimal(digest(&SHA256, text.as_bytes()).as_ref())
}

fn hexadecimal(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.filter_map(|digit| char::from_digit(u32::from(digit), 16)).collect()
}

/// The digest of a short key gives the key away, so it is not shown.
impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiKey").field("key_id", &self.key_id).finish_non_exhaustive()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { token_id, role, tenant, .. } = self;
        f.debug_struct("Token")
            .field("token_id", token_id)
            .field("role", role)
            .field("tenant", tenant)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_known_by_its_secret_alone() {
        let (token, shown) = Token::create(Role::Viewer).expect("random numbers");
        assert_eq!(Token::id_in(shown.as_bytes()), Some(token.token_id.as_str()));
        assert!(token.is(shown.as_bytes()));
        let mut wrong = shown.clone();
        wrong.pop();
        assert!(!token.is(wrong.as_bytes()));
        assert!(!format!("{token:?}").contains(&token.digest));
        for shown in ["", "tg_", "tg_12", "tg_12_34", "tk_0123456789ab_1", "\u{fe}"] {
            assert_eq!(Token::id_in(shown.as_bytes()), None, "{shown}");
        }
    }

    #[test]
    fn a_token_whose_end_cannot_be_read_has_expired() {
        let check = |expires_at: Option<&str>, expected: bool| {
            let (mut token, _) = Token::create(Role::Admin).expect("random numbers");
            token.expires_at = expires_at.map(str::to_owned);
            assert_eq!(token.is_over(Timestamp::from_secs(10)), expected, "{expires_at:?}");
        };
        check(None, false);
        check(Some("1970-01-01T00:00:11Z"), false);
        check(Some("1970-01-01T00:00:10Z"), true);
        check(Some("soon"), true);
    }
}
