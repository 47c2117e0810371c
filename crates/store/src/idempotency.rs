//! Requests that are charged once, however often and wherever they are repeated.

use tollgate_core::{Key, Micros};

/// Identifies the copies of a request. Digests are the same in every process that shares a store.
#[derive(Clone, Copy, Debug)]
pub struct IdempotencyKey<'a> {
    /// The digest of the caller and of the key that it sent.
    pub call: [u8; 16],
    /// The digest of the request: another one under the same key is a mistake.
    pub body: [u8; 16],
    /// A short text of one line that copies get, such as the id of the decision.
    pub note: &'a str,
    /// How long the record is kept if the request passes. A refused request has none.
    pub lifetime: Micros,
}

/// Refers to the record of a request that passed with an idempotency key.
#[derive(Clone, Copy, Debug)]
pub struct RecordRef<'a> {
    /// The digest of the caller and of the key that it sent.
    pub call: [u8; 16],
    /// The first word of the note. A record whose note begins with another one is that of another request.
    pub note: &'a str,
    /// The counter of the first charge: a cluster keeps the record in its slot.
    pub beside: Key<'a>,
}
