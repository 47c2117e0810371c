//! Sessions of the dashboard: what a browser keeps in its cookie after a person signed in with a token.
//!
//! A session is sealed (AES-256-GCM-SIV, a random nonce) with a key of the fleet's secret, so that every node accepts it
//! and none keeps it; without that secret, with a key of this process. It holds the id of the token and a digest that is
//! bound to it, never the token, so that revoking the token ends the session. A node keeps only the sessions that were
//! signed out there, until they would have ended anyway.

use std::collections::HashMap;
use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::{hmac, rand};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use tollgate::{Micros, Timestamp};

use crate::admin::auth::{Principal, SessionBinding};
use crate::app::state::Shared;

/// How long a session lasts without a request.
pub(super) const IDLE_TIMEOUT: Micros = Micros::from_secs(2 * 3_600);
/// How long a session lasts in all.
pub(super) const ABSOLUTE_TIMEOUT: Micros = Micros::from_secs(12 * 3_600);
/// How old the last use in a cookie becomes before the cookie is renewed.
const RENEW_INTERVAL: Micros = Micros::from_secs(60);
/// How many sessions of one token that were signed out a node remembers.
const MAX_SIGNED_OUT: usize = 100;
/// The longest text of a session that is read.
const MAX_TEXT_BYTES: usize = 1_024;

const FORMAT: u8 = 1;
/// Marks the format of a session whose cookie is for encrypted connections only.
const SECURE: u8 = 0x80;
const ID_BYTES: usize = 32;
const DIGEST_BYTES: usize = 32;
const HEAD_BYTES: usize = 1 + 8 + 8 + ID_BYTES + DIGEST_BYTES;
const CONTEXT: &[u8] = b"tollgate dashboard session";

/// A session that is open.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct UiSession {
    /// Secret and random: forms are signed with it.
    id: [u8; ID_BYTES],
    issued: Timestamp,
    seen: Timestamp,
    binding: SessionBinding,
    /// Whether its cookie is for encrypted connections only. Behind a proxy that ends TLS, only the form of the sign-in
    /// says so, therefore the session remembers it.
    pub(super) is_secure: bool,
}

/// Omits the id.
impl fmt::Debug for UiSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let token_id = &self.binding.token_id;
        f.debug_struct("UiSession").field("token_id", token_id).finish_non_exhaustive()
    }
}

impl UiSession {
    /// A session of a person who has just shown a token; `None` without random numbers.
    pub(super) fn new(binding: SessionBinding, now: Timestamp, is_secure: bool) -> Option<Self> {
        let mut id = [0; ID_BYTES];
        rand::fill(&mut id).ok()?;
        Some(Self { id, issued: now, seen: now, binding, is_secure })
    }

    /// When it ends if it is not used again.
    pub(super) fn end(&self) -> Timestamp {
        self.seen.plus(IDLE_TIMEOUT).min(self.last_end())
    }

    /// When it ends in any case.
    fn last_end(&self) -> Timestamp {
        self.issued.plus(ABSOLUTE_TIMEOUT)
    }

    /// The session with a new time of its last use; `None` if the one it has is good enough.
    pub(super) fn renewed(&self, now: Timestamp) -> Option<Self> {
        let is_old = now.since(self.seen) >= RENEW_INTERVAL;
        is_old.then(|| Self { seen: now, ..self.clone() })
    }

    /// What every form of this session contains, so that no other site can send one.
    pub(super) fn form_token(&self) -> String {
        URL_SAFE_NO_PAD.encode(hmac::sign(&self.form_key(), CONTEXT))
    }

    /// Whether a form is one of this session.
    pub(super) fn is_form_token(&self, token: &str) -> bool {
        let token = URL_SAFE_NO_PAD.decode(token);
        token.is_ok_and(|token| hmac::verify(&self.form_key(), CONTEXT, &token).is_ok())
    }

    fn form_key(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, &self.id)
    }

    fn to_bytes(&self) -> Vec<u8> {
        let token_id = self.binding.token_id.as_deref().unwrap_or_default();
        let mut bytes = Vec::with_capacity(HEAD_BYTES + token_id.len());
        bytes.push(if self.is_secure { FORMAT | SECURE } else { FORMAT });
        bytes.extend_from_slice(&self.issued.as_micros().to_be_bytes());
        bytes.extend_from_slice(&self.seen.as_micros().to_be_bytes());
        bytes.extend_from_slice(&self.id);
        bytes.extend_from_slice(&self.binding.digest);
        bytes.extend_from_slice(token_id.as_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (format, rest) = bytes.split_first()?;
        let (issued, rest) = rest.split_first_chunk()?;
        let (seen, rest) = rest.split_first_chunk()?;
        let (id, rest) = rest.split_first_chunk()?;
        let (digest, token_id) = rest.split_first_chunk()?;
        let token_id = std::str::from_utf8(token_id).ok()?;
        let binding = SessionBinding {
            token_id: Some(token_id.to_owned()).filter(|id| !id.is_empty()),
            digest: *digest,
        };
        let time = |bytes: &[u8; 8]| Timestamp::from_micros(u64::from_be_bytes(*bytes));
        let is_secure = format & SECURE != 0;
        let session = Self { id: *id, issued: time(issued), seen: time(seen), binding, is_secure };
        (format & !SECURE == FORMAT).then_some(session)
    }
}

