//! `tollgate recommend`: limits for each endpoint and class of clients, proposed by recorded traffic.

mod arguments;
mod live;
mod output;

use std::process::ExitCode;

use tollgate_simulate::ReplayOptions;
use tollgate_simulate::recommend::{RecommendOptions, Recommendation, recommend};
use tollgate_simulate::traffic::{Input, TrafficSource};

pub(crate) use self::arguments::RecommendArguments;
use self::output::{Proposal, ProposalSource};
use crate::failure::Failure;
use crate::new_file::NewFile;
use crate::output::print;
use crate::simulate::{read, with_progress};

/// Proposes limits, and prints them.
pub(crate) fn run(arguments: &RecommendArguments) -> Result<ExitCode, Failure> {
    let file = arguments.output.as_deref().map(NewFile::at).transpose()?;
    let (recommendation, sources, is_trace) = if arguments.live.live {
        let (recommendation, source) = live::recommend(arguments)?;
        (recommendation, vec![source], false)
    } else {
        by_log(arguments)?
    };
    let proposal = Proposal { recommendation: &recommendation, sources, is_trace, arguments };
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

/// Proposes limits by recorded traffic. Also returns where it came from, and whether it is a trace.
fn by_log(
    arguments: &RecommendArguments,
) -> Result<(Recommendation, Vec<ProposalSource>, bool), Failure> {
    let inputs: Vec<Input> =
        arguments.inputs.iter().map(|input| Input::from_argument(input)).collect();
    let traffic = read(&inputs, &arguments.reading)?;
    let options = RecommendOptions {
        headroom: arguments.headroom,
        refuse_at_most: arguments.refuse_at_most,
        window: arguments.window.clone(),
        endpoints: arguments.endpoints,
        tenant: None,
    };
    let recommended = with_progress(&traffic, |watch| {
        recommend(&traffic, &options, &ReplayOptions::default(), watch)
    });
    let recommendation = recommended.map_err(|error| Failure::usage(error.to_string()))?;
    let source = |it: &TrafficSource| ProposalSource {
        name: it.name.clone(),
        requests: it.requests,
        about: it.format.name().to_owned(),
    };
    let sources = traffic.sources().iter().map(source).collect();
    Ok((recommendation, sources, traffic.is_trace()))
}
