//! Responses that are remembered, so that a repeated call is charged once.
//!
//! Two copies that arrive together wait for each other: the first one charges, the second one gets its
//! response. Only responses that allow are remembered; after a refusal the next copy is checked again.
//!
//! Each node remembers the calls it served. For other calls it asks the shared store, which knows those
//! of all nodes.

mod digest;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::HeaderMap;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};
use tollgate::{IdempotencyKey, Micros, Timestamp};

use self::digest::{CallDigest, digest_of_body, digest_of_call};
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

/// Holds the lock of a call: copies of it wait meanwhile.
#[derive(Debug)]
pub(crate) struct IdempotentTurn {
    answer: OwnedMutexGuard<Option<Remembered>>,
    memory: Arc<Memory>,
    call: CallDigest,
    body: CallDigest,
    lifetime: Micros,
}

impl IdempotentTurn {
    /// The response that the call got before, if there was one.
    pub(crate) fn response(&self) -> Option<&Remembered> {
        self.answer.as_ref()
    }

    /// How a shared store identifies the call. Copies get the note of the first.
    pub(crate) const fn key<'a>(&self, note: &'a str) -> IdempotencyKey<'a> {
        IdempotencyKey { call: self.call, body: self.body, note, lifetime: self.lifetime }
    }

    /// Remembers the response.
    pub(crate) fn remember(mut self, answer: Remembered) {
        self.memory.bytes.fetch_add(answer.bytes(), Ordering::Relaxed);
        *self.answer = Some(answer);
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
    bytes: AtomicUsize,
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
    answer: Arc<AsyncMutex<Option<Remembered>>>,
}

