//! `tollgate simulate`: what rules would have done to recorded traffic, under the traffic's own
//! clock.

mod compare;
mod namespaced_store;
mod replay;
mod report;
mod steps;
mod tally;

use std::process::ExitCode;

use tollgate::Policy;
use tollgate::rules::CompileOptions;
use tollgate::store::StoreUrl;

use crate::arguments::SimulateArguments;
use crate::failure::Failure;
use crate::policy_file::PolicyText;
use crate::terminal::{count, grouped, progress};
use crate::traffic::{Input, Options, Traffic, TrafficFormat, total_size};

/// What an inline rule counts a log by.
const LOG_KEY: &str = "ip";

/// Replays the traffic and prints the result.
pub(crate) fn run(arguments: &SimulateArguments) -> Result<ExitCode, Failure> {
    let inputs: Vec<Input> =
        arguments.inputs.iter().map(|input| Input::from_argument(input)).collect();
    let store = StoreUrl::parse(&arguments.store)
        .map_err(|problem| Failure::usage(format!("--store: {problem}")))?;
    let is_inline = arguments.rule.is_some();
    let mut file = match (&arguments.rules, &arguments.rule) {
        (Some(path), _) => PolicyText::read(path)?,
        (None, rule) => PolicyText::inline(rule.as_deref().unwrap_or_default(), LOG_KEY),
    };
    // An invalid policy is reported before hours of traffic are read.
    let mut policy = compile(&file, is_inline)?;
    let traffic = read(&inputs, arguments)?;
    let is_trace = traffic.sources().iter().any(|source| source.format == TrafficFormat::Trace);
    if let Some(rule) = arguments.rule.as_deref().filter(|_| is_trace) {
        file = PolicyText::inline(rule, replay::TRACE_KEY);
        policy = compile(&file, is_inline)?;
    }

    if arguments.compare {
        compare::run(&file, &traffic, arguments.json)?;
    } else if arguments.json {
        steps::run(policy, &traffic, &store, is_inline)?;
    } else {
        report::run(policy, &traffic, &store, arguments.top)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A log that is kept only for as long as the traffic lasts may be longer than one in service.
fn compile(file: &PolicyText, unbounded_log: bool) -> Result<Policy, Failure> {
    let options = CompileOptions { unbounded_log };
    Policy::compile_with(&file.source, &options).map_err(|problems| file.unusable(&problems))
}

fn read(inputs: &[Input], arguments: &SimulateArguments) -> Result<Traffic, Failure> {
    let max_bytes = arguments.max_memory.to_usize();
    let options = Options { format: arguments.format, sort: !arguments.no_sort, max_bytes };
    let bar = progress(total_size(inputs), "reading", "bytes");
    let traffic = Traffic::read(inputs, options, &mut |so_far| bar.set_position(so_far.read));
    bar.finish_and_clear();
    let traffic = traffic?;
    tell_unparsable(&traffic);
    Ok(traffic)
}

/// Lines that could not be read are reported on standard error, so that they are seen also when the
/// output goes elsewhere.
fn tell_unparsable(traffic: &Traffic) {
    let unparsable = traffic.unparsable();
    if unparsable == 0 {
        return;
    }
    eprintln!("tollgate: left out {} that could not be read:", count(unparsable, "line"));
    for bad in traffic.bad_lines() {
        eprintln!("  {}:{}: {}: {}", bad.input, bad.line, bad.reason, bad.excerpt);
    }
    let shown = traffic.bad_lines().len() as u64;
    if unparsable > shown {
        eprintln!("  and {} more", grouped(unparsable - shown));
    }
}
