//! The messages by which a node asks another for a decision in its journal. They pass through the store, which others may
//! write to, so they are sealed with the fleet's secret.
//!
//! A query has a random number, and from it, the direction and both nodes HKDF derives the key of its messages: each key
//! seals one query or one response. AES-256-GCM-SIV seals each part with its place as nonce; the head of the message is
//! authenticated with it, and in a response the id that was asked for too. So a response to an earlier query, or to
//! another, does not open.

use aws_lc_rs::aead::{Aad, LessSafeKey, NONCE_LEN, Nonce};
use aws_lc_rs::rand;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tollgate::store::Mailbox;

use super::decision_id::{DecisionId, NodeName};
use crate::app::fleet_secret::FleetSecret;

const FORMAT: u8 = 1;
const NUMBER_BYTES: usize = 16;
/// Format, direction, both nodes, number: what the key is derived from.
const EXCHANGE_BYTES: usize = 2 + 8 + 8 + NUMBER_BYTES;
/// The same, the place of the part, and how many parts there are.
const HEAD_BYTES: usize = EXCHANGE_BYTES + 4;
const TAG_BYTES: usize = 16;
/// How much of a response one message carries.
const MAX_PART_BYTES: usize = 5_800;
const MAX_PARTS: usize = 64;
/// The longest response.
pub(super) const MAX_RESPONSE_BYTES: usize = MAX_PART_BYTES * MAX_PARTS;
const _: () = assert!(
    (HEAD_BYTES + MAX_PART_BYTES + TAG_BYTES).div_ceil(3) * 4 <= Mailbox::MAX_MESSAGE_BYTES
);

/// Which way a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Query,
    Response,
}

/// The number of a query, fresh for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct QueryNumber([u8; NUMBER_BYTES]);

impl QueryNumber {
    pub(super) fn random() -> Option<Self> {
        let mut bytes = [0; NUMBER_BYTES];
        rand::fill(&mut bytes).ok()?;
        Some(Self(bytes))
    }
}

/// A query: which node asks which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct JournalQuery {
    pub(super) asker: NodeName,
    /// The node that made the decision.
    pub(super) owner: NodeName,
    pub(super) number: QueryNumber,
}

/// A message as it arrives. Nothing of it is known to be genuine.
#[derive(Clone, Debug)]
pub(super) struct QueryMessage {
    pub(super) direction: Direction,
    pub(super) query: JournalQuery,
    pub(super) part: u16,
    pub(super) parts: u16,
    sealed: Vec<u8>,
}

impl JournalQuery {
    /// The message that asks for a decision.
    pub(super) fn ask(&self, secret: &FleetSecret, id: DecisionId) -> Option<String> {
        self.seal(secret, Direction::Query, (0, 1), "", id.text().as_bytes())
    }

    /// The messages that respond to it. `None` if there is too much to say.
    pub(super) fn respond(
        &self,
        secret: &FleetSecret,
        id: DecisionId,
        response: &[u8],
    ) -> Option<Vec<String>> {
        let parts: Vec<&[u8]> = response.chunks(MAX_PART_BYTES).collect();
        let count = u16::try_from(parts.len()).ok().filter(|it| usize::from(*it) <= MAX_PARTS)?;
        let seal = |(place, part)| {
            self.seal(secret, Direction::Response, (place, count), &id.text(), part)
        };
        (0..count).zip(parts).map(seal).collect()
    }

    fn seal(
        &self,
        secret: &FleetSecret,
        direction: Direction,
        (part, parts): (u16, u16),
        asked: &str,
        content: &[u8],
    ) -> Option<String> {
        let head = self.head(direction, part, parts);
        let mut sealed = content.to_vec();
        let key = secret.journal_query_key(head.get(..EXCHANGE_BYTES)?)?;
        let aad = [head.as_slice(), asked.as_bytes()].concat();
        key.seal_in_place_append_tag(nonce(part), Aad::from(aad), &mut sealed).ok()?;
        Some(URL_SAFE_NO_PAD.encode([head.as_slice(), &sealed].concat()))
    }

    fn head(&self, direction: Direction, part: u16, parts: u16) -> [u8; HEAD_BYTES] {
        let mut head = [0; HEAD_BYTES];
        let direction = if direction == Direction::Query { b'q' } else { b'r' };
        let fields: [&[u8]; 7] = [
            &[FORMAT],
            &[direction],
            &self.asker.to_bytes(),
            &self.owner.to_bytes(),
            &self.number.0,
            &part.to_be_bytes(),
            &parts.to_be_bytes(),
        ];
        for (place, byte) in head.iter_mut().zip(fields.into_iter().flatten()) {
            *place = *byte;
        }
        head
    }
}

