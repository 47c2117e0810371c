//! All or nothing: several charges settle as one, each judged as if it were alone.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use tollgate_core::{
    Algorithm, Charge, ChargeResult, Key, Limit, Micros, Mode, PackedState, Quota, State,
    Timestamp, settle,
};

use crate::draw::{Action, Menu, Trace, config, for_every_algorithm, trace};
use crate::replay::{Counter, compiled};

/// One charge on a counter that has a past.
#[derive(Clone, Debug)]
struct Item {
    limit: Limit,
    state: Option<State>,
    cost: u64,
    mode: Mode,
}

/// What a settlement amounts to.
#[derive(Debug, PartialEq)]
struct Settled {
    passed: bool,
    states: Vec<Option<State>>,
    lines: Vec<ChargeResult>,
}

fn charge(item: &Item) -> Charge<'_> {
    let key = Key { fingerprint: 0, rule: "rule", subject: b"subject", rest: b"", group: 0 };
    Charge { key, limit: &item.limit, cost: item.cost, mode: item.mode }
}

fn settled(items: &[Item], now: Timestamp) -> Settled {
    let charges: Vec<_> = items.iter().map(charge).collect();
    let mut states: Vec<_> = items.iter().map(|item| item.state.clone()).collect();
    let mut lines = vec![ChargeResult::default(); items.len()];
    let passed = settle(&charges, &mut states, now, &mut lines);
    Settled { passed, states, lines }
}

/// The expected settlement, from the definition of the modes and one charge at a time.
fn expected(items: &[Item], now: Timestamp) -> Settled {
    let mut states: Vec<_> = items.iter().map(|item| item.state.clone()).collect();
    let is_corrected: Vec<bool> = items
        .iter()
        .zip(&mut states)
        .map(|(item, state)| item.limit.correct_clock_skew(state, now))
        .collect();
    let fits: Vec<bool> = items
        .iter()
        .zip(&states)
        .map(|(item, state)| item.limit.fits(state.as_ref(), now, item.cost))
        .collect();
    let passed = items.iter().zip(&fits).all(|(item, fits)| item.mode != Mode::Enforce || *fits);
    let mut lines = Vec::new();
    for (number, Item { limit, cost, mode, .. }) in items.iter().enumerate() {
        let state = &mut states[number];
        // A blocked counter has nothing to write.
        let countable = *cost > 0 && limit.limit() > 0;
        let taken = countable
            && match mode {
                Mode::Enforce | Mode::Shadow => passed && fits[number],
                Mode::Debit => true,
            };
        match mode {
            _ if !taken => {}
            Mode::Enforce | Mode::Shadow => limit.charge(state, now, *cost),
            Mode::Debit => limit.debit(state, now, *cost),
        }
        let admitted = *mode == Mode::Debit || fits[number];
        let report = limit.report(state.as_ref(), now, *cost, admitted);
        lines.push(ChargeResult { admitted, written: is_corrected[number] || taken, report });
    }
    Settled { passed, states, lines }
}

fn modes() -> impl Strategy<Value = Mode> {
    prop_oneof![3 => Just(Mode::Enforce), 1 => Just(Mode::Shadow), 1 => Just(Mode::Debit)]
}

/// Several counters with different pasts, seen at a moment when one of them was just used. The
/// last request of each trace is the charge.
fn bills() -> impl Strategy<Value = (Vec<Item>, Timestamp)> {
    let pasts = vec(
        select(Algorithm::ALL.to_vec())
            .prop_flat_map(|algorithm| trace(algorithm, Menu::EVERYTHING)),
        1..=5,
    );
    (pasts, vec(modes(), 5), any::<prop::sample::Index>()).prop_map(|(pasts, modes, present)| {
        let start = pasts[0].start;
        let (items, clocks): (Vec<_>, Vec<_>) = pasts
            .into_iter()
            .zip(modes)
            .map(|(past, mode)| {
                let mut counter = Counter::new(&Trace { start, ..past.clone() });
                for step in &past.steps {
                    counter.turn(step.clock);
                    counter.act(step.action);
                }
                let cost = past.steps.iter().rev().find_map(|step| match step.action {
                    Action::Ask(cost) => Some(cost),
                    _ => None,
                });
                let Counter { limit, state, now, .. } = counter;
                (Item { limit, state, cost: cost.unwrap_or(1), mode }, now)
            })
            .unzip();
        (items, clocks[present.index(clocks.len())])
    })
}

fn texts<'a>(states: impl IntoIterator<Item = &'a Option<State>>) -> Vec<Option<String>> {
    states.into_iter().map(|state| state.as_ref().map(State::to_string)).collect()
}

