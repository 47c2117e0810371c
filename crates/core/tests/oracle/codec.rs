//! The text of a state is a contract between stores: it round trips, it is pinned, and nothing that
//! is not such a text is taken for one.

use proptest::prelude::*;
use tollgate_core::{Algorithm, MalformedState, Micros, Quota, State, Timestamp};

use crate::draw::Action::{self, Ask, Change, Debit};
use crate::draw::{Menu, Trace, config, for_every_algorithm};
use crate::replay::Counter;

#[test]
fn every_reachable_state_round_trips() {
    for_every_algorithm(200, Menu::EVERYTHING, |trace| {
        let mut counter = Counter::new(trace);
        for step in &trace.steps {
            counter.turn(step.clock);
            counter.limit.correct_clock_skew(&mut counter.state, counter.now);
            counter.act(step.action);
            if let Some(state) = &counter.state {
                let text = state.to_string();
                prop_assert_eq!(text.parse(), Ok(state.clone()), "{}", text);
            }
        }
        Ok(())
    });
}

proptest! {
    #![proptest_config(config(4_000))]

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC*") {
        let _ = text.parse::<State>();
    }

    /// A text that parses is parsed to the same state when written again.
    #[test]
    fn a_text_that_parses_settles(
        tag in prop::sample::select(vec!["t", "l", "g", "f", "c", "s"]),
        fields in prop::collection::vec("[0-9]{0,6}[=,]?[0-9]{0,21}", 0..7),
    ) {
        let text = format!("{tag}:{}", fields.join(":"));
        if let Ok(state) = text.parse::<State>() {
            let again = state.to_string();
            prop_assert_eq!(again.parse(), Ok(state), "{} became {}", text, again);
        }
    }
}

/// Plays a story, in microseconds, and compares the text of the state.
#[track_caller]
fn check(quota: Quota, story: &[(u64, Action)], expected: &str) {
    let mut counter = Counter::new(&Trace { quota, start: 0, steps: Vec::new() });
    for (at, action) in story {
        counter.now = Timestamp::from_micros(*at);
        counter.act(*action);
    }
    let text = counter.state.map(|state| state.to_string());
    assert_eq!(text.as_deref(), Some(expected), "{story:?}");
}

fn a_second(algorithm: Algorithm, limit: u64) -> Quota {
    Quota::new(algorithm, limit, Micros::from_secs(1))
}

#[test]
fn texts_of_buckets_are_pinned() {
    let bucket = |limit| a_second(Algorithm::TokenBucket, limit);
    check(bucket(7), &[(0, Ask(4))], "t:7:1000000:4:0:0");
    // A third of a second later, 4 units less 2333331/1000000, and one more.
    check(bucket(7), &[(0, Ask(4)), (333_333, Ask(1))], "t:7:1000000:2:666669:333333");
    // A fraction is written in parts of the window, although the kernel counts in larger ones.
    check(bucket(500), &[(0, Ask(9)), (1, Ask(1))], "t:500:1000000:9:999500:1");
    check(bucket(5), &[(9, Debit(99))], "t:5:1000000:10:0:9");
    check(bucket(5), &[(9, Ask(1)), (10, refund(1))], "t:5:1000000:0:0:9");
    // Written under the limit that was in force.
    check(bucket(100), &[(0, Ask(60)), (0, Change(bucket(200)))], "t:100:1000000:60:0:0");
    check(
        bucket(100),
        &[(0, Ask(60)), (0, Change(bucket(200))), (0, Ask(1))],
        "t:200:1000000:61:0:0",
    );
    check(a_second(Algorithm::LeakyBucket, 5), &[(1, Ask(5))], "l:5:1000000:5:0:1");
    check(a_second(Algorithm::Gcra, 5), &[(9, Ask(1)), (10, Ask(1))], "g:5:1000000:1:999995:10");
}

#[test]
fn texts_of_windows_and_logs_are_pinned() {
    let fixed = a_second(Algorithm::FixedWindow, 5);
    check(fixed, &[(2_500_000, Ask(3))], "f:1000000:2500000:3");
    check(fixed, &[(0, Ask(3)), (1_000_000, Ask(2))], "f:1000000:1000000:2");
    let sliding = a_second(Algorithm::SlidingWindowCounter, 5);
    check(sliding, &[(7, Ask(3))], "c:1000000:7:3:0");
    check(sliding, &[(7, Ask(3)), (1_500_000, Ask(2))], "c:1000000:1500000:2:3");
    let log = a_second(Algorithm::SlidingWindowLog, 5);
    check(log, &[(7, Ask(1)), (999, Ask(1)), (1_000, Ask(2))], "s:1000000:999=2,1000=2");
    check(log, &[(7, Ask(1)), (1_000_007, Ask(2))], "s:1000000:1000007=2");
    check(log, &[(7, Ask(1)), (8, refund(1))], "s:1000000:");
}

const fn refund(units: u64) -> Action {
    Action::Refund { units, tied: None, under: None }
}

#[test]
fn malformed_texts_are_refused() {
    let cases = [
        "",
        ":",
        "t",
        "t:",
        "x:5:1000000:0:0:0",
        "tt:5:1000000:0:0:0",
        "T:5:1000000:0:0:0",
        " t:5:1000000:0:0:0",
        "t:5:1000000:0:0:0 ",
        "t:5:1000000:0:0:0\n",
        // Fields missing, empty, left over.
        "t:5:1000000:0:0",
        "t:5:1000000:0:0:",
        "t:5:1000000:0:0:0:",
        "t:5:1000000:0:0:0:0",
        "f:1000000:0",
        "f:1000000:0:1:0",
        "c:1000000:0:1",
        "c:1000000:0:1:0:0",
        "s:1000000",
        "s:1000000:1=1:",
        // Not whole numbers of 64 bits.
        "t:-5:1000000:0:0:0",
        "t:+5:1000000:0:0:0",
        "t:5:1000000:0.5:0:0",
        "t:5:1000000:0:0:1e3",
        "t:5:1000000:0x1:0:0",
        "t:5:1000000:18446744073709551616:0:0",
        "t:5:1000000:\u{0665}:0:0",
        // Windows out of bounds.
        "t:5:0:0:0:0",
        "t:5:999:0:0:0",
        "t:5:31622400000001:0:0:0",
        "f:999:0:1",
        "s:0:",
        // Logs out of order, or with more than a counter holds.
        "s:1000000:1",
        "s:1000000:=1",
        "s:1000000:1=",
        "s:1000000:1=1=1",
        "s:1000000:,",
        "s:1000000:1=1,,2=1",
        "s:1000000:2=1,1=1",
        "s:1000000:1=18446744073709551615,2=1",
    ];
    for text in cases {
        assert_eq!(text.parse::<State>(), Err(MalformedState), "{text:?}");
    }
}
