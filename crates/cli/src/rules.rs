//! `tollgate rules`: what can be done with rules without a server.

use std::io::{self, Write as _};
use std::mem;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use tollgate::Problem;
use tollgate::rules::{LintContext, Severity, schema as policy_schema};
use tollgate_import::envoy::RepeatedDomain;

use crate::failure::{FOUND_PROBLEMS, Failure};
use crate::gitops::{PolicyFiles, inspect};
use crate::import::LintFiles;
use crate::policy_file::PolicyText;
use crate::terminal::count;

/// Arguments of `tollgate rules lint`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tollgate rules lint policy.yaml
  tollgate rules lint --strict --nodes 3 --redis -f rules/ -f lists/
  tollgate rules lint ratelimit/

Files of envoyproxy/ratelimit are recognised by their fields, and checked as `serve --envoy-config` \
checks them.

The exit code is 0 if there are no errors, 1 if there are some, or with --strict warnings, 2 if a \
file cannot be read.")]
pub(crate) struct LintArguments {
    /// How many nodes the rules are for.
    #[arg(long, value_name = "N")]
    pub(crate) nodes: Option<u32>,

    /// Whether proxies in front are trusted to name the client. If not, rules by address are doubtful.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true")]
    pub(crate) trusted_proxies: Option<bool>,

    /// Counters will be shared in Redis.
    #[arg(long)]
    pub(crate) redis: bool,

    /// Files of envoyproxy/ratelimit with the same domain are one domain, as with the setting
    /// `envoy.merge_domains`.
    #[arg(long)]
    pub(crate) merge_domains: bool,

    /// Exit with 1 also if there are only warnings.
    #[arg(long)]
    pub(crate) strict: bool,

    /// One JSON line per problem.
    #[arg(long)]
    pub(crate) json: bool,

    /// A file or folder, as `apply` takes it; may be repeated.
    #[arg(short = 'f', long = "file", value_name = "FILE|DIR")]
    pub(crate) paths: Vec<String>,

    /// Policy files, YAML or JSON, and folders of them, all of which are one document; or files and
    /// folders of envoyproxy/ratelimit. `-` is standard input.
    #[arg(required_unless_present = "paths", value_name = "FILE|DIR")]
    pub(crate) files: Vec<String>,
}

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

/// Reports what is wrong (errors) and what is doubtful (warnings) in files that are one document.
pub(crate) fn lint(arguments: &LintArguments) -> Result<ExitCode, Failure> {
    let context = LintContext {
        nodes: arguments.nodes,
        trusted_proxies: arguments.trusted_proxies,
        redis: arguments.redis,
    };
    let mut output = io::stdout().lock();
    let (mut errors, mut warnings) = (0, 0);
    let paths: Vec<String> = arguments.files.iter().chain(&arguments.paths).cloned().collect();
    let mut files = LintFiles::read(&paths)?;
    let envoy = files.inspect_envoy(if arguments.merge_domains {
        RepeatedDomain::Merged
    } else {
        RepeatedDomain::Refused
    });
    let policy = PolicyFiles::of(mem::take(&mut files.policy));
    // Without a policy file there is no policy that could lack something.
    let found = if policy.files.is_empty() { Vec::new() } else { inspect(&policy, &context) };
    let found = found.iter().map(|(number, problem)| (&policy.files[*number], problem));
    let of_envoy = envoy.iter().map(|(number, problem)| (&files.envoy[*number], problem));
    for (file, problem) in found.chain(of_envoy) {
        match problem.severity {
            Severity::Error => errors += 1,
            Severity::Warning => warnings += 1,
        }
        if arguments.json {
            let line = serde_json::to_string(&line_of(file, problem)).unwrap_or_default();
            writeln!(output, "{line}")?;
        } else {
            writeln!(output, "{}", problem.render(&file.name, &file.text))?;
        }
    }
    let has_failed = errors > 0 || (arguments.strict && warnings > 0);
    if !arguments.json {
        let files = count((policy.files.len() + files.envoy.len()) as u64, "file");
        let (errors, warnings) = (count(errors, "error"), count(warnings, "warning"));
        writeln!(output, "{files}: {errors}, {warnings}")?;
    }
    Ok(if has_failed { ExitCode::from(FOUND_PROBLEMS) } else { ExitCode::SUCCESS })
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
