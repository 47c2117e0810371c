//! Paths to values of a document, like `rules[0].costs["/a"]`.

use crate::node::{Node, Value};
use crate::position::Position;

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment {
    /// The key of a map.
    Key(String),
    /// The index in a list.
    Index(usize),
}

/// The steps of a path, as far as they can be understood.
#[must_use]
pub fn segments(path: &str) -> Vec<Segment> {
    let mut segments = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(bracket) = rest.strip_prefix('[') {
            let mut quoted = serde_json::Deserializer::from_str(bracket).into_iter::<String>();
            let (segment, length) = match quoted.next() {
                Some(Ok(key)) => (Some(Segment::Key(key)), quoted.byte_offset()),
                _ => {
                    let length = bracket.find(']').unwrap_or(bracket.len());
                    (bracket[..length].parse().ok().map(Segment::Index), length)
                }
            };
            let Some(segment) = segment else { break };
            segments.push(segment);
            rest = bracket.get(length + 1..).unwrap_or_default();
        } else {
            let field = rest.strip_prefix('.').unwrap_or(rest);
            let length = field.find(['.', '[']).unwrap_or(field.len());
            segments.push(Segment::Key(field[..length].to_owned()));
            rest = &field[length..];
        }
    }
    segments
}

/// Where the entry at that path starts, with its key if it has one; `None` if there is no such entry.
#[must_use]
pub fn position_of(root: &Node, segments: &[Segment]) -> Option<Position> {
    let mut found = (root, root.position);
    for segment in segments {
        found = match (segment, &found.0.value) {
            (Segment::Key(key), Value::Map(entries)) => {
                let (key, node) = entries.iter().find(|(known, _)| known.text == *key)?;
                (node, key.position)
            }
            (Segment::Index(index), _) => {
                let node = found.0.item(*index)?;
                (node, node.position)
            }
            (Segment::Key(_), _) => return None,
        };
    }
    Some(found.1)
}

/// Where the value at that path starts, or the nearest value around it.
#[must_use]
pub fn nearest(root: &Node, segments: &[Segment]) -> Position {
    let mut node = root;
    for segment in segments {
        let next = match segment {
            Segment::Key(key) => node.get(key),
            Segment::Index(index) => node.item(*index),
        };
        match next {
            Some(next) => node = next,
            None => break,
        }
    }
    node.position
}
