//! What a deny cache may answer without its store, and what it must not.

mod in_flight;
mod remote_store;
mod same_verdicts;
mod script;

use remote_store::{RemoteStore, at_once};
use script::{MIDNIGHT, Script, check};
use tollgate_core::{
    Algorithm, Charge, ChargeResult, Key, Limit, Micros, Mode, Quota, Report, Timestamp,
};
use tollgate_store::{DenyCache, MemoryStore, SettleRequest, Settlement, Store};

#[test]
fn a_refusal_is_cached_until_it_could_pass() {
    check(&[
        ("0 fast=10", "asked: passed, 0 left"),
        ("0 fast=1", "asked: refused, 0 left"),
        ("0 fast=1", "known: fast, 100000 us"),
        ("99999 fast=1", "known: fast, 1 us"),
        ("100000 fast=1", "asked: passed, 0 left"),
    ]);
}

#[test]
fn a_refusal_is_cached_for_a_second_at_most() {
    check(&[
        ("0 slow=10", "asked: passed, 0 left"),
        ("0 slow=1", "asked: refused, 0 left"),
        ("999999 slow=1", "known: slow, 59000001 us"),
        ("1000000 slow=1", "asked: refused, 0 left"),
        ("1999999 slow=1", "known: slow, 58000001 us"),
        ("2000000 slow=1", "asked: refused, 0 left"),
    ]);
}

#[test]
fn a_charge_that_never_fits_is_cached_for_a_second() {
    check(&[
        ("0 blocked=1", "asked: refused, 0 left"),
        ("999999 blocked=1", "known: blocked, never"),
        ("1000000 blocked=1", "asked: refused, 0 left"),
        ("1000000 slow=11", "asked: refused, 10 left"),
        ("1000000 slow=11", "known: slow, never"),
        ("1000000 slow=10", "asked: passed, 0 left"),
    ]);
}

#[test]
fn a_smaller_cost_is_sent_and_a_larger_one_is_cached() {
    check(&[
        ("0 slow=5", "asked: passed, 5 left"),
        ("0 slow=8", "asked: refused, 5 left"),
        ("0 slow=9", "known: slow, 60000000 us"),
        ("0 slow=11", "known: slow, never"),
        ("0 slow=7", "asked: refused, 5 left"),
        ("0 slow=7", "known: slow, 60000000 us"),
        ("0 slow=5", "asked: passed, 0 left"),
        // The counter has changed, and the figures with it.
        ("0 slow=8", "asked: refused, 0 left"),
        ("0 slow=8", "known: slow, 60000000 us"),
        // Of several costs refused in one batch, the smallest is cached.
        (
            "0 slow=2 | slow=1 | slow=3",
            "asked: refused, 0 left; asked: refused, 0 left; asked: refused, 0 left",
        ),
        ("0 slow=1", "known: slow, 60000000 us"),
    ]);
}

#[test]
fn a_raised_limit_takes_effect_at_once() {
    check(&[
        ("0 slow=10", "asked: passed, 0 left"),
        ("0 slow=1", "asked: refused, 0 left"),
        ("0 slow'=1", "asked: passed, 9 left"),
        ("0 slow=1", "asked: refused, 0 left"),
        ("0 slow'=10", "asked: refused, 9 left"),
        ("0 slow'=10", "known: slow, 60000000 us"),
    ]);
}

#[test]
fn a_clock_that_steps_back_invalidates_the_entry() {
    check(&[
        ("10 slow=10", "asked: passed, 0 left"),
        ("10 slow=1", "asked: refused, 0 left"),
        ("9 slow=1", "asked: refused, 0 left"),
        // The refusal read at the earlier time replaces the cached one.
        ("9 slow=1", "known: slow, 59999991 us"),
        ("10 slow=1", "known: slow, 59999990 us"),
    ]);
}