proptest! {
    #![proptest_config(config(1_500))]

    #[test]
    fn all_or_nothing((items, now) in bills()) {
        let settled = settled(&items, now);
        prop_assert_eq!(&settled, &expected(&items, now));
        let before = texts(items.iter().map(|item| &item.state));
        let after = texts(&settled.states);
        for (number, item) in items.iter().enumerate() {
            let (line, changed) = (&settled.lines[number], before[number] != after[number]);
            // A debit that finds the bottom reached writes what was there.
            prop_assert!(line.written == changed || (line.written && item.mode == Mode::Debit));
            let is_corrected = item.limit.correct_clock_skew(&mut item.state.clone(), now);
            if !settled.passed && item.mode != Mode::Debit && !is_corrected {
                prop_assert!(!changed, "charge {} of a refused request was written", number);
            }
        }
    }

    #[test]
    fn the_order_of_charges_does_not_matter((items, now) in bills(), turn in 0..5_usize) {
        let straight = settled(&items, now);
        let turn = turn % items.len();
        let mut turned = items;
        turned.rotate_left(turn);
        turned.reverse();
        let mut back = settled(&turned, now);
        back.states.reverse();
        back.states.rotate_right(turn);
        back.lines.reverse();
        back.lines.rotate_right(turn);
        prop_assert_eq!(straight, back);
    }

    #[test]
    fn shadow_charges_decide_nothing((mut items, now) in bills()) {
        let with_shadows = settled(&items, now).passed;
        items.retain(|item| item.mode == Mode::Enforce);
        prop_assert_eq!(with_shadows, settled(&items, now).passed);
    }
}

/// A single charge takes the fast path; beside one that never refuses it takes the general path.
#[test]
fn a_single_charge_settles_as_beside_others() {
    let quota = Quota::new(Algorithm::Gcra, 1, Micros::from_secs(1));
    let bystander = Item { limit: compiled(quota), state: None, cost: 0, mode: Mode::Enforce };
    for_every_algorithm(100, Menu::EVERYTHING, |trace| {
        let mut counter = Counter::new(trace);
        for step in &trace.steps {
            counter.turn(step.clock);
            if let Action::Ask(cost) = step.action {
                for mode in [Mode::Enforce, Mode::Shadow, Mode::Debit] {
                    let item =
                        Item { limit: counter.limit, state: counter.state.clone(), cost, mode };
                    let alone = settled(std::slice::from_ref(&item), counter.now);
                    let mut company = settled(&[item, bystander.clone()], counter.now);
                    company.states.pop();
                    company.lines.pop();
                    prop_assert_eq!(alone, company, "{:?}", mode);
                }
            }
            counter.act(step.action);
        }
        Ok(())
    });
}

/// A state that fits into sixteen bytes is settled packed; any other takes the general path.
#[test]
fn a_compact_counter_settles_like_its_state() {
    for_every_algorithm(200, Menu::EVERYTHING, |trace| {
        let mut counter = Counter::new(trace);
        for step in &trace.steps {
            counter.turn(step.clock);
            counter.act(step.action);
            let (Some(state), now) = (&counter.state, counter.now) else { continue };
            let Some(compact) = PackedState::pack(state, &counter.limit) else { continue };
            prop_assert_eq!(compact.unpack(&counter.limit), Some(state.clone()));
            let is_idle = counter.limit.is_idle(state, now);
            prop_assert_eq!(compact.is_idle(&counter.limit, now), is_idle);
            for (cost, mode) in [
                (0, Mode::Enforce),
                (1, Mode::Enforce),
                (2, Mode::Shadow),
                (counter.limit.limit(), Mode::Enforce),
                (1, Mode::Debit),
                (u64::MAX, Mode::Debit),
            ] {
                let item = Item { limit: counter.limit, state: Some(state.clone()), cost, mode };
                for way in [PackedState::settle, PackedState::admit] {
                    let mut line = ChargeResult::default();
                    if let Some(after) = way(compact, &charge(&item), now, &mut line) {
                        let long_way = settled(std::slice::from_ref(&item), now);
                        prop_assert_eq!(after.unpack(&counter.limit), long_way.states[0].clone());
                        prop_assert_eq!(line, long_way.lines[0], "{} {:?}", cost, mode);
                    }
                }
            }
        }
        Ok(())
    });
}

