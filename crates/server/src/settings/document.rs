//! The settings file before it means anything: values as text, each with its place.
//!
//! Reading into a tree first, and not into the settings themselves, is what makes it possible to
//! report every problem of a file at once.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Location, Spanned};

use super::origin::Place;

/// A value and where it starts.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) place: Place,
    pub(super) value: Value,
}

/// What YAML and JSON can say, as far as settings need it.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Nothing,
    /// A text, a number or a truth value: what it is to be, the setting knows.
    Text(String),
    List(Vec<Node>),
    Map(Vec<(String, Place, Node)>),
}

/// What is wrong with the notation.
#[derive(Debug)]
pub(super) struct SyntaxError {
    pub(super) place: Place,
    pub(super) message: String,
}

impl Node {
    /// Reads YAML, and JSON as a part of it.
    pub(super) fn parse(text: &str) -> Result<Self, SyntaxError> {
        // A snippet of the file could show a secret that should not have been there.
        let options = serde_saphyr::options! { with_snippet: false };
        match serde_saphyr::from_str_with_options::<Spanned<Value>>(text, options) {
            Ok(root) => Ok(Self::from(root)),
            Err(error) => {
                let place = error.location().map_or(Place { line: 1, column: 1 }, place_of);
                Err(SyntaxError { place, message: message_of(&error) })
            }
        }
    }
}

impl From<Spanned<Value>> for Node {
    fn from(spanned: Spanned<Value>) -> Self {
        Self { place: place_of(spanned.referenced), value: spanned.value }
    }
}

fn place_of(location: Location) -> Place {
    Place { line: location.line().max(1), column: location.column().max(1) }
}

/// The message without the place, which is told in our own way.
fn message_of(error: &serde_saphyr::Error) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    let without_kind = line.strip_prefix("error: ").unwrap_or(line);
    let rest = without_kind.split_once(": ").filter(|(place, _)| place.starts_with("line "));
    let message = rest.map_or(without_kind, |(_, message)| message);
    match message.split_once(" at line ") {
        Some((message, _)) => message.to_owned(),
        None => message.to_owned(),
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("settings")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Nothing)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Nothing)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Text(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Text(value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Text(value.to_string()))
    }

    fn visit_u128<E>(self, value: u128) -> Result<Value, E> {
        Ok(Value::Text(value.to_string()))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Value, E> {
        Ok(Value::Text(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Text(value.to_string()))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element::<Spanned<Value>>()? {
            list.push(Node::from(item));
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Vec::new();
        while let Some((key, value)) = entries.next_entry::<Spanned<String>, Spanned<Value>>()? {
            map.push((key.value, place_of(key.referenced), Node::from(value)));
        }
        Ok(Value::Map(map))
    }
}
