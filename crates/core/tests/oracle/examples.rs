//! Stories with known endings: the mistakes other limiters made, and the cases worth reading.

use tollgate_core::{Algorithm, MAX_LIMIT, Micros, Quota, Timestamp};

use crate::draw::Action::{self, Ask, Change, Debit};
use crate::draw::Trace;
use crate::replay::{Counter, compiled};

const MS: u64 = 1_000;
const S: u64 = 1_000 * MS;
const BUCKETS: [Algorithm; 3] = [Algorithm::TokenBucket, Algorithm::LeakyBucket, Algorithm::Gcra];

fn per(limit: u64, window: u64) -> impl Fn(Algorithm) -> Quota {
    move |algorithm| Quota::new(algorithm, limit, Micros::new(window))
}

const fn refund(units: u64) -> Action {
    Action::Refund { units, tied: None, under: None }
}

/// Refunds what was charged so many charges ago.
const fn refund_to(ago: usize, units: u64) -> Action {
    Action::Refund { units, tied: Some(ago), under: None }
}

/// Plays a story and compares every answer: the moment in microseconds, what happens, what is said.
#[track_caller]
fn check(quota: Quota, story: &[(u64, Action, &str)]) {
    let mut counter = Counter::new(&Trace { quota, start: 0, steps: Vec::new() });
    for (number, (at, action, expected)) in story.iter().enumerate() {
        counter.now = Timestamp::from_micros(*at);
        let said = say(&mut counter, *action);
        assert_eq!(said, *expected, "{}, line {number}: {action:?} at {at}", quota.algorithm);
    }
}

#[track_caller]
fn check_all(
    algorithms: &[Algorithm],
    quota: impl Fn(Algorithm) -> Quota,
    story: &[(u64, Action, &str)],
) {
    algorithms.iter().for_each(|algorithm| check(quota(*algorithm), story));
}

fn say(counter: &mut Counter, action: Action) -> String {
    let Ask(cost) = action else {
        counter.act(action);
        return format!("{} left", counter.ask(0).1.remaining);
    };
    let (admitted, report) = counter.ask(cost);
    let left = report.remaining;
    match (admitted, report.retry_after, report.delay) {
        (true, _, Some(delay)) if delay > Micros::ZERO => {
            format!("yes, {left} left, wait {} us", delay.get())
        }
        (true, ..) => format!("yes, {left} left"),
        (false, Some(wait), _) => format!("no, {left} left, retry in {} us", wait.get()),
        (false, None, _) => format!("no, {left} left, never"),
    }
}

#[test]
fn an_idle_bucket_refills_to_its_capacity_and_no_further() {
    for algorithm in BUCKETS {
        let quota = per(10, 10 * S)(algorithm);
        let mut counter = Counter::new(&Trace { quota, start: 0, steps: Vec::new() });
        assert_eq!((0..20).filter(|_| counter.ask(1).0).count(), 10, "{algorithm}, fresh");
        counter.now = Timestamp::from_millis(17_900);
        assert_eq!((0..20).filter(|_| counter.ask(1).0).count(), 10, "{algorithm}, after idling");
    }
}

#[test]
fn a_raised_limit_counts_at_once() {
    let raised = |algorithm| Change(per(200, 3_600 * S)(algorithm));
    for algorithm in Algorithm::ALL {
        check(
            per(100, 3_600 * S)(algorithm),
            &[(0, Ask(60), "yes, 40 left"), (0, raised(algorithm), "140 left")],
        );
    }
}

#[test]
fn a_cut_limit_refuses_until_usage_is_below_it() {
    let cases = [
        (Algorithm::FixedWindow, 100 * S, "yes, 99 left"),
        (Algorithm::SlidingWindowLog, 100 * S, "yes, 99 left"),
        (Algorithm::SlidingWindowCounter, 134 * S, "yes, 0 left"),
        (Algorithm::TokenBucket, 25_500 * MS, "yes, 0 left"),
        (Algorithm::LeakyBucket, 25_500 * MS, "yes, 0 left, wait 99000000 us"),
        (Algorithm::Gcra, 25_500 * MS, "yes, 0 left"),
    ];
    for (algorithm, retry, then) in cases {
        check(
            per(200, 100 * S)(algorithm),
            &[
                (0, Ask(150), "yes, 50 left"),
                (0, Change(per(100, 100 * S)(algorithm)), "0 left"),
                (0, Ask(1), &format!("no, 0 left, retry in {retry} us")),
                (retry - 1, Ask(1), "no, 0 left, retry in 1 us"),
                (retry, Ask(1), then),
            ],
        );
    }
}

