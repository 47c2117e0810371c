//! Limits for each endpoint and class of clients, proposed by traffic.
//!
//! The traffic is surveyed for classes and endpoints, then replayed under limits that no client reaches, which shows
//! how much each request would have needed. A limit is what all but a small share of requests needed, and headroom.
//! The proposed policy is replayed, so that its figures are those of a simulation.

mod candidate;
mod demand;
mod pattern;
mod survey;

use std::error::Error;
use std::fmt;

use tollgate::rules::{CompileOptions, Source};
use tollgate::{Policy, Timestamp};
pub use tollgate_api::RecommendedRule;

pub use self::candidate::to_yaml;
use self::candidate::{drop_needless, set_limit};
use self::demand::Demand;
pub use self::pattern::endpoint_of;
use crate::percent::Percent;
use crate::replay::{ReplayOptions, Stopped, Watch, replay};
use crate::tally::Tally;
use crate::traffic::Traffic;

/// How often limits are raised until the policy refuses no more than it should.
const MAX_ROUNDS: usize = 100;
/// No lower limit is proposed: recorded traffic says little about a handful of requests.
const MIN_LIMIT: u64 = 10;
/// Limits above this are rounded up to two digits.
const MAX_EXACT: u64 = 100;

/// What limits should be like.
#[derive(Clone, Debug)]
pub struct RecommendOptions {
    /// How much more than needed each limit allows.
    pub headroom: Percent,
    /// The largest share of requests that the proposed rules may refuse, all together.
    pub refuse_at_most: Percent,
    /// The window of the limits, as policies write it.
    pub window: String,
    /// The most endpoints that get a limit.
    pub endpoints: usize,
    /// The tenant that the rules belong to.
    pub tenant: Option<String>,
}

/// Proposed rules, and what they do together to the traffic that they were made from.
#[derive(Clone, Debug)]
pub struct Recommendation {
    /// The rules: those of classes of clients first.
    pub rules: Vec<RecommendedRule>,
    /// All requests.
    pub requests: u64,
    /// Those that the rules refuse.
    pub refused: u64,
    /// All clients.
    pub clients: u64,
    /// Those with a request that the rules refuse.
    pub clients_refused: u64,
    /// The first request.
    pub first: Timestamp,
    /// The last request.
    pub last: Timestamp,
}

/// Why no limits could be proposed.
#[derive(Debug)]
pub enum RecommendError {
    /// No request has anything to count by.
    NoClients,
    /// The policy of the proposed rules is invalid.
    Invalid(String),
    /// It was stopped.
    Stopped,
}

impl fmt::Display for RecommendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoClients => f.write_str(
                "no request has a user, an API key or an address, so there is nothing to count by",
            ),
            Self::Invalid(problem) => f.write_str(problem),
            Self::Stopped => f.write_str("the replay was stopped"),
        }
    }
}

impl Error for RecommendError {}

impl From<Stopped> for RecommendError {
    fn from(_: Stopped) -> Self {
        Self::Stopped
    }
}

/// Proposes limits.
///
/// # Errors
/// Nothing can be counted by, or `watch` stopped it.
pub fn recommend(
    traffic: &Traffic,
    options: &RecommendOptions,
    replaying: &ReplayOptions,
    watch: &mut Watch<'_>,
) -> Result<Recommendation, RecommendError> {
    let mut rules = survey::candidates(traffic, options);
    if rules.is_empty() {
        return Err(RecommendError::NoClients);
    }
    let demands = Demand::measure(&rules, traffic, replaying, watch)?;
    for (rule, demand) in rules.iter_mut().zip(demands) {
        // A request meets a rule of its class and one of its endpoint: each gets half of the share.
        demand.summarise(rule, options.refuse_at_most.half());
        set_limit(rule, rounded(options.headroom.on_top_of(rule.needed)).max(MIN_LIMIT));
    }
    settle(rules, traffic, options, replaying, watch)
}

/// Drops endpoints whose limit is not lower than that of their class, and raises limits until the policy refuses no
/// more than it should.
fn settle(
    mut rules: Vec<RecommendedRule>,
    traffic: &Traffic,
    options: &RecommendOptions,
    replaying: &ReplayOptions,
    watch: &mut Watch<'_>,
) -> Result<Recommendation, RecommendError> {
    let mut rounds = 0;
    loop {
        drop_needless(&mut rules);
        let policy = compile(&rules)?;
        let mut tally = Tally::new(&policy, traffic);
        replay(policy, traffic, replaying, |record, decision| {
            watch(usize::try_from(tally.requests).unwrap_or(usize::MAX))?;
            tally.add(record, decision);
            Ok::<(), Stopped>(())
        })?;
        rounds += 1;
        let is_settled = tally.refused <= options.refuse_at_most.of(tally.requests);
        let worst = tally.rules.iter().max_by_key(|rule| rule.exceeded).map(|rule| &rule.rule_id);
        let worst = rules.iter_mut().find(|rule| Some(&rule.rule_id) == worst);
        match worst.filter(|_| !is_settled && rounds < MAX_ROUNDS) {
            Some(worst) => {
                let raised = rounded(worst.limit + worst.limit.div_ceil(10));
                set_limit(worst, raised);
            }
            None => return Ok(summarise(rules, &tally)),
        }
    }
}

/// Adds what the rules do to the traffic.
fn summarise(mut rules: Vec<RecommendedRule>, tally: &Tally<'_>) -> Recommendation {
    for rule in &mut rules {
        if let Some(own) = tally.rules.iter().find(|own| own.rule_id == rule.rule_id) {
            rule.requests = own.applied;
            rule.refused = own.exceeded;
            rule.clients_refused = own.clients_exceeding.len() as u64;
        }
    }
    Recommendation {
        rules,
        requests: tally.requests,
        refused: tally.refused,
        clients: tally.clients.len() as u64,
        clients_refused: tally.clients_refused(),
        first: tally.course.first,
        last: tally.course.last,
    }
}

/// The policy of these rules.
fn compile(rules: &[RecommendedRule]) -> Result<Policy, RecommendError> {
    let text = to_yaml(rules, |_| Vec::new());
    let options = CompileOptions { unbounded_log: true };
    Policy::compile_with(&Source::parse(&text), &options).map_err(|problems| {
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        RecommendError::Invalid(format!("the proposed policy is invalid: {}", problems.join("; ")))
    })
}

/// Rounded up: to two digits, from 100 on.
fn rounded(limit: u64) -> u64 {
    let mut step = 1;
    while limit / step >= MAX_EXACT {
        step *= 10;
    }
    limit.div_ceil(step).saturating_mul(step)
}

#[cfg(test)]
mod tests {
    use super::rounded;

    #[test]
    fn limits_are_round() {
        let cases =
            [(0, 0), (7, 7), (99, 99), (100, 100), (101, 110), (1_234, 1_300), (99_001, 100_000)];
        for (limit, expected) in cases {
            assert_eq!(rounded(limit), expected);
        }
    }
}
