//! What callers are promised, checked without a model: bursts, bounds over time, exact waits, and
//! refusals that leave no trace.

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use tollgate_core::{
    Algorithm, Charge, ChargeResult, Key, Limit, Micros, Mode, Quota, Report, State, Timestamp,
    settle,
};

use crate::draw::{Action, Menu, Trace, for_every_algorithm};
use crate::replay::Counter;

/// The most units that may be admitted at one instant: capacity, grace, and what may be delayed.
fn ceiling(quota: &Quota) -> u128 {
    if quota.limit == 0 {
        return 0;
    }
    let delayed = if quota.algorithm == Algorithm::LeakyBucket {
        0
    } else {
        u128::from(quota.max_delay.get()) * u128::from(quota.limit) / u128::from(quota.window.get())
    };
    let most = u128::from(quota.burst.unwrap_or(quota.limit)) + u128::from(quota.grace) + delayed;
    most.min(u64::MAX.into())
}

/// Takes as much as is admitted at one instant, in ever smaller requests.
fn take_all(limit: &Limit, mut state: Option<State>, now: Timestamp) -> u128 {
    let mut taken = 0;
    for cost in (0..64).rev().map(|bit| 1_u64 << bit) {
        if limit.fits(state.as_ref(), now, cost) {
            limit.charge(&mut state, now, cost);
            taken += u128::from(cost);
        }
    }
    taken
}

#[test]
fn a_burst_after_any_idle_time_is_at_most_the_capacity() {
    let menu = Menu { corrections: true, changes: true, ..Menu::default() };
    for_every_algorithm(300, menu, |trace| {
        let mut counter = Counter::new(trace);
        let mut quota = trace.quota;
        for step in &trace.steps {
            counter.turn(step.clock);
            counter.act(step.action);
            if let Action::Change(changed) = step.action {
                quota = changed;
            }
        }
        let Counter { limit, state, now, .. } = counter;
        let reset = limit.report(state.as_ref(), now, 0, true).reset_after.get();
        let window = quota.window.get();
        for idle in [0, 1, window / quota.limit.max(1), window / 2, window, 10 * window, reset] {
            let Some(later) = now.as_micros().checked_add(idle) else { continue };
            let taken = take_all(&limit, state.clone(), Timestamp::from_micros(later));
            prop_assert!(taken <= ceiling(&quota), "{} after {} us", taken, idle);
            let queues = quota.algorithm == Algorithm::LeakyBucket;
            if idle >= reset && !(queues && quota.max_delay > Micros::ZERO) {
                prop_assert_eq!(taken, ceiling(&quota), "after {} us, when all is back", idle);
            }
        }
        Ok(())
    });
}

#[test]
fn no_interval_admits_more_than_its_share() {
    for_every_algorithm(300, Menu::default(), |trace| {
        let mut counter = Counter::new(trace);
        let mut admitted: Vec<(u64, u64)> = Vec::new();
        for step in &trace.steps {
            counter.turn(step.clock);
            if let Action::Ask(cost) = step.action
                && counter.ask(cost).0
            {
                admitted.push((counter.now.as_micros(), cost));
            }
        }
        let Quota { algorithm, limit, window, .. } = trace.quota;
        let window = window.get();
        for (first, (from, _)) in admitted.iter().enumerate() {
            let mut units = 0;
            for (to, cost) in &admitted[first..] {
                units += u128::from(*cost);
                let refilled = match algorithm {
                    Algorithm::TokenBucket | Algorithm::LeakyBucket | Algorithm::Gcra => {
                        (u128::from(to - from) * u128::from(limit)).div_ceil(window.into())
                    }
                    Algorithm::SlidingWindowLog if to - from < window => 0,
                    Algorithm::FixedWindow | Algorithm::SlidingWindowCounter
                        if to / window == from / window =>
                    {
                        0
                    }
                    _ => break,
                };
                prop_assert!(
                    units <= ceiling(&trace.quota) + refilled,
                    "{units} units from {from} to {to}"
                );
            }
        }
        Ok(())
    });
}

/// Settles by the function that all stores use.
fn ask(counter: &mut Counter, cost: u64) -> (bool, ChargeResult) {
    let key = Key { fingerprint: 0, rule: "rule", subject: b"subject", rest: b"", group: 0 };
    let charge = Charge { key, limit: &counter.limit, cost, mode: Mode::Enforce };
    let mut lines = [ChargeResult::default()];
    let states = std::slice::from_mut(&mut counter.state);
    let passed = settle(&[charge], states, counter.now, &mut lines);
    (passed, lines[0])
}

#[test]
fn a_refusal_leaves_no_trace() {
    let menu = Menu { corrections: true, changes: true, replacements: true, backwards: false };
    for_every_algorithm(300, menu, |trace| {
        let mut with_refusals = Counter::new(trace);
        let mut without = Counter::new(trace);
        for step in &trace.steps {
            with_refusals.turn(step.clock);
            without.turn(step.clock);
            let Action::Ask(cost) = step.action else {
                with_refusals.act(step.action);
                without.act(step.action);
                continue;
            };
            let before = with_refusals.state.as_ref().map(State::to_string);
            let (passed, line) = ask(&mut with_refusals, cost);
            if passed {
                prop_assert_eq!((passed, line), ask(&mut without, cost));
            } else {
                prop_assert_eq!(before, with_refusals.state.as_ref().map(State::to_string));
                prop_assert!(!line.written, "a refusal was written");
            }
        }
        prop_assert_eq!(with_refusals.state, without.state);
        Ok(())
    });
}

