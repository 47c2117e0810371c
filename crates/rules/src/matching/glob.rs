//! Globs: `*` is any text, `?` any one character, `[a-z]` one of a set, `[!a-z]` one not in it; a
//! backslash takes the next character as it is. The whole value must match.
//!
//! Values come from clients and globs from administrators of tenants, so every comparison takes
//! steps from a bounded budget: [`Steps`].

use memchr::memmem;

use crate::compile::flaw::Flaw;
use crate::matching::steps::Steps;

/// The longest glob in bytes.
const MAX_GLOB: usize = 256;
/// How many bytes the search for a literal compares in about the time of one step.
const LITERAL_BYTES_PER_STEP: usize = 4;

/// A compiled glob. The most common forms are distinguished at compile time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Glob {
    Any,
    Exact(Box<str>),
    Prefix(Box<str>),
    /// Without any `*`.
    Fixed(GlobSegment),
    /// With at least one `*`: text before the first, between two, and after the last.
    Starred {
        first: GlobSegment,
        middle: Box<[GlobSegment]>,
        last: GlobSegment,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GlobToken {
    Char(char),
    AnyChar,
    AnyText,
    Set { negated: bool, ranges: Box<[(char, char)]> },
}

impl Glob {
    pub(crate) fn parse(text: &str) -> Result<Self, Flaw> {
        if text.is_empty() {
            return Err(Flaw::new("an empty glob matches nothing", "write `*` for any value"));
        }
        if text.len() > MAX_GLOB {
            let message = format!("a glob has at most {MAX_GLOB} bytes");
            return Err(Flaw::new(message, "match a prefix and end with `*`"));
        }
        let mut tokens = Vec::new();
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            match c {
                '*' if tokens.last() == Some(&GlobToken::AnyText) => {}
                '*' => tokens.push(GlobToken::AnyText),
                '?' => tokens.push(GlobToken::AnyChar),
                '[' => tokens.push(parse_set(&mut chars)?),
                '\\' => tokens.push(GlobToken::Char(chars.next().ok_or_else(|| {
                    Flaw::new("nothing follows the backslash", "write `\\\\` for a backslash")
                })?)),
                c => tokens.push(GlobToken::Char(c)),
            }
        }
        Ok(Self::simplest(&tokens))
    }

    fn simplest(tokens: &[GlobToken]) -> Self {
        let mut segments: Vec<GlobSegment> =
            tokens.split(|token| *token == GlobToken::AnyText).map(GlobSegment::new).collect();
        let last = segments.pop().unwrap_or_default();
        if segments.is_empty() {
            return match last {
                GlobSegment::Literal(text) => Self::Exact(text),
                segment => Self::Fixed(segment),
            };
        }
        let first = segments.remove(0);
        match (first, &*segments, last.is_empty()) {
            (first, [], true) if first.is_empty() => Self::Any,
            (GlobSegment::Literal(text), [], true) => Self::Prefix(text),
            (first, _, _) => Self::Starred { first, middle: segments.into(), last },
        }
    }

    /// Whether the whole value matches. `None` if finding out takes more than the steps left.
    pub(crate) fn matches(&self, value: &str, steps: &mut Steps) -> Option<bool> {
        steps.take(1)?;
        match self {
            Self::Any => Some(true),
            Self::Exact(text) => Some(**text == *value),
            Self::Prefix(text) => Some(value.starts_with(&**text)),
            Self::Fixed(segment) => Some(segment.end_at_start(value, steps)? == Some(value.len())),
            Self::Starred { first, middle, last } => {
                let Some(start) = first.end_at_start(value, steps)? else { return Some(false) };
                let rest = &value[start..];
                let Some(end) = last.start_at_end(rest, steps)? else { return Some(false) };
                let mut rest = &rest[..end];
                // Taking the first place that fits leaves the most text to the segments behind it.
                for segment in middle {
                    match segment.find_end(rest, steps)? {
                        Some(end) => rest = &rest[end..],
                        None => return Some(false),
                    }
                }
                Some(true)
            }
        }
    }
}

fn parse_set(chars: &mut std::str::Chars<'_>) -> Result<GlobToken, Flaw> {
    let unclosed = || Flaw::new("`[` has no `]`", "write `\\[` for a bracket");
    let mut ranges = Vec::new();
    let negated = chars.as_str().starts_with('!');
    if negated {
        chars.next();
    }
    loop {
        let first = match chars.next().ok_or_else(unclosed)? {
            ']' if ranges.is_empty() => {
                return Err(Flaw::new("`[]` matches nothing", "list characters in the brackets"));
            }
            ']' => return Ok(GlobToken::Set { negated, ranges: ranges.into() }),
            '\\' => chars.next().ok_or_else(unclosed)?,
            c => c,
        };
        let is_range = chars.as_str().starts_with('-') && !chars.as_str().starts_with("-]");
        let last = if is_range { chars.nth(1).ok_or_else(unclosed)? } else { first };
        if last < first {
            let message = format!("`{first}-{last}` is an empty range");
            return Err(Flaw::new(message, format!("write `{last}-{first}`")));
        }
        ranges.push((first, last));
    }
}

