//! Documents as YAML, in the style in which people write it.

use std::fmt::{self, Write as _};

use serde::Serialize;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// The widest line that a list is written into.
const MAX_WIDTH: usize = 100;

/// A document as YAML, with its fields in their own order.
///
/// # Errors
/// It cannot be serialised.
pub fn to_yaml(document: &impl Serialize) -> serde_json::Result<String> {
    let tree: Tree = serde_json::from_str(&serde_json::to_string(document)?)?;
    let mut text = String::new();
    match tree {
        Tree::Map(entries) if !entries.is_empty() => write_map(&entries, 0, &mut text),
        other => text = other.in_line() + "\n",
    }
    Ok(text)
}

/// A value whose maps keep their order.
enum Tree {
    /// As it is written.
    Scalar(String),
    List(Vec<Self>),
    Map(Vec<(String, Self)>),
}

impl Tree {
    /// The value in one line.
    fn in_line(&self) -> String {
        let join = |parts: Vec<String>| parts.join(", ");
        match self {
            Self::Scalar(text) => text.clone(),
            Self::List(items) => format!("[{}]", join(items.iter().map(Self::in_line).collect())),
            Self::Map(entries) => {
                let entry = |(key, value): &(String, Self)| format!("{key}: {}", value.in_line());
                format!("{{{}}}", join(entries.iter().map(entry).collect()))
            }
        }
    }

    fn is_scalar(&self) -> bool {
        matches!(self, Self::Scalar(_))
    }

    /// The value in one line, if that reads well after so many characters.
    fn short(&self, before: usize) -> Option<String> {
        let may_be_long = match self {
            Self::Scalar(_) => true,
            Self::List(items) if items.is_empty() => true,
            Self::Map(entries) if entries.is_empty() => true,
            Self::List(items) if items.iter().all(Self::is_scalar) => false,
            Self::List(_) | Self::Map(_) => return None,
        };
        let line = self.in_line();
        (may_be_long || before + line.chars().count() <= MAX_WIDTH).then_some(line)
    }
}

/// One line for each entry, or several, all that far to the right.
fn write_map(entries: &[(String, Tree)], indent: usize, text: &mut String) {
    for (number, (key, value)) in entries.iter().enumerate() {
        // The first entry may stand behind the hyphen of an item.
        if number > 0 || text.is_empty() || text.ends_with('\n') {
            let _ = write!(text, "{:indent$}", "");
        }
        match (value.short(indent + key.chars().count() + 2), value) {
            (Some(line), _) => {
                let _ = writeln!(text, "{key}: {line}");
            }
            (None, Tree::List(items)) => {
                let _ = writeln!(text, "{key}:");
                write_list(items, indent + 2, text);
            }
            (None, Tree::Map(entries)) => {
                let _ = writeln!(text, "{key}:");
                write_map(entries, indent + 2, text);
            }
            (None, Tree::Scalar(_)) => {}
        }
    }
}

fn write_list(items: &[Tree], indent: usize, text: &mut String) {
    for item in items {
        let _ = write!(text, "{:indent$}- ", "");
        match item {
            Tree::Map(entries) if !entries.is_empty() => write_map(entries, indent + 2, text),
            other => {
                let _ = writeln!(text, "{}", other.in_line());
            }
        }
    }
}

/// A text so that it is read back as that text.
fn scalar(text: &str) -> String {
    if is_plain(text) {
        return text.to_owned();
    }
    let mut quoted = "\"".to_owned();
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() || is_unseen(c) => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

/// Whether a character is not seen, but changes how others are shown or read: marks of direction, joiners, line separators.
const fn is_unseen(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}')
}

