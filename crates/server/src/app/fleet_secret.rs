//! The secret of a fleet, and the keys that are derived from it, one for each purpose. While the secret is changed node by
//! node there are two: the one that the store is marked with seals, and both open.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use aws_lc_rs::aead::{AES_256_GCM, AES_256_GCM_SIV, Algorithm, LessSafeKey, UnboundKey};
use aws_lc_rs::{hkdf, hmac};
use tollgate::store::CounterKey;

/// How many bytes of a digest mark a store.
const MARK_BYTES: usize = 16;

/// The secret of a fleet, and the one before it. The secrets themselves leave the node in no form.
pub(crate) struct FleetSecret {
    current: SecretKeys,
    previous: Option<SecretKeys>,
    uses_previous: AtomicBool,
}

/// What is derived from one secret.
struct SecretKeys {
    mark: hmac::Key,
    derive: hkdf::Prk,
}

/// Omits the secrets.
impl fmt::Debug for FleetSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FleetSecret")
    }
}

impl FleetSecret {
    pub(crate) fn new(secret: &str, previous: Option<&str>) -> Self {
        Self {
            current: SecretKeys::new(secret),
            previous: previous.map(SecretKeys::new),
            uses_previous: AtomicBool::new(false),
        }
    }

    /// Seals with the previous secret from now on, or with the current one.
    pub(crate) fn use_previous(&self, is_previous: bool) {
        self.uses_previous.store(is_previous, Relaxed);
    }

    /// What marks a store as the fleet's.
    pub(crate) fn mark(&self) -> String {
        self.current.mark()
    }

    /// What the previous secret marked a store with.
    pub(crate) fn previous_mark(&self) -> Option<String> {
        self.previous.as_ref().map(SecretKeys::mark)
    }

    /// The key that seals a message between nodes, which `exchange` identifies.
    pub(crate) fn journal_query_key(&self, exchange: &[u8]) -> Option<LessSafeKey> {
        self.in_use().journal_query_key(exchange)
    }

    /// The keys that may open a message between nodes.
    pub(crate) fn journal_query_keys(&self, exchange: &[u8]) -> impl Iterator<Item = LessSafeKey> {
        self.known().filter_map(move |keys| keys.journal_query_key(exchange))
    }

    /// The key that seals one copy of the policy. A random `salt` makes it the key of that copy alone.
    pub(crate) fn policy_copy_key(&self, salt: &[u8]) -> Option<LessSafeKey> {
        self.in_use().policy_copy_key(salt)
    }

    /// The keys that may open one copy of the policy. The first is the one that would seal it now.
    pub(crate) fn policy_copy_keys(&self, salt: &[u8]) -> impl Iterator<Item = LessSafeKey> {
        self.known().filter_map(move |keys| keys.policy_copy_key(salt))
    }

    /// The keys that may open a message about figures. The first is the one that would seal it now.
    pub(crate) fn fleet_figures_keys(&self, exchange: &[u8]) -> impl Iterator<Item = LessSafeKey> {
        self.known().filter_map(move |keys| keys.fleet_figures_key(exchange))
    }

    /// The key that seals sessions of the dashboard.
    pub(crate) fn session_key(&self) -> Option<LessSafeKey> {
        self.in_use().session_key()
    }

    /// The keys that may open a session of the dashboard.
    pub(crate) fn session_keys(&self) -> impl Iterator<Item = LessSafeKey> {
        self.known().filter_map(SecretKeys::session_key)
    }

    /// The key that hides subjects in the names of counters.
    pub(crate) fn counter_key(&self) -> Option<CounterKey> {
        self.in_use().counter_key()
    }

    fn in_use(&self) -> &SecretKeys {
        let previous = self.previous.as_ref().filter(|_| self.uses_previous.load(Relaxed));
        previous.unwrap_or(&self.current)
    }

    /// The secret in use, then the other one.
    fn known(&self) -> impl Iterator<Item = &SecretKeys> {
        let both = [Some(&self.current), self.previous.as_ref()];
        let start = usize::from(self.uses_previous.load(Relaxed));
        both.into_iter().cycle().skip(start).take(2).flatten()
    }
}

impl SecretKeys {
    fn new(secret: &str) -> Self {
        Self {
            mark: hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()),
            derive: hkdf::Salt::new(hkdf::HKDF_SHA256, &[]).extract(secret.as_bytes()),
        }
    }

    fn mark(&self) -> String {
        let digest = hmac::sign(&self.mark, b"mark of the store");
        let bytes = digest.as_ref().iter().take(MARK_BYTES);
        bytes.map(|byte| format!("{byte:02x}")).collect()
    }

    fn journal_query_key(&self, exchange: &[u8]) -> Option<LessSafeKey> {
        self.key(b"tollgate journal query", exchange, &AES_256_GCM_SIV)
    }

    fn fleet_figures_key(&self, exchange: &[u8]) -> Option<LessSafeKey> {
        self.key(b"tollgate fleet figures", exchange, &AES_256_GCM_SIV)
    }

    fn policy_copy_key(&self, salt: &[u8]) -> Option<LessSafeKey> {
        self.key(b"tollgate policy copy", salt, &AES_256_GCM)
    }

    fn session_key(&self) -> Option<LessSafeKey> {
        self.key(b"tollgate dashboard sessions", &[], &AES_256_GCM_SIV)
    }

    fn counter_key(&self) -> Option<CounterKey> {
        let mut bytes = [0; 32];
        let info: [&[u8]; 1] = [b"tollgate counters"];
        self.derive.expand(&info, hkdf::HKDF_SHA256).ok()?.fill(&mut bytes).ok()?;
        Some(CounterKey::new(&bytes))
    }

    fn key(&self, purpose: &[u8], of: &[u8], algorithm: &'static Algorithm) -> Option<LessSafeKey> {
        let info = [purpose, of];
        let key = self.derive.expand(&info, algorithm).ok()?;
        Some(LessSafeKey::new(UnboundKey::from(key)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_secret_in_use_is_tried_first() {
        let secret = FleetSecret::new("new", Some("old"));
        let marks = || secret.known().map(SecretKeys::mark).collect::<Vec<_>>();
        let (new, old) = (SecretKeys::new("new").mark(), SecretKeys::new("old").mark());
        assert_eq!(marks(), [new.clone(), old.clone()]);
        assert_eq!(secret.in_use().mark(), new);
        secret.use_previous(true);
        assert_eq!(marks(), [old.clone(), new.clone()]);
        assert_eq!((secret.in_use().mark(), secret.mark()), (old, new.clone()));
        let alone = FleetSecret::new("new", None);
        alone.use_previous(true);
        assert_eq!(alone.in_use().mark(), new, "there is no other");
        assert_eq!(alone.known().count(), 1);
    }
}
