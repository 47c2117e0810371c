//! Lines that could not be read, in a form that is safe to print on a terminal.

use super::BadLineReason;

/// How many bad lines are kept to be shown. All are counted.
pub(super) const KEPT: usize = 5;

/// How many characters of a line are shown.
const SHOWN: usize = 120;

/// Lines with so many characters that are none, or controls, are not text.
const BINARY: usize = 8;

/// A line that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// The input it stands in.
    pub input: String,
    /// Its number, from 1.
    pub line: u64,
    /// Why it could not be read.
    pub reason: BadLineReason,
    /// How it begins, without anything that could upset a terminal.
    pub excerpt: String,
}

/// The beginning of a line: at most 120 characters, the invisible ones escaped.
pub(super) fn excerpt(line: &[u8]) -> String {
    // No character takes more than four bytes, so this is enough for the characters shown.
    let start = line.get(..4 * (SHOWN + 1)).unwrap_or(line);
    let start = String::from_utf8_lossy(start);
    let is_no_text = |c: &char| *c == char::REPLACEMENT_CHARACTER || (c.is_control() && *c != '\t');
    if start.chars().take(SHOWN).filter(is_no_text).count() >= BINARY {
        return "binary data".to_owned();
    }
    let mut shown = String::new();
    let mut length = 0;
    for character in start.chars() {
        let escaped = escape(character);
        length += escaped.chars().count();
        if length > SHOWN {
            return cut(shown);
        }
        shown.push_str(&escaped);
    }
    shown
}

fn escape(character: char) -> String {
    match character {
        '"' | '\'' | '\\' => character.to_string(),
        _ => character.escape_debug().to_string(),
    }
}

/// Marks that something is missing, within the allowed length.
fn cut(mut shown: String) -> String {
    if shown.chars().count() == SHOWN {
        shown.pop();
    }
    shown.push('…');
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_is_short_and_printable() {
        let check = |line: &str, expected: &str| assert_eq!(excerpt(line.as_bytes()), expected);
        check("", "");
        check(r#"say "hi" \x22"#, r#"say "hi" \x22"#);
        check("a\tb\u{1b}[31mred\u{202e}", "a\\tb\\u{1b}[31mred\\u{202e}");
        check(&"é".repeat(120), &"é".repeat(120));
        check(&"é".repeat(121), &format!("{}…", "é".repeat(119)));
        check(&format!("{}\0", "a".repeat(119)), &format!("{}…", "a".repeat(119)));
        check(&"😀".repeat(5_000), &format!("{}…", "😀".repeat(119)));
        assert_eq!(excerpt(b"caf\xe9 \xff"), "caf\u{fffd} \u{fffd}");
        assert_eq!(excerpt(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0>"), "binary data");
    }
}
