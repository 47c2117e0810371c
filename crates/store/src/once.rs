//! Requests that are charged once, however often and wherever they are repeated.

use tollgate_core::Micros;

use crate::Settlement;

/// By what a request is known again. Digests are the same in every process that shares a store.
#[derive(Clone, Copy, Debug)]
pub struct Once<'a> {
    /// The digest of who calls, and of the key that the call has.
    pub call: [u8; 16],
    /// The digest of what is asked: another under the same key is a mistake.
    pub body: [u8; 16],
    /// What copies are given back. A short text of one line, such as an id.
    pub note: &'a str,
    /// For how long it is known, if it passes. A request that was refused is not.
    pub lifetime: Micros,
}

/// What became of a request that is charged once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    /// It is the first, or none before it passed.
    First(Settlement),
    /// It is a copy of one that passed, and was not charged.
    Again {
        /// What became of the first. Of a limit that was not there then, the figures are those of now.
        settlement: Settlement,
        /// The note of the first.
        note: String,
    },
    /// One that passed had the same key, but asked something else. Nothing was charged.
    Conflict,
}
