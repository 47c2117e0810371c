//! Every answer equals the model's: verdict, remaining, retry, reset, next and delay.

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use crate::draw::{Action, Menu, Trace, for_every_algorithm};
use crate::model::Model;
use crate::replay::{Counter, compiled};

/// Whether a counter that is far ahead of the clock is brought back before each step.
#[derive(Clone, Copy, PartialEq)]
enum Healing {
    Off,
    On,
}

fn equals_the_model(trace: &Trace, healing: Healing) -> TestCaseResult {
    let mut counter = Counter::new(trace);
    let mut model = Model::new(trace.quota);
    for (number, step) in trace.steps.iter().enumerate() {
        counter.turn(step.clock);
        let now = counter.now;
        // A limit of zero does not read its counter.
        if healing == Healing::On && counter.limit.limit() > 0 {
            let is_corrected = counter.limit.correct_clock_skew(&mut counter.state, now);
            prop_assert_eq!(
                is_corrected,
                model.correct_clock_skew(now),
                "healing at step {}",
                number
            );
        }
        let cost = match step.action {
            Action::Ask(cost) => cost,
            Action::Debit(cost) => {
                counter.debit(cost);
                model.debit(now, cost);
                0
            }
            Action::Refund { units, tied, under } => {
                let charged_at = counter.tied_to(tied);
                counter.refund(units, charged_at, under);
                model.refund(now, units, charged_at, under);
                0
            }
            Action::Change(quota) => {
                counter.limit = compiled(quota);
                model.change(quota);
                0
            }
        };
        let answer = counter.ask(cost);
        prop_assert_eq!(answer, model.ask(now, cost), "step {}, {:?}", number, counter.state);
    }
    Ok(())
}

#[test]
fn requests_equal_the_model() {
    for_every_algorithm(600, Menu::default(), |trace| equals_the_model(trace, Healing::Off));
}

#[test]
fn refunds_and_debits_equal_the_model() {
    let menu = Menu { corrections: true, ..Menu::default() };
    for_every_algorithm(600, menu, |trace| equals_the_model(trace, Healing::Off));
}

#[test]
fn changes_of_limit_and_burst_equal_the_model() {
    let menu = Menu { changes: true, ..Menu::default() };
    for_every_algorithm(600, menu, |trace| equals_the_model(trace, Healing::Off));
}

#[test]
fn changes_of_window_and_algorithm_equal_the_model() {
    let menu = Menu { replacements: true, ..Menu::default() };
    for_every_algorithm(300, menu, |trace| equals_the_model(trace, Healing::Off));
}

#[test]
fn a_clock_that_steps_back_equals_the_model() {
    let menu = Menu { backwards: true, ..Menu::default() };
    for_every_algorithm(600, menu, |trace| equals_the_model(trace, Healing::Off));
}

#[test]
fn corrected_clock_skew_equals_the_model() {
    let menu = Menu { backwards: true, ..Menu::default() };
    for_every_algorithm(600, menu, |trace| equals_the_model(trace, Healing::On));
}

#[test]
fn everything_at_once_equals_the_model() {
    for_every_algorithm(600, Menu::EVERYTHING, |trace| equals_the_model(trace, Healing::Off));
    for_every_algorithm(600, Menu::EVERYTHING, |trace| equals_the_model(trace, Healing::On));
}