/// Seals and opens the sessions of this node.
pub(super) struct Sessions {
    /// The key of this process, for a node without the fleet's secret.
    own_key: Option<LessSafeKey>,
    signed_out: Mutex<SignedOut>,
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sessions")
    }
}

/// Sessions that were ended before their time, by the digest of their token: however many sessions of one token end, those
/// of others stay.
#[derive(Debug, Default)]
struct SignedOut {
    by_token: HashMap<[u8; DIGEST_BYTES], SignedOutOfToken>,
}

/// Sessions of one token that were ended before their time.
#[derive(Debug, Default)]
struct SignedOutOfToken {
    /// When each would have ended, by the digest of its id.
    ends: HashMap<[u8; DIGEST_BYTES], Timestamp>,
    /// All sessions that were opened before then are ended too.
    opened_before: Timestamp,
    /// When all of them would have ended.
    last_end: Timestamp,
}

impl Sessions {
    pub(super) fn new() -> Self {
        let mut key = [0; 32];
        let filled = rand::fill(&mut key);
        let key = filled.and_then(|()| UnboundKey::new(&AES_256_GCM_SIV, &key));
        Self { own_key: key.map(LessSafeKey::new).ok(), signed_out: Mutex::default() }
    }

    /// The text of a session for its cookie; `None` without random numbers.
    pub(super) fn seal(&self, app: &Shared, session: &UiSession) -> Option<String> {
        match app.fleet.secret().and_then(|secret| secret.session_key()) {
            Some(key) => sealed(&key, session),
            None => sealed(self.own_key.as_ref()?, session),
        }
    }

    /// The session of a cookie and its principal; `None` if it has ended, or is not one of this fleet.
    pub(super) fn open(&self, app: &Shared, text: &str) -> Option<(UiSession, Principal)> {
        let shared = app.fleet.secret().into_iter().flat_map(|secret| secret.session_keys());
        let session = shared.into_iter().find_map(|key| opened(&key, text));
        let session = session.or_else(|| opened(self.own_key.as_ref()?, text))?;
        let now = app.now();
        if now >= session.end() || self.signed_out.lock().has(&session) {
            return None;
        }
        let principal = app.tokens.bound(&session.binding, now)?;
        Some((session, principal))
    }

    /// Whether a session was ended on this node before its time.
    pub(super) fn is_signed_out(&self, session: &UiSession) -> bool {
        self.signed_out.lock().has(session)
    }

    /// Ends a session on this node.
    pub(super) fn sign_out(&self, session: &UiSession, now: Timestamp) {
        self.signed_out.lock().add(session, now);
    }
}

impl SignedOut {
    fn has(&self, session: &UiSession) -> bool {
        let of_token = self.by_token.get(&session.binding.digest);
        of_token.is_some_and(|it| {
            session.issued < it.opened_before || it.ends.contains_key(&digest_of_id(session))
        })
    }

    /// Notes a session. Should there be too many of its token, all its sessions that are open now end: never does one
    /// come back.
    fn add(&mut self, session: &UiSession, now: Timestamp) {
        self.by_token.retain(|_, it| it.last_end > now);
        let own = self.by_token.entry(session.binding.digest).or_default();
        if own.ends.len() >= MAX_SIGNED_OUT {
            own.ends.retain(|_, end| *end > now);
        }
        if own.ends.len() >= MAX_SIGNED_OUT {
            own.ends.clear();
            own.opened_before = now.plus(Micros::new(1));
            own.last_end = own.opened_before.plus(ABSOLUTE_TIMEOUT);
        }
        own.ends.insert(digest_of_id(session), session.last_end());
        own.last_end = own.last_end.max(session.last_end());
    }
}

fn digest_of_id(session: &UiSession) -> [u8; DIGEST_BYTES] {
    let mut bytes = [0; DIGEST_BYTES];
    bytes.copy_from_slice(digest(&SHA256, &session.id).as_ref());
    bytes
}

fn sealed(key: &LessSafeKey, session: &UiSession) -> Option<String> {
    let mut nonce = [0; NONCE_LEN];
    rand::fill(&mut nonce).ok()?;
    let mut content = session.to_bytes();
    let sealing = Nonce::assume_unique_for_key(nonce);
    key.seal_in_place_append_tag(sealing, Aad::from(CONTEXT), &mut content).ok()?;
    Some(URL_SAFE_NO_PAD.encode([&nonce[..], &content].concat()))
}

