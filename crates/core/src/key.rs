//! Names a counter: a rule and the identifiers it counts by.

use std::fmt;
use std::hash::{BuildHasher, Hasher as _};

/// The name of one counter. It does not contain the limit, so that changing a limit keeps the usage.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Key<'a> {
    /// A keyed hash of the fields below. It differs between processes, and between limiters of one process.
    pub fingerprint: u64,
    /// The rule that counts.
    pub rule: &'a str,
    /// The value of the rule's first identifier. Counters of one subject can be kept together.
    pub subject: &'a [u8],
    /// The values of the other identifiers, joined in a form that cannot collide.
    pub rest: &'a [u8],
    /// Stands for what the rule counts by, and whose it is. Counters of different groups are never kept together: their
    /// values may be equal, and a tenant may choose ids with the tags of another tenant's rules.
    pub group: u64,
}

impl<'a> Key<'a> {
    /// Names a counter outside a policy and computes its fingerprint with `hasher`, which should be secret: with a
    /// predictable hash, a client can choose identifiers that share another client's counter.
    #[must_use]
    #[inline]
    pub fn new(
        hasher: &impl BuildHasher,
        rule: &'a str,
        subject: &'a [u8],
        rest: &'a [u8],
    ) -> Self {
        Self::of_digest(hasher, (rule, hasher.hash_one(rule)), subject, rest)
    }

    /// Names a counter of a rule whose digest is known, so that its id is not hashed for every request. A fingerprint is
    /// all that tells counters in memory apart, so it must not be possible to choose an id with another's digest.
    #[must_use]
    #[inline]
    pub fn of_digest(
        hasher: &impl BuildHasher,
        (rule, digest): (&'a str, u64),
        subject: &'a [u8],
        rest: &'a [u8],
    ) -> Self {
        let mut hash = hasher.build_hasher();
        // The length keeps two different keys from hashing the same bytes.
        hash.write_u64(digest.wrapping_add(subject.len() as u64));
        hash.write(subject);
        if !rest.is_empty() {
            hash.write(rest);
        }
        Self { fingerprint: hash.finish(), rule, subject, rest, group: 0 }
    }

    /// The same counter, of a rule of this group. Its fingerprint is another one, too.
    #[must_use]
    #[inline]
    pub const fn in_group(self, group: u64) -> Self {
        // The hash is secret and uniform, so this costs nothing of either.
        let fingerprint = self.fingerprint ^ self.group ^ group;
        Self { fingerprint, group, ..self }
    }
}

/// Identifiers may be secrets (an API key is one), so they are not shown.
impl fmt::Debug for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{:016x}", self.rule, self.fingerprint)
    }
}

/// What tells the counters of one subject apart where they are kept together: 24 bits of the rule's id. Rules of one group
/// must have different ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleTag([u8; 3]);

impl RuleTag {
    /// How many rules may count by the same identifiers where their counters are kept together.
    pub const MAX_RULES: usize = 64;

    /// The tag of a rule.
    #[must_use]
    pub fn of(rule: &str) -> Self {
        // FNV-1a, folded. Ids with one tag can be chosen, so two in one group are refused.
        let hash = rule
            .bytes()
            .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        let [low, middle, high, _] = ((hash >> 24) ^ (hash & 0x00ff_ffff)).to_le_bytes();
        Self([low, middle, high])
    }

    /// The tag with these bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 3]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    #[must_use]
    pub const fn bytes(self) -> [u8; 3] {
        self.0
    }

    /// Its number, by which counters of a subject are ordered.
    #[must_use]
    pub const fn number(self) -> u32 {
        let [low, middle, high] = self.0;
        u32::from_le_bytes([low, middle, high, 0])
    }
}
