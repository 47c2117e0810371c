//! Reads YAML into nodes: the core schema of YAML 1.2, one document, no tags and no merge keys; or as yaml.v2 of Go
//! reads it.

use std::collections::HashMap;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle};

use crate::node::{MAX_DEPTH, MAX_NODES, MapKey, Node, Value, quote, too_deep, too_large};
use crate::position::{Position, line};
use crate::problem::Problem;

/// The key whose value is merged into its map.
const MERGE: &str = "<<";

/// How much anchors and aliases may repeat, in values and bytes of text: so many times the size of the document, between
/// these bounds. Nested aliases double with every line, so that a short text could otherwise fill any memory.
const MAX_REPEATED_PER_BYTE: usize = 64;
const MIN_REPEATED: usize = 250_000;
const MAX_REPEATED: usize = 4_000_000;

/// Reads a whole text.
pub(crate) fn read(text: &str) -> Result<Node, Problem> {
    read_in(Dialect::Strict, text)
}

/// Reads YAML as yaml.v2 of Go does, for files that were written for it: merge keys (`<<`) apply, unless the field is
/// written out; of a field that occurs twice the last counts; and only the first document is read.
///
/// # Errors
/// The text is not YAML, or is too deep or too large.
pub fn read_as_yaml_v2(text: &str) -> Result<Node, Problem> {
    read_in(Dialect::YamlV2, text.strip_prefix('\u{feff}').unwrap_or(text))
}

/// How to read what is ambiguous, and what other parsers accept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Dialect {
    #[default]
    Strict,
    YamlV2,
}

fn read_in(dialect: Dialect, text: &str) -> Result<Node, Problem> {
    // Behind the last line the parser sees another one, even if it is not there.
    let end = Position::START.after(text);
    let max_repeated =
        text.len().saturating_mul(MAX_REPEATED_PER_BYTE).clamp(MIN_REPEATED, MAX_REPEATED);
    let mut builder = TreeBuilder { dialect, max_repeated, ..TreeBuilder::default() };
    for event in Parser::new_from_str(text) {
        match event {
            Ok((Event::DocumentStart(_), _))
                if dialect == Dialect::YamlV2 && builder.root.is_some() =>
            {
                break;
            }
            Ok((event, span)) => builder.take(event, place(&span.start).min(end))?,
            Err(error) => {
                let message = format!("this is not YAML: {}", error.info());
                let position = place(error.marker()).clamp_to(text);
                let problem = Problem::new("", message).at(position);
                return Err(match unquoted_braces(text, position) {
                    Some(path) => problem
                        .with_advice(format!("put a text with braces in quotes: {}", quote(path))),
                    None => problem,
                });
            }
        }
    }
    Ok(builder.root.unwrap_or(Node { position: Position::START, value: Value::Null }))
}

/// A path with a parameter that begins before the position of an error and is in no quotes: in a list
/// in brackets, YAML takes its braces for a map.
fn unquoted_braces(text: &str, position: Position) -> Option<&str> {
    let line = line(text, position.line);
    let is_outside = |c: char| matches!(c, '[' | ',' | ' ');
    let paths = line.split(is_outside).filter(|word| word.starts_with('/'));
    paths.map(without_ends).find(|path| path.contains('{') && path.contains('}'))
}

/// A word without the brackets and braces at its end that close what is around it.
fn without_ends(mut word: &str) -> &str {
    let opened = word.matches('{').count();
    // Kept up to date, because counting again for each of a million braces would take hours.
    let mut closed = word.matches('}').count();
    loop {
        word = match word.as_bytes().last() {
            Some(b']') => &word[..word.len() - 1],
            Some(b'}') if closed > opened => {
                closed -= 1;
                &word[..word.len() - 1]
            }
            _ => return word,
        };
    }
}

fn place(marker: &Marker) -> Position {
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    Position { line: number(marker.line()), column: number(marker.col()).saturating_add(1) }
}

