//! What a document is before it means anything: values, each with the place where it was written.
//!
//! YAML and JSON both end here, so that everything after reading is written once. Numbers keep
//! their text, because a number that has been a float is no longer what was written.

use std::borrow::Cow;

use crate::position::Position;
use crate::problem::Problem;

/// How deep lists and maps may be nested. A policy needs six levels.
pub(crate) const MAX_DEPTH: usize = 64;
/// How many values a document may be written with: enough for 300,000 clients.
pub(crate) const MAX_NODES: usize = 2_000_000;

/// A value and where it starts.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) position: Position,
    pub(crate) value: Value,
}

/// The values that YAML and JSON have in common.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    /// As written.
    Number(String),
    String(String),
    List(Vec<Node>),
    /// In the order of the text; a key may be there twice.
    Map(Vec<(Key, Node)>),
}

/// A key of a map and where it starts.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub(crate) text: String,
    pub(crate) position: Position,
}

impl Node {
    /// The first value under that key, if this is a map.
    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        match &self.value {
            Value::Map(entries) => {
                entries.iter().find(|(known, _)| known.text == key).map(|(_, node)| node)
            }
            _ => None,
        }
    }

    /// The item at that index, if this is a list.
    pub(crate) fn item(&self, index: usize) -> Option<&Self> {
        match &self.value {
            Value::List(items) => items.get(index),
            _ => None,
        }
    }

    /// The text, if this is a string.
    pub(crate) fn as_str(&self) -> Option<&str> {
        match &self.value {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// What this is, for a person who expected something else.
    pub(crate) fn describe(&self) -> String {
        match &self.value {
            Value::Null => "nothing".to_owned(),
            Value::Bool(value) => value.to_string(),
            Value::Number(text) => shorten(text).into_owned(),
            Value::String(text) => quote(text),
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a map".to_owned(),
        }
    }
}

/// The text in quotes, safe to print and short enough to read.
pub(crate) fn quote(text: &str) -> String {
    format!("{:?}", shorten(text))
}

/// The text without quotes, safe to print and short enough to read.
pub(crate) fn printable(text: &str) -> String {
    shorten(text).escape_debug().to_string()
}

/// At most 100 characters of the text: a rule id is shown whole.
fn shorten(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(100) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

/// Refuses a document for its depth.
pub(crate) fn too_deep(position: Position) -> Problem {
    Problem::new("", format!("the document is nested deeper than {MAX_DEPTH} levels")).at(position)
}

/// Refuses a document for its size.
pub(crate) fn too_large(position: Position) -> Problem {
    Problem::new("", format!("the document has more than {MAX_NODES} values")).at(position)
}
