//! What is wrong with one value of a document, before its position is known.

use tollgate_document::Problem;

/// An error without a position. It becomes a `Problem` once the position is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Flaw {
    /// The field, relative to the value that was checked; empty for the value itself.
    pub(crate) field: String,
    /// What is wrong.
    pub(crate) message: String,
    /// What would be right.
    pub(crate) advice: String,
}

impl Flaw {
    pub(crate) fn new(message: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { field: String::new(), message: message.into(), advice: advice.into() }
    }

    /// The flaw with its field relative to the value around it.
    pub(crate) fn within(mut self, field: &str) -> Self {
        let separator = if self.field.is_empty() || self.field.starts_with('[') { "" } else { "." };
        self.field = format!("{field}{separator}{}", self.field);
        self
    }
}

impl From<Flaw> for Problem {
    fn from(flaw: Flaw) -> Self {
        Self::new(flaw.field, flaw.message).with_advice(flaw.advice)
    }
}
