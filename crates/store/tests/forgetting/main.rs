//! What the memory store forgets, what it must not forget, and that it knows what it holds.

use std::hash::{BuildHasherDefault, DefaultHasher};

use tollgate_core::{Algorithm, Charge, Key, Limit, MAX_LIMIT, Micros, Mode, Quota, Timestamp};
use tollgate_store::{MemoryStore, Refund};

const NOW: Timestamp = Timestamp::from_secs(1_700_000_000);
const HOUR: Micros = Micros::from_secs(3_600);
const DAY: Micros = Micros::from_secs(86_400);
/// Expired counters are kept for this time, in case the clock steps back.
const SLACK: Micros = Micros::from_secs(1);

fn key(subject: &[u8]) -> Key<'_> {
    Key::new(&BuildHasherDefault::<DefaultHasher>::default(), "rule", subject, b"")
}

fn limit(algorithm: Algorithm, units: u64, window: Micros) -> Limit {
    Quota::new(algorithm, units, window).compile().expect("a valid quota")
}

/// Charges a counter; says what remains, or `None` if it is refused.
fn charge(
    store: &MemoryStore,
    subject: &[u8],
    limit: &Limit,
    cost: u64,
    now: Timestamp,
) -> Option<u64> {
    let charge = Charge { key: key(subject), limit, cost, mode: Mode::Enforce };
    let settlement = store.settle_now(&[charge], now);
    settlement.passed.then(|| settlement.results[0].report.remaining)
}

fn left(store: &MemoryStore, subject: &[u8], limit: &Limit, now: Timestamp) -> u64 {
    charge(store, subject, limit, 0, now).expect("a peek is always admitted")
}

#[test]
fn no_counter_is_lost_below_the_cap() {
    let store = MemoryStore::with_bytes(16 << 20);
    let limit = limit(Algorithm::Gcra, 10, HOUR);
    let subjects = || (0..300_000_u32).map(u32::to_be_bytes);
    for subject in subjects() {
        assert_eq!(charge(&store, &subject, &limit, 1, NOW), Some(9));
    }
    for subject in subjects() {
        assert_eq!(left(&store, &subject, &limit, NOW), 9, "{subject:?}");
    }
    assert_eq!((store.len(), store.evicted()), (300_000, 0));
}

/// Logs live beside the slots: when they take too much, forgetting counters in slots frees nothing.
#[test]
fn logs_over_the_cap_do_not_push_out_counters_in_slots() {
    let store = MemoryStore::with_bytes(8 << 20);
    let (bucket, log) =
        (limit(Algorithm::Gcra, 10, HOUR), limit(Algorithm::SlidingWindowLog, 10, HOUR));
    let buckets = || (0..100_000_u32).map(u32::to_be_bytes);
    for subject in buckets() {
        assert_eq!(charge(&store, &subject, &bucket, 1, NOW), Some(9));
    }
    for number in 0..40_000_u32 {
        charge(&store, format!("log {number}").as_bytes(), &log, 1, NOW);
    }
    assert!(store.evicted() > 0, "the cap was not reached");
    let lost = buckets().filter(|subject| left(&store, subject, &bucket, NOW) == 10).count();
    // Pages that are full themselves may have to choose among all they hold.
    assert!(lost < 5_000, "{lost} of 100000 counters in slots were forgotten");
}

/// Counters of a short and of a long window in one store: when the short ones have expired, a sweep
/// forgets those and no other.
fn check_sweep(algorithm: Algorithm, short_lived: u32, long_lived: u32) {
    let store = MemoryStore::with_bytes(16 << 20);
    let (short, long) = (limit(algorithm, 5, Micros::from_millis(100)), limit(algorithm, 5, HOUR));
    let name = |kind: &str, number: u32| format!("{kind} {number}");
    for number in 0..short_lived.max(long_lived) {
        if number < short_lived {
            charge(&store, name("short", number).as_bytes(), &short, 1, NOW);
        }
        if number < long_lived {
            charge(&store, name("long", number).as_bytes(), &long, 5, NOW);
        }
    }
    let context = format!("{algorithm}, {short_lived} short, {long_lived} long");
    let full = store.bytes();
    store.sweep(NOW.plus(Micros::from_millis(200)));
    assert_eq!(store.len(), (short_lived + long_lived) as usize, "{context}: within the slack");
    store.sweep(NOW.plus(SLACK).plus(Micros::from_millis(200)));
    assert_eq!(store.len(), long_lived as usize, "{context}");
    assert!(store.bytes() <= full, "{context}");
    for number in 0..long_lived {
        let name = name("long", number);
        assert_eq!(left(&store, name.as_bytes(), &long, NOW), 0, "{context}: {name}");
    }
}

