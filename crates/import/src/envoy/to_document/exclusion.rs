//! Globs for all values but some: a policy has no word for "not", but `[!a]*`, `a` and `a[!b]*`
//! together are everything but what begins with `ab`.

use std::collections::BTreeMap;

use tollgate_rules::syntax::is_glob;

use crate::envoy::to_document::pattern::{ValuePattern, escape};

/// A rule with more globs than that is not readable.
const MAX_GLOBS: usize = 256;

/// Globs for every value that begins with `start` and is in none of the excluded patterns, none of
/// which covers all of it. `None`: it cannot be written, or only at great length.
pub(super) fn all_but(start: &str, excluded: &[ValuePattern<'_>]) -> Option<Vec<String>> {
    let mut root = Letter::default();
    for pattern in excluded {
        let (text, takes_longer) = match pattern {
            ValuePattern::Exact(value) => (value, false),
            ValuePattern::Prefix(start) => (start, true),
            ValuePattern::Any | ValuePattern::Stars(_) => return None,
        };
        let Some(rest) = text.strip_prefix(start) else { continue };
        let mut letter = &mut root;
        for c in rest.chars() {
            letter = letter.next.entry(c).or_default();
        }
        letter.is_excluded = true;
        letter.is_excluded_below |= takes_longer;
    }
    let mut globs = Vec::new();
    root.write(start, &mut globs)?;
    let is_sound = |glob: &String| is_glob(glob);
    (!globs.is_empty() && globs.iter().all(is_sound)).then_some(globs)
}

/// One letter of the excluded texts, as a tree.
#[derive(Default)]
struct Letter {
    next: BTreeMap<char, Self>,
    /// Whether the text that ends here is excluded.
    is_excluded: bool,
    /// Whether every longer text is excluded too.
    is_excluded_below: bool,
}

impl Letter {
    /// Writes globs for what is not excluded from here on. `None`: there are too many.
    fn write(&self, text: &str, globs: &mut Vec<String>) -> Option<()> {
        if self.is_excluded_below {
            return Some(());
        }
        if globs.len() >= MAX_GLOBS {
            return None;
        }
        let here = escape(text);
        if self.next.is_empty() && !self.is_excluded {
            globs.push(format!("{here}*"));
            return Some(());
        }
        // An empty value counts as missing, so it needs no glob.
        if !self.is_excluded && !text.is_empty() {
            globs.push(here.clone());
        }
        if self.next.is_empty() {
            globs.push(format!("{here}?*"));
        } else {
            globs.push(format!(
                "{here}[!{}]*",
                self.next.keys().copied().map(in_set).collect::<String>()
            ));
        }
        self.next.iter().try_for_each(|(c, next)| next.write(&format!("{text}{c}"), globs))
    }
}

/// A character as one of a set.
fn in_set(c: char) -> String {
    if matches!(c, '\\' | ']' | '-' | '!') { format!("\\{c}") } else { c.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_else_is_listed() {
        use ValuePattern::{Any, Exact, Prefix, Stars};
        for (start, excluded, expected) in [
            ("", &[Exact("ab")][..], Some(&["[!a]*", "a", "a[!b]*", "ab?*"][..])),
            ("", &[Prefix("ab")], Some(&["[!a]*", "a", "a[!b]*"])),
            ("", &[Exact("a"), Exact("b")], Some(&["[!ab]*", "a?*", "b?*"])),
            ("", &[Exact("a"), Prefix("ab")], Some(&["[!a]*", "a[!b]*"])),
            ("", &[Prefix("a"), Exact("ab")], Some(&["[!a]*"])),
            ("x", &[], Some(&["x*"])),
            ("x", &[Exact("x")], Some(&["x?*"])),
            ("x", &[Exact("y"), Exact("xy")], Some(&["x", "x[!y]*", "xy?*"])),
            ("?", &[Exact("?]"), Prefix("?-")], Some(&["\\?", "\\?[!\\-\\]]*", "\\?]?*"])),
            ("", &[Exact("é")], Some(&["[!é]*", "é?*"])),
            ("", &[Stars("*a")], None),
            ("", &[Any], None),
            ("", &[Prefix("")], None),
        ] {
            let found = all_but(start, excluded);
            let expected = expected
                .map(|globs| globs.iter().map(|glob| (*glob).to_owned()).collect::<Vec<_>>());
            assert_eq!(found, expected, "{start:?} without {excluded:?}");
        }
        assert!(all_but("", &[Exact(&"a".repeat(100))]).is_some());
        assert!(all_but("", &[Exact(&"a".repeat(200))]).is_none(), "too many globs");
    }
}
