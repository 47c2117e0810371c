//! What hides subjects in the names of counters.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::hmac;

/// The key that hashes subjects. Clones share it.
#[derive(Clone)]
pub struct CounterKey(Arc<KeyedNames>);

struct KeyedNames {
    hmac: hmac::Key,
    id: u64,
}

impl CounterKey {
    /// A key from secret bytes.
    #[must_use]
    pub fn new(secret: &[u8]) -> Self {
        let hmac = hmac::Key::new(hmac::HMAC_SHA256, secret);
        let digest = hmac::sign(&hmac, b"id");
        let id = digest.as_ref().iter().take(8).fold(0, |id, byte| id << 8 | u64::from(*byte));
        Self(Arc::new(KeyedNames { hmac, id }))
    }

    /// Identifies the key, and does not reveal it.
    #[cfg(feature = "redis")]
    pub(crate) fn id(&self) -> u64 {
        self.0.id
    }

    #[cfg(feature = "redis")]
    pub(crate) fn hmac(&self) -> &hmac::Key {
        &self.0.hmac
    }
}

/// Omits the key.
impl fmt::Debug for CounterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CounterKey")
    }
}
