//! Answers that are remembered, so that a call that is repeated charges once.
//!
//! Two copies that arrive together wait for each other: the first one charges, the second one gets
//! its answer. Only admitted answers are remembered; after a refusal the next copy is judged anew.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use bytes::Bytes;
use foldhash::quality::RandomState;
use http::HeaderMap;
use parking_lot::Mutex;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};
use tollgate::{Micros, Timestamp};

use crate::auth::Principal;
use crate::problem::Problem;

/// The longest idempotency key.
const MAX_KEY: usize = 255;
const SHARDS: usize = 16;

/// An answer to be given again.
#[derive(Clone, Debug)]
pub(crate) struct Remembered {
    pub(crate) body: Bytes,
    pub(crate) headers: HeaderMap,
}

/// Holds the place of a call: nobody else answers it meanwhile.
#[derive(Debug)]
pub(crate) struct Turn(OwnedMutexGuard<Option<Remembered>>);

impl Turn {
    /// The answer that was given before, if there was one.
    pub(crate) fn answered(&self) -> Option<&Remembered> {
        self.0.as_ref()
    }

    /// Remembers the answer.
    pub(crate) fn remember(mut self, answer: Remembered) {
        *self.0 = Some(answer);
    }
}

#[derive(Debug)]
pub(crate) struct Idempotency {
    shards: [Mutex<Shard>; SHARDS],
    keys_per_shard: usize,
    lifetime: Micros,
    hasher: RandomState,
    /// Hashes bodies independently of keys.
    body_hasher: RandomState,
}

#[derive(Debug, Default)]
struct Shard {
    calls: HashMap<CallKey, Call>,
    /// The keys in the order in which they came, which is that in which they expire.
    order: VecDeque<(Timestamp, CallKey)>,
}

/// The digest of a caller and its key: 128 bits, so that two keys are never taken for one.
type CallKey = (u64, u64);

#[derive(Debug)]
struct Call {
    body: u64,
    answer: Arc<AsyncMutex<Option<Remembered>>>,
}

impl Idempotency {
    /// Remembers up to `keys` calls, each for `lifetime`.
    pub(crate) fn new(keys: usize, lifetime: Micros) -> Self {
        Self {
            shards: Default::default(),
            keys_per_shard: keys.div_ceil(SHARDS).max(1),
            lifetime,
            hasher: RandomState::default(),
            body_hasher: RandomState::default(),
        }
    }

    /// Waits for the turn of a call with that key.
    pub(crate) async fn turn(
        &self,
        principal: Principal,
        key: &str,
        body: &impl Hash,
        now: Timestamp,
    ) -> Result<Turn, Problem> {
        if key.is_empty() || key.len() > MAX_KEY {
            return Err(Problem::bad_request(
                "invalid_idempotency_key",
                format!("an idempotency key has 1 to {MAX_KEY} characters"),
            ));
        }
        let call =
            (self.hasher.hash_one((principal, key)), self.body_hasher.hash_one((key, principal)));
        let body = self.body_hasher.hash_one(body);
        let answer = self.place(call, body, now)?;
        Ok(Turn(answer.lock_owned().await))
    }

    fn place(
        &self,
        key: CallKey,
        body: u64,
        now: Timestamp,
    ) -> Result<Arc<AsyncMutex<Option<Remembered>>>, Problem> {
        let shard = usize::try_from(key.0).unwrap_or(0) % SHARDS;
        let mut shard = self.shards[shard].lock();
        shard.forget_expired(now);
        if let Some(call) = shard.calls.get(&key) {
            if call.body == body {
                return Ok(Arc::clone(&call.answer));
            }
            return Err(Problem::unprocessable(
                "idempotency_key_reused",
                "this idempotency key was used with another body within its lifetime; take a new \
                 key for a new request",
            ));
        }
        if shard.calls.len() >= self.keys_per_shard {
            shard.forget_oldest();
        }
        let answer = Arc::new(AsyncMutex::new(None));
        shard.calls.insert(key, Call { body, answer: Arc::clone(&answer) });
        shard.order.push_back((now.plus(self.lifetime), key));
        Ok(answer)
    }

    /// How many calls are remembered.
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().calls.len()).sum()
    }
}

impl Shard {
    fn forget_expired(&mut self, now: Timestamp) {
        while self.order.front().is_some_and(|(expires, _)| *expires <= now) {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some((_, key)) = self.order.pop_front() {
            self.calls.remove(&key);
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
            Poll::Pending => panic!("somebody else holds the turn"),
        }
    }

    fn answer(text: &'static str) -> Remembered {
        Remembered { body: Bytes::from_static(text.as_bytes()), headers: HeaderMap::new() }
    }

    fn answered(turn: &Turn) -> Option<&[u8]> {
        turn.answered().map(|answer| &*answer.body)
    }

    #[test]
    fn a_repeated_call_gets_the_answer_of_the_first() {
        let memory = Idempotency::new(100, Micros::from_secs(300));
        let turn = |key, body: u32, now| at_once(memory.turn(Principal::Caller, key, &body, now));
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
    fn keys_of_two_callers_are_two_keys() {
        let memory = Idempotency::new(100, Micros::from_secs(300));
        at_once(memory.turn(Principal::Caller, "k", &1, NOW))
            .expect("a turn")
            .remember(answer("a"));
        let other = at_once(memory.turn(Principal::Admin, "k", &2, NOW)).expect("a turn");
        assert_eq!(answered(&other), None);
    }

    #[test]
    fn copies_that_arrive_together_wait_for_each_other() {
        let memory = Idempotency::new(100, Micros::from_secs(300));
        let first = at_once(memory.turn(Principal::Caller, "k", &1, NOW)).expect("a turn");
        let mut second = pin!(memory.turn(Principal::Caller, "k", &1, NOW));
        let mut context = Context::from_waker(Waker::noop());
        assert!(second.as_mut().poll(&mut context).is_pending());
        first.remember(answer("yes"));
        let Poll::Ready(Ok(second)) = second.as_mut().poll(&mut context) else {
            panic!("the turn was not passed on")
        };
        assert_eq!(answered(&second), Some(&b"yes"[..]));
    }

    #[test]
    fn what_is_not_remembered_is_judged_anew() {
        let memory = Idempotency::new(100, Micros::from_secs(300));
        drop(at_once(memory.turn(Principal::Caller, "k", &1, NOW)).expect("a turn"));
        let again = at_once(memory.turn(Principal::Caller, "k", &1, NOW)).expect("a turn");
        assert_eq!(answered(&again), None);
    }

    #[test]
    fn memory_is_bounded() {
        let memory = Idempotency::new(64, Micros::from_secs(300));
        for number in 0..10_000_u32 {
            drop(at_once(memory.turn(Principal::Caller, &number.to_string(), &1, NOW)));
        }
        assert!(memory.len() <= 64, "{}", memory.len());
        for key in [String::new(), "k".repeat(256)] {
            assert!(at_once(memory.turn(Principal::Caller, &key, &1, NOW)).is_err());
        }
    }
}
