//! These files need no quotes around texts: what YAML takes for a number or a boolean is put back as
//! it was written. `value: 0x1F` asks for just that text, and not for 31.

use tollgate_document::{Node, Position, Value};

/// Fields that hold texts.
const TEXTS: [&str; 4] = ["domain", "key", "value", "name"];
/// Fields that hold `true` or `false`, or the older words for them.
const FLAGS: [&str; 6] = [
    "shadow_mode",
    "quota_mode",
    "detailed_metric",
    "value_to_metric",
    "share_threshold",
    "unlimited",
];
/// Fields that hold whole numbers, which may have underscores between digits; a zero before them makes them octal.
const NUMBERS: [&str; 1] = ["requests_per_unit"];
/// How far into a line that is not plain ASCII a place is looked up, which takes time there.
const MAX_COLUMN: usize = 1_000;

/// Puts back every scalar of the document that YAML took for something else. A scalar that cannot
/// be found in the text again stays as it is, and is refused later for not being a text.
pub(super) fn restore(root: &mut Node, text: &str) {
    restore_below(root, &Lines::new(text));
}

fn restore_below(node: &mut Node, lines: &Lines<'_>) {
    match &mut node.value {
        Value::List(items) => items.iter_mut().for_each(|item| restore_below(item, lines)),
        Value::Map(entries) => {
            for (key, node) in entries.iter_mut().filter(|(key, _)| key.text != "metadata") {
                if TEXTS.contains(&&*key.text) {
                    restore_text(node, lines);
                } else if FLAGS.contains(&&*key.text) {
                    restore_flag(node);
                } else if NUMBERS.contains(&&*key.text) {
                    restore_number(node, lines);
                } else {
                    restore_below(node, lines);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn restore_text(node: &mut Node, lines: &Lines<'_>) {
    let is_same = |written: &str| match &node.value {
        Value::Bool(value) => written.eq_ignore_ascii_case(if *value { "true" } else { "false" }),
        Value::Number(text) => {
            written == text || written.starts_with("0x") || written.starts_with("0o")
        }
        Value::Null | Value::String(_) | Value::List(_) | Value::Map(_) => false,
    };
    if let Some(written) = lines.word_at(node.position).filter(|word| is_same(word)) {
        node.value = Value::String(written.to_owned());
    }
}

/// yaml.v2 leaves underscores out of numbers, and reads `010` as 8 and `0b11` as 3.
fn restore_number(node: &mut Node, lines: &Lines<'_>) {
    if !matches!(node.value, Value::Number(_) | Value::String(_)) {
        return;
    }
    let Some(written) = lines.word_at(node.position) else { return };
    let digits = written.replace('_', "");
    let number = match digits.as_bytes() {
        [b'0', b'b', ..] => u64::from_str_radix(&digits[2..], 2).ok(),
        [b'0', b'0'..=b'9', ..] => u64::from_str_radix(&digits[1..], 8).ok(),
        [b'1'..=b'9', ..] if digits.len() < written.len() => digits.parse().ok(),
        _ => None,
    };
    if let Some(number) = number {
        node.value = Value::Number(number.to_string());
    }
}

fn restore_flag(node: &mut Node) {
    match node.as_str() {
        Some("y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON") => {
            node.value = Value::Bool(true);
        }
        Some("n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF") => {
            node.value = Value::Bool(false);
        }
        _ => {}
    }
}

/// A text by its lines.
struct Lines<'a>(Vec<Line<'a>>);

struct Line<'a> {
    text: &'a str,
    /// Then a column is an index.
    is_ascii: bool,
}

impl<'a> Lines<'a> {
    fn new(text: &'a str) -> Self {
        let mut lines = Vec::new();
        let mut rest = Some(text);
        while let Some(text) = rest {
            let line = text.split(['\n', '\r']).next().unwrap_or_default();
            lines.push(Line { text: line, is_ascii: line.is_ascii() });
            let after = &text[line.len()..];
            rest = after.strip_prefix("\r\n").or_else(|| after.strip_prefix(['\n', '\r']));
        }
        Self(lines)
    }

    /// What could be a number or a boolean at that place.
    fn word_at(&self, Position { line, column }: Position) -> Option<&'a str> {
        let line = self.0.get((line as usize).checked_sub(1)?)?;
        let before = (column as usize).checked_sub(1)?;
        let start = match before {
            _ if line.is_ascii => before,
            0..MAX_COLUMN => line.text.char_indices().nth(before)?.0,
            _ => return None,
        };
        let rest = line.text.get(start..)?;
        let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || b".+-_".contains(byte);
        rest.get(..rest.bytes().take_while(is_word).count())
    }
}
