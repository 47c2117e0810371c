//! Reading policies from files, and showing what is wrong with them.

use std::fs::File;
use std::io::{self, Read};

use tollgate::Problem;
use tollgate::rules::Source;

use crate::failure::Failure;
use crate::terminal::count;

/// The largest document. A scenario may name any file, also one without an end.
const MAX_BYTES: u64 = 64 << 20;

/// The name and the text of a document; `-` is standard input.
pub(crate) fn read_text(path: &str) -> Result<(&str, String), Failure> {
    let (name, read) = if path == "-" {
        ("standard input", read_bounded(io::stdin()))
    } else {
        (path, File::open(path).and_then(read_bounded))
    };
    let text = read.map_err(|error| Failure::usage(format!("cannot read {name}: {error}")))?;
    Ok((name, text))
}

fn read_bounded(reader: impl Read) -> io::Result<String> {
    let mut text = String::new();
    if reader.take(MAX_BYTES + 1).read_to_string(&mut text)? as u64 > MAX_BYTES {
        return Err(io::Error::other("it is larger than 64 MiB"));
    }
    Ok(text)
}

/// A policy document as it was read.
pub(crate) struct PolicyText {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) source: Source,
}

impl PolicyText {
    /// Reads a file; `-` is standard input.
    pub(crate) fn read(path: &str) -> Result<Self, Failure> {
        let (name, text) = read_text(path)?;
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