/// Whether a text means itself without quotes, to every reader of YAML.
fn is_plain(text: &str) -> bool {
    const WORDS: [&str; 9] = ["null", "true", "false", "yes", "no", "on", "off", "y", "n"];
    let is_window = || {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        matches!(&text[digits..], "ms" | "s" | "m" | "h" | "d")
    };
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b"_./:-".contains(&byte);
    match text.bytes().next() {
        Some(b'0'..=b'9') => is_window(),
        Some(first) if first.is_ascii_alphabetic() || first == b'/' => {
            text.bytes().all(is_inner)
                && !text.ends_with(':')
                && !WORDS.iter().any(|word| word.eq_ignore_ascii_case(text))
        }
        _ => false,
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Scalar("null".to_owned()))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Scalar(value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
        Ok(Tree::Scalar(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Tree, E> {
        Ok(Tree::Scalar(value.to_string()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Tree, E> {
        serde_json::to_string(&value).map(Tree::Scalar).map_err(E::custom)
    }

    fn visit_str<E>(self, value: &str) -> Result<Tree, E> {
        Ok(Tree::Scalar(scalar(value)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Tree, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Tree::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Tree, A::Error> {
        let mut map = Vec::new();
        while let Some((key, value)) = entries.next_entry::<String, _>()? {
            map.push((scalar(&key), value));
        }
        Ok(Tree::Map(map))
    }
}

#[cfg(test)]
mod tests {
    use crate::{Format, Source};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_document_is_written_as_people_do() {
        let document = json!({
            "rules": [
                {"rule_id": "a", "limit": 5, "soft": {"warn_at": 0.5}, "replaces": ["b", "*"]},
                {"window": "1m", "empty": [], "none": {}, "name": "5"},
            ],
            "tiers": [["x"], [], {}],
        });
        let expected = "\
rules:
  - limit: 5
    replaces: [b, \"*\"]
    rule_id: a
    soft:
      warn_at: 0.5
  - empty: []
    name: \"5\"
    none: {}
    window: 1m
tiers:
  - [x]
  - []
  - {}
";
        assert_eq!(to_yaml(&document).expect("YAML"), expected);
        assert_eq!(to_yaml(&json!({})).expect("YAML"), "{}\n");
        let long = json!({"list": ["x".repeat(60), "y".repeat(60)]});
        assert_eq!(to_yaml(&long).expect("YAML").lines().count(), 3, "an item a line");
    }

    /// Texts that are easily taken for something else.
    fn texts() -> impl Strategy<Value = String> {
        let tricky = [
            "",
            "*",
            "null",
            "~",
            "true",
            "No",
            "5",
            "1e3",
            "0x1F",
            "1m",
            "1_000",
            "-",
            "- a",
            "a: b",
            "a:",
            ":a",
            "#",
            "a #b",
            "\"",
            "\\",
            "'",
            "\n",
            " x ",
            "[!a]*",
            "{",
            "&a",
            "!a",
            "%a",
            "@a",
            "/a",
            ".inf",
            "2024-01-01",
            "\u{85}",
            "\u{7f}",
            "\u{feff}",
            "\u{2028}",
            "<<",
            "=",
            "---",
        ];
        prop_oneof![
            prop::sample::select(tricky.to_vec()).prop_map(str::to_owned),
            "[ -~]{0,12}",
            "\\PC{0,8}",
        ]
    }

    /// A name that turned the rest of its line around was once printed as it is.
    #[test]
    fn characters_that_are_not_seen_are_escaped() {
        let yaml = to_yaml(&json!({"name": "a\u{202e}b\u{200b}c\u{ad}\u{1b}"})).expect("YAML");
        assert_eq!(yaml, "name: \"a\\u202eb\\u200bc\\u00ad\\u001b\"\n");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            id in "[a-z]{1,4}", name in texts(), description in texts(),
            identifiers in prop::collection::vec(texts(), 2..4),
            attributes in prop::collection::btree_map(texts(), prop::collection::vec(texts(), 0..4), 0..3),
        ) {
            let rule = json!({
                "rule_id": id, "name": name, "description": description, "limit": 5, "window": "1m",
                "identifier_type": identifiers, "applies_to": {"attributes": attributes},
                "soft": {"warn_at": 0.25, "clear_at": 0.125},
            });
            let json = json!({"rules": [rule], "tiers": [{"tier": name}]}).to_string();
            let source = Source::parse_as(&json, Format::Json);
            prop_assert!(source.problems.is_empty(), "{:?}", source.problems);
            let yaml = to_yaml(&source.document).expect("YAML");
            let read = Source::parse_as(&yaml, Format::Yaml);
            prop_assert!(read.problems.is_empty(), "{:?}\n{}", read.problems, yaml);
            prop_assert_eq!(read.document, source.document, "{}", yaml);
        }
    }
}
