//! `tollgate rules import`: the limits of another rate limiter as a policy.

mod arguments;
mod envoy;
mod file;
mod include;
mod lint;
mod nginx;

use std::collections::HashMap;
use std::io::{self, Write as _};
use std::process::ExitCode;

use serde::Serialize;
use tollgate::rules::{PolicyDocument, to_yaml};

pub(crate) use arguments::ImportArguments;
pub(crate) use lint::LintFiles;

use arguments::ImportSource;

use crate::failure::Failure;
use crate::terminal::count;

/// The result of an import.
struct Imported {
    policy: PolicyDocument,
    notes: Vec<ImportNote>,
    /// How many there were of what, by its name in the singular.
    counts: Vec<(usize, &'static str)>,
}

/// A difference between the policy and the files.
#[derive(Serialize)]
struct ImportNote {
    /// The limit or rule it is about. Null, if it is about all of them, or about a place.
    limit: Option<String>,
    #[serde(flatten)]
    place: Option<Spot>,
    code: &'static str,
    message: String,
}

/// A place in the files.
#[derive(Serialize)]
struct Spot {
    file: String,
    line: u32,
    column: u32,
}

impl ImportNote {
    /// What it is about.
    fn subject(&self) -> String {
        match (&self.limit, &self.place) {
            (Some(limit), _) => limit.clone(),
            (None, Some(Spot { file, line, column })) => format!("{file}:{line}:{column}"),
            (None, None) => "every rule".to_owned(),
        }
    }
}

/// What is printed for programs.
#[derive(Serialize)]
struct ImportAnswer<'a> {
    policy: &'a PolicyDocument,
    notes: &'a [ImportNote],
}

/// Prints the policy, and all differences from the files.
pub(crate) fn run(arguments: &ImportArguments) -> Result<ExitCode, Failure> {
    let Imported { policy, notes, counts } = match arguments.from {
        ImportSource::Envoy => envoy::import(&arguments.files)?,
        ImportSource::Nginx => nginx::import(&arguments.files)?,
    };
    let text = if arguments.json {
        let answer = ImportAnswer { policy: &policy, notes: &notes };
        serde_json::to_string(&answer).map(|text| text + "\n")
    } else {
        to_yaml(&policy)
    };
    let text = text.map_err(|error| Failure::usage(format!("cannot write the policy: {error}")))?;
    io::stdout().lock().write_all(text.as_bytes())?;
    let counts = counts.into_iter().chain([(policy.rules.len(), "rule")]);
    let summary = counts.map(|(number, thing)| count(number as u64, thing)).collect::<Vec<_>>();
    eprintln!("{}{}", in_words(&notes), summary.join(", "));
    Ok(ExitCode::SUCCESS)
}

/// Each kind of difference once, with all limits that it is about.
fn in_words(notes: &[ImportNote]) -> String {
    let mut losses = Vec::<(&str, Vec<String>)>::new();
    let mut known = HashMap::new();
    for note in notes {
        let at = *known.entry(&*note.message).or_insert_with(|| {
            losses.push((&note.message, Vec::new()));
            losses.len() - 1
        });
        if let Some((_, subjects)) = losses.get_mut(at) {
            subjects.push(note.subject());
        }
    }
    let line = |(message, subjects): &(&str, Vec<String>)| {
        format!("note: {}: {message}\n", subjects.join(", "))
    };
    losses.iter().map(line).collect()
}