/// Puts nodes together from events.
#[derive(Default)]
struct TreeBuilder {
    dialect: Dialect,
    root: Option<Node>,
    /// The lists and maps that are still open, the outermost first.
    open: Vec<Open>,
    /// What anchors stand for, by the parser's number for them.
    anchors: HashMap<usize, Node>,
    nodes: usize,
    repeated: usize,
    max_repeated: usize,
}

/// A list or map that is still open.
struct Open {
    position: Position,
    anchor: usize,
    items: Items,
}

enum Items {
    List(Vec<Node>),
    /// With the key whose value comes next.
    Map(Vec<(MapKey, Node)>, Option<MapKey>),
}

impl TreeBuilder {
    fn take(&mut self, event: Event<'_>, position: Position) -> Result<(), Problem> {
        let dialect = self.dialect;
        let refuse = |message: &str, advice: &str| {
            Err(Problem::new("", message).at(position).with_advice(advice))
        };
        if let Event::Scalar(_, _, _, Some(_))
        | Event::SequenceStart(_, Some(_))
        | Event::MappingStart(_, Some(_)) = event
        {
            return refuse(
                "tags are not supported",
                "for a text that looks like a number, use quotes",
            );
        }
        match event {
            Event::DocumentStart(_) if self.root.is_some() => {
                refuse("there is more than one document", "put everything into the first")
            }
            Event::Scalar(text, style, anchor, _) => {
                if let Some(key) = self.awaited_key() {
                    let is_merge = text == MERGE && style == ScalarStyle::Plain;
                    if is_merge && dialect == Dialect::Strict {
                        return refuse("merge keys are not supported", "write the fields out");
                    }
                    *key = Some(MapKey { text: text.into_owned(), position });
                    return Ok(());
                }
                let value = match style {
                    ScalarStyle::Plain => plain(&text),
                    _ => Value::String(text.into_owned()),
                };
                self.put(Node { position, value }, anchor)
            }
            Event::SequenceStart(..) | Event::MappingStart(..) | Event::Alias(_)
                if self.awaited_key().is_some() =>
            {
                refuse("a key must be a text", "put it in quotes")
            }
            Event::SequenceStart(anchor, _) => {
                self.open(Open { position, anchor, items: Items::List(Vec::new()) })
            }
            Event::MappingStart(anchor, _) => {
                self.open(Open { position, anchor, items: Items::Map(Vec::new(), None) })
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(Open { position, anchor, items }) => {
                    let value = match items {
                        Items::List(items) => Value::List(items),
                        Items::Map(entries, _) if dialect == Dialect::YamlV2 => {
                            Value::Map(merged(entries)?)
                        }
                        Items::Map(entries, _) => Value::Map(entries),
                    };
                    self.put(Node { position, value }, anchor)
                }
                None => Ok(()),
            },
            Event::Alias(anchor) => match self.anchors.get(&anchor).cloned() {
                Some(node) => {
                    if self.open.len() + self.repeat(&node, position)? > MAX_DEPTH {
                        return Err(too_deep(position));
                    }
                    self.put(node, 0)
                }
                None => refuse("the alias refers to nothing before it", "write the value out"),
            },
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => Ok(()),
        }
    }

    /// Where the next scalar goes if it is a key.
    fn awaited_key(&mut self) -> Option<&mut Option<MapKey>> {
        match self.open.last_mut() {
            Some(Open { items: Items::Map(_, key @ None), .. }) => Some(key),
            _ => None,
        }
    }

    fn open(&mut self, open: Open) -> Result<(), Problem> {
        if self.open.len() == MAX_DEPTH {
            return Err(too_deep(open.position));
        }
        self.open.push(open);
        Ok(())
    }

