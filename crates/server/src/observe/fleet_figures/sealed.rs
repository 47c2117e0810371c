//! The messages by which nodes of a fleet exchange figures. They pass through the store or the catalog's database, which
//! others may write to, so they are sealed with the fleet's secret.
//!
//! Each message has a random number, and from it, its kind and both nodes HKDF derives the key that seals it: each key
//! seals one message. AES-256-GCM-SIV seals each part of it with the place of the part as nonce.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};

use aws_lc_rs::aead::{Aad, NONCE_LEN, Nonce};
use aws_lc_rs::rand;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use tollgate::store::Mailbox;

use crate::app::fleet_secret::FleetSecret;
use crate::check::decision_id::NodeName;

/// Another one than that of queries for decisions.
const FORMAT: u8 = 2;
const NUMBER_BYTES: usize = 16;
/// Format, kind, both nodes, number: what the key is derived from.
const EXCHANGE_BYTES: usize = 2 + 8 + 8 + NUMBER_BYTES;
const HEAD_BYTES: usize = EXCHANGE_BYTES + 4;
const TAG_BYTES: usize = 16;
const MAX_PART_BYTES: usize = 5_800;
const MAX_PARTS: usize = 64;
/// The most bytes of a message, once it is inflated.
const MAX_CONTENT_BYTES: u64 = 8 << 20;
/// Of how many messages parts are kept at a time.
const MAX_PARTIAL: usize = 256;
const _: () = assert!(
    (HEAD_BYTES + MAX_PART_BYTES + TAG_BYTES).div_ceil(3) * 4 <= Mailbox::MAX_MESSAGE_BYTES
);

/// What a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum FigureMessageKind {
    /// A node announces itself to all others.
    Announcement,
    /// A node asks all others.
    Query,
    /// A response to a query.
    Response,
}

impl FigureMessageKind {
    const ALL: [(u8, Self); 3] =
        [(b'a', Self::Announcement), (b'q', Self::Query), (b'r', Self::Response)];

    fn letter(self) -> u8 {
        Self::ALL.iter().find(|(_, kind)| *kind == self).map_or(0, |(letter, _)| *letter)
    }
}

/// The number of an exchange, fresh for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FigureNumber([u8; NUMBER_BYTES]);

impl FigureNumber {
    pub(super) fn random() -> Option<Self> {
        let mut bytes = [0; NUMBER_BYTES];
        rand::fill(&mut bytes).ok()?;
        Some(Self(bytes))
    }
}

/// The head of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FigureHead {
    pub(super) kind: FigureMessageKind,
    pub(super) sender: NodeName,
    /// `None` for all nodes.
    pub(super) receiver: Option<NodeName>,
    pub(super) number: FigureNumber,
}

impl FigureHead {
    fn bytes(&self) -> [u8; EXCHANGE_BYTES] {
        let mut head = [0; EXCHANGE_BYTES];
        let receiver = self.receiver.map_or([0; 8], NodeName::to_bytes);
        let fields: [&[u8]; 4] =
            [&[FORMAT, self.kind.letter()], &self.sender.to_bytes(), &receiver, &self.number.0];
        for (place, byte) in head.iter_mut().zip(fields.into_iter().flatten()) {
            *place = *byte;
        }
        head
    }

    /// Seals a message, in as many parts as it takes. `None` if it is too long.
    pub(super) fn seal(&self, secret: &FleetSecret, content: &[u8]) -> Option<Vec<String>> {
        let mut deflater = DeflateEncoder::new(Vec::new(), Compression::fast());
        deflater.write_all(content).ok()?;
        let deflated = deflater.finish().ok()?;
        let parts = deflated.chunks(MAX_PART_BYTES);
        let count = u16::try_from(parts.len()).ok().filter(|it| usize::from(*it) <= MAX_PARTS)?;
        let exchange = self.bytes();
        let key = secret.fleet_figures_keys(&exchange).next()?;
        let seal = |(place, part): (u16, &[u8])| {
            let head = with_place(&exchange, place, count);
            let mut sealed = part.to_vec();
            key.seal_in_place_append_tag(nonce(place), Aad::from(&head), &mut sealed).ok()?;
            Some(URL_SAFE_NO_PAD.encode([head.as_slice(), &sealed].concat()))
        };
        (0..count).zip(parts).map(seal).collect()
    }
}

