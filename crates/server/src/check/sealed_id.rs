//! Seals into the id of a decision what its refund needs, so that every node of the fleet can refund it, also after the
//! node that made it is gone. Nothing is written until a refund is made.
//!
//! The seal is AES-256-GCM-SIV with a key of the node, derived from the fleet's secret by HKDF; the nonce is the number of
//! the decision, and the clear part of the id and the number of the store are authenticated with it: nodes with the same
//! secret and another store do not open it. The name of a node is random for each start, so
//! that a key and a nonce do not repeat. A copy of a request with an idempotency key is sealed by the node that it
//! reached, under the id of the first: the same content then gives the same id, and should the rules have changed in
//! between, this cipher loses nothing by it, unlike plain GCM.

use std::fmt;
use std::num::NonZeroU64;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, Prk, Salt};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tollgate::store::StoreNumber;

use super::decision_id::{DecisionId, IdKind, IdText, NodeName, SEAL_MARK};

/// The longest content of a seal. With it, an id has less than 1,000 bytes.
const MAX_CONTENT_BYTES: usize = 700;
const TAG_BYTES: usize = 16;
/// The longest text of a seal.
const MAX_SEAL_BYTES: usize = (MAX_CONTENT_BYTES + TAG_BYTES).div_ceil(3) * 4;
/// Keeps these keys apart from everything else that is derived from the secret.
const PURPOSE: &[u8] = b"tollgate decision ids";

/// Seals the ids of this node, and opens those of all nodes, once the fleet's secret and its store are known.
pub(crate) struct IdSealer {
    node: NodeName,
    /// The number of the store; 0 if it is not known yet.
    store: AtomicU64,
    keys: OnceLock<SealKeys>,
}

/// The keys of the fleet's secret, and of the one before it.
struct SealKeys {
    current: SecretSealKeys,
    previous: Option<SecretSealKeys>,
    uses_previous: AtomicBool,
}

/// The keys of one secret.
struct SecretSealKeys {
    secret: Prk,
    /// The key of this node, derived once.
    own: LessSafeKey,
}

impl SealKeys {
    /// The keys of the secret that ids are sealed with.
    fn in_use(&self) -> &SecretSealKeys {
        let previous = self.previous.as_ref().filter(|_| self.uses_previous.load(Relaxed));
        previous.unwrap_or(&self.current)
    }
}

impl SecretSealKeys {
    fn new(secret: &str, node: NodeName) -> Option<Self> {
        let secret = Salt::new(HKDF_SHA256, PURPOSE).extract(secret.as_bytes());
        let own = key_of(&secret, node)?;
        Some(Self { secret, own })
    }
}

/// Why a sealed id cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotOpened {
    /// The fleet's secret is not known here.
    NoSecret,
    /// The store could not be reached since the start, so its number is not known.
    NoStore,
    /// Another fleet made it, or one with another store, or it was changed.
    Forged,
}

/// Omits the keys.
impl fmt::Debug for IdSealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdSealer").field("node", &self.node).finish_non_exhaustive()
    }
}

impl IdSealer {
    pub(crate) const fn new(node: NodeName) -> Self {
        Self { node, store: AtomicU64::new(0), keys: OnceLock::new() }
    }

    /// Seals and opens ids of the decisions of this store from now on. Returns the one before it.
    pub(crate) fn use_store(&self, number: StoreNumber) -> Option<NonZeroU64> {
        NonZeroU64::new(self.store.swap(number.get().get(), Relaxed))
    }

    /// Learns the fleet's secret, and the one before it. From then on ids are sealed.
    pub(crate) fn learn(&self, secret: &str, previous: Option<&str>) {
        if let Some(current) = SecretSealKeys::new(secret, self.node) {
            let previous = previous.and_then(|secret| SecretSealKeys::new(secret, self.node));
            let uses_previous = AtomicBool::new(false);
            let _ = self.keys.set(SealKeys { current, previous, uses_previous });
        }
    }

    /// Seals with the previous secret from now on, or with the current one.
    pub(crate) fn use_previous(&self, is_previous: bool) {
        if let Some(keys) = self.keys.get() {
            keys.uses_previous.store(is_previous, Relaxed);
        }
    }

    /// The id of a decision, sealed if it can be. `write` writes what is sealed into a buffer and returns how much that
    /// is; `None` if only the node that made the decision can use the id.
    #[inline]
    pub(crate) fn name(
        &self,
        id: DecisionId,
        write: impl FnOnce(&mut [u8]) -> Option<usize>,
    ) -> (DecisionId, IdText) {
        if id.kind == IdKind::Admitted
            && let Some(keys) = self.keys.get()
            && let Some(sealed) = self.seal(keys.in_use(), id, write)
        {
            return sealed;
        }
        (id, IdText::Short(id.text()))
    }

