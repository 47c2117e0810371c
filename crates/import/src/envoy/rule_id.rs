//! Names for limits that have none: in metrics and logs every limit needs one that stays the same.

use std::collections::HashSet;
use std::sync::Arc;

/// The longest id.
const MAX_LENGTH: usize = 100;
/// How much of it is left beside a hyphen and the 16 digits of a fingerprint.
const MAX_STEM: usize = MAX_LENGTH - 17;

/// The way from the domain to a node, as far as an id is made of it. It grows name by name, so that
/// a long name above many limits is gone through once.
#[derive(Clone, Debug)]
pub(super) struct Trail {
    /// The names joined with dots, no longer than an id, with a hyphen for what an id cannot have.
    stem: String,
    /// Whether the stem says all that the names say.
    is_exact: bool,
    fingerprint: u64,
}

impl Trail {
    pub(super) fn start(domain: &str) -> Self {
        let empty = Self { stem: String::new(), is_exact: true, fingerprint: FNV_START };
        empty.and(domain)
    }

    /// The trail to a node of that name below.
    pub(super) fn below(&self, name: &str) -> Self {
        let mut trail = self.clone();
        trail.push('.');
        trail.and(name)
    }

    fn and(mut self, name: &str) -> Self {
        for c in name.chars() {
            match c {
                'a'..='z' | '0'..='9' | '_' | '-' => self.push(c),
                // A dot of a name would look like the end of it.
                '.' => self.push_instead('.'),
                'A'..='Z' => self.push_instead(c.to_ascii_lowercase()),
                _ => self.push_instead('-'),
            }
        }
        // No text has this byte in it, so names cannot run into each other.
        self.fingerprint = fnv(self.fingerprint, name.bytes().chain([0xff]));
        self
    }

    fn push_instead(&mut self, c: char) {
        self.is_exact = false;
        self.push(c);
    }

    fn push(&mut self, c: char) {
        if self.stem.len() < MAX_LENGTH {
            self.stem.push(c);
        } else {
            self.is_exact = false;
        }
    }

    fn with_fingerprint(&self, attempt: u64) -> String {
        let stem = self.stem.get(..MAX_STEM).unwrap_or(&self.stem);
        format!("{stem}-{:016x}", fnv(self.fingerprint, attempt.to_le_bytes()))
    }
}

/// The ids given so far.
#[derive(Default)]
pub(super) struct EnvoyRuleIds(HashSet<Arc<str>>);

impl EnvoyRuleIds {
    /// The id of the limit at the end of that trail: the names, if the id is exact, else the
    /// readable part of them and a fingerprint.
    pub(super) fn give(&mut self, trail: &Trail) -> Arc<str> {
        let exact = trail.is_exact.then(|| trail.stem.clone());
        // Two trails with one fingerprint are not to be expected, but must not share an id.
        let others = (0..).map(|attempt| trail.with_fingerprint(attempt));
        let mut ids = exact.into_iter().chain(others).map(Arc::<str>::from);
        ids.find(|id| self.0.insert(Arc::clone(id))).unwrap_or_default()
    }
}

const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a. Ids outlive a process and a release, and so must what they are made with.
fn fnv(hash: u64, bytes: impl IntoIterator<Item = u8>) -> u64 {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.into_iter().fold(hash, mix)
}
