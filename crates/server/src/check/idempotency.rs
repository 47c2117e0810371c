//! Responses that are remembered, so that a repeated call is charged once.
//!
//! Two copies that arrive together wait for each other: the first one charges, the second one gets its
//! response. Only responses that allow are remembered; after a refusal the next copy is checked again.
//!
//! Each node remembers the calls it served. For other calls it asks the shared store, which knows those
//! of all nodes.
//!
//! A refund releases the key: the next copy is checked as a new request. Any node may have made the refund, so a response
//! is replayed only while the shared store has the record of its call.

mod digest;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::HeaderMap;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};
use tollgate::{IdempotencyKey, Micros, Timestamp, UsedKey};

pub(crate) use self::digest::CallDigest;
use self::digest::{digest_of_body, digest_of_call};
use super::decision_id::DecisionId;
use crate::admin::auth::Principal;
use crate::edge::http::problem::Problem;

/// The longest idempotency key.
const MAX_KEY: usize = 255;
const SHARDS: usize = 16;
/// How many bytes all responses together may take.
const MAX_BYTES: usize = 64 << 20;

/// A response to replay.
#[derive(Clone, Debug)]
pub(crate) struct Remembered {
    pub(crate) body: Bytes,
    pub(crate) headers: HeaderMap,
}

/// A response, and the decision that it is about.
#[derive(Debug)]
struct KeptResponse {
    response: Remembered,
    /// The key in the shared store; `None` if the store does not know of the call.
    used_key: Option<UsedKey>,
    _counted: CountedBytes,
}

/// The bytes of a response in the sum of all, for as long as it is held: also by a call that was removed to make room
/// while it was in progress.
#[derive(Debug)]
struct CountedBytes {
    bytes: usize,
    sum: Arc<AtomicUsize>,
}

impl CountedBytes {
    fn new(bytes: usize, sum: &Arc<AtomicUsize>) -> Self {
        sum.fetch_add(bytes, Ordering::Relaxed);
        Self { bytes, sum: Arc::clone(sum) }
    }
}

impl Drop for CountedBytes {
    fn drop(&mut self) {
        self.sum.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Holds the lock of a call: copies of it wait meanwhile.
#[derive(Debug)]
pub(crate) struct IdempotentTurn {
    answer: OwnedMutexGuard<Option<KeptResponse>>,
    memory: Arc<Memory>,
    call: CallDigest,
    body: CallDigest,
    lifetime: Micros,
}

impl IdempotentTurn {
    /// The response that the call got before, if there was one.
    pub(crate) fn response(&self) -> Option<(&Remembered, Option<&UsedKey>)> {
        self.answer.as_ref().map(|kept| (&kept.response, kept.used_key.as_ref()))
    }

    /// Identifies the call.
    pub(crate) const fn call(&self) -> CallDigest {
        self.call
    }

    /// Forgets the response: the call is checked as if it were the first.
    pub(crate) fn forget(&mut self) {
        *self.answer = None;
    }

    /// How a shared store identifies the call. Copies get the note of the first.
    pub(crate) const fn key<'a>(&self, note: &'a str) -> IdempotencyKey<'a> {
        IdempotencyKey { call: self.call, body: self.body, note, lifetime: self.lifetime }
    }

    /// Remembers the response to a decision, and the key in the shared store if that has it.
    pub(crate) fn remember(
        mut self,
        response: Remembered,
        decision: Option<DecisionId>,
        used_key: Option<UsedKey>,
    ) {
        let _counted = CountedBytes::new(response.bytes(), &self.memory.bytes);
        *self.answer = Some(KeptResponse { response, used_key, _counted });
        let ours = OwnedMutexGuard::mutex(&self.answer);
        let mut shard = self.memory.shard(self.call).lock();
        let call = shard.calls.get_mut(&self.call);
        // It may have been removed meanwhile, to make room.
        if let Some(call) = call.filter(|call| Arc::ptr_eq(&call.answer, ours)) {
            call.decision = decision.map(DecisionId::mark);
        }
    }
}

/// A call that ends without a response to remember leaves nothing behind.
impl Drop for IdempotentTurn {
    fn drop(&mut self) {
        if self.answer.is_none() {
            self.memory.shard(self.call).lock().forget_unanswered(self.call);
        }
    }
}

impl Remembered {
    fn bytes(&self) -> usize {
        let fields: usize =
            self.headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        self.body.len() + fields
    }
}

#[derive(Debug)]
pub(crate) struct Idempotency {
    memory: Arc<Memory>,
    keys_per_shard: usize,
    lifetime: Micros,
}

#[derive(Debug, Default)]
struct Memory {
    shards: [Mutex<CallShard>; SHARDS],
    /// The bytes of all responses.
    bytes: Arc<AtomicUsize>,
}

impl Memory {
    fn shard(&self, call: CallDigest) -> &Mutex<CallShard> {
        &self.shards[usize::from(call[0]) % SHARDS]
    }
}