impl QueryMessage {
    /// Reads a message; `None` if it is not one.
    pub(super) fn read(text: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (head, sealed) = bytes.split_at_checked(HEAD_BYTES)?;
        let (format, rest) = head.split_first()?;
        let (direction, rest) = rest.split_first()?;
        let direction = match (*format, *direction) {
            (FORMAT, b'q') => Direction::Query,
            (FORMAT, b'r') => Direction::Response,
            _ => return None,
        };
        let (asker, rest) = rest.split_first_chunk()?;
        let (owner, rest) = rest.split_first_chunk()?;
        let (number, rest) = rest.split_first_chunk()?;
        let (part, rest) = rest.split_first_chunk()?;
        let parts = u16::from_be_bytes(*rest.first_chunk()?);
        let part = u16::from_be_bytes(*part);
        if part >= parts || usize::from(parts) > MAX_PARTS {
            return None;
        }
        let (asker, owner) = (NodeName::from_bytes(*asker), NodeName::from_bytes(*owner));
        let query = JournalQuery { asker, owner, number: QueryNumber(*number) };
        Some(Self { direction, query, part, parts, sealed: sealed.to_vec() })
    }

    /// The id that a query asks for; `None` if the fleet did not seal it.
    pub(super) fn asked(&self, secret: &FleetSecret) -> Option<DecisionId> {
        String::from_utf8(self.open(secret, "")?).ok()?.parse().ok()
    }

    /// This part of the response to a query for an id; `None` if the fleet did not seal it for that query.
    pub(super) fn response(&self, secret: &FleetSecret, id: DecisionId) -> Option<Vec<u8>> {
        self.open(secret, &id.text())
    }

    fn open(&self, secret: &FleetSecret, asked: &str) -> Option<Vec<u8>> {
        let head = self.query.head(self.direction, self.part, self.parts);
        let aad = [head.as_slice(), asked.as_bytes()].concat();
        let mut keys = secret.journal_query_keys(head.get(..EXCHANGE_BYTES)?);
        keys.find_map(|key| self.open_with(&key, &aad))
    }

    fn open_with(&self, key: &LessSafeKey, aad: &[u8]) -> Option<Vec<u8>> {
        let mut content = self.sealed.clone();
        let opened = key.open_in_place(nonce(self.part), Aad::from(aad), &mut content);
        let len = opened.ok()?.len();
        content.truncate(len);
        Some(content)
    }
}

fn nonce(part: u16) -> Nonce {
    let mut nonce = [0; NONCE_LEN];
    nonce[NONCE_LEN - 2..].copy_from_slice(&part.to_be_bytes());
    Nonce::assume_unique_for_key(nonce)
}

#[cfg(test)]
mod tests {
    use super::super::decision_id::IdKind;
    use super::*;

    const ASKER: NodeName = NodeName::in_fleet(1);
    const OWNER: NodeName = NodeName::in_fleet(2);

    fn id(number: u64) -> DecisionId {
        DecisionId { node: OWNER, kind: IdKind::Refused, number }
    }

    fn query() -> JournalQuery {
        let number = QueryNumber::random().expect("random bytes");
        JournalQuery { asker: ASKER, owner: OWNER, number }
    }

    fn read(text: &str) -> QueryMessage {
        QueryMessage::read(text).expect("a message")
    }

    #[test]
    fn a_query_and_its_response_arrive() {
        let (secret, query) = (FleetSecret::new("secret", None), query());
        let heard = read(&query.ask(&secret, id(7)).expect("a message"));
        assert_eq!((heard.direction, heard.query), (Direction::Query, query));
        assert_eq!(heard.asked(&secret), Some(id(7)));
        for len in [1, MAX_PART_BYTES, MAX_PART_BYTES + 1, MAX_RESPONSE_BYTES] {
            let response: Vec<u8> = (0..=u8::MAX).cycle().take(len).collect();
            let messages = query.respond(&secret, id(7), &response).expect("messages");
            assert!(messages.iter().all(|it| it.len() <= Mailbox::MAX_MESSAGE_BYTES), "{len}");
            let part = |text: &String| read(text).response(&secret, id(7)).expect("a part");
            assert_eq!(messages.iter().flat_map(part).collect::<Vec<u8>>(), response);
        }
        let too_long = vec![0; MAX_RESPONSE_BYTES + 1];
        assert!(query.respond(&secret, id(7), &too_long).is_none());
    }

    #[test]
    fn a_forged_or_replayed_message_does_not_open() {
        let (secret, asked) = (FleetSecret::new("secret", None), query());
        let response = asked.respond(&secret, id(7), b"response").expect("messages");
        let genuine = read(&response[0]);
        assert!(genuine.response(&secret, id(7)).is_some());
        assert!(genuine.response(&secret, id(8)).is_none(), "for another id");
        assert!(
            genuine.response(&FleetSecret::new("other", None), id(7)).is_none(),
            "another fleet"
        );
        let query = JournalQuery { number: query().number, ..asked };
        let replayed = QueryMessage { query, ..genuine.clone() };
        assert!(replayed.response(&secret, id(7)).is_none(), "to another query");
        let moved = QueryMessage { parts: 2, part: 1, ..genuine.clone() };
        assert!(moved.response(&secret, id(7)).is_none(), "another part");
        let turned = QueryMessage { direction: Direction::Query, ..genuine.clone() };
        assert!(turned.asked(&secret).is_none(), "another direction");
        let mut changed = genuine;
        changed.sealed[0] ^= 1;
        assert!(changed.response(&secret, id(7)).is_none());
        for text in ["", "AQ", "AQcxxx", "\u{e9}", &"A".repeat(60)] {
            assert!(QueryMessage::read(text).is_none(), "{text}");
        }
    }
}
