//! Counts names in fixed memory: exactly until it knows too many, then all but those with the highest counts.
//!
//! When there are too many names, the count of the one in the middle is taken off all counts, and names without a count
//! are removed (the summary of Misra and Gries, in batches): no count is too high, none is too low by more than
//! `may_lack`, and a name with a larger share than one in [`KEPT`] is never missing.
//!
//! While there are many names, one is written down when it is counted for the second time: most of those that come and go
//! are counted once.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// How many names are kept when there are too many, and how many there may be.
const KEPT: usize = 1_024;
const MAX_NAMES: usize = 2 * KEPT;
/// How many names are kept of a slice of time that has passed.
const KEPT_OF_PAST: usize = 256;

/// Names by a hash of 64 bits that clients cannot choose.
pub(super) type ByHash<T> = HashMap<u64, T, BuildHasherDefault<HashedKey>>;

/// The hasher of keys that are hashes already.
#[derive(Debug, Default)]
pub(super) struct HashedKey(u64);

impl Hasher for HashedKey {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    #[inline]
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// A name that is counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CountedName {
    pub(super) name: Box<str>,
    pub(super) tenant: Option<Box<str>>,
    /// The rule that decided the last request.
    pub(super) rule: Option<Box<str>>,
    /// How much of its limit was used then.
    pub(super) used_percent: u8,
}

#[derive(Debug, Default)]
struct SketchEntry {
    count: u64,
    /// Apart, so that the table stays in the cache.
    name: Option<Box<CountedName>>,
}

/// Counts of names.
#[derive(Debug, Default)]
pub(super) struct Sketch {
    counts: ByHash<SketchEntry>,
    /// How much any count may be too low.
    may_lack: u64,
    /// Whether some were counted once, and their names are not known.
    has_nameless: bool,
}

impl Sketch {
    /// Counts a name once. `name` writes it down; returns it if it is kept.
    #[inline]
    pub(super) fn count(
        &mut self,
        hash: u64,
        name: impl FnOnce() -> CountedName,
    ) -> Option<&mut CountedName> {
        // The cost is amortised: a purge is paid for by the names that were added before it.
        if self.counts.len() >= MAX_NAMES {
            self.purge();
        }
        let is_crowded = self.counts.len() >= KEPT;
        let entry = self.counts.entry(hash).or_default();
        entry.count += 1;
        if entry.name.is_none() {
            if is_crowded && entry.count == 1 {
                self.has_nameless = true;
                return None;
            }
            entry.name = Some(Box::new(name()));
        }
        entry.name.as_deref_mut()
    }

    #[cold]
    fn purge(&mut self) {
        // At least one, so none is left without its name.
        let off = self.count_at(KEPT);
        self.has_nameless = false;
        self.may_lack += off;
        self.counts.retain(|_, counted| {
            counted.count = counted.count.saturating_sub(off);
            counted.count > 0
        });
    }

    /// The count at a place, in descending order; 0 beyond the last one.
    fn count_at(&self, place: usize) -> u64 {
        let mut counts: Vec<u64> = self.counts.values().map(|counted| counted.count).collect();
        if place >= counts.len() {
            return 0;
        }
        *counts.select_nth_unstable_by(place, |count, other| other.cmp(count)).1
    }

    /// Keeps the highest counts of a slice of time that has passed.
    pub(super) fn compact(&mut self) {
        if self.counts.len() > KEPT_OF_PAST {
            // Those as low as the first one that has no place are removed too.
            let least = self.count_at(KEPT_OF_PAST);
            self.has_nameless = false;
            self.counts.retain(|_, counted| counted.count > least);
            self.may_lack += least;
        }
        self.counts.shrink_to_fit();
    }

    /// The names with their counts.
    pub(super) fn counts(&self) -> impl Iterator<Item = (u64, &CountedName)> {
        self.counts.values().filter_map(|entry| Some((entry.count, entry.name.as_deref()?)))
    }

    pub(super) const fn may_lack(&self) -> u64 {
        self.may_lack + self.has_nameless as u64
    }

    /// The memory that it takes beside itself.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        // A table has a power of two of places, of which seven in eight are used, with a byte for each of them.
        let places = (self.counts.capacity() * 8 / 7).next_power_of_two();
        let text = |text: Option<&str>| text.map_or(0, str::len);
        let texts = |it: &CountedName| {
            it.name.len() + text(it.tenant.as_deref()) + text(it.rule.as_deref())
        };
        let name = |(_, name): (u64, &CountedName)| size_of::<CountedName>() + texts(name);
        places * (1 + size_of::<(u64, SketchEntry)>()) + self.counts().map(name).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    fn count(sketch: &mut Sketch, number: u64) {
        // Any bijection will do for a hash.
        let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        sketch.count(hash, || CountedName {
            name: number.to_string().into(),
            ..CountedName::default()
        });
    }

    proptest! {
        #[test]
        fn a_sketch_is_never_too_high_and_too_low_by_at_most_what_it_says(
            heavy in prop::collection::vec(0_u64..400, 0..3_000),
            light in 1_000_u64..8_000,
            is_past in any::<bool>(),
        ) {
            let mut sketch = Sketch::default();
            let mut exact: HashMap<u64, u64> = HashMap::new();
            for number in heavy.iter().copied().chain(1_000..light) {
                count(&mut sketch, number);
                *exact.entry(number).or_default() += 1;
            }
            let sum: u64 = exact.values().sum();
            prop_assert!(sketch.counts.len() <= MAX_NAMES);
            prop_assert!(sketch.may_lack() <= 1 + sum / KEPT as u64);
            prop_assert!(exact.len() > KEPT || sketch.may_lack() == 0);
            if is_past {
                sketch.compact();
                prop_assert!(sketch.counts.len() <= KEPT_OF_PAST);
            }
            let told: HashMap<&str, u64> =
                sketch.counts().map(|(count, it)| (&*it.name, count)).collect();
            for (number, count) in &exact {
                let told = told.get(number.to_string().as_str()).copied().unwrap_or(0);
                prop_assert!(told <= *count && *count <= told + sketch.may_lack(), "{number}");
            }
        }
    }
}
