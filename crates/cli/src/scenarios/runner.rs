//! Scenarios through a limiter with counters in memory, under a clock that the scenario moves.

use tollgate::{Limiter, ManualClock, Micros, Policy};
use tollgate_document::Position;
use tollgate_simulate::Outcome;

use super::document::{Scenario, Step, StepTime};
use super::expectation::describe;
use crate::terminal::span;

/// Most failures of one scenario that are reported.
const MAX_FAILURES: usize = 10;

/// The result of one scenario.
#[derive(Debug)]
pub(super) struct ScenarioResult {
    pub(super) name: String,
    pub(super) position: Position,
    pub(super) requests: u64,
    pub(super) failures: Vec<StepFailure>,
}

impl ScenarioResult {
    pub(super) fn is_passed(&self) -> bool {
        self.failures.is_empty()
    }
}

/// A step that did not end as expected.
#[derive(Debug)]
pub(super) struct StepFailure {
    pub(super) position: Position,
    /// Which request of which step, and when.
    pub(super) place: String,
    pub(super) message: String,
}

pub(super) fn run_scenario(scenario: &Scenario, policy: &Policy) -> ScenarioResult {
    let clock = ManualClock::default();
    let limiter = Limiter::builder().policy(policy.clone()).clock(clock.clone()).build();
    let mut result = ScenarioResult {
        name: scenario.name.clone(),
        position: scenario.position,
        requests: 0,
        failures: Vec::new(),
    };
    let mut passed = Micros::ZERO;
    for (i, step) in scenario.steps.iter().enumerate() {
        let Step { position, time, times, every, ref expect, .. } = *step;
        let request = step.request.or(&scenario.request);
        passed = match time {
            StepTime::At(at) => at,
            StepTime::After(after) => passed.plus(after),
        };
        let mut outcomes = Vec::new();
        let mut failure = None;
        for n in 1..=times {
            if n > 1 {
                passed = passed.plus(every);
            }
            clock.set(scenario.start.plus(passed));
            let decision = limiter.check(&request).now();
            result.requests += 1;
            outcomes.push(Outcome::of(&decision));
            let Some(expect) = expect.as_ref().filter(|_| failure.is_none()) else { continue };
            let differences = expect.differences(&decision, n == times);
            if !differences.is_empty() {
                let which =
                    if times == 1 { String::new() } else { format!(", request {n} of {times}") };
                failure = Some(StepFailure {
                    position,
                    place: format!("step {}{which}, at {}", i + 1, moment_of(passed)),
                    message: format!("{} ({})", differences.join("; "), describe(&decision)),
                });
            }
        }
        let miscounts =
            expect.as_ref().map(|expect| expect.miscounts(&outcomes)).unwrap_or_default();
        if failure.is_none() && !miscounts.is_empty() {
            failure = Some(StepFailure {
                position,
                place: format!("step {}, {times} requests", i + 1),
                message: miscounts.join("; "),
            });
        }
        if result.failures.len() < MAX_FAILURES {
            result.failures.extend(failure);
        }
    }
    result
}

/// A time since the beginning of a scenario.
fn moment_of(passed: Micros) -> String {
    if passed == Micros::ZERO { "0 s".to_owned() } else { span(passed.get()) }
}