#[test]
fn a_refund_or_a_reset_of_the_counter_clears_it() {
    for (undo, expected) in [
        ("refund slow=1", "passed, 0 left"),
        ("refund slow'=1", "passed, 0 left"),
        ("refund other=1 slow=1", "passed, 0 left"),
        ("reset slow", "passed, 9 left"),
        ("reset other slow", "passed, 9 left"),
    ] {
        check(&[
            ("0 slow=10", "asked: passed, 0 left"),
            ("0 slow=1", "asked: refused, 0 left"),
            ("0 slow=1", "known: slow, 60000000 us"),
            (&format!("0 {undo}"), "done"),
            ("0 slow=1", &format!("asked: {expected}")),
        ]);
    }
    for undo in ["refund other=1", "reset other"] {
        check(&[
            ("0 slow=10", "asked: passed, 0 left"),
            ("0 slow=1", "asked: refused, 0 left"),
            (&format!("0 {undo}"), "done"),
            ("0 slow=1", "known: slow, 60000000 us"),
        ]);
    }
}

#[test]
fn a_refund_that_fails_may_have_been_made() {
    for (fault, said) in [("down", "unavailable"), ("timeout", "timeout")] {
        for undo in ["0 refund slow=1", "0 reset slow"] {
            check(&[
                ("0 slow=10", "asked: passed, 0 left"),
                ("0 slow=1", "asked: refused, 0 left"),
                (fault, ""),
                (undo, said),
                ("up", ""),
                ("0 slow=1", "asked: refused, 0 left"),
            ]);
        }
    }
}

#[test]
fn only_enforced_charges_are_cached() {
    check(&[
        ("0 slow~11", "asked: passed, 10 left"),
        ("0 slow=11", "asked: refused, 10 left"),
        ("0 slow~11", "asked: passed, 10 left"),
        ("0 slow=11", "asked: refused, 10 left"),
        ("0 slow=0", "asked: passed, 10 left"),
        ("0 slow=11", "known: slow, never"),
        ("0 slow!1", "asked: passed, 9 left"),
    ]);
}

#[test]
fn a_charge_that_fitted_is_not_cached() {
    check(&[
        ("0 slow=10", "asked: passed, 0 left"),
        ("0 other=1 slow=1", "asked: refused, 10 left, 0 left"),
        ("0 other=1 slow=1", "known: slow, 60000000 us"),
        ("0 other=1", "asked: passed, 9 left"),
        ("0 slow=1", "known: slow, 60000000 us"),
    ]);
}

#[test]
fn every_refused_charge_is_cached_and_the_longest_wait_is_reported() {
    check(&[
        ("0 fast=10 slow=10", "asked: passed, 0 left, 0 left"),
        ("0 fast=1 slow=1", "asked: refused, 0 left, 0 left"),
        ("0 fast=1", "known: fast, 100000 us"),
        ("0 slow=1", "known: slow, 60000000 us"),
        ("0 fast=1 slow=1", "known: slow, 60000000 us"),
        ("0 slow=1 fast=1", "known: slow, 60000000 us"),
        ("0 fast=11 slow=1", "known: fast, never"),
        ("0 slow=1 other=1 fast=11", "known: fast, never"),
    ]);
}

/// A debit is charged for a refused request as well.
#[test]
fn a_request_with_a_debit_is_sent() {
    check(&[
        ("0 slow=10", "asked: passed, 0 left"),
        ("0 slow=1", "asked: refused, 0 left"),
        ("0 slow=1 other!3", "asked: refused, 0 left, 7 left"),
        ("0 slow=1 other!0", "known: slow, 60000000 us"),
        ("0 other=0", "asked: passed, 7 left"),
    ]);
}

#[test]
fn a_dry_run_is_sent_and_not_cached() {
    check(&[
        ("0 slow=10", "asked: passed, 0 left"),
        ("0 try slow=1", "asked: refused, 0 left"),
        ("0 try slow=1 other=1", "asked: refused, 0 left, 10 left"),
        ("0 slow=1", "asked: refused, 0 left"),
        ("0 try slow=1", "asked: refused, 0 left"),
        ("0 slow=1", "known: slow, 60000000 us"),
    ]);
}