    /// Puts a finished node where it belongs.
    fn put(&mut self, node: Node, anchor: usize) -> Result<(), Problem> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err(too_large(node.position));
        }
        if anchor != 0 {
            self.repeat(&node, node.position)?;
            self.anchors.insert(anchor, node.clone());
        }
        match self.open.last_mut().map(|open| &mut open.items) {
            None => self.root = Some(node),
            Some(Items::List(items)) => items.push(node),
            Some(Items::Map(entries, key)) => entries.extend(key.take().map(|key| (key, node))),
        }
        Ok(())
    }

    /// Counts one more copy of the node, and returns how deep it is.
    fn repeat(&mut self, node: &Node, position: Position) -> Result<usize, Problem> {
        let (size, depth) = measure(node);
        self.repeated = self.repeated.saturating_add(size);
        if self.repeated > self.max_repeated {
            return Err(Problem::new("", "aliases repeat too much").at(position));
        }
        Ok(depth)
    }
}

/// The entries of a map with those of its merge keys. Of entries with the same key, the last stays.
fn merged(entries: Vec<(MapKey, Node)>) -> Result<Vec<(MapKey, Node)>, Problem> {
    let mut places = HashMap::new();
    let mut result: Vec<(MapKey, Node)> = Vec::with_capacity(entries.len());
    let mut sources = Vec::new();
    for (key, node) in entries {
        if key.text == MERGE {
            match node.value {
                Value::List(items) => sources.extend(items),
                _ => sources.push(node),
            }
        } else if let Some(place) = places.get(&key.text) {
            result[*place] = (key, node);
        } else {
            places.insert(key.text.clone(), result.len());
            result.push((key, node));
        }
    }
    for source in sources {
        let Value::Map(entries) = source.value else {
            let advice = "merge a map, or a list of maps: <<: *anchor";
            let problem = Problem::new("", "this cannot be merged").at(source.position);
            return Err(problem.with_advice(advice));
        };
        for (key, node) in entries {
            if !places.contains_key(&key.text) {
                places.insert(key.text.clone(), result.len());
                result.push((key, node));
            }
        }
    }
    Ok(result)
}

/// How much a node is, in values and bytes of text, and how deep.
fn measure(node: &Node) -> (usize, usize) {
    let sum = |(size, depth): (usize, usize), (more, deeper): (usize, usize)| {
        (size + more, depth.max(deeper + 1))
    };
    match &node.value {
        Value::Null | Value::Bool(_) => (1, 0),
        Value::Number(text) | Value::String(text) => (1 + text.len(), 0),
        Value::List(items) => items.iter().map(measure).fold((1, 1), sum),
        Value::Map(entries) => entries
            .iter()
            .map(|(key, node)| sum((1 + key.text.len(), 0), measure(node)))
            .fold((1, 1), |(size, depth), (more, deeper)| (size + more, depth.max(deeper))),
    }
}

/// What a scalar without quotes is, by the core schema.
fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ if is_number(text) => Value::Number(text.to_owned()),
        _ => match based_integer(text) {
            Some(number) => Value::Number(number.to_string()),
            None => Value::String(text.to_owned()),
        },
    }
}

/// Whether the text has the form of a decimal number, an infinity or no number at all.
fn is_number(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") {
        return true;
    }
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let some_digits = |text: &str| !text.is_empty() && digits(text);
    (some_digits(whole) && digits(fraction) || whole.is_empty() && some_digits(fraction))
        && exponent.is_none_or(|text| some_digits(text.strip_prefix(['-', '+']).unwrap_or(text)))
}

/// The number in hexadecimal (`0x1f`) or octal (`0o17`).
fn based_integer(text: &str) -> Option<u128> {
    let (base, digits) = match text.split_at_checked(2)? {
        ("0x", digits) => (16, digits),
        ("0o", digits) => (8, digits),
        _ => return None,
    };
    let unsigned = digits.bytes().all(|byte| byte.is_ascii_alphanumeric());
    u128::from_str_radix(digits, base).ok().filter(|_| unsigned)
}