#[test]
fn a_sweep_removes_only_expired_counters() {
    for algorithm in Algorithm::ALL {
        for (short_lived, long_lived) in
            [(1, 0), (0, 1), (1_000, 0), (1_000, 1), (1_000, 1_000), (300, 5_000), (20_000, 2_000)]
        {
            check_sweep(algorithm, short_lived, long_lived);
        }
    }
}

#[test]
fn calls_sweep_expired_counters() {
    let store = MemoryStore::with_bytes(0);
    let (short, long) =
        (limit(Algorithm::Gcra, 5, Micros::from_millis(100)), limit(Algorithm::Gcra, 5, HOUR));
    for number in 0..10_000_u32 {
        charge(&store, &number.to_be_bytes(), &short, 1, NOW);
    }
    for number in 0..1_000_u32 {
        charge(&store, &(100_000 + number).to_be_bytes(), &long, 1, NOW);
    }
    let later = NOW.plus(Micros::from_secs(2));
    // A call sweeps one slot on average. There are some thousand more slots than counters, and the
    // first round begins in the middle of pages.
    for _ in 0..6 {
        for number in 0..10_000_u32 {
            left(&store, &(100_000 + number % 1_000).to_be_bytes(), &long, later);
        }
    }
    assert_eq!(store.len(), 1_000);
}

#[test]
fn removed_counters_free_their_bytes() {
    // Small counters, counters too large for a slot, and logs.
    let limits = [
        limit(Algorithm::FixedWindow, 10, HOUR),
        limit(Algorithm::TokenBucket, MAX_LIMIT - 1, HOUR),
        limit(Algorithm::SlidingWindowLog, 10_000, HOUR),
    ];
    for limit in limits {
        let algorithm = limit.algorithm();
        let store = MemoryStore::with_bytes(0);
        let empty = store.bytes();
        let units = limit.capacity() / 3;
        let charge_all = || {
            for number in 0..1_000_u32 {
                assert!(charge(&store, &number.to_be_bytes(), &limit, units, NOW).is_some());
            }
        };
        let refund_all = || {
            for number in 0..1_000_u32 {
                let subject = number.to_be_bytes();
                let (key, charged_at) = (key(&subject), Some(NOW));
                store.refund_now(&Refund { key, limit: &limit, units, charged_at }, NOW);
            }
        };
        charge_all();
        charge_all();
        refund_all();
        assert_eq!(store.len(), 1_000, "{algorithm}");
        let full = store.bytes();
        assert!(full > empty, "{algorithm}");
        for round in 0..20 {
            charge_all();
            refund_all();
            assert_eq!(store.bytes(), full, "{algorithm}, round {round}");
        }
        (0..1_000_u32).for_each(|number| store.forget(&key(&number.to_be_bytes())));
        assert_eq!(store.len(), 0, "{algorithm}");
        store.sweep(NOW);
        assert_eq!(store.bytes(), empty, "{algorithm}");
    }
}

/// A counter survives a sweep after a refund in the name of another limit, which gives nothing
/// back: a decision made before a policy changed, for example.
#[test]
fn a_refund_under_another_limit_loses_nothing() {
    for algorithm in Algorithm::ALL {
        let counted_in = limit(algorithm, 5, HOUR);
        for other in [
            limit(algorithm, 5, Micros::from_secs(60)),
            limit(algorithm, 0, HOUR),
            limit(Algorithm::ALL[(algorithm as usize + 1) % 6], 5, HOUR),
        ] {
            let store = MemoryStore::with_bytes(0);
            assert_eq!(charge(&store, b"client", &counted_in, 5, NOW), Some(0));
            let refund = Refund { key: key(b"client"), limit: &other, units: 5, charged_at: None };
            store.refund_now(&refund, NOW);
            store.sweep(NOW);
            assert_eq!(
                charge(&store, b"client", &counted_in, 1, NOW),
                None,
                "{algorithm}, {other:?}"
            );
        }
    }
}

