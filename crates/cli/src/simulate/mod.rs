//! `tollgate simulate`: what rules would have done to recorded traffic, under the traffic's own
//! clock.

mod arguments;
mod compare;
mod condition;
mod html;
mod namespaced_store;
mod replay;
mod report;
mod steps;

use std::process::ExitCode;

use tollgate::Policy;
use tollgate::rules::{CompileOptions, Rule, uncountable_in_redis};
use tollgate::store::StoreUrl;
use tollgate_simulate::traffic::{Input, Options, Traffic, total_size};
use tollgate_simulate::{RequestResult, TRACE_KEY, Tally};

use self::condition::{Condition, Judged};
use self::html::HtmlReport;
use self::steps::Steps;
use crate::failure::{FOUND_PROBLEMS, Failure, WRONG_USAGE};
use crate::new_file::NewFile;
use crate::policy_file::PolicyText;
use crate::terminal::{count, grouped, progress};

pub(crate) use self::arguments::{ReadingArguments, SimulateArguments};
pub(crate) use self::replay::with_progress;

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
    // An invalid policy, condition or path is reported before hours of traffic are read.
    let mut policy = compile(&file, is_inline, &store)?;
    let conditions = Condition::parse_all(&arguments.fail_if, &policy)?;
    let report = arguments.report.as_deref().map(NewFile::at).transpose()?;
    let traffic = read(&inputs, &arguments.reading)?;
    if let Some(rule) = arguments.rule.as_deref().filter(|_| traffic.is_trace()) {
        file = PolicyText::inline(rule, TRACE_KEY);
        policy = compile(&file, is_inline, &store)?;
    }

    if arguments.compare {
        compare::run(&file, &traffic, arguments.json)?;
        return Ok(ExitCode::SUCCESS);
    }
    let rules: Vec<Rule> = policy.rules().iter().cloned().collect();
    let mut tally = Tally::new(&policy, &traffic);
    let mut steps = arguments.json.then(|| Steps::new(is_inline));
    let mut results = Vec::new();
    let doubt =
        replay::replay(policy, &traffic, &store, |record, decision| -> Result<(), Failure> {
            tally.add(record, decision);
            if report.is_some() {
                results.push(RequestResult::of(decision));
            }
            steps.as_mut().map_or(Ok(()), |steps| steps.write(record, decision))
        })?;
    match steps {
        Some(steps) => steps.finish()?,
        None => report::print(&traffic, &tally, doubt, arguments.top)?,
    }
    if let Some(report) = report {
        let algorithms = compare::all(&file, &traffic)?;
        let page = HtmlReport {
            policy: &file.name,
            rules: &rules,
            traffic: &traffic,
            tally: &tally,
            results: &results,
            algorithms: &algorithms,
            doubt: doubt.map(replay::sentence),
            top: arguments.top,
        };
        report.write(&page.to_html())?;
    }
    Ok(judge(&conditions, &tally))
}

/// Reports each condition that holds or could not be judged. One that holds decides the exit code.
fn judge(conditions: &[Condition], tally: &Tally<'_>) -> ExitCode {
    let (mut is_found, mut is_unjudged) = (false, false);
    for condition in conditions {
        match condition.judge(tally) {
            Judged::Holds(finding) => {
                eprintln!("tollgate: {finding}");
                is_found = true;
            }
            Judged::NotMeasured(why) => {
                eprintln!("tollgate: --fail-if: {why}");
                is_unjudged = true;
            }
            Judged::DoesNotHold => {}
        }
    }
    match (is_found, is_unjudged) {
        (true, _) => ExitCode::from(FOUND_PROBLEMS),
        (false, true) => ExitCode::from(WRONG_USAGE),
        (false, false) => ExitCode::SUCCESS,
    }
}

/// A log that is kept only for as long as the traffic lasts may be longer than one in service.
fn compile(file: &PolicyText, unbounded_log: bool, store: &StoreUrl) -> Result<Policy, Failure> {
    let options = CompileOptions { unbounded_log };
    let policy = Policy::compile_with(&file.source, &options).map_err(|it| file.unusable(&it))?;
    if store.is_redis() {
        let problems = uncountable_in_redis(&file.source, &policy);
        if !problems.is_empty() {
            return Err(file.unusable(&problems));
        }
    }
    Ok(policy)
}

/// Reads traffic, with a progress bar, and reports lines that cannot be read.
pub(crate) fn read(inputs: &[Input], how: &ReadingArguments) -> Result<Traffic, Failure> {
    let max_bytes = how.max_memory.to_usize();
    let options = Options { format: how.format, sort: !how.no_sort, max_bytes };
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
