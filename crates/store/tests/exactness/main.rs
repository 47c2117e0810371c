//! Under threads a limit admits exactly what it says, over all rules of a request or none.

use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::Barrier;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tollgate_core::{Algorithm, Charge, Key, Limit, Micros, Mode, Quota, Timestamp};
use tollgate_store::MemoryStore;

/// Nothing refills while a test runs: the time is an argument.
const NOW: Timestamp = Timestamp::from_secs(1_700_000_000);
/// Half of the rounds with few threads, half with many.
const ROUNDS: u64 = 100;
const THREADS: [usize; 2] = [4, 16];
/// No test here takes a second; one that hangs is a deadlock.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

fn key<'a>(rule: &'a str, subject: &'a [u8]) -> Key<'a> {
    Key::new(&BuildHasherDefault::<DefaultHasher>::default(), rule, subject, b"")
}

fn limit(algorithm: Algorithm, limit: u64) -> Limit {
    Quota::new(algorithm, limit, Micros::from_secs(3_600)).compile().expect("a valid quota")
}

/// One unit of a counter, enforced.
fn one<'a>(key: Key<'a>, limit: &'a Limit) -> Charge<'a> {
    Charge { key, limit, cost: 1, mode: Mode::Enforce }
}

/// Runs `work` in so many threads at once and collects what they return.
fn together<T: Send>(threads: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let start = Barrier::new(threads);
    let (start, work) = (&start, &work);
    thread::scope(|scope| {
        let spawn = |number| {
            scope.spawn(move || {
                start.wait();
                work(number)
            })
        };
        let running: Vec<_> = (0..threads).map(spawn).collect();
        running.into_iter().map(|thread| thread.join().expect("a thread that ends")).collect()
    })
}

/// Fails if `test` has not ended after a generous timeout.
fn without_deadlock(test: impl FnOnce() + Send + 'static) {
    let (ended, end) = mpsc::channel();
    let running = thread::spawn(move || {
        test();
        ended.send(()).expect("a receiver");
    });
    match end.recv_timeout(TEST_TIMEOUT) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("the threads wait for each other"),
        Ok(()) | Err(mpsc::RecvTimeoutError::Disconnected) => {}
    }
    running.join().expect("a test that passes");
}

fn used(store: &MemoryStore, key: Key<'_>, limit: &Limit) -> u64 {
    let look = Charge { cost: 0, ..one(key, limit) };
    limit.capacity() - store.settle_now(&[look], NOW).results[0].report.remaining
}

/// Every thread charges all of a limit; together they get it once.
fn check_one_limit(algorithm: Algorithm, costs: &[u64]) {
    let (store, limit) = (MemoryStore::with_bytes(0), limit(algorithm, 100));
    for threads in THREADS {
        for round in 0..ROUNDS / 2 {
            let subject = format!("{threads} threads, {round}, {costs:?}");
            let key = key("limit", subject.as_bytes());
            let admitted: Vec<u64> = together(threads, |number| {
                // What is left when the larger costs no longer fit is asked for one by one.
                let mixed = costs.iter().cycle().skip(number).take(40);
                let costs = mixed.copied().chain([1; 100]);
                let charges = costs.map(|cost| Charge { cost, ..one(key, &limit) });
                charges
                    .filter(|charge| store.settle_now(&[*charge], NOW).passed)
                    .map(|charge| charge.cost)
                    .sum()
            });
            assert_eq!(admitted.iter().sum::<u64>(), limit.limit(), "{algorithm}, {subject}");
            assert_eq!(used(&store, key, &limit), limit.limit(), "{algorithm}, {subject}");
        }
    }
}

#[test]
fn threads_share_a_limit_exactly() {
    for algorithm in Algorithm::ALL {
        check_one_limit(algorithm, &[1]);
        check_one_limit(algorithm, &[1, 2, 3, 5, 8]);
    }
}

/// Threads charge two rules in opposite orders, and now and then the first one alone. What passed
/// is what was counted, in both rules.
fn check_two_rules(rules: [(Algorithm, u64); 2]) {
    let store = MemoryStore::with_bytes(0);
    let limits = rules.map(|(algorithm, units)| limit(algorithm, units));
    for threads in THREADS {
        for round in 0..ROUNDS / 2 {
            let subject = format!("{threads} threads, {round}");
            let keys = [key("first", subject.as_bytes()), key("second", subject.as_bytes())];
            let charges = [one(keys[0], &limits[0]), one(keys[1], &limits[1])];
            let turned = [charges[1], charges[0]];
            let passes = |charges: &[Charge<'_>]| u64::from(store.settle_now(charges, NOW).passed);
            let admitted = together(threads, |number| {
                let order = if number % 2 == 0 { &charges } else { &turned };
                let both: u64 = (0..20).map(|_| passes(order)).sum();
                let alone: u64 = (0..5).map(|_| passes(&charges[..1])).sum();
                (both, alone, (0..20).map(|_| passes(order)).sum::<u64>())
            });
            let both: u64 = admitted.iter().map(|(before, _, after)| before + after).sum();
            let alone: u64 = admitted.iter().map(|(_, alone, _)| alone).sum();
            let counted = [both + alone, both];
            let context = format!("{rules:?}, {subject}");
            for ((key, limit), counted) in keys.into_iter().zip(&limits).zip(counted) {
                assert!(counted <= limit.limit(), "{context}: {counted} were admitted");
                assert_eq!(used(&store, key, limit), counted, "{context}");
            }
            let is_full = (0..2).any(|rule| counted[rule] == limits[rule].limit());
            assert!(is_full, "{context}: only {counted:?} of a larger demand");
        }
    }
}

#[test]
fn opposite_orders_neither_deadlock_nor_leave_a_trace() {
    without_deadlock(|| {
        for (number, first) in Algorithm::ALL.into_iter().enumerate() {
            let second = Algorithm::ALL[(number + 1) % Algorithm::ALL.len()];
            check_two_rules([(first, 60), (second, 90)]);
            check_two_rules([(first, 90), (second, 60)]);
        }
    });
}
