//! The memory store under a model checker, which tries schedules of threads that machines seldom
//! run. `RUSTFLAGS="--cfg shuttle" cargo test -p tollgate-store --test shuttle --target-dir
//! target/shuttle`.
#![cfg(shuttle)]

use shuttle::sync::Arc;
use shuttle::thread;
use tollgate_core::{Algorithm, Charge, Key, Limit, Micros, Mode, Quota, Timestamp};
use tollgate_store::{MemoryStore, Refund};

const NOW: Timestamp = Timestamp::from_secs(1_700_000_000);
/// When everything that a short limit counted has expired.
const LATER: Timestamp = Timestamp::from_secs(1_700_000_010);
const RANDOM: usize = 2_000;
const PRIORITISED: usize = 1_000;

/// Tries schedules at random, and schedules that hold one thread back for long.
fn explore(test: impl Fn() + Send + Sync + Copy + 'static) {
    shuttle::check_random(test, RANDOM);
    shuttle::check_pct(test, PRIORITISED, 3);
}

/// A counter of the page that the upper bits of `page` choose, in a place that `place` chooses.
fn key(page: u8, place: u8) -> Key<'static> {
    let fingerprint = u64::from(page) << 56 | u64::from(place) << 40 | 1;
    Key { fingerprint, rule: "rule", subject: b"subject", rest: b"", group: 0 }
}

fn limit(algorithm: Algorithm, units: u64, window: Micros) -> Limit {
    Quota::new(algorithm, units, window).compile().expect("a valid quota")
}

fn long(algorithm: Algorithm, units: u64) -> Limit {
    limit(algorithm, units, Micros::from_secs(3_600))
}

fn short() -> Limit {
    limit(Algorithm::Gcra, 5, Micros::from_secs(1))
}

fn one<'a>(key: Key<'a>, limit: &'a Limit) -> Charge<'a> {
    Charge { key, limit, cost: 1, mode: Mode::Enforce }
}