#[test]
fn a_cut_bucket_drains_at_the_old_pace_until_the_next_admission() {
    let (fast, slow) = (per(10, 10 * S), per(2, 10 * S));
    for algorithm in [Algorithm::TokenBucket, Algorithm::Gcra] {
        let slow = Change(slow(algorithm).with_burst(10));
        check(
            fast(algorithm),
            &[
                (0, Ask(8), "yes, 2 left"),
                // 5.5 units are used: a peek changes nothing, a charge rounds up.
                (2_500 * MS, slow, "4 left"),
                (2_500 * MS, Ask(4), "yes, 0 left"),
                // From here on 0.2 units a second leave.
                (2_500 * MS, Ask(1), "no, 0 left, retry in 5000000 us"),
                (7_500 * MS, Ask(1), "yes, 0 left"),
            ],
        );
    }
}

#[test]
fn another_window_or_algorithm_is_another_counter() {
    for algorithm in Algorithm::ALL {
        let (here, there) = (per(10, 10 * S)(algorithm), per(10, 20 * S)(algorithm));
        check(
            here,
            &[
                (0, Ask(9), "yes, 1 left"),
                (0, Change(there), "10 left"),
                // A refund meant for the other counter must not wipe out this one.
                (0, refund(1), "10 left"),
                (0, Change(here), "1 left"),
                (0, Change(there), "10 left"),
                (0, Ask(1), "yes, 9 left"),
                (0, Change(here), "10 left"),
            ],
        );
    }
}

#[test]
fn only_a_matching_state_is_corrected() {
    for algorithm in Algorithm::ALL {
        let (here, there) = (per(10, 10 * S)(algorithm), per(10, S)(algorithm));
        let mut counter = Counter::new(&Trace { quota: here, start: 100 * S, steps: Vec::new() });
        counter.ask(1);
        let mut is_corrected = |quota, ago: u64| {
            compiled(quota)
                .correct_clock_skew(&mut counter.state, Timestamp::from_micros(100 * S - ago))
        };
        assert!(!is_corrected(there, 30 * S), "{algorithm}, of another window");
        let skew_tolerance = if algorithm.is_bucket() { 10 * S } else { 20 * S };
        assert!(!is_corrected(here, skew_tolerance), "{algorithm}, not far enough");
        assert!(is_corrected(here, skew_tolerance + 1), "{algorithm}");
    }
}

/// A thread that was interrupted after it read the clock was taken for a clock set back, by limits that
/// are full again within milliseconds.
#[test]
fn a_thread_that_is_late_by_less_than_a_second_is_given_nothing() {
    for algorithm in Algorithm::ALL {
        let quota = per(10, S / 1_000)(algorithm);
        let mut counter = Counter::new(&Trace { quota, start: 100 * S, steps: Vec::new() });
        counter.ask(10);
        let mut is_corrected = |ago: u64| {
            compiled(quota)
                .correct_clock_skew(&mut counter.state, Timestamp::from_micros(100 * S - ago))
        };
        assert!(!is_corrected(S), "{algorithm}");
        assert!(is_corrected(S + 1), "{algorithm}");
    }
}

#[test]
fn debits_go_below_zero_and_stop_there() {
    check_all(
        &Algorithm::ALL,
        per(10, 10 * S),
        &[
            (0, Ask(4), "yes, 6 left"),
            (0, Debit(3), "3 left"),
            (0, Debit(5), "0 left"),
            (0, refund(2), "0 left"),
            (0, refund(1), "1 left"),
            (0, Debit(u64::MAX), "0 left"),
            (0, refund(9), "0 left"),
            (0, refund(2), "1 left"),
            (0, refund(u64::MAX), "10 left"),
            (0, Ask(11), "no, 10 left, never"),
        ],
    );
    check_all(
        &BUCKETS,
        per(10, 10 * S),
        &[(0, Debit(30), "0 left"), (0, Ask(1), "no, 0 left, retry in 11000000 us")],
    );
}

/// The refund of a charge under an earlier limit rewrote the debt in that limit, and with it the rate.
#[test]
fn a_refund_of_a_charge_before_a_lowered_limit_keeps_the_rate() {
    let (high, low) = (per(1_000, 1_000 * S), per(10, 1_000 * S));
    for algorithm in BUCKETS {
        let before = Action::Refund { units: 1, tied: Some(1), under: Some(high(algorithm)) };
        let retry = "no, 6 left, retry in 100000000 us";
        check(
            high(algorithm),
            &[
                (0, Ask(1), "yes, 999 left"),
                (0, Change(low(algorithm)), "9 left"),
                (0, Debit(5), "4 left"),
                (0, before, "5 left"),
                (100 * S, Ask(0), "yes, 6 left"),
                (100 * S, Ask(7), retry),
            ],
        );
    }
}