/// A part of a message as it arrives. Nothing of it is known to be genuine.
#[derive(Clone, Debug)]
pub(super) struct FigurePart {
    pub(super) head: FigureHead,
    part: u16,
    parts: u16,
    sealed: Vec<u8>,
}

impl FigurePart {
    /// Reads a part; `None` if it is none.
    pub(super) fn read(text: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (head, sealed) = bytes.split_at_checked(HEAD_BYTES)?;
        let ([format, kind], rest) = head.split_first_chunk()?;
        let (sender, rest) = rest.split_first_chunk()?;
        let (receiver, rest) = rest.split_first_chunk()?;
        let (number, rest) = rest.split_first_chunk()?;
        let (part, rest) = rest.split_first_chunk()?;
        let (part, parts) = (u16::from_be_bytes(*part), u16::from_be_bytes(*rest.first_chunk()?));
        let (_, kind) = FigureMessageKind::ALL.iter().find(|(letter, _)| letter == kind)?;
        if *format != FORMAT || part >= parts || usize::from(parts) > MAX_PARTS {
            return None;
        }
        let receiver = Some(*receiver).filter(|it| *it != [0; 8]).map(NodeName::from_bytes);
        let (sender, number) = (NodeName::from_bytes(*sender), FigureNumber(*number));
        let head = FigureHead { kind: *kind, sender, receiver, number };
        Some(Self { head, part, parts, sealed: sealed.to_vec() })
    }

    fn open(&self, secret: &FleetSecret) -> Option<Vec<u8>> {
        let exchange = self.head.bytes();
        let head = with_place(&exchange, self.part, self.parts);
        secret.fleet_figures_keys(&exchange).find_map(|key| {
            let mut content = self.sealed.clone();
            let opened = key.open_in_place(nonce(self.part), Aad::from(&head), &mut content);
            let length = opened.ok()?.len();
            content.truncate(length);
            Some(content)
        })
    }
}

/// Puts parts of messages together.
#[derive(Debug, Default)]
pub(super) struct FigureParts(HashMap<FigureHead, Vec<Option<Vec<u8>>>>);

impl FigureParts {
    /// Takes a part. Returns the message once it has all parts; `None` also for a part that the fleet did not seal.
    pub(super) fn add(&mut self, secret: &FleetSecret, part: &FigurePart) -> Option<Vec<u8>> {
        let content = part.open(secret)?;
        if part.parts == 1 {
            return inflate(&content);
        }
        // Messages of which a part was lost are never complete.
        if self.0.len() >= MAX_PARTIAL && !self.0.contains_key(&part.head) {
            self.0.clear();
        }
        let parts = self.0.entry(part.head).or_default();
        parts.resize(usize::from(part.parts), None);
        *parts.get_mut(usize::from(part.part))? = Some(content);
        let whole: Option<Vec<&[u8]>> = parts.iter().map(Option::as_deref).collect();
        let whole = whole?.concat();
        self.0.remove(&part.head);
        inflate(&whole)
    }
}

fn inflate(deflated: &[u8]) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    let mut inflater = DeflateDecoder::new(deflated).take(MAX_CONTENT_BYTES);
    inflater.read_to_end(&mut content).ok()?;
    Some(content)
}

fn with_place(exchange: &[u8; EXCHANGE_BYTES], part: u16, parts: u16) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    let (first, place) = head.split_at_mut(EXCHANGE_BYTES);
    first.copy_from_slice(exchange);
    for (byte, from) in place.iter_mut().zip([part, parts].map(u16::to_be_bytes).concat()) {
        *byte = from;
    }
    head
}

