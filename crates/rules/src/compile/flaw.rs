//! What is wrong with one value of a document, before anyone knows where it stands.

use tollgate_document::Problem;

/// Becomes a problem on its way out, when the place is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Flaw {
    /// The field, seen from whoever looks at it; empty for the thing itself.
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

    /// The same flaw, seen from one level further out.
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
