//! All files as one tree: what `include` names stands where it is named.

use std::mem;
use std::sync::Arc;

use tollgate_document::{Problem, quote};

use crate::FileProblem;
use crate::nginx::directive::{Directive, parse};
use crate::nginx::note::{NginxLoss, NginxNote};
use crate::nginx::place::FilePosition;

/// How many files may include each other in a row.
const MAX_DEPTH: usize = 16;
/// How many files there may be.
const MAX_FILES: usize = 1_000;
/// How long all of them may be together.
const MAX_BYTES: usize = 16 << 20;
/// How many problems are reported. A file with more is probably not an nginx configuration.
const MAX_PROBLEMS: usize = 1_000;

/// A file as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NginxFile {
    /// What problems and notes call it.
    pub name: String,
    /// What it says.
    pub text: String,
}

/// Finds the files that a pattern names: `mime.types`, `conf.d/*.conf`. It is given the file at the
/// top, whose folder nginx takes as the start of relative paths, then the pattern. Or it says why
/// there are none.
pub type Include<'a> = dyn FnMut(&str, &str) -> Result<Vec<NginxFile>, String> + 'a;

/// What was found on the way through the files.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// Errors for which nginx would refuse the files.
    pub(super) problems: Vec<FileProblem>,
    /// What a policy cannot say.
    pub(super) notes: Vec<NginxNote>,
}

impl Findings {
    pub(super) fn problem(&mut self, place: &FilePosition, message: &str, advice: &str) {
        let problem = Problem::new("", message).with_advice(advice).at(place.position);
        self.add(FileProblem { file: place.file.to_string(), problem });
    }

    pub(super) fn note(&mut self, place: &FilePosition, loss: NginxLoss) {
        self.notes.push(NginxNote::at(place, loss));
    }

    fn add(&mut self, problem: FileProblem) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(problem);
        }
    }
}

/// Reads a file and all that it includes.
pub(super) struct ConfigReader<'a> {
    include: &'a mut Include<'a>,
    files: usize,
    bytes: usize,
    /// Whether no more files are read.
    is_full: bool,
    pub(super) findings: Findings,
}

impl<'a> ConfigReader<'a> {
    pub(super) fn new(include: &'a mut Include<'a>) -> Self {
        Self { include, files: 0, bytes: 0, is_full: false, findings: Findings::default() }
    }

    /// The directives of a file that was given by its name.
    pub(super) fn read(&mut self, name: &str, text: &str) -> Vec<Directive> {
        self.files += 1;
        self.bytes += text.len();
        let mut directives = self.parse(name, text);
        self.expand(name, &mut directives, 0);
        directives
    }

    fn parse(&mut self, name: &str, text: &str) -> Vec<Directive> {
        parse(&Arc::from(name), text).unwrap_or_else(|problem| {
            self.findings.add(FileProblem { file: name.to_owned(), problem });
            Vec::new()
        })
    }

    /// Puts files in the place of what includes them.
    fn expand(&mut self, top: &str, directives: &mut Vec<Directive>, depth: usize) {
        let is_include = |it: &Directive| it.name == "include" && it.block.is_none();
        for mut directive in mem::take(directives) {
            if is_include(&directive) {
                directives.extend(self.included(top, &directive, depth + 1));
            } else {
                if let Some(block) = &mut directive.block {
                    self.expand(top, block, depth);
                }
                directives.push(directive);
            }
        }
    }

    fn included(&mut self, top: &str, directive: &Directive, depth: usize) -> Vec<Directive> {
        let Directive { place, arguments, .. } = directive;
        let [pattern] = &**arguments else {
            self.findings.problem(place, "include names one file", "write include FILE;");
            return Vec::new();
        };
        if depth > MAX_DEPTH {
            let message = format!("files include each other more than {MAX_DEPTH} deep");
            self.findings.problem(place, &message, "let no file include itself");
            return Vec::new();
        }
        if self.is_full {
            return Vec::new();
        }
        let files = match (self.include)(top, &pattern.text) {
            Ok(files) => files,
            Err(reason) => {
                let pattern = quote(&pattern.text);
                self.findings.note(place, NginxLoss::Include { pattern, reason });
                return Vec::new();
            }
        };
        let mut all = Vec::new();
        for NginxFile { name, text } in files {
            self.files += 1;
            self.bytes = self.bytes.saturating_add(text.len());
            self.is_full = self.files > MAX_FILES || self.bytes > MAX_BYTES;
            if self.is_full {
                let message = format!(
                    "the files are more than {MAX_FILES}, or longer than {} MiB",
                    MAX_BYTES >> 20
                );
                self.findings.problem(place, &message, "import fewer of them at a time");
                return Vec::new();
            }
            let mut directives = self.parse(&name, &text);
            self.expand(top, &mut directives, depth);
            all.append(&mut directives);
        }
        all
    }
}