#[derive(Debug, Default)]
struct CallShard {
    calls: HashMap<CallDigest, IdempotentCall>,
    /// The calls in the order in which they arrived, which is also that in which they expire.
    order: VecDeque<(Timestamp, CallDigest, u64)>,
    /// Distinguishes a call from an earlier one with the same key.
    serial: u64,
}

#[derive(Debug)]
struct IdempotentCall {
    serial: u64,
    body: CallDigest,
    /// The mark of the decision that is remembered.
    decision: Option<[u8; 16]>,
    answer: Arc<AsyncMutex<Option<KeptResponse>>>,
}

impl Idempotency {
    /// Remembers up to `keys` calls, each for `lifetime`.
    pub(crate) fn new(keys: usize, lifetime: Micros) -> Self {
        Self { memory: Arc::default(), keys_per_shard: keys.div_ceil(SHARDS).max(1), lifetime }
    }

    /// Waits for the turn of a call with that key. Callers do not share responses, and neither do
    /// protocols, whose responses look different: gRPC has a name, HTTP has none.
    pub(crate) async fn turn(
        &self,
        protocol: &str,
        caller: &Principal,
        key: &str,
        body: &impl Serialize,
        now: Timestamp,
    ) -> Result<IdempotentTurn, Problem> {
        if key.is_empty() || key.len() > MAX_KEY {
            return Err(Problem::bad_request(
                "invalid_idempotency_key",
                format!("an idempotency key has 1 to {MAX_KEY} characters"),
            ));
        }
        let call = digest_of_call(protocol, caller, key);
        let body = digest_of_body(body);
        let answer = self.place(call, body, now)?.lock_owned().await;
        let (memory, lifetime) = (Arc::clone(&self.memory), self.lifetime);
        Ok(IdempotentTurn { answer, memory, call, body, lifetime })
    }

    fn place(
        &self,
        key: CallDigest,
        body: CallDigest,
        now: Timestamp,
    ) -> Result<Arc<AsyncMutex<Option<KeptResponse>>>, Problem> {
        let mut shard = self.memory.shard(key).lock();
        let bytes = &self.memory.bytes;
        shard.forget_expired(now);
        if let Some(call) = shard.calls.get(&key) {
            if call.body == body {
                return Ok(Arc::clone(&call.answer));
            }
            return Err(key_reused());
        }
        let is_full = |shard: &CallShard| {
            shard.calls.len() >= self.keys_per_shard || bytes.load(Ordering::Relaxed) > MAX_BYTES
        };
        while is_full(&shard) && shard.forget_oldest() {}
        let answer = Arc::new(AsyncMutex::new(None));
        shard.serial += 1;
        let serial = shard.serial;
        let call = IdempotentCall { serial, body, decision: None, answer: Arc::clone(&answer) };
        shard.calls.insert(key, call);
        shard.order.push_back((now.plus(self.lifetime), key, serial));
        Ok(answer)
    }

    /// Forgets a call whose decision is refunded. A later one with the same key stays.
    pub(crate) fn forget(&self, call: CallDigest, decision: DecisionId) {
        let mut shard = self.memory.shard(call).lock();
        if shard.calls.get(&call).is_some_and(|call| call.decision == Some(decision.mark())) {
            shard.calls.remove(&call);
        }
    }

    /// How many calls are remembered.
    pub(crate) fn len(&self) -> usize {
        self.memory.shards.iter().map(|shard| shard.lock().calls.len()).sum()
    }
}

/// The problem of two different requests with one key.
pub(crate) fn key_reused() -> Problem {
    Problem::unprocessable(
        "idempotency_key_reused",
        "this idempotency key was used with another body within its lifetime; take a new key for a \
         new request",
    )
}

impl CallShard {
    fn forget_expired(&mut self, now: Timestamp) {
        while self.order.front().is_some_and(|(expires, ..)| *expires <= now) {
            self.forget_oldest();
        }
    }

    /// Removes the oldest call. Returns whether there was one.
    fn forget_oldest(&mut self) -> bool {
        let Some((_, key, serial)) = self.order.pop_front() else { return false };
        if self.calls.get(&key).is_some_and(|call| call.serial == serial) {
            self.calls.remove(&key);
        }
        true
    }

    /// Removes a call that has no response, unless a copy of it waits.
    fn forget_unanswered(&mut self, key: CallDigest) {
        // One reference is in the map, one in the turn that ends.
        let is_alone = |call: &IdempotentCall| Arc::strong_count(&call.answer) <= 2;
        if self.calls.get(&key).is_some_and(is_alone) {
            self.calls.remove(&key);
        }
        // Entries of removed calls are cleaned up when there are too many.
        if self.order.len() > 2 * self.calls.len() + 64 {
            let calls = &self.calls;
            self.order.retain(|(_, key, serial)| {
                calls.get(key).is_some_and(|call| call.serial == *serial)
            });
        }
    }
}

#[cfg(test)]
mod tests;