#[test]
fn a_store_failure_is_not_cached() {
    check(&[
        ("0 slow=10", "asked: passed, 0 left"),
        ("down", ""),
        ("0 slow=1", "unavailable"),
        ("0 slow=1", "unavailable"),
        ("0 slow=1 | slow=1", "unavailable; unavailable"),
        ("up", ""),
        ("0 slow=1", "asked: refused, 0 left"),
        // A cached refusal needs no store.
        ("timeout", ""),
        ("0 slow=1", "known: slow, 60000000 us"),
        ("0 slow=1 | other=1", "known: slow, 60000000 us; timeout"),
    ]);
}

#[test]
fn uncached_requests_of_a_batch_are_sent_and_results_keep_their_order() {
    check(&[
        (
            "0 slow=10 | slow=1 | other=4",
            "asked: passed, 0 left; asked: refused, 0 left; asked: passed, 6 left",
        ),
        (
            "0 other=1 | slow=1 | other=2 | slow=3 | other=8",
            "asked: passed, 5 left; known: slow, 60000000 us; asked: passed, 3 left; \
             known: slow, 60000000 us; asked: refused, 3 left",
        ),
        ("0 slow=1 | other=8", "known: slow, 60000000 us; known: other, 60000000 us"),
        // What comes later in a batch may change what was known before, and what was learnt from it.
        ("0 slow'=1 | slow=1", "asked: passed, 9 left; asked: refused, 0 left"),
        ("0 reset slow", "done"),
        ("0 slow=11 | slow'=1", "asked: refused, 10 left; asked: passed, 19 left"),
        ("0 slow=11", "asked: refused, 9 left"),
    ]);
}

#[test]
fn a_batch_is_one_call_or_none() {
    let mut script = Script::new();
    for (step, calls) in [
        ("0 slow=10 | slow=1 | other=4", 1),
        ("0 slow=1 | other=1 | slow=2 | other=1", 2),
        ("0 slow=1 | slow=2", 2),
    ] {
        script.step(step);
        assert_eq!(script.cache.inner().calls(), calls, "{step}");
    }
}

fn gcra(limit: u64) -> Limit {
    Quota::new(Algorithm::Gcra, limit, Micros::from_secs(10)).compile().expect("a valid quota")
}

fn charge<'a>(fingerprint: u64, limit: &'a Limit, cost: u64) -> Charge<'a> {
    let key = Key { fingerprint, rule: "rule", subject: b"subject", rest: b"", group: 0 };
    Charge { key, limit, cost, mode: Mode::Enforce }
}

/// The clock of the store is a minute ahead, and so are the cached figures.
#[test]
fn cached_figures_advance_with_time() {
    let ahead = Micros::from_secs(60);
    let (cache, limit) = (DenyCache::new(RemoteStore::new(ahead)), gcra(10));
    let settle = |cost, now: Timestamp| {
        at_once(cache.settle(&[charge(0, &limit, 0), charge(1, &limit, cost)], now))
            .expect("a store that answers")
    };
    assert!(settle(8, MIDNIGHT).passed);
    let asked = settle(5, MIDNIGHT);
    assert_eq!((asked.only, asked.results.len()), (None, 2));
    let figures = |retry, reset, next| Report {
        remaining: 2,
        retry_after: Some(Micros::new(retry)),
        reset_after: Micros::new(reset),
        next_after: Some(Micros::new(next)),
        delay: None,
    };
    assert_eq!(asked.results[1].report, figures(3_000_000, 8_000_000, 1_000_000));
    for (since, report) in [
        (0, figures(3_000_000, 8_000_000, 1_000_000)),
        (1, figures(2_999_999, 7_999_999, 999_999)),
        (999_999, figures(2_000_001, 7_000_001, 1)),
    ] {
        let now = MIDNIGHT.plus(Micros::new(since));
        let line = ChargeResult { admitted: false, written: false, report };
        let results = [line].into_iter().collect();
        let expected = Settlement {
            now: now.plus(ahead),
            passed: false,
            results,
            only: Some(1),
            has_held_units: false,
        };
        assert_eq!(settle(5, now), expected, "{since} us later");
    }
}

