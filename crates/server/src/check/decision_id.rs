//! The ids of decisions. An id names the node that made the decision, and its number there. In a fleet it also carries
//! what a refund needs, sealed: see [`sealed_id`](super::sealed_id).

use std::fmt;
use std::ops::Deref;
use std::str::FromStr;

use aws_lc_rs::rand;

/// Nodes of a fleet have this bit set, so that their names have sixteen digits; those of other nodes have eight.
const FLEET_NODE: u64 = 1 << 63;
/// The longest text of an id without its seal: `d`, sixteen digits, `-`, a letter, sixteen digits.
const MAX_SHORT_BYTES: usize = 35;
/// Stands between an id and its seal.
pub(super) const SEAL_MARK: char = '.';

/// The name of a node, random for each start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NodeName(u64);

impl NodeName {
    /// A name for this process, another after every restart.
    pub(crate) fn random(is_in_fleet: bool) -> Self {
        let mut bytes = [0; 8];
        // Without random numbers the server could not have created a token either.
        let _ = rand::fill(&mut bytes);
        let random = u64::from_le_bytes(bytes);
        if is_in_fleet { Self::in_fleet(random) } else { Self::alone(random as u32) }
    }

    /// A node that counts alone.
    pub(crate) const fn alone(random: u32) -> Self {
        Self(random as u64)
    }

    /// A node with a shared store.
    pub(crate) const fn in_fleet(random: u64) -> Self {
        Self(random | FLEET_NODE)
    }

    /// Whether decisions of this node can be sealed.
    pub(super) const fn is_in_fleet(self) -> bool {
        self.0 & FLEET_NODE != 0
    }

    pub(crate) const fn to_bytes(self) -> [u8; 8] {
        self.0.to_be_bytes()
    }

    pub(crate) const fn from_bytes(bytes: [u8; 8]) -> Self {
        Self(u64::from_be_bytes(bytes))
    }

    /// The name as it is in ids.
    pub(crate) fn text(self) -> String {
        if self.is_in_fleet() { format!("{:016x}", self.0) } else { format!("{:08x}", self.0) }
    }
}

/// The name of the node in the text of an id.
pub(crate) fn node_in(id: &str) -> Option<&str> {
    let (node, _) = id.strip_prefix('d')?.split_once('-')?;
    let is_name = matches!(node.len(), 8 | 16) && node.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_name.then_some(node)
}

/// What an id is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IdKind {
    /// An admitted request. Only its node can refund it.
    Admitted,
    /// An admitted request, whose id has a seal: every node can refund it.
    Sealed,
    /// A refused request.
    Refused,
}

impl IdKind {
    const fn letter(self) -> u8 {
        match self {
            Self::Admitted => b'a',
            Self::Sealed => b's',
            Self::Refused => b'r',
        }
    }
}

/// Identifies a decision, and the node that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DecisionId {
    pub(super) node: NodeName,
    pub(super) kind: IdKind,
    pub(super) number: u64,
}

/// `d` and the node, `a`dmitted, `s`ealed or `r`efused and the number.
impl fmt::Display for DecisionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

/// The text of an id. Every response has one, so it takes no heap allocation unless it is sealed.
#[derive(Clone, Debug)]
pub(crate) enum IdText {
    Short(ShortText),
    Sealed(Box<str>),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ShortText {
    bytes: [u8; MAX_SHORT_BYTES],
    len: u8,
}

impl ShortText {
    fn push(&mut self, byte: u8) {
        if let Some(place) = self.bytes.get_mut(usize::from(self.len)) {
            *place = byte;
            self.len += 1;
        }
    }

    /// The last `count` hexadecimal digits of a number.
    fn push_hex(&mut self, number: u64, count: u32) {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let start = usize::from(self.len);
        let Some(places) = self.bytes.get_mut(start..start + count as usize) else { return };
        let mut rest = number;
        for place in places.iter_mut().rev() {
            *place = DIGITS[(rest & 0xf) as usize];
            rest >>= 4;
        }
        self.len += count as u8;
    }
}

impl Deref for ShortText {
    type Target = str;

    fn deref(&self) -> &str {
        str::from_utf8(self.as_bytes()).unwrap_or_default()
    }
}

impl ShortText {
    fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }
}

impl IdText {
    /// The text as bytes, which unlike a text need not be validated.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Short(text) => text.as_bytes(),
            Self::Sealed(text) => text.as_bytes(),
        }
    }
}

impl Deref for IdText {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Short(text) => text,
            Self::Sealed(text) => text,
        }
    }
}

impl DecisionId {
    /// Whether a node with a shared store made it.
    pub(crate) const fn is_of_fleet(self) -> bool {
        self.node.is_in_fleet()
    }