    #[cold]
    fn seal(
        &self,
        keys: &SecretSealKeys,
        id: DecisionId,
        write: impl FnOnce(&mut [u8]) -> Option<usize>,
    ) -> Option<(DecisionId, IdText)> {
        let store = NonZeroU64::new(self.store.load(Relaxed)).filter(|_| id.node.is_in_fleet())?;
        let mut content = [0; MAX_CONTENT_BYTES + TAG_BYTES];
        let len = write(content.get_mut(..MAX_CONTENT_BYTES)?)?;
        let id = DecisionId { kind: IdKind::Sealed, ..id };
        let (head, context) = (id.text(), context(id, store));
        let plain = content.get_mut(..len)?;
        let mut seal = |key: &LessSafeKey| {
            key.seal_in_place_separate_tag(nonce(id), Aad::from(&context), plain)
        };
        let tag = match self.other_key(keys, id.node) {
            None => seal(&keys.own),
            Some(key) => seal(&key?),
        };
        content.get_mut(len..len + TAG_BYTES)?.copy_from_slice(tag.ok()?.as_ref());
        let mut text = String::with_capacity(head.len() + 1 + (len + TAG_BYTES).div_ceil(3) * 4);
        text.push_str(&head);
        text.push(SEAL_MARK);
        URL_SAFE_NO_PAD.encode_string(content.get(..len + TAG_BYTES)?, &mut text);
        Some((id, IdText::Sealed(text.into_boxed_str())))
    }

    /// What was sealed into an id.
    pub(crate) fn open(&self, id: DecisionId, seal: &str) -> Result<Vec<u8>, NotOpened> {
        let keys = self.keys.get().ok_or(NotOpened::NoSecret)?;
        let store = NonZeroU64::new(self.store.load(Relaxed)).ok_or(NotOpened::NoStore)?;
        if seal.len() > MAX_SEAL_BYTES {
            return Err(NotOpened::Forged);
        }
        let content = URL_SAFE_NO_PAD.decode(seal).map_err(|_| NotOpened::Forged)?;
        let known = [Some(&keys.current), keys.previous.as_ref()];
        let mut known = known.into_iter().flatten();
        let opened = known.find_map(|keys| self.open_with(keys, id, store, content.clone()));
        opened.ok_or(NotOpened::Forged)
    }

    fn open_with(
        &self,
        keys: &SecretSealKeys,
        id: DecisionId,
        store: NonZeroU64,
        mut content: Vec<u8>,
    ) -> Option<Vec<u8>> {
        let context = context(id, store);
        let mut open = |key: &LessSafeKey| {
            let opened = key.open_in_place(nonce(id), Aad::from(&context), &mut content);
            opened.map(|plain| plain.len()).ok()
        };
        let len = match self.other_key(keys, id.node) {
            None => open(&keys.own),
            Some(key) => open(&key?),
        }?;
        content.truncate(len);
        Some(content)
    }

    /// The key of another node; `None` if it is this one.
    fn other_key(&self, keys: &SecretSealKeys, node: NodeName) -> Option<Option<LessSafeKey>> {
        (node != self.node).then(|| key_of(&keys.secret, node))
    }
}

fn key_of(secret: &Prk, node: NodeName) -> Option<LessSafeKey> {
    let node = node.to_bytes();
    let info = [node.as_slice()];
    let key = secret.expand(&info, &AES_256_GCM_SIV).ok()?;
    Some(LessSafeKey::new(UnboundKey::from(key)))
}

/// What is authenticated with a seal.
fn context(id: DecisionId, store: NonZeroU64) -> Vec<u8> {
    [id.text().as_bytes(), &store.get().to_be_bytes()].concat()
}

fn nonce(id: DecisionId) -> Nonce {
    let mut nonce = [0; NONCE_LEN];
    nonce[NONCE_LEN - 8..].copy_from_slice(&id.number.to_be_bytes());
    Nonce::assume_unique_for_key(nonce)
}

#[cfg(test)]
mod tests {
    use super::super::decision_id::GivenId;
    use super::*;

    fn store(number: u64) -> StoreNumber {
        format!("{number:016x}").parse().expect("a number")
    }

    fn sealer(node: u64, secret: Option<&str>) -> IdSealer {
        let sealer = IdSealer::new(NodeName::in_fleet(node));
        assert_eq!(sealer.use_store(store(1)), None);
        secret.into_iter().for_each(|secret| sealer.learn(secret, None));
        sealer
    }

    fn id(node: u64, number: u64) -> DecisionId {
        DecisionId { node: NodeName::in_fleet(node), kind: IdKind::Admitted, number }
    }

    fn writes(content: &[u8]) -> impl FnOnce(&mut [u8]) -> Option<usize> {
        |out| {
            out.get_mut(..content.len())?.copy_from_slice(content);
            Some(content.len())
        }
    }

    fn open(sealer: &IdSealer, text: &str) -> Option<Result<Vec<u8>, NotOpened>> {
        let given = GivenId::parse(text).ok()?;
        Some(sealer.open(given.id, given.seal?))
    }