fn opened(key: &LessSafeKey, text: &str) -> Option<UiSession> {
    if text.len() > MAX_TEXT_BYTES {
        return None;
    }
    let mut bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    let (nonce, content) = bytes.split_first_chunk_mut::<NONCE_LEN>()?;
    let nonce = Nonce::assume_unique_for_key(*nonce);
    let content = key.open_in_place(nonce, Aad::from(CONTEXT), content).ok()?;
    UiSession::from_bytes(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(1_000_000);

    fn session(now: Timestamp) -> UiSession {
        session_of(7, now)
    }

    fn session_of(token: u8, now: Timestamp) -> UiSession {
        let token_id = Some("0123456789ab".to_owned());
        let binding = SessionBinding { token_id, digest: [token; 32] };
        UiSession::new(binding, now, true).expect("random numbers")
    }

    fn key() -> LessSafeKey {
        Sessions::new().own_key.expect("random numbers")
    }

    #[test]
    fn a_session_is_opened_only_as_it_was_sealed() {
        let (key, session) = (key(), session(NOW));
        let text = sealed(&key, &session).expect("sealed");
        assert_eq!(opened(&key, &text), Some(session.clone()));
        assert_ne!(sealed(&key, &session), Some(text.clone()), "a nonce is used once");
        assert_eq!(opened(&self::key(), &text), None, "another key");
        let mut bytes = URL_SAFE_NO_PAD.decode(&text).expect("base64");
        for at in 0..bytes.len() {
            bytes[at] ^= 1;
            assert_eq!(opened(&key, &URL_SAFE_NO_PAD.encode(&bytes)), None, "byte {at}");
            bytes[at] ^= 1;
        }
        for wrong in ["", "x", "AAAA", &"A".repeat(MAX_TEXT_BYTES + 1), &text[..40]] {
            assert_eq!(opened(&key, wrong), None, "{wrong}");
        }
        let own =
            UiSession { binding: SessionBinding { token_id: None, digest: [8; 32] }, ..session };
        assert_eq!(opened(&key, &sealed(&key, &own).expect("sealed")), Some(own));
    }

    #[test]
    fn a_renewed_session_remembers_whether_its_cookie_is_secure() {
        let key = key();
        for is_secure in [true, false] {
            let session = UiSession { is_secure, ..session(NOW) };
            let renewed =
                session.renewed(NOW.plus(Micros::from_secs(3_600))).expect("an hour later");
            let text = sealed(&key, &renewed).expect("sealed");
            assert_eq!(opened(&key, &text).map(|it| it.is_secure), Some(is_secure));
        }
    }

    #[test]
    fn a_session_ends_when_it_is_not_used_and_in_any_case() {
        let mut session = session(NOW);
        assert_eq!(session.end(), NOW.plus(IDLE_TIMEOUT));
        assert_eq!(session.renewed(NOW.plus(Micros::from_secs(59))), None);
        let mut now = NOW;
        while now < NOW.plus(ABSOLUTE_TIMEOUT) {
            now = now.plus(Micros::from_secs(3_600));
            session = session.renewed(now).expect("an hour later");
        }
        assert_eq!(session.end(), NOW.plus(ABSOLUTE_TIMEOUT));
    }

    #[test]
    fn forms_belong_to_one_session() {
        let (one, other) = (session(NOW), session(NOW));
        assert!(one.is_form_token(&one.form_token()));
        assert!(!one.is_form_token(&other.form_token()));
        for wrong in ["", "x", &one.form_token()[1..]] {
            assert!(!one.is_form_token(wrong), "{wrong}");
        }
        assert!(!format!("{one:?}").contains("digest"));
    }

    #[test]
    fn sessions_that_were_signed_out_stay_so_in_bounded_memory() {
        let mut signed_out = SignedOut::default();
        let (first, open) = (session(NOW), session(NOW));
        signed_out.add(&first, NOW);
        assert!(signed_out.has(&first) && !signed_out.has(&open));
        for _ in 0..MAX_SIGNED_OUT {
            signed_out.add(&session(NOW), NOW);
        }
        assert!(signed_out.by_token.values().all(|it| it.ends.len() <= MAX_SIGNED_OUT));
        assert!(signed_out.has(&first), "it does not come back");
        assert!(signed_out.has(&open), "there were too many to remember");
        let later = NOW.plus(ABSOLUTE_TIMEOUT);
        let new = session(later);
        assert!(!signed_out.has(&new));
        signed_out.add(&new, later);
        assert!(signed_out.has(&new));
        signed_out.add(&session_of(8, later), later.plus(ABSOLUTE_TIMEOUT));
        assert_eq!(signed_out.by_token.len(), 1, "tokens are forgotten");
    }

    /// One viewer who signed in and out ten thousand times ended the sessions of all others.
    #[test]
    fn sessions_of_one_token_do_not_end_those_of_another() {
        let mut signed_out = SignedOut::default();
        let (operator, ended) = (session_of(8, NOW), session_of(8, NOW));
        signed_out.add(&ended, NOW);
        for _ in 0..10_000 {
            signed_out.add(&session(NOW), NOW);
        }
        assert!(!signed_out.has(&operator) && signed_out.has(&ended));
    }
}
