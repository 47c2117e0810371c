//! How calls with a key are remembered, replayed and released.

use super::*;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use proptest::prelude::*;

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
    turn.response().map(|(answer, _)| &*answer.body)
}

#[test]
fn a_repeated_call_gets_the_response_of_the_first() {
    let memory = Idempotency::new(100, Micros::from_secs(300));
    let turn = |key, body: u32, now| at_once(memory.turn("", &Principal::Caller, key, &body, now));
    let first = turn("k", 1, NOW).expect("a turn");
    assert_eq!(answered(&first), None);
    first.remember(answer("yes"), None, None);
    assert_eq!(answered(&turn("k", 1, NOW).expect("a turn")), Some(&b"yes"[..]));
    assert_eq!(answered(&turn("other", 1, NOW).expect("a turn")), None);
    let reused = turn("k", 2, NOW).expect_err("another body");
    assert_eq!(reused.status().as_u16(), 422);
    let later = NOW.plus(Micros::from_secs(300));
    assert_eq!(answered(&turn("k", 2, later).expect("a turn")), None, "expired");
}

#[test]
fn a_refund_releases_the_key_of_its_decision_alone() {
    let memory = Idempotency::new(100, Micros::from_secs(300));
    let turn = || at_once(memory.turn("", &Principal::Caller, "k", &1, NOW)).expect("a turn");
    let [first, second]: [DecisionId; 2] =
        ["d00000001-a1", "d00000001-a2"].map(|id| id.parse().expect("an id"));
    let call = turn().call();
    turn().remember(answer("first"), Some(first), None);
    memory.forget(call, second);
    assert_eq!(answered(&turn()), Some(&b"first"[..]), "it is of another decision");
    memory.forget(call, first);
    assert_eq!(memory.len(), 0);
    assert_eq!(answered(&turn()), None);
    turn().remember(answer("second"), Some(second), None);
    memory.forget(call, first);
    let mut again = turn();
    assert_eq!(answered(&again), Some(&b"second"[..]), "a late refund of the first");
    again.forget();
    drop(again);
    assert_eq!((answered(&turn()), memory.memory.bytes.load(Ordering::Relaxed)), (None, 0));
}

#[test]
fn callers_do_not_share_keys() {
    let memory = Idempotency::new(100, Micros::from_secs(300));
    at_once(memory.turn("", &Principal::Caller, "k", &1, NOW)).expect("a turn").remember(
        answer("a"),
        None,
        None,
    );
    let other = at_once(memory.turn("", &Principal::Admin, "k", &2, NOW)).expect("a turn");
    assert_eq!(answered(&other), None);
}

/// A key of HTTP that began with `grpc:` used to be that of gRPC without it.
#[test]
fn protocols_do_not_share_keys() {
    let memory = Idempotency::new(100, Micros::from_secs(300));
    let turn = |protocol, key| at_once(memory.turn(protocol, &Principal::Caller, key, &1, NOW));
    turn("grpc", "k").expect("a turn").remember(answer("yes"), None, None);
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
    first.remember(answer("yes"), None, None);
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
    second.remember(answer("yes"), None, None);
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
        turn.expect("a turn").remember(answer, None, None);
    }
    assert!(memory.memory.bytes.load(Ordering::Relaxed) <= MAX_BYTES + (SHARDS << 20));
}

#[test]
fn memory_is_bounded() {
    let memory = Idempotency::new(64, Micros::from_secs(300));
    for number in 0..10_000_u32 {
        let turn = at_once(memory.turn("", &Principal::Caller, &number.to_string(), &1, NOW));
        turn.expect("a turn").remember(answer("yes"), None, None);
    }
    assert!(memory.len() <= 64, "{}", memory.len());
    for key in [String::new(), "k".repeat(256)] {
        assert!(at_once(memory.turn("", &Principal::Caller, &key, &1, NOW)).is_err());
    }
}

/// What may happen to calls. Numbers choose a key, a call in progress, or a length.
#[derive(Clone, Copy, Debug)]
enum Event {
    Begin { key: u8, body: u8 },
    Finish { turn: usize, length: usize },
    Abandon { turn: usize },
    ForgetResponse { turn: usize },
    Refund { key: u8 },
    Wait { seconds: u64 },
}

fn event() -> impl Strategy<Value = Event> {
    let turn = || 0_usize..8;
    prop_oneof![
        4 => (0_u8..24, 0_u8..2).prop_map(|(key, body)| Event::Begin { key, body }),
        4 => (turn(), 0_usize..1_000).prop_map(|(turn, length)| Event::Finish { turn, length }),
        1 => turn().prop_map(|turn| Event::Abandon { turn }),
        1 => turn().prop_map(|turn| Event::ForgetResponse { turn }),
        1 => (0_u8..24).prop_map(|key| Event::Refund { key }),
        1 => (0_u64..400).prop_map(|seconds| Event::Wait { seconds }),
    ]
}

/// The bytes of all responses that are held: by calls in progress, and by others.
fn held(memory: &Idempotency, turns: &[IdempotentTurn]) -> usize {
    let bytes = |kept: &Option<KeptResponse>| kept.as_ref().map_or(0, |it| it.response.bytes());
    let in_progress: usize = turns.iter().map(|turn| bytes(&turn.answer)).sum();
    let shards = memory.memory.shards.iter().map(|shard| {
        let shard = shard.lock();
        let free = shard.calls.values().filter_map(|call| call.answer.try_lock().ok());
        free.map(|kept| bytes(&kept)).sum::<usize>()
    });
    in_progress + shards.sum::<usize>()
}

proptest! {
    /// The bytes of a call that was removed while it was in progress used to be counted for ever, until no response was
    /// remembered any more.
    #[test]
    fn the_counted_bytes_are_those_that_are_held(events in prop::collection::vec(event(), 0..200)) {
        // One call in each shard.
        let memory = Idempotency::new(1, Micros::from_secs(300));
        let decision: DecisionId = "d00000001-a1".parse().expect("an id");
        let (mut turns, mut now): (Vec<IdempotentTurn>, _) = (Vec::new(), NOW);
        for event in events {
            match event {
                Event::Begin { key, body } => {
                    let key = key.to_string();
                    let turn = poll(memory.turn("", &Principal::Caller, &key, &body, now));
                    if let Poll::Ready(Ok(turn)) = turn {
                        turns.push(turn);
                    }
                }
                Event::Finish { turn, length } if turn < turns.len() => {
                    let body = Bytes::from(vec![b'x'; length]);
                    let response = Remembered { body, headers: HeaderMap::new() };
                    turns.swap_remove(turn).remember(response, Some(decision), None);
                }
                Event::Abandon { turn } if turn < turns.len() => drop(turns.swap_remove(turn)),
                Event::ForgetResponse { turn } if turn < turns.len() => turns[turn].forget(),
                Event::Refund { key } => {
                    let call = digest_of_call("", &Principal::Caller, &key.to_string());
                    memory.forget(call, decision);
                }
                Event::Wait { seconds } => now = now.plus(Micros::from_secs(seconds)),
                Event::Finish { .. } | Event::Abandon { .. } | Event::ForgetResponse { .. } => {}
            }
            prop_assert_eq!(memory.memory.bytes.load(Ordering::Relaxed), held(&memory, &turns));
        }
    }
}
