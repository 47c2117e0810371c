//! A refusal that is in flight during a refund is out of date when it arrives.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Waker};
use std::thread;

use tollgate_core::{Algorithm, Charge, Key, Micros, Mode, Quota, Timestamp};
use tollgate_store::{DenyCache, MemoryStore, Op, Outcomes, SettleRequest, Settlement, Store};

use crate::remote_store::at_once;
use crate::script::{MIDNIGHT, Script, refund, render};

fn is_done<T>(future: Pin<&mut impl Future<Output = T>>) -> bool {
    future.poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

/// How a check and a change of its counter overlap, and which of them ends first.
#[derive(Clone, Copy, Debug)]
enum Overlap {
    /// The change begins and ends while the response is in flight.
    ChangeWithin,
    /// The check is sent and answered while the change is in flight.
    QuestionWithin,
    /// The check is sent while the change is in flight, and answered after it.
    QuestionLater,
}

fn check_overlap(overlap: Overlap, is_reset: bool, is_batch: bool) {
    let mut script = Script::new();
    assert_eq!(script.step("0 slow=10"), "asked: passed, 0 left");
    let cache = &script.cache;
    let charges = script.charges("slow=1");
    let (given, keys) = ([refund(&charges[0])], [charges[0].key]);
    let question = async {
        if is_batch {
            cache.settle_batch(&[&charges], MIDNIGHT).await.remove(0)
        } else {
            cache.settle(&charges, MIDNIGHT).await
        }
    };
    let change = async {
        if is_reset { cache.reset(&keys).await } else { cache.refund(&given, MIDNIGHT).await }
    };
    let mut question = pin!(question);
    let mut change = pin!(change);
    let store = cache.inner();
    match overlap {
        Overlap::ChangeWithin => {
            store.answers.close();
            assert!(!is_done(question.as_mut()));
            assert!(is_done(change));
            store.answers.open();
            assert!(is_done(question));
        }
        Overlap::QuestionWithin => {
            store.changes.close();
            assert!(!is_done(change.as_mut()));
            assert!(is_done(question));
            store.changes.open();
            assert!(is_done(change));
        }
        Overlap::QuestionLater => {
            store.changes.close();
            assert!(!is_done(change.as_mut()));
            store.answers.close();
            assert!(!is_done(question.as_mut()));
            store.changes.open();
            assert!(is_done(change));
            store.answers.open();
            assert!(is_done(question));
        }
    }
    let answer = render(&charges, at_once(cache.settle(&charges, MIDNIGHT)));
    let expected = if is_reset { "asked: passed, 9 left" } else { "asked: passed, 0 left" };
    assert_eq!(answer, expected, "{overlap:?}, reset: {is_reset}, batch: {is_batch}");
}

#[test]
fn a_refusal_that_overlaps_a_change_is_not_cached() {
    for overlap in [Overlap::ChangeWithin, Overlap::QuestionWithin, Overlap::QuestionLater] {
        for is_reset in [false, true] {
            for is_batch in [false, true] {
                check_overlap(overlap, is_reset, is_batch);
            }
        }
    }
}

/// A caller that was cancelled does not come back to clear the entry.
#[test]
fn a_change_that_was_abandoned_may_have_been_made() {
    for is_reset in [false, true] {
        let mut script = Script::new();
        assert_eq!(script.step("0 slow=10"), "asked: passed, 0 left");
        assert_eq!(script.step("0 slow=1"), "asked: refused, 0 left");
        {
            let charge = script.charges("slow=1")[0];
            script.cache.inner().changes.close();
            let (given, keys) = ([refund(&charge)], [charge.key]);
            let is_made = if is_reset {
                is_done(pin!(script.cache.reset(&keys)))
            } else {
                is_done(pin!(script.cache.refund(&given, MIDNIGHT)))
            };
            assert!(!is_made);
        }
        assert_eq!(script.step("0 slow=1"), "asked: refused, 0 left");
    }
}

/// A store that lets other threads run between a decision and its response.
struct Yielding(MemoryStore);

impl Store for Yielding {
    fn is_shared(&self) -> bool {
        true
    }

    fn try_settle(&self, _: &SettleRequest<'_>, _: Timestamp, _: &mut Settlement) -> bool {
        false
    }

    async fn submit(&self, ops: &[Op<'_>], now: Timestamp) -> Outcomes {
        thread::yield_now();
        let outcomes = self.0.submit_now(ops, now);
        thread::yield_now();
        outcomes
    }
}

/// The time stands still, so a stale refusal would stay, and refunded units could not be charged.
#[test]
fn refunds_are_visible_to_other_threads() {
    const ROUNDS: usize = 300;
    const ASKING: usize = 3;
    const REFUNDS: u64 = 4;
    let quota = Quota::new(Algorithm::FixedWindow, 10, Micros::from_secs(3_600));
    let limit = quota.compile().expect("a valid quota");
    let key = Key { fingerprint: 1, rule: "rule", subject: b"subject", rest: b"", group: 0 };
    let charges = |cost| [Charge { key, limit: &limit, cost, mode: Mode::Enforce }];
    for round in 0..ROUNDS {
        let cache = DenyCache::new(Yielding(MemoryStore::with_bytes(0)));
        let passes = |cost| -> u64 {
            let settled = at_once(cache.settle(&charges(cost), MIDNIGHT));
            u64::from(settled.expect("a store that answers").passed)
        };
        assert_eq!(passes(10), 1);
        let (start, passed) = (Barrier::new(ASKING + 1), AtomicU64::new(0));
        thread::scope(|scope| {
            for _ in 0..ASKING {
                scope.spawn(|| {
                    start.wait();
                    let taken = (0..10).map(|_| passes(2)).sum();
                    passed.fetch_add(taken, Ordering::Relaxed);
                });
            }
            start.wait();
            for _ in 0..REFUNDS {
                let given = at_once(cache.refund(&[refund(&charges(2)[0])], MIDNIGHT));
                given.expect("a store that answers");
            }
        });
        // Refunded units that were not charged again fit.
        let left: u64 = (0..=REFUNDS).map(|_| passes(2)).sum();
        assert_eq!(left + passed.into_inner(), REFUNDS, "round {round}");
    }
}
