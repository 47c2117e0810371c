//! From nodes to values, collecting every problem on the way instead of stopping at the first.

use std::collections::{BTreeMap, HashMap};
use std::fmt::{Display, Write as _};
use std::ops::RangeInclusive;

use tollgate_core::MAX_LIMIT;

use crate::node::{Node, Value, quote};
use crate::number::{Exact, NotExact, exact};
use crate::position::Position;
use crate::problem::Problem;

/// How many problems of one document are reported. Reading ends there: a hostile text has millions.
pub(crate) const MAX_PROBLEMS: usize = 1_000;

/// The longest name that stands in a path without quotes. Fields have short ones.
const MAX_WORD: usize = 40;

/// A value that can be read from a node.
pub(crate) trait Decode: Sized {
    /// The value, or `None` after the problem has been told to `scope`.
    fn decode(node: &Node, scope: &mut Scope) -> Option<Self>;
}

/// Where in the document we are, and what has been found wrong so far.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    path: String,
    problems: Vec<Problem>,
    /// How many problems there are, those that are not reported included.
    found: usize,
    /// Which items of which list could not be read, by the path of the list.
    unread: HashMap<String, Vec<usize>>,
}

impl Scope {
    /// Runs `read` with the path one field further down.
    pub(crate) fn in_field<T>(&mut self, name: &str, read: impl FnOnce(&mut Self) -> T) -> T {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if name.is_empty() || name.len() > MAX_WORD || !name.chars().all(is_word) {
            return self.in_entry(name, read);
        }
        let dot = if self.path.is_empty() { "" } else { "." };
        self.within(format_args!("{dot}{name}"), read)
    }

    /// Runs `read` with the path at an item of the list we are at.
    pub(crate) fn in_item<T>(&mut self, index: usize, read: impl FnOnce(&mut Self) -> T) -> T {
        self.within(format_args!("[{index}]"), read)
    }

    /// Runs `read` with the path at an entry of the map we are at, whose keys are free text.
    pub(crate) fn in_entry<T>(&mut self, key: &str, read: impl FnOnce(&mut Self) -> T) -> T {
        self.within(format_args!("[{}]", quote(key)), read)
    }

    fn within<T>(
        &mut self,
        segment: std::fmt::Arguments<'_>,
        read: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let length = self.path.len();
        let _ = self.path.write_fmt(segment);
        let value = read(self);
        self.path.truncate(length);
        value
    }

    /// Tells what is wrong with the field we are at, and what would be right.
    pub(crate) fn problem(
        &mut self,
        position: Position,
        message: impl Into<String>,
        advice: impl Into<String>,
    ) {
        self.found += 1;
        if self.found <= MAX_PROBLEMS {
            let problem = Problem::new(&self.path, message).with_advice(advice);
            self.problems.push(problem.at(position));
        }
    }

    /// Tells that `node` is not what it should be.
    pub(crate) fn expected(&mut self, node: &Node, what: &str, advice: &str) {
        let message = format!("expected {what}, found {}", node.describe());
        self.problem(node.position, message, advice);
    }

    /// Tells that the number in `node` is not between those.
    pub(crate) fn out_of_range(&mut self, node: &Node, least: impl Display, most: impl Display) {
        let message = format!("{} is out of range", node.describe());
        self.problem(node.position, message, format!("write a number from {least} to {most}"));
    }

    /// How many problems have been found so far.
    pub(crate) fn found(&self) -> usize {
        self.found
    }

    /// True if no more problems are reported, so that reading on is of no use.
    pub(crate) fn is_full(&self) -> bool {
        self.found >= MAX_PROBLEMS
    }

    /// Ends the reading: the problems, and which items of which list could not be read.
    pub(crate) fn finish(mut self) -> (Vec<Problem>, HashMap<String, Vec<usize>>) {
        if self.is_full() {
            self.problems.push(more_problems());
        }
        (self.problems, self.unread)
    }
}

impl Decode for String {
    fn decode(node: &Node, scope: &mut Scope) -> Option<Self> {
        match &node.value {
            Value::String(text) => return Some(text.clone()),
            Value::Number(_) | Value::Bool(_) => {
                let advice = format!("put it in quotes: \"{}\"", node.describe());
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

/// Amounts. All of them stay within what a signed 64-bit number holds, as limits do.
impl Decode for u64 {
    fn decode(node: &Node, scope: &mut Scope) -> Option<Self> {
        whole(node, 0, i128::from(MAX_LIMIT), scope)
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
pub(crate) fn fixed_point(
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
            let message = format!("{} has too many fraction digits", node.describe());
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
                None => scope.unread.entry(scope.path.clone()).or_default().push(index),
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
                    given_twice(first, key.position, scope);
                } else if let Some(value) = T::decode(value, scope) {
                    map.insert(key.text.clone(), value);
                }
            });
        }
        Some(map)
    }
}

/// Says that a document may have more problems than those reported.
pub(crate) fn more_problems() -> Problem {
    Problem::new("", format!("only the first {MAX_PROBLEMS} problems are shown"))
        .with_advice("correct these, then check again")
}

/// Tells that the field we are at is in the text twice.
pub(crate) fn given_twice(first: Position, second: Position, scope: &mut Scope) {
    scope.problem(second, format!("given twice, first at {first}"), "remove one of the two");
}
