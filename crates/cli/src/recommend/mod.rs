//! `tollgate recommend`: limits for each endpoint and class of clients, proposed by recorded traffic.
//!
//! The traffic is surveyed for classes and endpoints, then replayed under limits that no client reaches, which shows
//! how much each request would have needed. A limit is what all but a small share of requests needed, and headroom.
//! The proposed policy is replayed, so that its figures are those of `simulate`.

mod arguments;
mod candidate;
mod demand;
mod output;
mod pattern;
mod survey;

use std::process::ExitCode;

use tollgate::Policy;
use tollgate::rules::{CompileOptions, Source};
use tollgate::store::StoreUrl;

pub(crate) use self::arguments::RecommendArguments;
use self::candidate::Candidate;
use self::demand::Demand;
use self::output::Proposal;
pub(crate) use self::pattern::endpoint_of;
use crate::failure::Failure;
use crate::new_file::NewFile;
use crate::output::print;
use crate::simulate::{Tally, read, replay};
use crate::traffic::{Input, Traffic};

/// How often limits are raised until the policy refuses no more than it should.
const MAX_ROUNDS: usize = 100;
/// No lower limit is proposed: recorded traffic says little about a handful of requests.
const MIN_LIMIT: u64 = 10;
/// Limits above this are rounded up to two digits.
const MAX_EXACT: u64 = 100;

/// Proposes limits, and prints them.
pub(crate) fn run(arguments: &RecommendArguments) -> Result<ExitCode, Failure> {
    let inputs: Vec<Input> =
        arguments.inputs.iter().map(|input| Input::from_argument(input)).collect();
    let file = arguments.output.as_deref().map(NewFile::at).transpose()?;
    let traffic = read(&inputs, &arguments.reading)?;
    let mut candidates = survey::candidates(&traffic, arguments.endpoints);
    if candidates.is_empty() {
        return Err(Failure::usage(
            "no request has a user, an API key or an address, so there is nothing to count by",
        ));
    }
    let demands = Demand::measure(&candidates, &traffic, &arguments.window)?;
    for (candidate, demand) in candidates.iter_mut().zip(demands) {
        // A request meets a rule of its class and one of its endpoint: each gets half of the share.
        demand.summarise(candidate, arguments.refuse_at_most.half());
        candidate.limit = rounded(arguments.headroom.on_top_of(candidate.needed)).max(MIN_LIMIT);
    }
    let (candidates, tally) = settle(candidates, &traffic, arguments)?;
    let proposal =
        Proposal { candidates: &candidates, tally: &tally, traffic: &traffic, arguments };
    if let Some(file) = file {
        file.write(&proposal.to_yaml())?;
    }
    let text = if arguments.json {
        proposal.to_json()?
    } else if arguments.yaml {
        proposal.to_yaml()
    } else {
        proposal.to_table()
    };
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Drops endpoints whose limit is not lower than that of their class, and raises limits until the policy refuses no
/// more than it should. Also returns what the policy does to the traffic.
fn settle<'t>(
    mut candidates: Vec<Candidate>,
    traffic: &'t Traffic,
    arguments: &RecommendArguments,
) -> Result<(Vec<Candidate>, Tally<'t>), Failure> {
    let mut rounds = 0;
    loop {
        candidate::drop_needless(&mut candidates);
        let policy = compile(&candidates, &arguments.window)?;
        let mut tally = Tally::new(&policy, traffic);
        replay(policy, traffic, &StoreUrl::default(), |record, decision| -> Result<(), Failure> {
            tally.add(record, decision);
            Ok(())
        })?;
        rounds += 1;
        let is_settled = tally.refused <= arguments.refuse_at_most.of(tally.requests);
        let worst = tally.rules.iter().max_by_key(|rule| rule.exceeded).map(|rule| &rule.rule_id);
        let worst = candidates.iter_mut().find(|candidate| Some(&candidate.rule_id) == worst);
        match worst.filter(|_| !is_settled && rounds < MAX_ROUNDS) {
            Some(worst) => worst.limit = rounded(worst.limit + worst.limit.div_ceil(10)),
            None => return Ok((candidates, tally)),
        }
    }
}

/// The policy of these candidates.
fn compile(candidates: &[Candidate], window: &str) -> Result<Policy, Failure> {
    let text = candidate::to_yaml(candidates, window, |_| Vec::new());
    let options = CompileOptions { unbounded_log: true };
    Policy::compile_with(&Source::parse(&text), &options).map_err(|problems| {
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        Failure::usage(format!("the proposed policy is invalid: {}", problems.join("; ")))
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
