//! `tollgate test`: scenarios of requests on a virtual clock, and what rules are expected to do to them.

mod document;
mod expectation;
mod file;
mod junit;
mod lasting;
mod output;
mod request;
mod runner;
mod tap;

use std::process::ExitCode;

use clap::{Args, ValueEnum};

use self::file::ScenarioFile;
use self::runner::{ScenarioResult, run_scenario};
use crate::failure::{FOUND_PROBLEMS, Failure};
use crate::output::print;
use crate::terminal::{count, printable};

/// Arguments of `tollgate test`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tollgate test policy.test.yaml
  tollgate test --rules policy.yaml --format junit tests/*.test.yaml > report.xml

A file names its policy and has scenarios:

  policy: policy.yaml
  scenarios:
    - name: The sixth login within a minute is refused
      request: {ip: 192.0.2.1, method: POST, endpoint: /login}
      steps:
        - {times: 5, every: 1s, expect: allowed}
        - {after: 1s, expect: {outcome: refused, rule: login}}

The exit code is 0 if all scenarios passed, 1 if one failed, 2 if a file cannot be used.")]
pub(crate) struct TestArguments {
    /// The policy of all scenarios, instead of those that the files name.
    #[arg(long, value_name = "FILE")]
    rules: Option<String>,

    /// How results are written.
    #[arg(long, value_name = "FORMAT", default_value = "human")]
    format: ResultFormat,

    /// Files with scenarios, YAML or JSON; `-` is standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<String>,
}

/// How results are written.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ResultFormat {
    /// For people.
    Human,
    /// The Test Anything Protocol, version 14.
    Tap,
    /// XML, as JUnit writes it.
    Junit,
}

/// The results of one file.
struct FileResult {
    name: String,
    scenarios: Vec<ScenarioResult>,
}

/// Runs all scenarios of all files.
pub(crate) fn run(arguments: &TestArguments) -> Result<ExitCode, Failure> {
    let read = |name: &String| ScenarioFile::read(name, arguments.rules.as_deref());
    let files: Vec<Result<ScenarioFile, Failure>> = arguments.files.iter().map(read).collect();
    let (files, problems): (Vec<_>, Vec<_>) = files.into_iter().partition(Result::is_ok);
    let problems: Vec<Failure> = problems.into_iter().filter_map(Result::err).collect();
    if let Some((last, others)) = problems.split_last() {
        // All problems of all files at once.
        for problem in others {
            problem.report();
        }
        last.report();
        let unusable = count(problems.len() as u64, "file");
        return Err(Failure::usage(format!("{unusable} cannot be used, so no scenario was run")));
    }
    // A suite that tests nothing would pass for ever.
    let empty: Vec<String> = files
        .iter()
        .flatten()
        .filter(|file| file.scenarios.is_empty())
        .map(|file| printable(&file.name))
        .collect();
    if !empty.is_empty() {
        let names = empty.join(", ");
        return Err(Failure::usage(format!(
            "there are no scenarios in {names}, so nothing was tested"
        )));
    }
    let results: Vec<FileResult> = files
        .into_iter()
        .flatten()
        .map(|file| FileResult {
            scenarios: file.scenarios.iter().map(|it| run_scenario(it, &file.policy)).collect(),
            name: file.name,
        })
        .collect();
    print(&match arguments.format {
        ResultFormat::Human => output::to_text(&results),
        ResultFormat::Tap => tap::to_tap(&results),
        ResultFormat::Junit => junit::to_xml(&results),
    })?;
    let mut scenarios = results.iter().flat_map(|file| &file.scenarios);
    Ok(if scenarios.all(ScenarioResult::is_passed) {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(FOUND_PROBLEMS)
    })
}
