//! The body of an error response: `application/problem+json` with a stable code.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// The body of an error.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ProblemBody<'a> {
    /// Always `about:blank`: the code says more than a link would.
    #[cfg_attr(feature = "openapi", schema(example = "about:blank"))]
    pub r#type: Cow<'a, str>,
    /// The HTTP status in words.
    pub title: Cow<'a, str>,
    /// The HTTP status.
    #[cfg_attr(feature = "openapi", schema(example = 400, minimum = 400, maximum = 599))]
    pub status: u16,
    /// What kind of error this is, for programs. Codes do not change.
    #[cfg_attr(feature = "openapi", schema(example = "invalid_body"))]
    pub code: Cow<'a, str>,
    /// What was wrong, where, and what would be right, for people.
    pub detail: Cow<'a, str>,
    /// Everything that was wrong with a document, one by one: rule, field, message, advice, line.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<Object>))]
    pub problems: Cow<'a, [DocumentProblem]>,
}

/// One problem of a document.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct DocumentProblem {
    /// What would be right.
    pub advice: Option<String>,
    /// The column of the field in the text, if there is a text.
    pub column: Option<u32>,
    /// The field, like `rules[3].applies_to.methods[0]`; empty for the document as a whole.
    #[serde(default)]
    pub field: String,
    /// The line of the field in the text, if there is a text.
    pub line: Option<u32>,
    /// What is wrong.
    pub message: String,
    /// The rule it is in, if it is in one.
    pub rule_id: Option<String>,
}
