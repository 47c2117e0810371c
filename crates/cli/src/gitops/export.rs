//! `tollgate rules export`: what a catalog says, as a file that `apply` takes back unchanged.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use serde::Serialize;
use serde_json::value::RawValue;
use tollgate::rules::{Format, PolicyDocument, Source, to_yaml};

use super::arguments::{ExportArguments, ExportFormat};
use crate::failure::Failure;
use crate::output::print;
use crate::remote::client::{Fetched, Remote};

/// Prints the policy of a server, or writes it into a file.
pub(crate) fn export(arguments: &ExportArguments) -> Result<ExitCode, Failure> {
    let response = Remote::new(&arguments.server)?.get::<Box<RawValue>>("/api/v1/policy")?;
    write_policy(response, arguments)
}

/// Prints a policy that a server sent, or writes it into a file.
pub(super) fn write_policy(
    response: Fetched<Box<RawValue>>,
    arguments: &ExportArguments,
) -> Result<ExitCode, Failure> {
    let source = Source::parse_as(&response.text, Format::Json);
    if let Some(problem) = source.problems.first() {
        return Err(Failure::usage(format!(
            "the server's policy is not one that this version could put back: {problem}"
        )));
    }
    let text = match arguments.format {
        _ if arguments.server.json => Ok(response.text + "\n"),
        ExportFormat::Yaml => to_yaml(&response.value),
        ExportFormat::Json => to_json(&source.document),
    };
    let text = text.map_err(|error| Failure::usage(format!("cannot write the policy: {error}")))?;
    match &arguments.output {
        Some(file) => write(file, &text)?,
        None => print(&text)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn write(file: &Path, text: &str) -> Result<(), Failure> {
    fs::write(file, text)
        .map_err(|error| Failure::usage(format!("cannot write {}: {error}", file.display())))
}

/// A document as JSON, one entry a line, so that a change of one is a change of one line.
fn to_json(document: &PolicyDocument) -> serde_json::Result<String> {
    let lists = [
        ("rules", lines(&document.rules)?),
        ("tiers", lines(&document.tiers)?),
        ("clients", lines(&document.clients)?),
        ("overrides", lines(&document.overrides)?),
        ("whitelist", lines(&document.whitelist)?),
        ("blacklist", lines(&document.blacklist)?),
    ];
    let shown = lists.iter().filter(|(list, lines)| *list == "rules" || !lines.is_empty());
    let shown: Vec<String> = shown
        .map(|(list, lines)| match lines.as_str() {
            "" => format!("  \"{list}\": []"),
            lines => format!("  \"{list}\": [\n{lines}\n  ]"),
        })
        .collect();
    Ok(format!("{{\n{}\n}}\n", shown.join(",\n")))
}

fn lines<T: Serialize>(entries: &[T]) -> serde_json::Result<String> {
    let line = |entry: &T| Ok(format!("    {}", serde_json::to_string(entry)?));
    Ok(entries.iter().map(line).collect::<serde_json::Result<Vec<String>>>()?.join(",\n"))
}
