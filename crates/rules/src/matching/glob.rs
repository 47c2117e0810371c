//! Globs: `*` is any text, `?` any one character, `[a-z]` one of a set, `[!a-z]` one not in it; a
//! backslash takes the next character as it is. The whole value must match.

use crate::compile::flaw::Flaw;

/// The longest glob in bytes, so that the work per request stays small whatever the value.
const MAX_GLOB: usize = 256;

/// A compiled glob. The forms people use most are told apart at compile time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Glob {
    Any,
    Exact(Box<str>),
    Prefix(Box<str>),
    General(Box<[Token]>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token {
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
                '*' if tokens.last() == Some(&Token::AnyText) => {}
                '*' => tokens.push(Token::AnyText),
                '?' => tokens.push(Token::AnyChar),
                '[' => tokens.push(parse_set(&mut chars)?),
                '\\' => tokens.push(Token::Char(chars.next().ok_or_else(|| {
                    Flaw::new("nothing follows the backslash", "write `\\\\` for a backslash")
                })?)),
                c => tokens.push(Token::Char(c)),
            }
        }
        Ok(Self::simplest(tokens))
    }

    fn simplest(tokens: Vec<Token>) -> Self {
        let literal = |tokens: &[Token]| {
            tokens
                .iter()
                .map(|token| if let Token::Char(c) = token { Some(*c) } else { None })
                .collect::<Option<String>>()
        };
        if let Some(text) = literal(&tokens) {
            return Self::Exact(text.into());
        }
        match tokens.split_last() {
            Some((Token::AnyText, [])) => Self::Any,
            Some((Token::AnyText, before)) => match literal(before) {
                Some(text) => Self::Prefix(text.into()),
                None => Self::General(tokens.into()),
            },
            _ => Self::General(tokens.into()),
        }
    }

    pub(crate) fn matches(&self, value: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Exact(text) => **text == *value,
            Self::Prefix(text) => value.starts_with(&**text),
            Self::General(tokens) => matches_tokens(tokens, value),
        }
    }
}

fn parse_set(chars: &mut std::str::Chars<'_>) -> Result<Token, Flaw> {
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
            ']' => return Ok(Token::Set { negated, ranges: ranges.into() }),
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

/// Only the last `*` is ever taken back, so the work is at most tokens times characters.
fn matches_tokens(tokens: &[Token], value: &str) -> bool {
    let mut token = 0;
    let mut rest = value.chars();
    let mut retry: Option<(usize, std::str::Chars<'_>)> = None;
    loop {
        if let Some(Token::AnyText) = tokens.get(token) {
            token += 1;
            retry = Some((token, rest.clone()));
            continue;
        }
        let mut ahead = rest.clone();
        match (tokens.get(token), ahead.next()) {
            (None, None) => return true,
            (Some(wanted), Some(c)) if wanted.accepts(c) => {
                token += 1;
                rest = ahead;
                continue;
            }
            _ => {}
        }
        // Let the last `*` take one character more, and try what follows it again.
        let Some((after, from)) = &mut retry else { return false };
        if from.next().is_none() {
            return false;
        }
        token = *after;
        rest = from.clone();
    }
}

impl Token {
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
        ] {
            let parsed = Glob::parse(glob).expect("a sound glob");
            for value in matching {
                assert!(parsed.matches(value), "{glob} matches {value}");
            }
            for value in others {
                assert!(!parsed.matches(value), "{glob} does not match {value}");
            }
        }
    }
}
