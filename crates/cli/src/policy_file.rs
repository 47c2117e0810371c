//! Reading policies from files, and showing what is wrong with them.

use std::fs;
use std::io::{self, Read as _};

use tollgate::Problem;
use tollgate::rules::Source;

use crate::failure::Failure;
use crate::terminal::count;

/// A policy document as it was read.
pub(crate) struct PolicyText {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) source: Source,
}

impl PolicyText {
    /// Reads a file; `-` is standard input.
    pub(crate) fn read(path: &str) -> Result<Self, Failure> {
        let (name, text) = if path == "-" {
            let mut text = String::new();
            let read = io::stdin().read_to_string(&mut text);
            ("standard input", read.map(|_| text))
        } else {
            (path, fs::read_to_string(path))
        };
        let text = text.map_err(|error| Failure::usage(format!("cannot read {name}: {error}")))?;
        let source = Source::parse(&text);
        Ok(Self { name: name.to_owned(), text, source })
    }

    /// One rule given on the command line. What it leaves out is filled in.
    pub(crate) fn inline(text: &str, identifier: &str) -> Self {
        let source = Source::parse_rule(text, "inline", identifier);
        Self { name: "--rule".to_owned(), text: text.to_owned(), source }
    }

    /// Why the policy cannot be used: each problem above the line it is in.
    pub(crate) fn unusable(&self, problems: &[Problem]) -> Failure {
        let shown: Vec<String> =
            problems.iter().map(|problem| problem.render(&self.name, &self.text)).collect();
        let found = count(problems.len() as u64, "problem");
        Failure::usage(format!("{} cannot be used: {found}\n\n{}", self.name, shown.join("\n")))
    }
}