fn nonce(part: u16) -> Nonce {
    let mut nonce = [0; NONCE_LEN];
    nonce[NONCE_LEN - 2..].copy_from_slice(&part.to_be_bytes());
    Nonce::assume_unique_for_key(nonce)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(kind: FigureMessageKind) -> FigureHead {
        let number = FigureNumber::random().expect("random bytes");
        FigureHead { kind, sender: NodeName::in_fleet(1), receiver: None, number }
    }

    fn read(text: &str) -> FigurePart {
        FigurePart::read(text).expect("a part")
    }

    #[test]
    fn messages_arrive_whole_in_any_order() {
        let secret = FleetSecret::new("secret", None);
        for len in [0, 1, 100_000, 300_000] {
            // Noise, which does not get shorter.
            let mut content = vec![0; len];
            rand::fill(&mut content).expect("random bytes");
            let sent = head(FigureMessageKind::Response);
            let mut texts = sent.seal(&secret, &content).expect("parts");
            assert!(texts.iter().all(|it| it.len() <= Mailbox::MAX_MESSAGE_BYTES), "{len}");
            texts.reverse();
            let mut parts = FigureParts::default();
            let mut whole = None;
            for text in &texts {
                assert_eq!(read(text).head, sent);
                assert!(whole.is_none());
                whole = parts.add(&secret, &read(text));
            }
            assert_eq!(whole.as_ref(), Some(&content), "{len}");
            assert!(parts.0.is_empty());
        }
        let mut noise = vec![0; MAX_PARTS * MAX_PART_BYTES + 1];
        rand::fill(&mut noise).expect("random bytes");
        assert!(head(FigureMessageKind::Query).seal(&secret, &noise).is_none(), "too long");
    }

    #[test]
    fn a_forged_or_changed_message_does_not_open() {
        let secret = FleetSecret::new("secret", None);
        let texts = head(FigureMessageKind::Query).seal(&secret, b"content").expect("a part");
        let genuine = read(&texts[0]);
        let open = |part: &FigurePart| FigureParts::default().add(&secret, part);
        assert_eq!(open(&genuine).as_deref(), Some(b"content".as_slice()));
        let others = FleetSecret::new("other", None);
        assert!(FigureParts::default().add(&others, &genuine).is_none(), "another fleet");
        let with = |head: FigureHead| FigurePart { head, ..genuine.clone() };
        let announced = FigureHead { kind: FigureMessageKind::Announcement, ..genuine.head };
        assert!(open(&with(announced)).is_none(), "another kind");
        let other = FigureHead { sender: NodeName::in_fleet(2), ..genuine.head };
        assert!(open(&with(other)).is_none(), "another sender");
        let to = FigureHead { receiver: Some(NodeName::in_fleet(3)), ..genuine.head };
        assert!(open(&with(to)).is_none(), "another receiver");
        let mut changed = genuine.clone();
        changed.sealed[0] ^= 1;
        assert!(open(&changed).is_none());
        for text in ["", "AQ", "AgcxxX", "\u{e9}", &"A".repeat(80)] {
            assert!(FigurePart::read(text).is_none(), "{text}");
        }
    }

    #[test]
    fn parts_of_messages_that_stay_incomplete_are_bounded() {
        let secret = FleetSecret::new("secret", None);
        let mut noise = vec![0; MAX_PART_BYTES * 2];
        rand::fill(&mut noise).expect("random bytes");
        let mut parts = FigureParts::default();
        for _ in 0..2 * MAX_PARTIAL {
            let texts = head(FigureMessageKind::Response).seal(&secret, &noise).expect("parts");
            assert!(parts.add(&secret, &read(&texts[0])).is_none());
        }
        assert!(parts.0.len() <= MAX_PARTIAL);
    }
}