#[test]
fn only_small_states_settle_packed() {
    let now = Timestamp::from_secs(600);
    let (soon, wide) = (now.plus(Micros::new(1)), u64::from(u32::MAX));
    for algorithm in Algorithm::ALL {
        let limit = |units| compiled(Quota::new(algorithm, units, Micros::from_secs(60)));
        let settles = |limit: Limit, used: u64, cost: u64, at: Timestamp| {
            let mut state = None;
            limit.charge(&mut state, at, used);
            let item = Item { limit, state, cost, mode: Mode::Enforce };
            let packed = item.state.as_ref().and_then(|state| PackedState::pack(state, &limit));
            let mut line = ChargeResult::default();
            packed.is_some_and(|compact| compact.settle(&charge(&item), now, &mut line).is_some())
        };
        let is_log = algorithm == Algorithm::SlidingWindowLog;
        let is_sliding = algorithm == Algorithm::SlidingWindowCounter;
        let is_bucket = algorithm.is_bucket();
        assert_eq!(settles(limit(10), 1, 1, now), !is_log, "{algorithm}");
        assert_eq!(settles(limit(10), 1, 99, now), !is_log, "{algorithm}, refused");
        assert!(!settles(limit(10), 1, 1, soon), "{algorithm}, ahead of the clock");
        let large = limit(1 << 40);
        assert_eq!(settles(large, wide, 0, now), !is_log, "{algorithm}, large");
        assert_eq!(settles(large, wide, 1, now), !is_log && !is_sliding, "{algorithm}, too large");
        let huge = limit((1 << 62) + 1);
        assert_eq!(
            settles(huge, 1 << 61, 1, now),
            !is_log && !is_sliding && !is_bucket,
            "{algorithm}, huge"
        );
    }
}

/// Plays one settlement on counters of 10, of which so much is used, and compares what is used
/// afterwards.
fn check(charges: &[(Mode, u64, u64)], passed: bool, used: &[u64]) {
    for algorithm in Algorithm::ALL {
        let limit = compiled(Quota::new(algorithm, 10, Micros::from_secs(60)));
        let now = Timestamp::from_secs(600);
        let items: Vec<Item> = charges
            .iter()
            .map(|(mode, used, cost)| {
                let mut state = None;
                limit.charge(&mut state, now, *used);
                Item { limit, state, cost: *cost, mode: *mode }
            })
            .collect();
        let settled = settled(&items, now);
        assert_eq!(settled.passed, passed, "{algorithm}: {charges:?}");
        let left: Vec<u64> = settled.lines.iter().map(|line| line.report.remaining).collect();
        let expected: Vec<u64> = used.iter().map(|used| 10_u64.saturating_sub(*used)).collect();
        assert_eq!(left, expected, "{algorithm}: {charges:?}");
    }
}

#[test]
fn each_mode_charges_as_defined() {
    use Mode::{Debit, Enforce, Shadow};
    check(&[], true, &[]);
    check(&[(Enforce, 9, 1)], true, &[10]);
    check(&[(Enforce, 9, 2)], false, &[9]);
    check(&[(Enforce, 10, 0)], true, &[10]);
    check(&[(Enforce, 5, 1), (Enforce, 9, 2)], false, &[5, 9]);
    check(&[(Enforce, 9, 2), (Enforce, 5, 1)], false, &[9, 5]);
    check(&[(Enforce, 5, 1), (Enforce, 9, 1)], true, &[6, 10]);
    // A shadow charge refuses no request, and counts only what passed and fitted.
    check(&[(Shadow, 9, 1)], true, &[10]);
    check(&[(Shadow, 9, 2)], true, &[9]);
    check(&[(Shadow, 9, 2), (Enforce, 5, 1)], true, &[9, 6]);
    check(&[(Shadow, 5, 1), (Enforce, 9, 2)], false, &[5, 9]);
    // A debit is taken in any case.
    check(&[(Debit, 4, 5)], true, &[9]);
    check(&[(Debit, 9, 5)], true, &[14]);
    check(&[(Debit, 4, 5), (Enforce, 9, 2)], false, &[9, 9]);
    check(&[(Enforce, 9, 2), (Debit, 4, 5), (Shadow, 1, 1)], false, &[9, 9, 1]);
}

#[test]
fn a_blocked_counter_is_never_written() {
    let now = Timestamp::from_secs(600);
    for algorithm in Algorithm::ALL {
        let limit = compiled(Quota::new(algorithm, 0, Micros::from_secs(60)));
        for mode in [Mode::Enforce, Mode::Shadow, Mode::Debit] {
            let item = Item { limit, state: None, cost: 1, mode };
            for company in 1..=2 {
                let settled = settled(&vec![item.clone(); company], now);
                assert!(settled.states.iter().all(Option::is_none), "{algorithm}, {mode:?}");
                assert!(settled.lines.iter().all(|line| !line.written), "{algorithm}, {mode:?}");
            }
        }
    }
}

/// The algorithm and the limit were once mixed into the same bits of a digest.
#[test]
fn limits_of_different_algorithms_have_different_digests() {
    let minute = Micros::from_secs(60);
    let mut known = std::collections::HashMap::new();
    for algorithm in Algorithm::ALL {
        for limit in 1..=64 {
            for burst in [None, Some(8), Some(11)] {
                let burst = burst.filter(|_| algorithm.is_bucket());
                let quota = Quota { burst, ..Quota::new(algorithm, limit, minute) };
                let limit = quota.compile().expect("a valid quota");
                let before = known.insert(limit.digest(), limit);
                assert!(before.is_none_or(|before| before == limit), "{before:?} and {limit:?}");
            }
        }
    }
}