/// Text without a `*`, of a fixed number of characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GlobSegment {
    Literal(Box<str>),
    Tokens(Box<[GlobToken]>),
}

impl Default for GlobSegment {
    fn default() -> Self {
        Self::Literal(Box::default())
    }
}

impl GlobSegment {
    fn new(tokens: &[GlobToken]) -> Self {
        let literal =
            |token: &GlobToken| if let GlobToken::Char(c) = token { Some(*c) } else { None };
        match tokens.iter().map(literal).collect::<Option<String>>() {
            Some(text) => Self::Literal(text.into()),
            None => Self::Tokens(tokens.into()),
        }
    }

    fn is_empty(&self) -> bool {
        matches!(self, Self::Literal(text) if text.is_empty())
    }

    /// Where the segment ends if the text starts with it.
    fn end_at_start(&self, text: &str, steps: &mut Steps) -> Option<Option<usize>> {
        match self {
            Self::Literal(literal) => Some(text.starts_with(&**literal).then_some(literal.len())),
            Self::Tokens(tokens) => end_of(tokens, text, steps),
        }
    }

    /// Where the segment starts if the text ends with it.
    fn start_at_end(&self, text: &str, steps: &mut Steps) -> Option<Option<usize>> {
        match self {
            Self::Literal(literal) => Some(text.strip_suffix(&**literal).map(str::len)),
            Self::Tokens(tokens) => {
                let Some(start) = text.char_indices().nth_back(tokens.len() - 1) else {
                    return Some(None);
                };
                let (start, _) = start;
                let end = end_of(tokens, &text[start..], steps)?;
                Some(end.map(|_| start))
            }
        }
    }

    /// Where the first occurrence of the segment in the text ends.
    fn find_end(&self, text: &str, steps: &mut Steps) -> Option<Option<usize>> {
        match self {
            Self::Literal(literal) => {
                let start = memmem::find(text.as_bytes(), literal.as_bytes());
                let end = start.map(|start| start + literal.len());
                steps.take(1 + end.unwrap_or(text.len()) / LITERAL_BYTES_PER_STEP)?;
                Some(end)
            }
            Self::Tokens(tokens) => {
                for (start, _) in text.char_indices() {
                    if let Some(length) = end_of(tokens, &text[start..], steps)? {
                        return Some(Some(start + length));
                    }
                }
                Some(None)
            }
        }
    }
}

/// Where the tokens end if the text starts with them.
fn end_of(tokens: &[GlobToken], text: &str, steps: &mut Steps) -> Option<Option<usize>> {
    let mut chars = text.chars();
    for (compared, token) in (1..).zip(tokens) {
        if !chars.next().is_some_and(|c| token.accepts(c)) {
            steps.take(compared)?;
            return Some(None);
        }
    }
    steps.take(tokens.len())?;
    Some(Some(text.len() - chars.as_str().len()))
}

impl GlobToken {
    fn accepts(&self, c: char) -> bool {
        match self {
            Self::Char(wanted) => *wanted == c,
            Self::AnyChar | Self::AnyText => true,
            Self::Set { negated, ranges } => {
                ranges.iter().any(|(first, last)| (*first..=*last).contains(&c)) != *negated
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_whole_values() {
        for (glob, matching, others) in [
            ("*", &["", "a", "ab"][..], &[][..]),
            ("abc", &["abc"], &["", "ab", "abcd", "xabc"]),
            ("abc*", &["abc", "abcd"], &["ab", "xabc"]),
            ("*abc", &["abc", "xabc", "abcabc"], &["abcd", "ab"]),
            ("a*c*e", &["ace", "abcde", "acce", "aceace"], &["ac", "aced", "xace"]),
            ("a**b", &["ab", "axb"], &["a", "axbx"]),
            ("a?c", &["abc", "aéc"], &["ac", "abbc"]),
            ("[a-c]x", &["ax", "cx"], &["dx", "x", "-x"]),
            ("[!a-c]x", &["dx", "éx"], &["ax", "x"]),
            ("[ab-]", &["a", "b", "-"], &["c", "ab"]),
            ("[a\\]]", &["a", "]"], &["\\"]),
            ("\\*\\?", &["*?"], &["ab", "*"]),
            ("*[0-9]", &["a1", "1"], &["a", "1a"]),
            ("a*a", &["aa", "aba"], &["a", "ab"]),
            ("*b?d*", &["bcd", "abbcdx", "bbéd"], &["bd", "abcx"]),
            ("*ab*ab*", &["abab", "xabyabz"], &["aab", "abxb"]),
            ("?*é", &["aé", "éé"], &["é", "éa"]),
        ] {
            let parsed = Glob::parse(glob).expect("a valid glob");
            let matches = |value| parsed.matches(value, &mut Steps::unlimited());
            for value in matching {
                assert_eq!(matches(value), Some(true), "{glob} matches {value}");
            }
            for value in others {
                assert_eq!(matches(value), Some(false), "{glob} does not match {value}");
            }
        }
    }
}
