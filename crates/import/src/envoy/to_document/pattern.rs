//! Which values of a key lead to a node, and how two such sets lie to each other.

use std::borrow::Cow;

use crate::envoy::limit::LimitStep;
use crate::envoy::wildcard::Wildcard;

/// The values a node is for, as far as its own line in the file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValuePattern<'a> {
    /// Every value.
    Any,
    /// Just this one.
    Exact(&'a str),
    /// All that begin so: the star stands at the end, and is left out here.
    Prefix(&'a str),
    /// Stars stand elsewhere too.
    Stars(&'a str),
}

impl<'a> ValuePattern<'a> {
    pub(super) fn of(step: &'a LimitStep) -> Self {
        let Some(value) = step.value.as_deref() else { return Self::Any };
        let start = value.trim_end_matches('*');
        match (start.contains('*'), start.len() == value.len()) {
            (true, _) => Self::Stars(value),
            (false, true) => Self::Exact(value),
            (false, false) => Self::Prefix(start),
        }
    }

    /// Whether every value of the other is one of these.
    pub(super) fn covers(self, other: ValuePattern<'_>) -> bool {
        match (self, other) {
            (Self::Any | Self::Prefix(""), _) => true,
            (_, ValuePattern::Any) => false,
            (Self::Exact(value), other) => other == ValuePattern::Exact(value),
            (Self::Prefix(start), other) => other.head().starts_with(start),
            // What a star of the other stands for can only be taken by a star of this one.
            (Self::Stars(text), other) => {
                Wildcard::parse(text).is_some_and(|wildcard| wildcard.matches(&other.text()))
            }
        }
    }

    /// Whether a value may be in both. Of two wildcards only their ends are compared.
    pub(super) fn overlaps(self, other: ValuePattern<'_>) -> bool {
        match (self, other) {
            (Self::Any, _) | (_, ValuePattern::Any) => true,
            (Self::Exact(_), other) => other.covers(self),
            (_, ValuePattern::Exact(_)) => self.covers(other),
            _ => {
                let (head, other_head) = (self.head(), other.head());
                let (tail, other_tail) = (self.tail(), other.tail());
                (head.starts_with(other_head) || other_head.starts_with(head))
                    && (tail.ends_with(other_tail) || other_tail.ends_with(tail))
            }
        }
    }

    /// The same as a glob of a policy.
    pub(super) fn glob(self) -> String {
        match self {
            Self::Any => "*".to_owned(),
            Self::Exact(text) => escape(text),
            Self::Prefix(start) => escape(start) + "*",
            Self::Stars(text) => text.split('*').map(escape).collect::<Vec<_>>().join("*"),
        }
    }

    /// As a file has it.
    pub(super) fn text(self) -> Cow<'a, str> {
        match self {
            Self::Any => "*".into(),
            Self::Exact(text) | Self::Stars(text) => text.into(),
            Self::Prefix(start) => format!("{start}*").into(),
        }
    }

    /// What stands before the first star.
    fn head(self) -> &'a str {
        match self {
            Self::Any => "",
            Self::Exact(text) | Self::Prefix(text) => text,
            Self::Stars(text) => text.split('*').next().unwrap_or_default(),
        }
    }

    /// What stands after the last star.
    fn tail(self) -> &'a str {
        match self {
            Self::Any | Self::Prefix(_) => "",
            Self::Exact(text) => text,
            Self::Stars(text) => text.rsplit('*').next().unwrap_or_default(),
        }
    }
}

/// A glob for just this text.
pub(super) fn escape(text: &str) -> String {
    let mut glob = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '*' | '?' | '[' | '\\') {
            glob.push('\\');
        }
        glob.push(c);
    }
    glob
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(value: &str) -> LimitStep {
        let value = Some(value).filter(|value| !value.is_empty());
        let value = value.map(Into::into);
        LimitStep { key: "k".into(), value, share_threshold: false, value_to_metric: false }
    }

    #[test]
    fn patterns_lie_within_or_beside_each_other() {
        for (first, second, covers, is_covered, overlaps) in [
            ("", "", true, true, true),
            ("", "a", true, false, true),
            ("", "*", true, true, true),
            ("**", "*a", true, false, true),
            ("a", "a", true, true, true),
            ("a", "b", false, false, false),
            ("a*", "a", true, false, true),
            ("a*", "ab*", true, false, true),
            ("a*", "b*", false, false, false),
            ("a*", "*b", false, false, true),
            ("a*", "ba", false, false, false),
            ("*a", "b*a", true, false, true),
            ("*a", "*b", false, false, false),
            ("a*c", "a*b*c", true, false, true),
            ("a*b", "abb", true, false, true),
            ("a*b", "ab*", false, false, true),
            ("*a*", "b*", false, false, true),
        ] {
            let (one, two) = (step(first), step(second));
            let (one, two) = (ValuePattern::of(&one), ValuePattern::of(&two));
            let found = (one.covers(two), two.covers(one), one.overlaps(two), two.overlaps(one));
            assert_eq!(found, (covers, is_covered, overlaps, overlaps), "{first:?}, {second:?}");
        }
    }

    #[test]
    fn only_stars_keep_their_meaning() {
        for (value, glob) in [("", "*"), ("a*", "a*"), ("*?[x]\\", "*\\?\\[x]\\\\"), ("a", "a")] {
            assert_eq!(ValuePattern::of(&step(value)).glob(), glob, "{value:?}");
        }
        assert_eq!(ValuePattern::Exact("a*").glob(), "a\\*", "it stands for itself here");
    }
}
