//! Where something stands in a text, as editors count it.

use std::fmt;

/// A place in a text: both numbers start at 1, columns count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The line.
    pub line: u32,
    /// The character within the line.
    pub column: u32,
}

impl Position {
    /// Where every text starts.
    pub const START: Self = Self { line: 1, column: 1 };

    /// The place after `text`, which starts here. Lines end as in YAML: LF, CR LF or CR.
    #[must_use]
    pub fn after(mut self, text: &str) -> Self {
        let mut characters = text.chars().peekable();
        while let Some(character) = characters.next() {
            match character {
                '\r' if characters.peek() == Some(&'\n') => {}
                '\r' | '\n' => self = Self { line: self.line.saturating_add(1), column: 1 },
                _ => self.column = self.column.saturating_add(1),
            }
        }
        self
    }

    /// The nearest place that is in `text`, or right behind it.
    pub(crate) fn clamp_to(self, text: &str) -> Self {
        let width = line(text, self.line).chars().count();
        let width = u32::try_from(width).unwrap_or(u32::MAX);
        let column = self.column.min(width.saturating_add(1));
        Self { column, ..self }.min(Self::START.after(text))
    }
}

/// The line of that number, without its end. Lines end as in YAML: LF, CR LF or CR.
pub(crate) fn line(text: &str, number: u32) -> &str {
    let mut rest = text;
    for _ in 1..number {
        let Some(end) = rest.find(['\n', '\r']) else { return "" };
        let length = if rest[end..].starts_with("\r\n") { 2 } else { 1 };
        rest = &rest[end + length..];
    }
    rest.split(['\n', '\r']).next().unwrap_or_default()
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}
