//! API keys as digests: policies name clients by their keys, and must not give the keys away.

use std::borrow::Cow;

use sha2::{Digest as _, Sha256};

use crate::directory::bans::Digest;
use crate::document::PolicyDocument;
use crate::value::OneOrMany;

const PREFIX: &str = "sha256:";
const HEX_DIGITS: usize = 64;
const DIGEST_BYTES: usize = PREFIX.len() + HEX_DIGITS;
const API_KEY: &str = "api_key";

/// The digests that stand for secrets in policies, lists of bans and catalogs.
pub const SECRET_DIGEST: Digest =
    Digest { prefix: PREFIX, of: |secret| SecretDigest::new(secret).as_str().to_owned() };

/// The SHA-256 digest of a secret as text: `sha256:` and hexadecimal digits.
pub(crate) struct SecretDigest([u8; DIGEST_BYTES]);

impl SecretDigest {
    pub(crate) fn new(secret: &str) -> Self {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0; DIGEST_BYTES];
        let (prefix, digits) = text.split_at_mut(PREFIX.len());
        prefix.copy_from_slice(PREFIX.as_bytes());
        for (pair, byte) in digits.chunks_exact_mut(2).zip(Sha256::digest(secret.as_bytes())) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        Self(text)
    }

    pub(crate) fn as_str(&self) -> &str {
        // It is ASCII.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

/// The digest of an API key that people write: the key itself, or its digest already.
pub(crate) fn digest_of_key(text: &str) -> Cow<'_, str> {
    if is_digest(text) {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(SecretDigest::new(text).as_str().to_owned())
    }
}

fn is_digest(text: &str) -> bool {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    text.strip_prefix(PREFIX)
        .is_some_and(|digits| digits.len() == HEX_DIGITS && digits.bytes().all(is_digit))
}

/// The values of identifiers of these types, with digests in place of API keys.
#[must_use]
pub fn redacted_values(types: &OneOrMany, values: &OneOrMany) -> OneOrMany {
    let kinds = types.iter().map(String::as_str).chain(std::iter::repeat(""));
    OneOrMany::many(values.iter().zip(kinds).map(|(value, kind)| {
        // An empty key is a mistake that is still to be reported.
        if kind == API_KEY && !value.is_empty() {
            digest_of_key(value).into_owned()
        } else {
            value.clone()
        }
    }))
}

impl PolicyDocument {
    /// Replaces all API keys by their digests. The document means the same.
    pub fn redact_secrets(&mut self) {
        for it in &mut self.clients {
            it.identifier = redacted_values(&it.identifier_type, &it.identifier);
        }
        for it in &mut self.overrides {
            it.identifier = redacted_values(&it.identifier_type, &it.identifier);
        }
        for it in self.whitelist.iter_mut().chain(&mut self.blacklist) {
            it.identifier = redacted_values(&it.identifier_type, &it.identifier);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_stands_for_itself_and_a_key_for_its_digest() {
        // The digest of `k`, as sha256sum tells it.
        let digest = "sha256:8254c329a92850f6d539dd376f4816ee2764517da5e0235514af433164480d7a";
        let check =
            |text: &str, expected: &str| assert_eq!(digest_of_key(text), expected, "{text}");
        check("k", digest);
        check(digest, digest);
        assert_eq!((SECRET_DIGEST.of)("k"), digest);
        for key in [&digest[..70], &digest.to_uppercase(), &format!("{digest}0"), "sha256:"] {
            assert_ne!(digest_of_key(key), *key);
        }
    }
}
