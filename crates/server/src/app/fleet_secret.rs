//! The secret of a fleet, and the keys that are derived from it, one for each purpose.

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM, LessSafeKey, UnboundKey};
use aws_lc_rs::{hkdf, hmac};

/// How many bytes of a digest mark a store.
const MARK_BYTES: usize = 16;

/// The secret of a fleet. The secret itself leaves the node in no form.
pub(crate) struct FleetSecret {
    mark: hmac::Key,
    derive: hkdf::Prk,
}

/// Omits the secret.
impl fmt::Debug for FleetSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FleetSecret")
    }
}

impl FleetSecret {
    pub(crate) fn new(secret: &str) -> Self {
        Self {
            mark: hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()),
            derive: hkdf::Salt::new(hkdf::HKDF_SHA256, &[]).extract(secret.as_bytes()),
        }
    }

    /// What marks a store as the fleet's.
    pub(crate) fn mark(&self) -> String {
        let digest = hmac::sign(&self.mark, b"mark of the store");
        let bytes = digest.as_ref().iter().take(MARK_BYTES);
        bytes.map(|byte| format!("{byte:02x}")).collect()
    }

    /// The key of one copy of the policy. A random `salt` makes it the key of that copy alone.
    pub(crate) fn policy_copy_key(&self, salt: &[u8]) -> Option<LessSafeKey> {
        let info = [b"tollgate policy copy".as_slice(), salt];
        let key = self.derive.expand(&info, &AES_256_GCM).ok()?;
        Some(LessSafeKey::new(UnboundKey::from(key)))
    }
}