    /// While the secret is changed node by node, every node opens the ids of all.
    #[test]
    fn ids_of_both_secrets_are_opened_while_the_secret_is_changed() {
        let (old, new) = (sealer(1, Some("old")), sealer(2, Some("new")));
        let both = IdSealer::new(NodeName::in_fleet(3));
        both.learn("new", Some("old"));
        both.use_store(store(1));
        let name = |sealer: &IdSealer, node: u64| sealer.name(id(node, 7), writes(b"it")).1;
        for (uses_previous, opens, fails) in [(true, &old, &new), (false, &new, &old)] {
            both.use_previous(uses_previous);
            let text = name(&both, 3);
            assert_eq!(open(opens, &text), Some(Ok(b"it".to_vec())));
            assert_eq!(open(fails, &text), Some(Err(NotOpened::Forged)));
            for text in [name(&old, 1), name(&new, 2), text] {
                assert_eq!(open(&both, &text), Some(Ok(b"it".to_vec())));
            }
        }
    }

    #[test]
    fn every_node_of_the_fleet_opens_an_id_and_no_other() {
        let (a, b) = (sealer(1, Some("secret")), sealer(2, Some("secret")));
        let longest = [7; MAX_CONTENT_BYTES];
        for (number, content) in [(0, &b"x"[..]), (u64::MAX, b"what was charged"), (5, &longest)] {
            let (named, text) = a.name(id(1, number), writes(content));
            assert_eq!(named.kind, IdKind::Sealed);
            assert!(text.len() < 1_000, "{}", text.len());
            for node in [&a, &b] {
                assert_eq!(open(node, &text), Some(Ok(content.to_vec())), "{}", &*text);
            }
            // A copy of the request is sealed alike wherever it arrives.
            let (_, copy) = b.name(id(1, number), writes(content));
            assert_eq!(*copy, *text);
            let foreign = sealer(1, Some("another secret"));
            assert_eq!(open(&foreign, &text), Some(Err(NotOpened::Forged)));
            assert_eq!(open(&sealer(1, None), &text), Some(Err(NotOpened::NoSecret)));
        }
    }

    /// A decision charged in one store used to be refunded in another by nodes with the same secret.
    #[test]
    fn an_id_is_not_opened_by_nodes_with_another_store() {
        let [a, b] = [1, 2].map(|node| sealer(node, Some("secret")));
        let (_, text) = a.name(id(1, 7), writes(b"it"));
        assert_eq!(open(&b, &text), Some(Ok(b"it".to_vec())));
        assert_eq!(b.use_store(store(2)), NonZeroU64::new(1));
        assert_eq!(open(&b, &text), Some(Err(NotOpened::Forged)));
        let unknown = IdSealer::new(NodeName::in_fleet(3));
        unknown.learn("secret", None);
        assert_eq!(open(&unknown, &text), Some(Err(NotOpened::NoStore)));
        let (named, _) = unknown.name(id(3, 7), writes(b"it"));
        assert_eq!(named, id(3, 7), "without a store, ids are short");
    }

    #[test]
    fn a_changed_id_is_not_opened() {
        let node = sealer(1, Some("secret"));
        let (_, text) = node.name(id(1, 16), writes(b"what was charged"));
        let (_, other) = node.name(id(1, 17), writes(b"what was charged"));
        for place in 0..text.len() {
            let mut changed = text.as_bytes().to_vec();
            changed[place] = if changed[place] == b'0' { b'1' } else { b'0' };
            let changed = String::from_utf8(changed).expect("ASCII");
            assert!(!matches!(open(&node, &changed), Some(Ok(_))), "{changed}");
            assert!(!matches!(open(&node, &text[..place]), Some(Ok(_))), "{place}");
        }
        let (head, _) = text.split_once(SEAL_MARK).expect("a seal");
        let (_, seal) = other.split_once(SEAL_MARK).expect("a seal");
        let swapped = format!("{head}{SEAL_MARK}{seal}");
        assert_eq!(open(&node, &swapped), Some(Err(NotOpened::Forged)));
        let long = format!("{head}{SEAL_MARK}{}", "A".repeat(1 << 20));
        assert_eq!(open(&node, &long), Some(Err(NotOpened::Forged)));
    }

    #[test]
    fn ids_are_short_without_a_secret_or_for_a_refusal_or_if_too_much_was_charged() {
        let node = sealer(1, Some("secret"));
        let refused = DecisionId { kind: IdKind::Refused, ..id(1, 2) };
        let alone = DecisionId { node: NodeName::alone(1), ..id(1, 2) };
        for (node, id) in [(&sealer(1, None), id(1, 2)), (&node, refused), (&node, alone)] {
            let (named, text) = node.name(id, writes(b"x"));
            assert_eq!((named, &*text), (id, &*id.text()));
        }
        let (named, _) = node.name(id(1, 2), writes(&[0; MAX_CONTENT_BYTES + 1]));
        assert_eq!(named, id(1, 2));
    }
}
