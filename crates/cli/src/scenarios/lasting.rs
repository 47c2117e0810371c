//! Spans of time in scenarios: `500ms`, `10s`, `1h30m`, and `0s`.

use tollgate::Micros;
use tollgate::rules::parse_window;
use tollgate_document::{Decode, Node, Scope, Value};

/// A span of time, which may be zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lasting(pub(super) Micros);

impl Decode for Lasting {
    fn decode(node: &Node, scope: &mut Scope) -> Option<Self> {
        let text = match &node.value {
            Value::String(text) | Value::Number(text) => text.as_str(),
            _ => "",
        };
        if ["0", "0s", "0ms", "0m"].contains(&text) {
            return Some(Self(Micros::ZERO));
        }
        let span = parse_window(text).ok();
        if span.is_none() {
            scope.expected(node, "a time with its unit", "write it like 500ms, 10s, 15m or 1h30m");
        }
        span.map(Self)
    }
}