/// One counter at one moment, and at later ones if nothing else arrives.
struct Forecast<'a> {
    limit: &'a Limit,
    state: Option<&'a State>,
    now: Timestamp,
}

impl Forecast<'_> {
    /// The moment so much later, if there is one.
    fn after(&self, wait: u64) -> Option<Timestamp> {
        self.now.as_micros().checked_add(wait).map(Timestamp::from_micros)
    }

    fn fits(&self, wait: u64, cost: u64) -> Option<bool> {
        Some(self.limit.fits(self.state, self.after(wait)?, cost))
    }

    fn look(&self, wait: u64) -> Option<Report> {
        Some(self.limit.report(self.state, self.after(wait)?, 0, true))
    }

    fn keeps_its_word(&self, cost: u64, report: &Report) -> TestCaseResult {
        match report.retry_after.map(Micros::get) {
            Some(0) => {}
            Some(wait) => {
                prop_assert_ne!(self.fits(wait, cost), Some(false), "retry");
                prop_assert_ne!(self.fits(wait - 1, cost), Some(true), "retry, a moment early");
                let millis = Micros::new(wait).as_millis_ceil();
                if let Some(wait) = millis.checked_mul(1_000) {
                    prop_assert_ne!(self.fits(wait, cost), Some(false), "retry in ms");
                    let early = self.fits(wait - 1_000, cost);
                    prop_assert_ne!(early, Some(true), "retry, a millisecond early");
                }
            }
            None => {
                let last = Timestamp::from_micros(u64::MAX);
                prop_assert!(!self.limit.fits(None, last, cost), "never came true");
                prop_assert!(!self.limit.fits(self.state, last, cost), "never came true");
            }
        }
        let wait = report.reset_after.get();
        if let Some(full) = self.look(wait) {
            prop_assert_eq!(full.remaining, self.limit.capacity(), "all is back");
            prop_assert_eq!((full.reset_after, full.next_after), (Micros::ZERO, None));
        }
        if let Some(before) = wait.checked_sub(1).and_then(|wait| self.look(wait)) {
            prop_assert_eq!(before.reset_after, Micros::new(1), "all is back a moment early");
        }
        if let Some(wait) = report.next_after.map(Micros::get) {
            if let Some(next) = self.look(wait) {
                prop_assert!(next.remaining > report.remaining, "remaining grows");
            }
            if let Some(before) = self.look(wait - 1) {
                prop_assert_eq!(before.remaining, report.remaining, "remaining grows too early");
            }
        }
        Ok(())
    }
}

#[test]
fn waits_are_exact_to_the_microsecond() {
    for_every_algorithm(300, Menu::EVERYTHING, |trace| {
        let mut counter = Counter::new(trace);
        for step in &trace.steps {
            counter.turn(step.clock);
            let Action::Ask(cost) = step.action else {
                counter.act(step.action);
                continue;
            };
            let (_, report) = counter.ask(cost);
            let Counter { limit, state, now, .. } = &counter;
            let forecast = Forecast { limit, state: state.as_ref(), now: *now };
            // A saturated wait means "longer than can be represented".
            let told = |wait: Option<Micros>| wait != Some(Micros::new(u64::MAX));
            if told(report.retry_after) && told(Some(report.reset_after)) && told(report.next_after)
            {
                forecast.keeps_its_word(cost, &report)?;
            }
        }
        Ok(())
    });
}

#[test]
fn a_clock_that_steps_back_frees_nothing() {
    for_every_algorithm(300, Menu::EVERYTHING, |trace| {
        let mut counter = Counter::new(trace);
        for step in &trace.steps {
            counter.turn(step.clock);
            counter.act(step.action);
            let Counter { limit, state, now, .. } = &counter;
            let state = state.as_ref();
            let left = |at: Timestamp| limit.report(state, at, 0, true).remaining;
            for back in [1, limit.window().get() / 2, limit.window().get(), now.as_micros()] {
                let earlier = now.minus(Micros::new(back));
                prop_assert!(left(earlier) <= left(*now), "{} us back", back);
            }
        }
        Ok(())
    });
}

#[test]
fn losing_an_idle_state_changes_no_decision() {
    let menu = Menu { backwards: false, ..Menu::EVERYTHING };
    for_every_algorithm(300, menu, idle_states_are_worth_nothing);
}

fn idle_states_are_worth_nothing(trace: &Trace) -> TestCaseResult {
    let mut counter = Counter::new(trace);
    for step in &trace.steps {
        counter.turn(step.clock);
        counter.act(step.action);
        let Counter { limit, state: Some(state), now, .. } = &counter else { continue };
        let (exhausted, reset_after) = limit.standing(state, *now);
        prop_assert_eq!(exhausted, limit.report(Some(state), *now, 0, true).remaining == 0);
        prop_assert_eq!(limit.is_idle(state, *now), reset_after == Micros::ZERO);
        if !limit.is_idle(state, *now) {
            continue;
        }
        for cost in [1, 2, limit.capacity(), limit.capacity() + 1, u64::MAX] {
            let mut kept = Some(state.clone());
            let mut lost = None;
            for cost in [cost, 1, 0] {
                let fits = limit.fits(kept.as_ref(), *now, cost);
                prop_assert_eq!(fits, limit.fits(lost.as_ref(), *now, cost), "cost {}", cost);
                if fits {
                    limit.charge(&mut kept, *now, cost);
                    limit.charge(&mut lost, *now, cost);
                }
                prop_assert_eq!(
                    limit.report(kept.as_ref(), *now, cost, fits),
                    limit.report(lost.as_ref(), *now, cost, fits)
                );
            }
        }
    }
    Ok(())
}
