//! From nodes to values, collecting every problem on the way instead of stopping at the first.

use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;

use crate::node::{Node, Value};
use crate::number::{Exact, NotExact, exact};
use crate::scope::Scope;
use crate::spelling::closest;

/// A value that can be read from a node.
pub trait Decode: Sized {
    /// The value, or `None` after the problem was added to `scope`.
    fn decode(node: &Node, scope: &mut Scope) -> Option<Self>;
}

impl Decode for String {
    fn decode(node: &Node, scope: &mut Scope) -> Option<Self> {
        match &node.value {
            Value::String(text) => return Some(text.clone()),
            Value::Number(_) | Value::Bool(_) => {
                let advice = format!("put it in quotes: \"{}\"", node.value.describe());
                scope.expected(node, "text", &advice);
            }
            Value::Null => scope.expected(node, "text", "write a text, or leave the field out"),
            Value::List(_) | Value::Map(_) => scope.expected(node, "text", "write a single text"),
        }
        None
    }
}

impl Decode for bool {
    fn decode(node: &Node, scope: &mut Scope) -> Option<Self> {
        if let Value::Bool(value) = node.value {
            return Some(value);
        }
        scope.expected(node, "true or false", "write true or false, without quotes");
        None
    }
}

/// Amounts. All of them fit into a signed 64-bit number, as limits do.
impl Decode for u64 {
    fn decode(node: &Node, scope: &mut Scope) -> Option<Self> {
        whole(node, 0, i128::from(i64::MAX), scope)
    }
}

impl Decode for u32 {
    fn decode(node: &Node, scope: &mut Scope) -> Option<Self> {
        whole(node, 0, i128::from(Self::MAX), scope)
    }
}

impl Decode for i64 {
    fn decode(node: &Node, scope: &mut Scope) -> Option<Self> {
        whole(node, i128::from(Self::MIN), i128::from(Self::MAX), scope)
    }
}

/// The whole number from `least` to `most` that stands in `node`.
fn whole<T: TryFrom<i128>>(node: &Node, least: i128, most: i128, scope: &mut Scope) -> Option<T> {
    let found = match &node.value {
        Value::Number(text) => exact(text, 0),
        _ => Err(NotExact::NotDecimal),
    };
    match found {
        Ok(Exact { negative, magnitude }) => {
            let magnitude = i128::try_from(magnitude).unwrap_or(i128::MAX);
            let number = if negative { -magnitude } else { magnitude };
            let number = T::try_from(number).ok().filter(|_| (least..=most).contains(&number));
            if number.is_none() {
                scope.out_of_range(node, least, most);
            }
            return number;
        }
        Err(NotExact::TooLarge) => scope.out_of_range(node, least, most),
        Err(NotExact::TooFine | NotExact::NotDecimal) => {
            let advice = format!("write a number from {least} to {most}");
            scope.expected(node, "a whole number", &advice);
        }
    }
    None
}

/// The number in `node` in units of 10^-`digits`, which must be in `range`.
pub fn fixed_point(
    node: &Node,
    digits: u32,
    range: RangeInclusive<u64>,
    scope: &mut Scope,
) -> Option<u64> {
    let found = match &node.value {
        Value::Number(text) => exact(text, digits),
        _ => Err(NotExact::NotDecimal),
    };
    let (least, most) = (decimal(*range.start(), digits), decimal(*range.end(), digits));
    match found {
        Ok(Exact { negative, magnitude }) => {
            let units = u64::try_from(magnitude).ok();
            let units = units.filter(|units| range.contains(units) && !negative);
            if units.is_none() {
                scope.out_of_range(node, least, most);
            }
            return units;
        }
        Err(NotExact::TooLarge) => scope.out_of_range(node, least, most),
        Err(NotExact::TooFine) => {
            let message = format!("{} has too many fraction digits", node.value.describe());
            scope.problem(node.position, message, format!("write at most {digits}"));
        }
        Err(NotExact::NotDecimal) => {
            scope.expected(node, "a number", &format!("write a number from {least} to {most}"));
        }
    }
    None
}

/// Units of 10^-`digits` as people write them.
fn decimal(units: u64, digits: u32) -> String {
    let scale = 10_u64.pow(digits);
    let text = format!("{}.{:0width$}", units / scale, units % scale, width = digits as usize);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

impl<T: Decode> Decode for Option<T> {
    fn decode(node: &Node, scope: &mut Scope) -> Option<Self> {
        T::decode(node, scope).map(Some)
    }
}

/// The items that can be read. Whether the rest matters is for the record that holds the list.
impl<T: Decode> Decode for Vec<T> {
    fn decode(node: &Node, scope: &mut Scope) -> Option<Self> {
        let Value::List(items) = &node.value else {
            scope.expected(node, "a list", "put it in brackets: [...]");
            return None;
        };
        let mut list = Self::new();
        for (index, item) in items.iter().enumerate() {
            if scope.is_full() {
                break;
            }
            match scope.in_item(index, |scope| T::decode(item, scope)) {
                Some(value) => list.push(value),
                None => scope.mark_unread(index),
            }
        }
        Some(list)
    }
}

impl<T: Decode> Decode for BTreeMap<String, T> {
    fn decode(node: &Node, scope: &mut Scope) -> Option<Self> {
        let Value::Map(entries) = &node.value else {
            scope.expected(node, "a map", "write it as {name: value}");
            return None;
        };
        let mut map = Self::new();
        let mut seen = HashMap::new();
        for (key, value) in entries {
            if scope.is_full() {
                break;
            }
            scope.in_entry(&key.text, |scope| {
                let first = *seen.entry(&key.text).or_insert(key.position);
                if first != key.position {
                    scope.given_twice(first, key.position);
                } else if let Some(value) = T::decode(value, scope) {
                    map.insert(key.text.clone(), value);
                }
            });
        }
        Some(map)
    }
}

/// The value whose name is in `node`. Names in `later` are refused as not supported yet.
pub fn decode_choice<T: Copy>(
    node: &Node,
    named: &[(&'static str, T)],
    later: &[&str],
    scope: &mut Scope,
) -> Option<T> {
    let text = node.as_str();
    if let Some((_, value)) = named.iter().find(|(name, _)| Some(*name) == text) {
        return Some(*value);
    }
    let names = named.iter().map(|(name, _)| *name);
    let all = names.clone().collect::<Vec<_>>().join(", ");
    if let Some(text) = text.filter(|text| later.contains(text)) {
        let message = format!("{text} is not supported yet");
        scope.problem(node.position, message, format!("write one of {all}"));
        return None;
    }
    let advice = match text.and_then(|text| closest(text, names)) {
        Some(name) => format!("did you mean {name}?"),
        None => "write one of these names".to_owned(),
    };
    scope.expected(node, &format!("one of {all}"), &advice);
    None
}
