//! The bytes of a plan's keys. They are written for every request, so they live in the plan itself
//! as long as they are few.

use std::fmt;

/// How many bytes need no memory of their own.
const INLINE: usize = 128;

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

    pub(crate) fn as_slice(&self) -> &[u8] {
        if self.long.is_empty() {
            self.inline.get(..self.len).unwrap_or_default()
        } else {
            &self.long
        }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let end = self.len + bytes.len();
        match self.inline.get_mut(self.len..end).filter(|_| self.long.is_empty()) {
            Some(free) => free.copy_from_slice(bytes),
            None => self.push_long(bytes),
        }
        self.len = end;
    }

    /// Takes back what was written after the first `len` bytes.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
        self.long.truncate(len);
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