/// Debits have brought the counter so low that the next unit is far away: it stays ahead of us.
#[test]
fn the_next_unit_is_never_due_already() {
    let (cache, limit) = (DenyCache::new(RemoteStore::new(Micros::ZERO)), gcra(100));
    let settle = |cost, millis| {
        let now = MIDNIGHT.plus(Micros::from_millis(millis));
        let settled = at_once(cache.settle(&[charge(1, &limit, cost)], now));
        settled.expect("a store that answers").results[0].report
    };
    settle(100, 0);
    assert_eq!(settle(50, 0).next_after, Some(Micros::from_millis(100)));
    assert_eq!(settle(50, 99).next_after, Some(Micros::from_millis(1)));
    assert_eq!(settle(50, 500).next_after, Some(Micros::new(1)));
    assert_eq!(settle(50, 500).retry_after, Some(Micros::from_millis(4_500)));
    assert_eq!(cache.hits(), 3);
}

#[test]
fn the_cache_time_can_be_set() {
    let limit = gcra(10);
    for (longest, since, is_known) in [
        (Micros::ZERO, 0, false),
        (Micros::new(1), 0, true),
        (Micros::new(1), 1, false),
        (Micros::from_secs(5), 4_999_999, true),
        (Micros::from_secs(5), 5_000_000, false),
    ] {
        let cache = DenyCache::lasting(RemoteStore::new(Micros::ZERO), longest);
        for now in [MIDNIGHT, MIDNIGHT.plus(Micros::new(since))] {
            let settled = at_once(cache.settle(&[charge(1, &limit, 11)], now));
            assert!(!settled.expect("a store that answers").passed);
        }
        assert_eq!(cache.hits(), u64::from(is_known), "{longest}, {since} us later");
    }
}

/// Two counters may share a slot of the cache, which holds one of them.
#[test]
fn a_newer_refusal_overwrites_an_older_one() {
    let (cache, limit) = (DenyCache::new(RemoteStore::new(Micros::ZERO)), gcra(10));
    let is_known = |fingerprint| {
        let settled = at_once(cache.settle(&[charge(fingerprint, &limit, 11)], MIDNIGHT));
        settled.expect("a store that answers").only.is_some()
    };
    let (first, neighbour, second) = (7, 8, 7 + 16_384);
    let asked = [first, neighbour, second, second, neighbour, first, second];
    let expected = [false, false, false, true, true, false, false];
    assert_eq!(asked.map(is_known), expected);
    at_once(cache.reset(&[charge(first, &limit, 0).key])).expect("a store that answers");
    assert!(is_known(second), "it was the other one that was reset");
    assert_eq!(cache.hits(), 3);
}

#[test]
fn try_settle_uses_the_cache_and_then_the_store() {
    let (cache, limit) = (DenyCache::new(MemoryStore::with_bytes(0)), gcra(10));
    assert!(!cache.is_shared());
    let refused = [charge(1, &limit, 11)];
    at_once(cache.settle(&refused, MIDNIGHT)).expect("a store that answers");
    for charges in [&refused[..], &[charge(1, &limit, 11), charge(2, &limit, 1)]] {
        let mut settlement = Settlement::default();
        assert!(cache.try_settle(&charges.into(), MIDNIGHT, &mut settlement));
        assert!(!settlement.passed && settlement.only == Some(0));
    }
    assert_eq!(cache.hits(), 2);
    let mut settlement = Settlement::default();
    assert!(cache.try_settle(&[charge(2, &limit, 1)][..].into(), MIDNIGHT, &mut settlement));
    assert!(settlement.passed && settlement.results.len() == 1);

    let remote = DenyCache::new(RemoteStore::new(Micros::ZERO));
    assert!(remote.is_shared());
    let request = SettleRequest::from(&refused[..]);
    assert!(!remote.try_settle(&request, MIDNIGHT, &mut Settlement::default()));
    at_once(remote.settle(&refused, MIDNIGHT)).expect("a store that answers");
    assert!(remote.try_settle(&request, MIDNIGHT, &mut Settlement::default()));
}