/// A rule that is blocked for a while keeps its counters, whatever the clock does meanwhile.
#[test]
fn a_blocked_rule_resets_no_counter() {
    for algorithm in Algorithm::ALL {
        let (open, blocked) = (limit(algorithm, 5, HOUR), limit(algorithm, 0, HOUR));
        let store = MemoryStore::with_bytes(0);
        assert_eq!(charge(&store, b"client", &open, 5, NOW), Some(0));
        let long_ago = NOW.minus(Micros::from_secs(3 * 3_600));
        assert_eq!(charge(&store, b"client", &blocked, 1, long_ago), None);
        store.sweep(long_ago);
        assert_eq!(charge(&store, b"client", &open, 1, long_ago), None, "{algorithm}");
    }
}

/// Subjects whose counters are in the first page of a small store.
fn of_one_page() -> impl Iterator<Item = [u8; 8]> {
    let subjects = (0..u64::MAX).map(u64::to_be_bytes);
    subjects.filter(|subject| key(subject).fingerprint >> 56 == 0)
}

/// Each eviction used to take an eighth of the counters, exhausted ones among them.
#[test]
fn an_exhausted_counter_stays_while_another_can_go() {
    let store = MemoryStore::with_bytes(1 << 20);
    let limit = limit(Algorithm::Gcra, 10, HOUR);
    let exhausted: Vec<_> = of_one_page().take(200).collect();
    for subject in &exhausted {
        assert_eq!(charge(&store, subject, &limit, 10, NOW), Some(0));
    }
    for subject in of_one_page().skip(200).take(1_000) {
        assert_eq!(charge(&store, &subject, &limit, 1, NOW), Some(9));
    }
    assert!(store.evicted() > 900, "{} were evicted", store.evicted());
    assert_eq!(store.evicted_exhausted(), 0);
    for subject in &exhausted {
        assert_eq!(left(&store, subject, &limit, NOW), 0, "{subject:?}");
    }
}

/// The document said that it cannot happen.
#[test]
fn sixty_thousand_exhausted_keys_evict_an_exhausted_client_from_one_mebibyte() {
    let store = MemoryStore::with_bytes(1 << 20);
    let (daily, hourly) = (limit(Algorithm::Gcra, 10, DAY), limit(Algorithm::Gcra, 10, HOUR));
    assert_eq!(charge(&store, b"daily", &daily, 10, NOW), Some(0));
    let fitting = 30_000_u32;
    for subject in (0..60_000_u32).map(u32::to_be_bytes) {
        assert_eq!(charge(&store, &subject, &hourly, 10, NOW), Some(0));
        let number = u32::from_be_bytes(subject);
        assert!(number >= fitting || store.evicted_exhausted() == 0, "evicted by {number} keys");
    }
    assert!(store.evicted_exhausted() > 20_000, "{}", store.evicted_exhausted());
    assert_eq!(store.evicted(), store.evicted_exhausted());
    // The one that is full again last stays.
    assert_eq!(left(&store, b"daily", &daily, NOW), 0);
}

/// Limits kept their places for ever: once there had been some thousands, every counter of a new one took six times the
/// memory.
#[test]
fn limits_that_expired_make_no_later_counter_larger() {
    let bytes_of_new = |store: &MemoryStore, now: Timestamp| {
        let (before, limit) = (store.bytes(), limit(Algorithm::Gcra, 7, HOUR));
        for number in 0..10_000_u32 {
            charge(store, &number.to_be_bytes(), &limit, 1, now);
        }
        store.bytes() - before
    };
    let store = MemoryStore::with_bytes(64 << 20);
    // Overrides of nine thousand clients that are written anew: each counter changes its limit.
    for round in 0..5_u64 {
        for number in 0..9_000_u32 {
            let limit = limit(Algorithm::Gcra, 1_000 + round * 10_000 + u64::from(number), HOUR);
            charge(&store, format!("client {number}").as_bytes(), &limit, 1, NOW);
        }
    }
    // In a table that is half full, some limits find no place.
    let slots = 24 * 9_000;
    assert!(store.bytes() < MemoryStore::with_bytes(64 << 20).bytes() + 2 * slots);
    let later = NOW.plus(DAY);
    store.sweep(later);
    assert_eq!(store.len(), 0);
    let fresh = bytes_of_new(&MemoryStore::with_bytes(64 << 20), later);
    assert_eq!(bytes_of_new(&store, later), fresh);
}
