//! The same limits through all six algorithms, beside each other.

use serde::Serialize;
use tollgate::rules::document::{Action, PolicyDocument};
use tollgate::rules::{AlgorithmName, CompileOptions, Source};
use tollgate::{Algorithm, Policy, Problem};

use crate::replay::{Doubt, ReplayOptions, Stopped, Watch, replay};
use crate::tally::Tally;
use crate::traffic::Traffic;

/// The result of the traffic under one algorithm.
#[derive(Clone, Debug, Serialize)]
pub struct AlgorithmFigures {
    /// The name of the algorithm.
    pub algorithm: &'static str,
    /// All requests.
    pub requests: u64,
    /// Those that passed.
    pub allowed: u64,
    /// Those that did not pass.
    pub refused: u64,
    /// Clients with a refused request.
    pub clients_refused: u64,
    /// Requests that passed after a delay.
    pub delayed: u64,
    /// The longest delay.
    pub longest_delay_ms: u64,
    /// Requests with another decision than by the log, which is exact.
    pub unlike_log: u64,
    /// Of these, those that the log refused.
    #[serde(skip)]
    pub looser: u64,
    /// Of these, those that the log allowed.
    #[serde(skip)]
    pub stricter: u64,
    /// Whether each request was allowed.
    #[serde(skip)]
    pub verdicts: Vec<bool>,
    /// What makes the figures doubtful.
    #[serde(skip)]
    pub doubt: Option<Doubt>,
}

/// Why algorithms could not be compared.
#[derive(Debug)]
pub enum CompareError {
    /// The policy is invalid, maybe under one algorithm only.
    Policy(Vec<Problem>),
    /// It was stopped.
    Stopped,
}

impl From<Stopped> for CompareError {
    fn from(_: Stopped) -> Self {
        Self::Stopped
    }
}

/// The results of a policy document under all algorithms. `change` may change each compiled policy.
///
/// # Errors
/// The policy is invalid, or `watch` stopped it.
pub fn compare(
    document: &PolicyDocument,
    traffic: &Traffic,
    options: &ReplayOptions,
    change: &dyn Fn(Policy) -> Policy,
    watch: &mut Watch<'_>,
) -> Result<Vec<AlgorithmFigures>, CompareError> {
    let mut figures = |algorithm: Algorithm, exact: &[bool]| {
        let source = Source::from_document(with_algorithm(document, algorithm));
        let compiled = Policy::compile_with(&source, &CompileOptions { unbounded_log: true });
        let policy = change(compiled.map_err(CompareError::Policy)?);
        judge(policy, algorithm, traffic, options, exact, watch).map_err(CompareError::from)
    };
    let log = Algorithm::SlidingWindowLog;
    let exact = figures(log, &[])?;
    let of = |algorithm| match algorithm == log {
        true => Ok(exact.clone()),
        false => figures(algorithm, &exact.verdicts),
    };
    Algorithm::ALL.into_iter().map(of).collect()
}

/// Replays the traffic under one algorithm, and compares each decision.
fn judge(
    policy: Policy,
    algorithm: Algorithm,
    traffic: &Traffic,
    options: &ReplayOptions,
    exact: &[bool],
    watch: &mut Watch<'_>,
) -> Result<AlgorithmFigures, Stopped> {
    let mut tally = Tally::new(&policy, traffic);
    let mut verdicts = Vec::with_capacity(traffic.len());
    let doubt = replay(policy, traffic, options, |record, decision| {
        watch(verdicts.len())?;
        tally.add(record, decision);
        verdicts.push(decision.is_allowed());
        Ok(())
    })?;
    let unlike = |allowed: bool| {
        let pairs = verdicts.iter().zip(exact);
        pairs.filter(|(ours, exact)| **ours == allowed && ours != exact).count() as u64
    };
    let (looser, stricter) = (unlike(true), unlike(false));
    Ok(AlgorithmFigures {
        algorithm: algorithm.name(),
        requests: tally.requests,
        allowed: tally.allowed,
        refused: tally.refused,
        clients_refused: tally.clients_refused(),
        delayed: tally.delayed,
        longest_delay_ms: tally.longest_delay_ms,
        unlike_log: looser + stricter,
        looser,
        stricter,
        verdicts,
        doubt,
    })
}

/// The same limits, counted otherwise. What only buckets have is left out for the others. Windows of the calendar are
/// fixed ones under every algorithm.
fn with_algorithm(document: &PolicyDocument, algorithm: Algorithm) -> PolicyDocument {
    let mut document = document.clone();
    for rule in document.rules.iter_mut().filter(|rule| rule.time_zone.is_none()) {
        rule.algorithm = AlgorithmName(algorithm);
        if !algorithm.is_bucket() {
            rule.burst = None;
            rule.throttle = None;
            if rule.action == Action::Throttle {
                rule.action = Action::Reject;
            }
        }
    }
    if !algorithm.is_bucket() {
        document.overrides.iter_mut().for_each(|exception| exception.burst = None);
    }
    document
}
