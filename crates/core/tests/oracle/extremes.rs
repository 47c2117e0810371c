//! Any sequence of operations on any state with any numbers: nothing panics, nothing overflows
//! (tests are built with overflow checks), and the figures stay within their bounds.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use tollgate_core::{
    Algorithm, Limit, MAX_LIMIT, MAX_WINDOW, MIN_WINDOW, Micros, Quota, State, Timestamp,
};

use crate::draw::config;

/// Numbers at which integers break, and any other.
fn number() -> impl Strategy<Value = u64> {
    let edges = [0, 1, 2, 999, 1_000, u64::from(u32::MAX), 1 << 53, MAX_LIMIT];
    prop_oneof![
        2 => select(edges.to_vec()),
        1 => Just(u64::MAX),
        1 => (0..10_000_u64).prop_map(|before| u64::MAX - before),
        1 => any::<u64>(),
    ]
}

fn limit() -> impl Strategy<Value = Limit> {
    let window = select(vec![
        MIN_WINDOW.get(),
        MIN_WINDOW.get() + 1,
        999_983,
        MAX_WINDOW.get() - 1,
        MAX_WINDOW.get(),
    ]);
    let algorithm = select(Algorithm::ALL.to_vec());
    let burst = prop::option::of(number());
    (algorithm, number(), window, burst, number(), number()).prop_map(
        |(algorithm, limit, window, burst, grace, delay)| {
            let is_bucket = algorithm.is_bucket();
            let delay = if is_bucket { delay.min(MAX_WINDOW.get()) } else { 0 };
            Quota {
                algorithm,
                limit: limit.min(MAX_LIMIT),
                window: Micros::new(window),
                burst: burst.filter(|_| is_bucket).map(|burst| burst.clamp(1, MAX_LIMIT)),
                grace: grace.min(MAX_LIMIT),
                max_delay: Micros::new(delay),
                calendar: None,
            }
            .compile()
            .expect("a quota within bounds")
        },
    )
}

/// States no trace leads to, as a broken or hostile store could hand them out.
fn state() -> impl Strategy<Value = Option<State>> {
    let window = select(vec![MIN_WINDOW.get(), 999_983, MAX_WINDOW.get()]);
    let numbers = prop::array::uniform4(number());
    (select(vec!['t', 'l', 'g', 'f', 'c', 's', '-']), window, numbers).prop_map(
        |(tag, window, [a, b, c, d])| {
            let text = match tag {
                't' | 'l' | 'g' => format!("{tag}:{a}:{window}:{b}:{c}:{d}"),
                'f' => format!("f:{window}:{a}:{b}"),
                'c' => format!("c:{window}:{a}:{b}:{c}"),
                _ => format!("{tag}:{window}:{}={c},{}={d}", a.min(b), a.max(b)),
            };
            text.parse().ok()
        },
    )
}

#[derive(Clone, Copy, Debug)]
enum Operation {
    Heal,
    Charge(u64),
    Debit(u64),
    Refund(u64, Option<u64>),
    Scale(u32),
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        Just(Operation::Heal),
        number().prop_map(Operation::Charge),
        number().prop_map(Operation::Debit),
        (number(), prop::option::of(number())).prop_map(|(units, at)| Operation::Refund(units, at)),
        any::<u32>().prop_map(Operation::Scale),
    ]
}

proptest! {
    #![proptest_config(config(20_000))]

    #[test]
    fn extreme_inputs_do_not_panic(
        mut limit in limit(),
        mut state in state(),
        steps in vec((operation(), number(), number()), 1..12),
    ) {
        for (operation, now, cost) in steps {
            let now = Timestamp::from_micros(now);
            match operation {
                Operation::Heal => {
                    limit.correct_clock_skew(&mut state, now);
                }
                // Without asking whether it fits.
                Operation::Charge(cost) => limit.charge(&mut state, now, cost),
                Operation::Debit(cost) => limit.debit(&mut state, now, cost),
                Operation::Refund(units, at) => {
                    limit.refund(&mut state, now, units, at.map(Timestamp::from_micros));
                }
                Operation::Scale(factor) => limit = limit.scaled(factor),
            }
            let fits = limit.fits(state.as_ref(), now, cost);
            let report = limit.report(state.as_ref(), now, cost, fits);
            prop_assert!(report.remaining <= limit.capacity());
            prop_assert_eq!(report.retry_after == Some(Micros::ZERO), fits);
            // A caller that got the verdict wrong gets wrong figures, but gets them.
            let wrong = limit.report(state.as_ref(), now, cost, !fits);
            prop_assert_eq!(wrong.remaining, report.remaining);
            if let Some(state) = &state {
                let (_, reset_after) = limit.standing(state, now);
                prop_assert_eq!(limit.is_idle(state, now), reset_after == Micros::ZERO);
                prop_assert!(!state.to_string().is_empty());
            }
        }
    }
}
