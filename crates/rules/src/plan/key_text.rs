//! The bytes of a plan's keys. They are written for every request, so they live in the plan itself
//! as long as they are few.

use std::fmt;
use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

/// How many bytes are kept without an allocation.
const INLINE: usize = 128;
/// The longest value that is written as it is. Clients choose values, and plans are kept to explain and
/// refund them, so a longer one is written as its digest.
pub(crate) const MAX_VALUE_BYTES: usize = 1_024;
const DIGEST_PREFIX: &str = "sha256:";

#[derive(Clone)]
pub(crate) struct KeyText {
    inline: [u8; INLINE],
    len: usize,
    /// All bytes, once they no longer fit inline.
    long: Vec<u8>,
}

impl Default for KeyText {
    fn default() -> Self {
        Self { inline: [0; INLINE], len: 0, long: Vec::new() }
    }
}

/// Keys may hold secrets, so they are not shown.
impl fmt::Debug for KeyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyText({} bytes)", self.len)
    }
}

impl KeyText {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn as_slice(&self) -> &[u8] {
        if self.long.is_empty() {
            self.inline.get(..self.len).unwrap_or_default()
        } else {
            &self.long
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let end = self.len + bytes.len();
        match self.inline.get_mut(self.len..end).filter(|_| self.long.is_empty()) {
            Some(free) => copy_short(free, bytes),
            None => self.push_long(bytes),
        }
        self.len = end;
    }

    /// Writes a value of a key: as it is, or as its digest if it is long. A value that looks like a digest is
    /// written as its own, so that no client can name the counter of a long value.
    #[inline]
    pub(crate) fn push_value(&mut self, value: &[u8]) {
        if value.len() <= MAX_VALUE_BYTES && !value.starts_with(DIGEST_PREFIX.as_bytes()) {
            self.push(value);
        } else {
            self.push_digest(value);
        }
    }

    #[cold]
    fn push_digest(&mut self, value: &[u8]) {
        let mut text = String::with_capacity(DIGEST_PREFIX.len() + 2 * 32);
        text.push_str(DIGEST_PREFIX);
        for byte in Sha256::digest(value) {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        self.push(text.as_bytes());
    }

    /// Takes back what was written after the first `len` bytes.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
        self.long.truncate(len);
    }

    /// Takes everything back, and its memory too if it was long.
    pub(crate) fn clear(&mut self) {
        self.len = 0;
        if self.long.capacity() > 0 {
            self.long = Vec::new();
        }
    }

    /// Gives memory back that is not needed.
    pub(crate) fn shrink(&mut self) {
        self.long.shrink_to_fit();
    }

    #[cold]
    fn push_long(&mut self, bytes: &[u8]) {
        if self.long.is_empty() {
            self.long.extend_from_slice(self.inline.get(..self.len).unwrap_or_default());
        }
        self.long.extend_from_slice(bytes);
    }
}

/// Copies a text to a place of its length. Identifiers are short, and a call of the C library takes longer than they do.
#[inline]
fn copy_short(to: &mut [u8], from: &[u8]) {
    match (to.first_chunk_mut::<8>(), from.first_chunk::<8>()) {
        (Some(start), Some(first)) if from.len() <= 16 => {
            *start = *first;
            if let (Some(end), Some(last)) = (to.last_chunk_mut::<8>(), from.last_chunk::<8>()) {
                *end = *last;
            }
        }
        _ => to.copy_from_slice(from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_every_length_are_copied_whole() {
        let letters: Vec<u8> = (0..200).collect();
        for length in 0..letters.len() {
            let mut text = KeyText::default();
            text.push(b"before");
            text.push(&letters[..length]);
            assert_eq!(text.as_slice(), [b"before", &letters[..length]].concat(), "{length}");
        }
    }
}
