//! The tree that YAML and JSON are read into: values, each with its position in the text.
//!
//! Numbers keep their text, because a number that has been a float is no longer what was written.

use std::borrow::Cow;

use crate::position::Position;
use crate::problem::Problem;

/// How deep lists and maps may be nested. A policy needs six levels.
pub(crate) const MAX_DEPTH: usize = 64;
/// How many values a document may be written with: enough for 300,000 clients.
pub(crate) const MAX_NODES: usize = 2_000_000;

/// A value and where it starts.
#[derive(Clone, Debug)]
pub struct Node {
    /// Where it starts.
    pub position: Position,
    /// What it is.
    pub value: Value,
}

/// The values that YAML and JSON have in common.
#[derive(Clone, Debug)]
pub enum Value {
    /// Nothing: `null`, `~`, or no text at all.
    Null,
    /// True or false.
    Bool(bool),
    /// A number, as written.
    Number(String),
    /// A text.
    String(String),
    /// Values in order.
    List(Vec<Node>),
    /// Entries in the order of the text; a key may occur twice.
    Map(Vec<(MapKey, Node)>),
}

/// A key of a map and where it starts.
#[derive(Clone, Debug)]
pub struct MapKey {
    /// The key itself.
    pub text: String,
    /// Where it starts.
    pub position: Position,
}

impl Node {
    /// The first value under that key, if this is a map.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Self> {
        match &self.value {
            Value::Map(entries) => {
                entries.iter().find(|(known, _)| known.text == key).map(|(_, node)| node)
            }
            _ => None,
        }
    }

    /// The item at that index, if this is a list.
    #[must_use]
    pub fn item(&self, index: usize) -> Option<&Self> {
        match &self.value {
            Value::List(items) => items.get(index),
            _ => None,
        }
    }

    /// The text, if this is a string.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match &self.value {
            Value::String(text) => Some(text),
            _ => None,
        }
    }
}

impl Value {
    /// The text of a single value: a string, a number as written, true or false.
    #[must_use]
    pub fn scalar(&self) -> Option<&str> {
        match self {
            Self::String(text) | Self::Number(text) => Some(text),
            Self::Bool(value) => Some(if *value { "true" } else { "false" }),
            Self::Null | Self::List(_) | Self::Map(_) => None,
        }
    }

    /// What this is, for an error message: "expected a number, found a list".
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Null => "nothing".to_owned(),
            Self::Bool(value) => value.to_string(),
            Self::Number(text) => shorten(text).into_owned(),
            Self::String(text) => quote(text),
            Self::List(_) => "a list".to_owned(),
            Self::Map(_) => "a map".to_owned(),
        }
    }
}

/// The text in quotes, safe to print and short enough to read.
#[must_use]
pub fn quote(text: &str) -> String {
    format!("{:?}", shorten(text))
}

/// The text without quotes, safe to print and short enough to read.
#[must_use]
pub fn printable(text: &str) -> String {
    shorten(text).escape_debug().to_string()
}

/// At most 100 characters of the text: a rule id is shown whole.
fn shorten(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(100) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

/// The error for a document that is nested too deep.
pub(crate) fn too_deep(position: Position) -> Problem {
    Problem::new("", format!("the document is nested deeper than {MAX_DEPTH} levels")).at(position)
}

/// The error for a document with too many values.
pub(crate) fn too_large(position: Position) -> Problem {
    Problem::new("", format!("the document has more than {MAX_NODES} values")).at(position)
}
