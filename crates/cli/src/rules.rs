//! `tollgate rules`: what can be done with rules without a server.

use std::io::{self, Write as _};
use std::process::ExitCode;

use serde::Serialize;
use tollgate::rules::{LintContext, Severity, lint as doubts, schema as policy_schema};
use tollgate::{Policy, Problem};

use crate::arguments::LintArguments;
use crate::failure::{FOUND_PROBLEMS, Failure};
use crate::policy_file::PolicyText;
use crate::terminal::count;

/// Prints the JSON schema of the policy document.
pub(crate) fn schema() -> Result<ExitCode, Failure> {
    writeln!(io::stdout().lock(), "{:#}", policy_schema())?;
    Ok(ExitCode::SUCCESS)
}

/// One problem as a line of JSON.
#[derive(Serialize)]
struct ProblemLine<'a> {
    file: &'a str,
    severity: String,
    rule_id: Option<&'a str>,
    field: &'a str,
    line: Option<u32>,
    column: Option<u32>,
    message: &'a str,
    advice: Option<&'a str>,
}

/// Reports what is wrong (errors) and what is doubtful (warnings). Both count as found problems.
pub(crate) fn lint(arguments: &LintArguments) -> Result<ExitCode, Failure> {
    let context = LintContext {
        nodes: arguments.nodes,
        trusted_proxies: arguments.trusted_proxies.then_some(true),
        redis: arguments.redis,
    };
    let mut output = io::stdout().lock();
    let (mut errors, mut warnings) = (0, 0);
    for path in &arguments.files {
        let file = PolicyText::read(path)?;
        let problems = match Policy::compile(&file.source) {
            Ok(policy) => doubts(&file.source, &policy, &context),
            Err(problems) => problems,
        };
        for problem in &problems {
            match problem.severity {
                Severity::Error => errors += 1,
                Severity::Warning => warnings += 1,
            }
            if arguments.json {
                let line = serde_json::to_string(&line_of(&file, problem)).unwrap_or_default();
                writeln!(output, "{line}")?;
            } else {
                writeln!(output, "{}", problem.render(&file.name, &file.text))?;
            }
        }
    }
    if !arguments.json {
        let files = count(arguments.files.len() as u64, "file");
        let (errors, warnings) = (count(errors, "error"), count(warnings, "warning"));
        writeln!(output, "{files}: {errors}, {warnings}")?;
    }
    Ok(if errors + warnings == 0 { ExitCode::SUCCESS } else { ExitCode::from(FOUND_PROBLEMS) })
}

fn line_of<'a>(file: &'a PolicyText, problem: &'a Problem) -> ProblemLine<'a> {
    ProblemLine {
        file: &file.name,
        severity: problem.severity.to_string(),
        rule_id: problem.rule.as_deref(),
        field: &problem.path,
        line: problem.position.map(|position| position.line),
        column: problem.position.map(|position| position.column),
        message: &problem.message,
        advice: problem.advice.as_deref(),
    }
}
