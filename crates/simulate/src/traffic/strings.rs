//! Every distinct string once: a log names the same paths, clients and browsers again and again.
//!
//! The strings lie end to end in one arena, each after its length, and a symbol is the place of one.
//! Looking a string up touches memory twice, in the table and in the arena; in a long log both are
//! cache misses, and they are most of what loading costs. So nothing lies in between.

use std::hash::BuildHasher as _;
use std::num::NonZeroU32;

/// The bytes that hold the length of a string.
const LENGTH: usize = size_of::<u32>();

/// Stands for a string: where it begins, just after its length, and so never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Symbol(NonZeroU32);

/// A place in the table: part of the string's hash, and the string.
#[derive(Clone, Copy, Debug)]
struct StringSlot {
    hash: u32,
    symbol: Symbol,
}

/// A set of strings that only grows.
#[derive(Debug)]
pub(super) struct Strings {
    arena: Vec<u8>,
    count: usize,
    /// At least half empty; a power of two.
    slots: Vec<Option<StringSlot>>,
    hasher: foldhash::fast::RandomState,
}

impl Default for Strings {
    fn default() -> Self {
        Self {
            arena: Vec::new(),
            count: 0,
            slots: vec![None; 64],
            hasher: foldhash::fast::RandomState::default(),
        }
    }
}

impl Strings {
    pub(super) fn get(&self, symbol: Symbol) -> &str {
        self.bytes(symbol).and_then(|bytes| str::from_utf8(bytes).ok()).unwrap_or_default()
    }

    /// The symbol of a string, new or known; `None` when the arena holds 4 GiB already.
    pub(super) fn intern(&mut self, text: &str) -> Option<Symbol> {
        // The upper half of the hash is the better one.
        let hash = (self.hasher.hash_one(text) >> 32) as u32;
        let mask = self.slots.len() - 1;
        let mut place = hash as usize & mask;
        while let Some(slot) = self.slots[place] {
            if slot.hash == hash && self.bytes(slot.symbol) == Some(text.as_bytes()) {
                return Some(slot.symbol);
            }
            place = (place + 1) & mask;
        }
        let symbol = self.append(text)?;
        self.slots[place] = Some(StringSlot { hash, symbol });
        self.count += 1;
        if 2 * self.count > self.slots.len() {
            self.grow();
        }
        Some(symbol)
    }

    /// How much memory the strings and their table take.
    pub(super) fn bytes_held(&self) -> usize {
        self.arena.len() + self.slots.len() * size_of::<Option<StringSlot>>()
    }

    fn bytes(&self, symbol: Symbol) -> Option<&[u8]> {
        let start = symbol.0.get() as usize;
        let length = self.arena.get(start - LENGTH..)?.first_chunk().copied()?;
        self.arena.get(start..)?.get(..u32::from_le_bytes(length) as usize)
    }

    fn append(&mut self, text: &str) -> Option<Symbol> {
        let length = u32::try_from(text.len()).ok()?;
        let start = u32::try_from(self.arena.len() + LENGTH).ok()?;
        self.arena.extend(length.to_le_bytes());
        self.arena.extend_from_slice(text.as_bytes());
        NonZeroU32::new(start).map(Symbol)
    }

    fn grow(&mut self) {
        let mut slots = vec![None; 2 * self.slots.len()];
        let mask = slots.len() - 1;
        for slot in self.slots.iter().flatten() {
            let mut place = slot.hash as usize & mask;
            while slots[place].is_some() {
                place = (place + 1) & mask;
            }
            slots[place] = Some(*slot);
        }
        self.slots = slots;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn a_string_has_one_symbol_and_a_symbol_one_string() {
        let mut strings = Strings::default();
        let mut symbols = HashMap::new();
        for round in 0..2 {
            // So many that a few of them share the part of the hash that is kept.
            for number in 0..300_000_u32 {
                let text = if number == 0 { String::new() } else { format!("/path/{number}") };
                let symbol = strings.intern(&text).expect("there is room");
                assert_eq!(*symbols.entry(text).or_insert(symbol), symbol, "round {round}");
            }
        }
        assert_eq!(strings.count, symbols.len());
        for (text, symbol) in symbols {
            assert_eq!(strings.get(symbol), text);
        }
    }
}
