//! What the two formats with a JSON object a line share.

use std::borrow::Cow;

use serde::Deserialize;

use super::BadLineReason;

/// A string, borrowed from the line unless it holds escapes.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub(super) struct JsonText<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

impl<'a> From<JsonText<'a>> for Cow<'a, str> {
    fn from(text: JsonText<'a>) -> Self {
        text.0
    }
}

/// Reads a line, or says what is wrong with it.
pub(super) fn parse<'a, T: Deserialize<'a>>(line: &'a str) -> Result<T, BadLineReason> {
    // An array would do for a derived type, its elements taken for members in order.
    if !line.trim_ascii_start().starts_with('{') {
        return Err("not a JSON object".into());
    }
    serde_json::from_str(line).map_err(|error| {
        let message = error.to_string();
        // Each line is a document, so a line number of 1 would only mislead.
        let position = format!(" at line {} column {}", error.line(), error.column());
        let message = message.strip_suffix(&position).unwrap_or(&message);
        format!("{message} at column {}", error.column()).into()
    })
}
