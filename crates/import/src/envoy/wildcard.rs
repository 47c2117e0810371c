//! Names with `*` in them, which stands for any text, or none, as often as it is written.

/// A name with at least one `*`.
#[derive(Clone, Debug)]
pub(super) struct Wildcard {
    /// What stands before, between and after the stars.
    parts: Box<[Box<str>]>,
}

impl Wildcard {
    /// `None`: there is no `*` in the name.
    pub(super) fn parse(name: &str) -> Option<Self> {
        let parts = name.split('*').map(Box::from).collect::<Box<[_]>>();
        (parts.len() > 1).then_some(Self { parts })
    }

    /// Whether the whole text matches. Taking each part where it is first found leaves the most to
    /// the parts after it, so nothing is ever tried twice.
    pub(super) fn matches(&self, text: &str) -> bool {
        let [first, between @ .., last] = &*self.parts else { return false };
        let Some(mut rest) = text.strip_prefix(&**first) else { return false };
        for part in between {
            let Some((_, after)) = rest.split_once(&**part) else { return false };
            rest = after;
        }
        rest.ends_with(&**last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_any_text() {
        for (pattern, matching, others) in [
            ("*", &["", "a", "a*b"][..], &[][..]),
            ("**", &["", "a"], &[]),
            ("a*", &["a", "ab", "a*"], &["", "ba", "A"]),
            ("*a", &["a", "ba", "aa"], &["", "ab"]),
            ("a*a", &["aa", "aba", "aaa"], &["a", "ab", "ba"]),
            ("a*b*c", &["abc", "axbxc", "abcbc", "abbc"], &["ac", "acb", "abcx", "ab"]),
            ("*b*", &["b", "abc"], &["", "ac"]),
            ("a*b*b", &["abb", "abxb"], &["ab", "a"]),
            ("é*ü", &["éü", "éaü"], &["é", "ü"]),
            ("a.*", &["a.", "a.b"], &["ab", "axb"]),
        ] {
            let wildcard = Wildcard::parse(pattern).expect("there is a star");
            for text in matching {
                assert!(wildcard.matches(text), "{pattern} matches {text:?}");
            }
            for text in others {
                assert!(!wildcard.matches(text), "{pattern} does not match {text:?}");
            }
        }
        assert!(Wildcard::parse("a").is_none());
        assert!(Wildcard::parse("").is_none());
    }
}