impl IdempotentCall {
    /// The bytes of its response; 0 if there is none or the call is in progress.
    fn bytes(&self) -> usize {
        let answer = self.answer.try_lock();
        answer.ok().and_then(|answer| answer.as_ref().map(Remembered::bytes)).unwrap_or(0)
    }
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
    ) -> Result<Arc<AsyncMutex<Option<Remembered>>>, Problem> {
        let mut shard = self.memory.shard(key).lock();
        let bytes = &self.memory.bytes;
        shard.forget_expired(now, bytes);
        if let Some(call) = shard.calls.get(&key) {
            if call.body == body {
                return Ok(Arc::clone(&call.answer));
            }
            return Err(key_reused());
        }
        let is_full = |shard: &CallShard| {
            shard.calls.len() >= self.keys_per_shard || bytes.load(Ordering::Relaxed) > MAX_BYTES
        };
        while is_full(&shard) && shard.forget_oldest(bytes) {}
        let answer = Arc::new(AsyncMutex::new(None));
        shard.serial += 1;
        let serial = shard.serial;
        shard.calls.insert(key, IdempotentCall { serial, body, answer: Arc::clone(&answer) });
        shard.order.push_back((now.plus(self.lifetime), key, serial));
        Ok(answer)
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
    fn forget_expired(&mut self, now: Timestamp, bytes: &AtomicUsize) {
        while self.order.front().is_some_and(|(expires, ..)| *expires <= now) {
            self.forget_oldest(bytes);
        }
    }

    /// Removes the oldest call. Returns whether there was one.
    fn forget_oldest(&mut self, bytes: &AtomicUsize) -> bool {
        let Some((_, key, serial)) = self.order.pop_front() else { return false };
        if self.calls.get(&key).is_some_and(|call| call.serial == serial)
            && let Some(call) = self.calls.remove(&key)
        {
            bytes.fetch_sub(call.bytes(), Ordering::Relaxed);
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
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    const NOW: Timestamp = Timestamp::from_secs(1_000);

    fn poll<T>(future: impl Future<Output = T>) -> Poll<T> {
        pin!(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    fn at_once<T>(future: impl Future<Output = T>) -> T {
        match poll(future) {
            Poll::Ready(value) => value,
            Poll::Pending => panic!("another call holds the turn"),
        }
    }

    fn answer(text: &'static str) -> Remembered {
        Remembered { body: Bytes::from_static(text.as_bytes()), headers: HeaderMap::new() }
    }

    fn answered(turn: &IdempotentTurn) -> Option<&[u8]> {
        turn.response().map(|answer| &*answer.body)
    }

    #[test]
    fn a_repeated_call_gets_the_response_of_the_first() {
        let memory = Idempotency::new(100, Micros::from_secs(300));
        let turn =
            |key, body: u32, now| at_once(memory.turn("", &Principal::Caller, key, &body, now));
        let first = turn("k", 1, NOW).expect("a turn");
        assert_eq!(answered(&first), None);
        first.remember(answer("yes"));
        assert_eq!(answered(&turn("k", 1, NOW).expect("a turn")), Some(&b"yes"[..]));
        assert_eq!(answered(&turn("other", 1, NOW).expect("a turn")), None);
        let reused = turn("k", 2, NOW).expect_err("another body");
        assert_eq!(reused.status().as_u16(), 422);
        let later = NOW.plus(Micros::from_secs(300));
        assert_eq!(answered(&turn("k", 2, later).expect("a turn")), None, "expired");
    }

    #[test]
    fn callers_do_not_share_keys() {
        let memory = Idempotency::new(100, Micros::from_secs(300));
        at_once(memory.turn("", &Principal::Caller, "k", &1, NOW))
            .expect("a turn")
            .remember(answer("a"));
        let other = at_once(memory.turn("", &Principal::Admin, "k", &2, NOW)).expect("a turn");
        assert_eq!(answered(&other), None);
    }

    /// A key of HTTP that began with `grpc:` used to be that of gRPC without it.
    #[test]
    fn protocols_do_not_share_keys() {
        let memory = Idempotency::new(100, Micros::from_secs(300));
        let turn = |protocol, key| at_once(memory.turn(protocol, &Principal::Caller, key, &1, NOW));
        turn("grpc", "k").expect("a turn").remember(answer("yes"));
        for key in ["k", "grpc:k", "grpck", "grpc\nk"] {
            assert_eq!(answered(&turn("", key).expect("a turn")), None, "{key:?}");
        }
        assert_eq!(answered(&turn("grpc", "k").expect("a turn")), Some(&b"yes"[..]));
    }

    #[test]
    fn copies_that_arrive_together_wait_for_each_other() {
        let memory = Idempotency::new(100, Micros::from_secs(300));
        let first = at_once(memory.turn("", &Principal::Caller, "k", &1, NOW)).expect("a turn");
        let mut second = pin!(memory.turn("", &Principal::Caller, "k", &1, NOW));
        let mut context = Context::from_waker(Waker::noop());
        assert!(second.as_mut().poll(&mut context).is_pending());
        first.remember(answer("yes"));
        let Poll::Ready(Ok(second)) = second.as_mut().poll(&mut context) else {
            panic!("the turn was not passed on")
        };
        assert_eq!(answered(&second), Some(&b"yes"[..]));
    }

    #[test]
    fn a_call_without_a_remembered_response_is_checked_again() {
        let memory = Idempotency::new(100, Micros::from_secs(300));
        drop(at_once(memory.turn("", &Principal::Caller, "k", &1, NOW)).expect("a turn"));
        assert_eq!(memory.len(), 0, "it leaves nothing behind");
        let again = at_once(memory.turn("", &Principal::Caller, "k", &2, NOW)).expect("a turn");
        assert_eq!(answered(&again), None, "not even the body it came with");
    }

    #[test]
    fn a_call_without_a_response_passes_its_turn_on() {
        let memory = Idempotency::new(100, Micros::from_secs(300));
        let first = at_once(memory.turn("", &Principal::Caller, "k", &1, NOW)).expect("a turn");
        let mut second = pin!(memory.turn("", &Principal::Caller, "k", &1, NOW));
        let mut context = Context::from_waker(Waker::noop());
        assert!(second.as_mut().poll(&mut context).is_pending());
        drop(first);
        let Poll::Ready(Ok(second)) = second.as_mut().poll(&mut context) else {
            panic!("the turn was not passed on")
        };
        second.remember(answer("yes"));
        let third = at_once(memory.turn("", &Principal::Caller, "k", &1, NOW)).expect("a turn");
        assert_eq!(answered(&third), Some(&b"yes"[..]));
    }

    #[test]
    fn responses_are_bounded_in_bytes() {
        let memory = Idempotency::new(1_000_000, Micros::from_secs(300));
        let megabyte = Bytes::from(vec![b'x'; 1 << 20]);
        for number in 0..300_u32 {
            let turn = at_once(memory.turn("", &Principal::Caller, &number.to_string(), &1, NOW));
            let answer = Remembered { body: megabyte.clone(), headers: HeaderMap::new() };
            turn.expect("a turn").remember(answer);
        }
        assert!(memory.memory.bytes.load(Ordering::Relaxed) <= MAX_BYTES + (SHARDS << 20));
    }

    #[test]
    fn memory_is_bounded() {
        let memory = Idempotency::new(64, Micros::from_secs(300));
        for number in 0..10_000_u32 {
            let turn = at_once(memory.turn("", &Principal::Caller, &number.to_string(), &1, NOW));
            turn.expect("a turn").remember(answer("yes"));
        }
        assert!(memory.len() <= 64, "{}", memory.len());
        for key in [String::new(), "k".repeat(256)] {
            assert!(at_once(memory.turn("", &Principal::Caller, &key, &1, NOW)).is_err());
        }
    }
}
