//! Reads a text, in the format it is written in.

use crate::node::Node;
use crate::problem::Problem;
use crate::{json, yaml};

/// The notation of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// YAML 1.2.
    Yaml,
    /// JSON.
    Json,
}

/// Reads a text of either format. Only what starts as JSON does is tried as JSON; it may still be
/// YAML, but if it is neither, its author meant JSON.
///
/// # Errors
/// The first mistake in the notation.
pub fn read(text: &str) -> Result<Node, Problem> {
    let starts_as_json = text
        .trim_start_matches('\u{feff}')
        .trim_start()
        .strip_prefix('{')
        .is_some_and(|inside| inside.trim_start().starts_with('"'));
    if starts_as_json {
        read_as(text, Format::Json).or_else(|json| read_as(text, Format::Yaml).map_err(|_| json))
    } else {
        read_as(text, Format::Yaml)
    }
}

/// Reads a text of that format.
///
/// # Errors
/// The first mistake in the notation.
pub fn read_as(text: &str, format: Format) -> Result<Node, Problem> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    match format {
        Format::Yaml => yaml::read(text),
        Format::Json => json::read(text),
    }
}
