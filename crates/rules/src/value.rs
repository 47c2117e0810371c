//! The values of a document that are more than a text or a whole number.

use std::borrow::Cow;
use std::ops::Deref;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};
use tollgate_core::Algorithm;
use tollgate_document::{Decode, Node, Scope, Value, decode_choice, fixed_point};

/// A number that is not negative and has at most six fraction digits: `0.8`, `2`, `1.25`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Decimal(u64);

impl Decimal {
    /// The largest: a thousand million. Up to there a JSON number holds every decimal exactly.
    pub const MAX: Self = Self(1_000_000_000_000_000);

    /// The decimal of so many millionths, or the largest there is.
    #[must_use]
    pub const fn from_millionths(millionths: u64) -> Self {
        if millionths > Self::MAX.0 { Self::MAX } else { Self(millionths) }
    }

    /// How many millionths it is.
    #[must_use]
    pub const fn millionths(self) -> u64 {
        self.0
    }
}

impl Serialize for Decimal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize_millionths(self.0, serializer)
    }
}

/// As a JSON number. Below 10^15 the nearest double prints as the very decimal it came from.
pub(crate) fn serialize_millionths<S: Serializer>(
    millionths: u64,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    if millionths.is_multiple_of(1_000_000) {
        serializer.serialize_u64(millionths / 1_000_000)
    } else {
        serializer.serialize_f64(millionths as f64 / 1e6)
    }
}

impl Decode for Decimal {
    fn decode(node: &Node, scope: &mut Scope) -> Option<Self> {
        fixed_point(node, 6, 0..=Self::MAX.0, scope).map(Self)
    }
}

impl JsonSchema for Decimal {
    fn schema_name() -> Cow<'static, str> {
        "Decimal".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "number", "minimum": 0, "maximum": 1_000_000_000,
        })
    }
}

/// One text, or several that belong together. Never none, if it comes from a document.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OneOrMany(Vec<String>);

impl OneOrMany {
    /// Just one.
    pub fn one(text: impl Into<String>) -> Self {
        Self(vec![text.into()])
    }

    /// Several, in this order.
    pub fn many<T: Into<String>>(texts: impl IntoIterator<Item = T>) -> Self {
        Self(texts.into_iter().map(Into::into).collect())
    }

    /// All of them.
    #[must_use]
    pub fn as_slice(&self) -> &[String] {
        &self.0
    }
}

impl Deref for OneOrMany {
    type Target = [String];

    fn deref(&self) -> &[String] {
        &self.0
    }
}

impl Serialize for OneOrMany {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.as_slice() {
            [one] => one.serialize(serializer),
            many => many.serialize(serializer),
        }
    }
}

impl Decode for OneOrMany {
    fn decode(node: &Node, scope: &mut Scope) -> Option<Self> {
        match &node.value {
            Value::List(items) if items.is_empty() => {
                scope.problem(
                    node.position,
                    "the list is empty",
                    "write a text, or a list of at least one",
                );
                None
            }
            Value::List(_) => Vec::decode(node, scope).map(Self),
            _ => String::decode(node, scope).map(Self::one),
        }
    }
}

impl JsonSchema for OneOrMany {
    fn schema_name() -> Cow<'static, str> {
        "OneOrMany".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [
                { "type": "string" },
                { "type": "array", "items": { "type": "string" }, "minItems": 1 },
            ],
        })
    }
}

/// One of the six algorithms by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AlgorithmName(pub Algorithm);

impl Default for AlgorithmName {
    fn default() -> Self {
        Self(Algorithm::SlidingWindowCounter)
    }
}

impl Serialize for AlgorithmName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.name())
    }
}

impl Decode for AlgorithmName {
    fn decode(node: &Node, scope: &mut Scope) -> Option<Self> {
        let named = Algorithm::ALL.map(|algorithm| (algorithm.name(), Self(algorithm)));
        decode_choice(node, &named, &[], scope)
    }
}

impl JsonSchema for AlgorithmName {
    fn schema_name() -> Cow<'static, str> {
        "Algorithm".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "enum": Algorithm::ALL.map(Algorithm::name),
            "description": "How usage is counted.",
        })
    }
}

/// An HTTP status, `503`, or a class of them, `5xx`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct StatusPattern(String);

/// The text as written.
impl Deref for StatusPattern {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl StatusPattern {
    /// The pattern of that text, if it is one.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let is_pattern = match text.as_bytes() {
            [b'1'..=b'5', b'x', b'x'] => true,
            [b'1'..=b'5', tens, ones] => tens.is_ascii_digit() && ones.is_ascii_digit(),
            _ => false,
        };
        is_pattern.then(|| Self(text.to_owned()))
    }
}

impl Decode for StatusPattern {
    fn decode(node: &Node, scope: &mut Scope) -> Option<Self> {
        let pattern = match &node.value {
            Value::String(text) | Value::Number(text) => Self::new(text),
            _ => None,
        };
        if pattern.is_none() {
            scope.expected(node, "a status", "write a status like 503, or a class like 5xx");
        }
        pattern
    }
}

impl JsonSchema for StatusPattern {
    fn schema_name() -> Cow<'static, str> {
        "StatusPattern".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [
                { "type": "string", "pattern": "^[1-5]([0-9][0-9]|xx)$" },
                { "type": "integer", "minimum": 100, "maximum": 599 },
            ],
        })
    }
}
