//! One problem of a document: where it is, what is wrong, and what would be right.

use std::fmt;
use std::fmt::Write as _;

use crate::position::{Position, line};

/// The most of a line that is shown around a problem.
const SNIPPET_WIDTH: usize = 100;

/// Whether a document can be used in spite of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// It cannot.
    Error,
    /// It can, but it may not do what its author thinks.
    Warning,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Error => "error",
            Self::Warning => "warning",
        })
    }
}

/// One thing that is wrong with a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Whether the document can be used all the same.
    pub severity: Severity,
    /// In a policy the `rule_id` of the rule it is in, if it is in one.
    pub rule: Option<String>,
    /// The field, like `rules[3].applies_to.methods[0]`; empty for the document as a whole.
    pub path: String,
    /// Where that field stands in the text, if there is a text.
    pub position: Option<Position>,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub advice: Option<String>,
}

impl Problem {
    /// An error in the field at `path`.
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            rule: None,
            path: path.into(),
            position: None,
            message: message.into(),
            advice: None,
        }
    }

    /// The same problem with advice on what would be right.
    #[must_use]
    pub fn with_advice(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    /// The same problem as a warning.
    #[must_use]
    pub fn into_warning(mut self) -> Self {
        self.severity = Severity::Warning;
        self
    }

    /// The same problem with its position in the text.
    #[must_use]
    pub fn at(mut self, position: Position) -> Self {
        self.position = Some(position);
        self
    }

    /// For a terminal: the problem above the line of `text` it is in, with a mark below the place.
    #[must_use]
    pub fn render(&self, file_name: &str, text: &str) -> String {
        let mut out = self.render_head(file_name);
        if let Some(position) = self.position {
            let (line, margin) = (position.line, self.margin());
            let (snippet, caret) = snippet(text, position);
            let _ = writeln!(out, "{:margin$} |", "");
            let _ = writeln!(out, "{line} | {snippet}");
            let _ = writeln!(out, "{:margin$} | {:caret$}^", "", "");
        }
        self.render_advice(out)
    }

    /// For a terminal, without the line it is in: that line may contain a secret.
    #[must_use]
    pub fn render_without_line(&self, file_name: &str) -> String {
        self.render_advice(self.render_head(file_name))
    }

    /// What is wrong, and where.
    fn render_head(&self, file_name: &str) -> String {
        let margin = self.margin();
        let mut out = format!("{}: {}{}\n", self.severity, ProblemSubject(self), self.message);
        let _ = write!(out, "{:margin$}--> {file_name}", "");
        if let Some(Position { line, column }) = self.position {
            let _ = write!(out, ":{line}:{column}");
        }
        out.push('\n');
        out
    }

    fn render_advice(&self, mut out: String) -> String {
        if let Some(advice) = &self.advice {
            let margin = self.margin();
            let _ = writeln!(out, "{:margin$} = help: {advice}", "");
        }
        out
    }

    /// As wide as the number of the line.
    fn margin(&self) -> usize {
        self.position.map_or(1, |position| position.line.to_string().len())
    }
}

/// One line: `line 4, column 12: rule api_default, limit: expected a whole number, found "five"`.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(position) = self.position {
            write!(f, "{position}: ")?;
        }
        write!(f, "{}{}", ProblemSubject(self), self.message)?;
        match &self.advice {
            Some(advice) => write!(f, "; {advice}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Problem {}

/// What a problem is about: the rule by its name and the field within it, else the whole path.
struct ProblemSubject<'a>(&'a Problem);

impl fmt::Display for ProblemSubject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.0.path.as_str();
        match &self.0.rule {
            Some(rule) => {
                // A rule that was sent alone has no place in a list.
                let in_list = path.strip_prefix("rules[").and_then(|rest| rest.split_once(']'));
                let field = in_list.map_or(path, |(_, field)| field);
                match field.strip_prefix('.').unwrap_or(field) {
                    "" => write!(f, "rule {rule}: "),
                    field => write!(f, "rule {rule}, {field}: "),
                }
            }
            None if path.is_empty() => Ok(()),
            None => write!(f, "{path}: "),
        }
    }
}

/// The part of the line around a position, and how many characters stand before the position in
/// it. A line can be a whole minified document, and can hold what a terminal should not be sent.
fn snippet(text: &str, position: Position) -> (String, usize) {
    let line = line(text.strip_prefix('\u{feff}').unwrap_or(text), position.line);
    let before = position.column.saturating_sub(1) as usize;
    let skipped = before.saturating_sub(SNIPPET_WIDTH / 2);
    let printable = |c: char| if c.is_control() { ' ' } else { c };
    let shown = line.chars().skip(skipped).take(SNIPPET_WIDTH).map(printable).collect::<String>();
    (shown.trim_end().to_owned(), before - skipped)
}
