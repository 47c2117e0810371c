//! Where in a document the reader is, and every problem found so far.

use std::collections::HashMap;
use std::fmt::{Display, Write as _};

use crate::node::{Node, quote};
use crate::position::Position;
use crate::problem::Problem;

/// How many problems of one document are reported. Reading ends there: a hostile text has millions.
pub const MAX_PROBLEMS: usize = 1_000;

/// The longest name that is written in a path without quotes. Fields have short ones.
const MAX_WORD: usize = 40;

/// Where in the document we are, and what has been found wrong so far.
#[derive(Debug, Default)]
pub struct Scope {
    path: String,
    problems: Vec<Problem>,
    /// How many problems there are, those that are not reported included.
    found: usize,
    /// Which items of which list could not be read, by the path of the list.
    unread: HashMap<String, Vec<usize>>,
}

impl Scope {
    /// Runs `read` with the path one field further down.
    pub fn in_field<T>(&mut self, name: &str, read: impl FnOnce(&mut Self) -> T) -> T {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if name.is_empty() || name.len() > MAX_WORD || !name.chars().all(is_word) {
            return self.in_entry(name, read);
        }
        let dot = if self.path.is_empty() { "" } else { "." };
        self.within(format_args!("{dot}{name}"), read)
    }

    /// Runs `read` with the path at an item of the current list.
    pub fn in_item<T>(&mut self, index: usize, read: impl FnOnce(&mut Self) -> T) -> T {
        self.within(format_args!("[{index}]"), read)
    }

    /// Runs `read` with the path at an entry of the current map, whose keys are free text.
    pub fn in_entry<T>(&mut self, key: &str, read: impl FnOnce(&mut Self) -> T) -> T {
        self.within(format_args!("[{}]", quote(key)), read)
    }

    fn within<T>(
        &mut self,
        segment: std::fmt::Arguments<'_>,
        read: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let length = self.path.len();
        let _ = self.path.write_fmt(segment);
        let value = read(self);
        self.path.truncate(length);
        value
    }

    /// Adds a problem of the current field: what is wrong, and what would be right.
    pub fn problem(
        &mut self,
        position: Position,
        message: impl Into<String>,
        advice: impl Into<String>,
    ) {
        self.found += 1;
        if self.found <= MAX_PROBLEMS {
            let problem = Problem::new(&self.path, message).with_advice(advice);
            self.problems.push(problem.at(position));
        }
    }

    /// Adds the problem that `node` is not what was expected.
    pub fn expected(&mut self, node: &Node, what: &str, advice: &str) {
        let message = format!("expected {what}, found {}", node.value.describe());
        self.problem(node.position, message, advice);
    }

    /// Adds the problem that the number in `node` is not between those two.
    pub fn out_of_range(&mut self, node: &Node, least: impl Display, most: impl Display) {
        let message = format!("{} is out of range", node.value.describe());
        self.problem(node.position, message, format!("write a number from {least} to {most}"));
    }

    /// How many problems have been found so far.
    #[must_use]
    pub fn found(&self) -> usize {
        self.found
    }

    /// True if no more problems are reported, so that reading can end.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.found >= MAX_PROBLEMS
    }

    /// Remembers that an item of the current list could not be read.
    pub(crate) fn mark_unread(&mut self, index: usize) {
        self.unread.entry(self.path.clone()).or_default().push(index);
    }

    /// Adds the problem that the current field occurs twice.
    pub(crate) fn given_twice(&mut self, first: Position, second: Position) {
        self.problem(second, format!("given twice, first at {first}"), "remove one of the two");
    }

    /// Ends the reading: the problems, and which items of which list could not be read.
    #[must_use]
    pub fn finish(mut self) -> (Vec<Problem>, HashMap<String, Vec<usize>>) {
        if self.is_full() {
            self.problems.push(more_problems());
        }
        (self.problems, self.unread)
    }
}

/// The last problem of a document that may have more than those reported.
#[must_use]
pub fn more_problems() -> Problem {
    Problem::new("", format!("only the first {MAX_PROBLEMS} problems are shown"))
        .with_advice("correct these, then check again")
}