    pub(crate) const fn is_allowed(self) -> bool {
        !matches!(self.kind, IdKind::Refused)
    }

    /// The text of the id, without its seal. Formatting it with `write!` would take as long as checking a request.
    pub(crate) fn text(self) -> ShortText {
        let mut text = ShortText { bytes: [0; MAX_SHORT_BYTES], len: 0 };
        text.push(b'd');
        text.push_hex(self.node.0, if self.node.is_in_fleet() { 16 } else { 8 });
        text.push(b'-');
        text.push(self.kind.letter());
        text.push_hex(self.number, (67 - self.number.leading_zeros()).div_euclid(4).max(1));
        text
    }

    /// How the record of an idempotency key names the decision: it is written before the id is sealed.
    pub(crate) fn note(self) -> ShortText {
        let kind = if self.kind == IdKind::Sealed { IdKind::Admitted } else { self.kind };
        Self { kind, ..self }.text()
    }

    /// Identifies the decision in a store that the whole fleet uses.
    pub(crate) fn mark(self) -> [u8; 16] {
        let mut mark = [0; 16];
        mark[..8].copy_from_slice(&self.node.to_bytes());
        mark[8..].copy_from_slice(&self.number.to_be_bytes());
        mark
    }
}

impl FromStr for DecisionId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (node, rest) = text.strip_prefix('d').and_then(|text| text.split_once('-')).ok_or(())?;
        let kinds = [IdKind::Admitted, IdKind::Sealed, IdKind::Refused];
        let letter = *rest.as_bytes().first().ok_or(())?;
        let id = Self {
            node: NodeName(u64::from_str_radix(node, 16).map_err(drop)?),
            kind: kinds.into_iter().find(|kind| kind.letter() == letter).ok_or(())?,
            number: rest.get(1..).and_then(|it| u64::from_str_radix(it, 16).ok()).ok_or(())?,
        };
        // Each id has one spelling: no sign, no upper case, no leading zeros.
        if *id.text() == *text { Ok(id) } else { Err(()) }
    }
}

/// An id as a client sends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GivenId<'t> {
    pub(crate) id: DecisionId,
    /// The text of its seal, which may be forged.
    pub(crate) seal: Option<&'t str>,
}

/// Why a text is not an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotAnId {
    /// It does not look like one.
    Malformed,
    /// It is only the beginning of one.
    Cut,
}

impl<'t> GivenId<'t> {
    pub(crate) fn parse(text: &'t str) -> Result<Self, NotAnId> {
        let (head, seal) = match text.split_once(SEAL_MARK) {
            Some((head, seal)) => (head, Some(seal)),
            None => (text, None),
        };
        let id: DecisionId = head.parse().map_err(|()| NotAnId::Malformed)?;
        match (id.kind, seal) {
            (IdKind::Sealed, Some(_)) | (IdKind::Admitted | IdKind::Refused, None) => {
                Ok(Self { id, seal })
            }
            (IdKind::Sealed, None) => Err(NotAnId::Cut),
            (IdKind::Admitted | IdKind::Refused, Some(_)) => Err(NotAnId::Malformed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_exactly_one_spelling() {
        for node in [NodeName::alone(0xbeef), NodeName::in_fleet(0xbeef)] {
            for (kind, number) in
                [(IdKind::Admitted, 0), (IdKind::Refused, 255), (IdKind::Sealed, u64::MAX)]
            {
                let id = DecisionId { node, kind, number };
                assert_eq!(id.to_string().parse(), Ok(id));
            }
        }
        for text in ["", "d", "d0000beef", "d0000beef-", "d0000beef-x1", "dbeef-a1", "d0000BEEF-a1"]
            .into_iter()
            .chain(["d0000beef-a01", "d0000beef-a+1", "d0000beef-a1 ", "d0000beef-\u{e9}1"])
            .chain(["d0000beef-a11111111111111111", "d000000000000beef-a1"])
        {
            assert_eq!(text.parse::<DecisionId>(), Err(()), "{text}");
        }
    }

    #[test]
    fn an_id_without_its_seal_is_cut() {
        let sealed = GivenId::parse("d800000000000beef-s1.abc").expect("an id");
        assert_eq!((sealed.seal, sealed.id.number), (Some("abc"), 1));
        assert_eq!(GivenId::parse("d800000000000beef-s1"), Err(NotAnId::Cut));
        assert_eq!(GivenId::parse("d800000000000beef-a1.abc"), Err(NotAnId::Malformed));
        assert_eq!(GivenId::parse("d0000beef-a1").map(|given| given.seal), Ok(None));
    }
}
