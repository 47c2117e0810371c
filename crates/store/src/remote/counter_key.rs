//! What hides subjects in the names of counters.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::hmac;

/// The key that hashes subjects.
#[derive(Clone)]
pub struct CounterKey(Arc<hmac::Key>);

impl CounterKey {
    /// A key from secret bytes.
    #[must_use]
    pub fn new(secret: &[u8]) -> Self {
        Self(Arc::new(hmac::Key::new(hmac::HMAC_SHA256, secret)))
    }

    #[cfg(feature = "redis")]
    pub(crate) fn hmac(&self) -> &hmac::Key {
        &self.0
    }
}

/// Omits the key.
impl fmt::Debug for CounterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CounterKey")
    }
}