#[test]
fn a_tied_refund_goes_where_the_charge_went() {
    let quota = per(10, 10 * S);
    check(
        quota(Algorithm::FixedWindow),
        &[
            (9 * S, Ask(4), "yes, 6 left"),
            (11 * S, Ask(5), "yes, 5 left"),
            (11 * S, refund_to(1, 4), "5 left"),
            (11 * S, refund_to(0, 4), "9 left"),
        ],
    );
    check(
        quota(Algorithm::SlidingWindowCounter),
        &[
            (9 * S, Ask(4), "yes, 6 left"),
            (10 * S, Ask(5), "yes, 1 left"),
            (10 * S, refund_to(1, 3), "4 left"),
            (20 * S, refund_to(1, 1), "5 left"),
            (20 * S, refund(5), "5 left"),
        ],
    );
    check(
        quota(Algorithm::SlidingWindowLog),
        &[
            (S, Ask(4), "yes, 6 left"),
            (2 * S, Ask(5), "yes, 1 left"),
            (2 * S, refund_to(1, 100), "5 left"),
            (11 * S, Ask(0), "yes, 5 left"),
            (12 * S, Ask(0), "yes, 10 left"),
        ],
    );
}

#[test]
fn a_log_frees_a_millisecond_with_its_last_admission() {
    check(
        per(3, S)(Algorithm::SlidingWindowLog),
        &[
            (100, Ask(1), "yes, 2 left"),
            (900, Ask(1), "yes, 1 left"),
            (1_000, Ask(1), "yes, 0 left"),
            (S + 899, Ask(1), "no, 0 left, retry in 1 us"),
            (S + 900, Ask(1), "yes, 1 left"),
        ],
    );
}

#[test]
fn a_queue_is_served_evenly() {
    check(
        per(3, S)(Algorithm::LeakyBucket),
        &[
            (0, Ask(1), "yes, 2 left"),
            (0, Ask(1), "yes, 1 left, wait 333334 us"),
            (0, Ask(1), "yes, 0 left, wait 666667 us"),
            (0, Ask(1), "no, 0 left, retry in 333334 us"),
            (0, Ask(0), "yes, 0 left"),
        ],
    );
}

#[test]
fn a_throttled_bucket_delays_what_it_cannot_serve_at_once() {
    let throttled = |limit| {
        move |algorithm| Quota {
            max_delay: Micros::from_secs(2),
            ..per(limit, S)(algorithm).with_burst(1)
        }
    };
    let story = [
        (0, Ask(1), "yes, 0 left"),
        (0, Ask(1), "yes, 0 left, wait 1000000 us"),
        (0, Ask(1), "yes, 0 left, wait 2000000 us"),
        (0, Ask(1), "no, 0 left, retry in 1000000 us"),
        // A cost of zero never waits.
        (0, Ask(0), "yes, 0 left"),
    ];
    check_all(&[Algorithm::TokenBucket, Algorithm::Gcra], throttled(1), &story);
    // Under a lowered limit, no wait is longer than the limit allows.
    for algorithm in [Algorithm::TokenBucket, Algorithm::Gcra] {
        let cut = [
            (0, Ask(100), "yes, 0 left, wait 990000 us"),
            (0, Change(throttled(1)(algorithm)), "0 left"),
            (0, Ask(1), "no, 0 left, retry in 980000 us"),
            (980 * MS, Ask(1), "yes, 0 left, wait 2000000 us"),
        ];
        check(throttled(100)(algorithm), &cut);
    }
}

#[test]
fn a_limit_of_zero_blocks() {
    check_all(
        &Algorithm::ALL,
        per(0, S),
        &[
            (0, Ask(0), "yes, 0 left"),
            (0, Ask(1), "no, 0 left, never"),
            (0, Debit(1), "0 left"),
            (0, refund(1), "0 left"),
        ],
    );
}

#[test]
fn a_scaled_limit_is_the_limit_so_many_times() {
    for algorithm in Algorithm::ALL {
        let times = |factor: u64| {
            let quota = Quota { grace: 3, ..per(10 * factor, S)(algorithm) };
            if algorithm.is_bucket() {
                let quota = Quota { max_delay: Micros::from_secs(2), ..quota };
                compiled(quota.with_burst(7 * factor))
            } else {
                compiled(quota)
            }
        };
        assert_eq!(times(1).scaled(1), times(1), "{algorithm}");
        assert_eq!(times(1).scaled(3), times(3), "{algorithm}");
        let largest = times(1 << 59).scaled(u32::MAX);
        assert_eq!((largest.limit(), largest.capacity()), (MAX_LIMIT, MAX_LIMIT), "{algorithm}");
        let blocked = compiled(per(0, S)(algorithm));
        assert_eq!(blocked.scaled(5), blocked, "{algorithm}");
    }
}
