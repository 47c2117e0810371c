//! What a verified token says, in the form in which rules ask for it: names and texts.

use std::fmt;

/// The claims of a verified token that are text, numbers or truth values. Empty without a token.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Claims {
    /// In the order of their names.
    by_name: Vec<(String, String)>,
}

impl Claims {
    /// The value of a claim; numbers and truth values are written as in JSON.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        let at = self.by_name.binary_search_by(|(known, _)| known.as_str().cmp(name)).ok()?;
        self.by_name.get(at).map(|(_, value)| value.as_str())
    }

    /// All names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.by_name.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// Names only: the values are about people.
impl fmt::Debug for Claims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(|(name, _)| name)).finish()
    }
}

/// The client that a token identifies.
#[derive(Debug, Default)]
pub(super) struct Holder {
    pub(super) user_id: Option<String>,
    pub(super) tenant: Option<String>,
    pub(super) tier: Option<String>,
    pub(super) claims: Claims,
}

#[cfg(feature = "jwt")]
mod json {
    use serde_json::{Map, Value};

    use super::Claims;

    /// More claims than this are left out.
    const MAX_CLAIMS: usize = 64;
    /// Longer names and values are left out.
    const MAX_VALUE_BYTES: usize = 1024;

    impl Claims {
        pub(in super::super) fn from_json(claims: &Map<String, Value>) -> Self {
            let mut by_name: Vec<_> = claims
                .iter()
                .filter_map(|(name, value)| Some((name.clone(), text(value)?)))
                .filter(|(name, _)| name.len() <= MAX_VALUE_BYTES)
                .take(MAX_CLAIMS)
                .collect();
            by_name.sort_unstable();
            Self { by_name }
        }
    }

    /// The claim of that name; if there is none, the one that a path such as `app.tier` leads to.
    /// Names come first because many are addresses, which have dots.
    pub(in super::super) fn find<'a>(
        claims: &'a Map<String, Value>,
        path: &str,
    ) -> Option<&'a Value> {
        let found = claims.get(path).or_else(|| {
            let (outer, inner) = path.split_once('.')?;
            find(claims.get(outer)?.as_object()?, inner)
        });
        found.filter(|value| !value.is_null())
    }

    /// A value that rules can compare and count by. An empty text is none.
    pub(in super::super) fn text(value: &Value) -> Option<String> {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            Value::Bool(truth) => truth.to_string(),
            Value::Null | Value::Array(_) | Value::Object(_) => return None,
        };
        (1..=MAX_VALUE_BYTES).contains(&text.len()).then_some(text)
    }
}

#[cfg(feature = "jwt")]
pub(super) use json::{find, text};
