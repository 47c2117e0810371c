//! A text of a JSON body, borrowed from it whenever it stands there as it is.

use std::borrow::{Borrow, Cow};
use std::fmt;
use std::ops::Deref;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// A text that is only copied if it has escapes. (Serde copies every text of an `Option<Cow<str>>`.)
#[derive(Clone, Debug, Default, Serialize, PartialEq, Eq, PartialOrd, Ord)]
pub struct Text<'a>(Cow<'a, str>);

impl<'a> From<&'a str> for Text<'a> {
    fn from(text: &'a str) -> Self {
        Self(Cow::Borrowed(text))
    }
}

impl From<String> for Text<'static> {
    fn from(text: String) -> Self {
        Self(Cow::Owned(text))
    }
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Text<'_> {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Texts;

        impl<'de> Visitor<'de> for Texts {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }

        deserializer.deserialize_str(Texts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_escapes_are_copied() {
        let check = |json: &str, expected: &str, is_copied: bool| {
            let text: Option<Text<'_>> = serde_json::from_str(json).expect(json);
            let text = text.expect(json);
            assert_eq!(&*text, expected);
            assert_eq!(matches!(text.0, Cow::Owned(_)), is_copied, "{json}");
        };
        check(r#""plain""#, "plain", false);
        check(r#""""#, "", false);
        check(r#""a\nb""#, "a\nb", true);
        check(r#""\u00e9""#, "é", true);
        check("\"é\"", "é", false);
    }
}