fn passes(store: &MemoryStore, charges: &[Charge<'_>], now: Timestamp) -> u64 {
    u64::from(store.settle_now(charges, now).passed)
}

fn used(store: &MemoryStore, key: Key<'_>, limit: &Limit, now: Timestamp) -> u64 {
    let look = Charge { cost: 0, ..one(key, limit) };
    limit.capacity() - store.settle_now(&[look], now).results[0].report.remaining
}

/// Runs the same work in three threads and adds up what they return.
fn in_three_threads(
    store: &Arc<MemoryStore>,
    work: impl Fn(&MemoryStore, u8) -> u64 + Send + Sync + Copy + 'static,
) -> u64 {
    let spawn = |number| {
        let store = Arc::clone(store);
        thread::spawn(move || work(&store, number))
    };
    let running: Vec<_> = (0..3).map(spawn).collect();
    running.into_iter().map(|thread| thread.join().expect("a thread that ends")).sum()
}

/// The bytes that the store reports are those it holds, and all of them can be freed.
fn check_books(store: &MemoryStore, keys: &[Key<'_>], empty: usize) {
    let held = keys.iter().filter(|key| store.state_text(key).is_some()).count();
    assert_eq!(store.len(), held);
    keys.iter().for_each(|key| store.forget(key));
    store.sweep(LATER);
    assert_eq!((store.len(), store.bytes()), (0, empty));
}

#[test]
fn threads_share_a_limit_exactly() {
    for algorithm in [Algorithm::Gcra, Algorithm::SlidingWindowLog] {
        explore(move || {
            let store = Arc::new(MemoryStore::with_bytes(0));
            let admitted = in_three_threads(&store, move |store, _| {
                let limit = long(algorithm, 4);
                (0..2).map(|_| passes(store, &[one(key(1, 1), &limit)], NOW)).sum()
            });
            assert_eq!(admitted, 4);
            assert_eq!(used(&store, key(1, 1), &long(algorithm, 4), NOW), 4);
        });
    }
}

#[test]
fn opposite_orders_do_not_deadlock() {
    explore(|| {
        let store = Arc::new(MemoryStore::with_bytes(0));
        let empty = store.bytes();
        let keys = [key(1, 1), key(2, 2), key(1, 3)];
        let limits = || [long(Algorithm::FixedWindow, 3), long(Algorithm::SlidingWindowLog, 4)];
        let admitted = in_three_threads(&store, move |store, number| {
            let limits = limits();
            let mut charges = [one(keys[0], &limits[0]), one(keys[1], &limits[1])];
            if number == 1 {
                charges.reverse();
            }
            passes(store, &charges, NOW) + passes(store, &charges, NOW)
        });
        assert_eq!(admitted, 3);
        for (key, limit) in keys.into_iter().zip(&limits()) {
            assert_eq!(used(&store, key, limit, NOW), 3);
        }
        check_books(&store, &keys, empty);
    });
}

/// One thread admits, one sweeps expired counters, one resets another client: all in one page, where
/// counters move when others are removed.
#[test]
fn sweeping_and_forgetting_lose_no_admission() {
    explore(|| {
        let store = Arc::new(MemoryStore::with_bytes(0));
        let empty = store.bytes();
        let expired = [key(1, 1), key(1, 2), key(1, 3)];
        let (counted, fresh, reset) = (key(1, 4), key(1, 5), key(1, 6));
        let limit = long(Algorithm::TokenBucket, 10);
        for key in expired {
            passes(&store, &[one(key, &short())], NOW);
        }
        passes(&store, &[one(reset, &limit), one(counted, &limit)], LATER);
        in_three_threads(&store, move |store, number| match number {
            0 => {
                passes(store, &[one(counted, &limit)], LATER)
                    + passes(store, &[one(fresh, &limit)], LATER)
            }
            1 => {
                store.sweep(LATER);
                0
            }
            _ => {
                store.forget(&reset);
                passes(store, &[one(expired[0], &limit), one(counted, &limit)], LATER)
            }
        });
        let counts =
            [counted, fresh, reset, expired[0]].map(|key| used(&store, key, &limit, LATER));
        assert_eq!(counts, [3, 1, 0, 1]);
        check_books(&store, &[counted, fresh, reset, expired[0], expired[1], expired[2]], empty);
    });
}

#[test]
fn refunds_and_charges_add_up() {
    explore(|| {
        let store = Arc::new(MemoryStore::with_bytes(0));
        let empty = store.bytes();
        let limit = long(Algorithm::SlidingWindowLog, 2);
        let admitted = in_three_threads(&store, move |store, _| {
            let passed = passes(store, &[one(key(1, 1), &limit)], NOW);
            if passed == 1 {
                let (key, charged_at) = (key(1, 1), Some(NOW));
                store.refund_now(&Refund { key, limit: &limit, units: 1, charged_at }, NOW);
            }
            passed
        });
        assert!((2..=3).contains(&admitted));
        assert_eq!(used(&store, key(1, 1), &limit, NOW), 0);
        check_books(&store, &[key(1, 1)], empty);
    });
}

/// The sum of bytes is kept across pages, which threads lock at the same time.
#[test]
fn the_sum_of_bytes_is_right_across_pages() {
    explore(|| {
        let store = Arc::new(MemoryStore::with_bytes(0));
        let empty = store.bytes();
        let keys = [key(0, 1), key(1, 1), key(2, 1), key(0, 2), key(1, 2), key(2, 2)];
        in_three_threads(&store, move |store, number| {
            let limit = long(Algorithm::SlidingWindowLog, 2);
            let passed = passes(store, &[one(key(number, 1), &limit)], NOW)
                + passes(store, &[one(key(number, 2), &limit)], NOW);
            store.forget(&key(number, 1));
            passed
        });
        assert_eq!(store.len(), 3);
        check_books(&store, &keys, empty);
    });
}
