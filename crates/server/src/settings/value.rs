//! The types of settings: how each is parsed and shown.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use ipnet::IpNet;
use serde_json::{Value as Json, json};
use tollgate_document::{MapKey, Node, Problem, Value, quote};

/// A type of setting.
pub(super) trait Setting: Sized {
    /// A description of valid values: "a whole number".
    fn expected() -> String;

    /// Parses a text.
    fn parse(text: &str) -> Option<Self>;

    /// Reads a value of a file, a flag or the environment. A problem has a position only if that is not
    /// where the value starts.
    fn read(value: &Value) -> Result<Self, Problem> {
        let parsed = value.scalar().and_then(Self::parse);
        parsed.ok_or_else(|| unexpected(&Self::expected(), value))
    }

    /// The value as it could be written in a file.
    fn show(&self) -> Json;

    /// The type in the JSON schema of the settings file.
    fn schema() -> Json {
        json!({ "type": "string" })
    }
}

/// A problem of a value, whose setting the caller adds.
pub(super) fn problem(message: impl Into<String>) -> Problem {
    Problem::new("", message)
}

/// The problem that a value is not what was expected. What may be a URL with a password is not repeated.
pub(super) fn unexpected(expected: &str, found: &Value) -> Problem {
    let found = match found.scalar() {
        Some(text) if text.contains('@') => {
            "text with an @, not shown since it may contain a password".to_owned()
        }
        Some(text) => quote(text),
        None => found.describe(),
    };
    problem(format!("expected {expected}, found {found}"))
}

/// The problem at its position, unless it has one already.
pub(super) fn at(node: &Node, problem: Problem) -> Problem {
    if problem.position.is_some() { problem } else { problem.at(node.position) }
}

/// The fields of a map that is an item of a list, in the order of `known`.
pub(super) fn fields<'a, const N: usize>(
    entries: &'a [(MapKey, Node)],
    kind: &str,
    known: [&str; N],
) -> Result<[Option<&'a Node>; N], Problem> {
    let mut found = [None; N];
    for (key, node) in entries {
        let Some(at) = known.iter().position(|name| *name == key.text) else {
            let (last, others) = (known[N - 1], known[..N - 1].join(", "));
            let message = format!("{kind} has no {}; it has {others} and {last}", quote(&key.text));
            return Err(problem(message).at(key.position));
        };
        if found[at].replace(node).is_some() {
            return Err(problem(format!("{} is there twice", key.text)).at(key.position));
        }
    }
    Ok(found)
}

/// A setting that is one of a few words.
pub(super) trait Choice: Copy + PartialEq + 'static {
    const ALL: &'static [(&'static str, Self)];
}

impl<T: Choice> Setting for T {
    fn expected() -> String {
        let words: Vec<&str> = T::ALL.iter().map(|(word, _)| *word).collect();
        match words.split_last() {
            Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
            _ => words.concat(),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        T::ALL.iter().find(|(word, _)| *word == text).map(|(_, choice)| *choice)
    }

    fn show(&self) -> Json {
        T::ALL.iter().find(|(_, choice)| choice == self).map(|(word, _)| *word).into()
    }

    /// A word that YAML reads as a number or boolean may be written as one.
    fn schema() -> Json {
        let words = T::ALL.iter().map(|(word, _)| Json::from(*word));
        let typed = T::ALL.iter().filter_map(|(word, _)| serde_json::from_str(word).ok());
        json!({ "enum": words.chain(typed).collect::<Vec<Json>>() })
    }
}

impl<T: Setting> Setting for Option<T> {
    fn expected() -> String {
        T::expected()
    }

    fn parse(text: &str) -> Option<Self> {
        T::parse(text).map(Some)
    }

    fn read(value: &Value) -> Result<Self, Problem> {
        match value {
            Value::Null => Ok(None),
            value => T::read(value).map(Some),
        }
    }

    fn show(&self) -> Json {
        self.as_ref().map_or(Json::Null, T::show)
    }

    fn schema() -> Json {
        json!({ "anyOf": [T::schema(), { "type": "null" }] })
    }
}

/// A list, or a text with commas between the items.
impl<T: Setting> Setting for Vec<T> {
    fn expected() -> String {
        format!("a list, each item {}", T::expected())
    }

    fn parse(text: &str) -> Option<Self> {
        text.split(',').map(|item| T::parse(item.trim())).collect()
    }

    fn read(value: &Value) -> Result<Self, Problem> {
        let Value::List(items) = value else {
            let list = value.scalar().and_then(Self::parse);
            return list.ok_or_else(|| unexpected(&Self::expected(), value));
        };
        items.iter().map(|item| T::read(&item.value).map_err(|problem| at(item, problem))).collect()
    }

    fn show(&self) -> Json {
        self.iter().map(T::show).collect()
    }

    fn schema() -> Json {
        let list = json!({ "type": "array", "items": T::schema() });
        // A map cannot be written as a text.
        let is_map = T::schema()["type"] == "object";
        if is_map { list } else { json!({ "anyOf": [list, { "type": "string" }] }) }
    }
}

impl Setting for SocketAddr {
    fn expected() -> String {
        "an address with a port like 127.0.0.1:8080 or [::1]:8080".to_owned()
    }

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn show(&self) -> Json {
        self.to_string().into()
    }
}

impl Setting for IpNet {
    fn expected() -> String {
        "a network like 10.0.0.0/8 or an address".to_owned()
    }

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(Self::from))
    }

    fn show(&self) -> Json {
        self.to_string().into()
    }
}

impl Setting for PathBuf {
    fn expected() -> String {
        "the name of a file".to_owned()
    }

    fn parse(text: &str) -> Option<Self> {
        (!text.is_empty()).then(|| text.into())
    }

    fn show(&self) -> Json {
        self.display().to_string().into()
    }
}

impl Setting for String {
    fn expected() -> String {
        "a text".to_owned()
    }

    fn parse(text: &str) -> Option<Self> {
        (!text.is_empty()).then(|| text.to_owned())
    }

    fn show(&self) -> Json {
        self.as_str().into()
    }
}

macro_rules! whole_numbers {
    ($($kind:ty),+) => {$(
        impl Setting for $kind {
            fn expected() -> String {
                "a whole number".to_owned()
            }

            fn parse(text: &str) -> Option<Self> {
                text.parse().ok()
            }

            fn show(&self) -> Json {
                (*self).into()
            }

            fn schema() -> Json {
                json!({ "type": "integer", "minimum": 0 })
            }
        }
    )+};
}

whole_numbers!(u8, u64, usize);

/// A number of bytes, written like `64MiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(u64);

const SIZE_UNITS: [(&str, u64); 4] =
    [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("", 1)];

impl ByteSize {
    /// A size in bytes.
    #[must_use]
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// A size in mebibytes.
    #[must_use]
    pub const fn mebibytes(count: u64) -> Self {
        Self(count.saturating_mul(1 << 20))
    }

    /// A size in kibibytes.
    #[must_use]
    pub const fn kibibytes(count: u64) -> Self {
        Self(count.saturating_mul(1 << 10))
    }

    /// The number of bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.0
    }

    /// The number of bytes, as far as this machine can address them.
    #[must_use]
    pub fn to_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&largest_unit(self.0, &SIZE_UNITS))
    }
}

impl FromStr for ByteSize {
    /// A description of valid values.
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Setting::parse(text).ok_or_else(<Self as Setting>::expected)
    }
}

impl Setting for ByteSize {
    fn expected() -> String {
        "a size like 64KiB, 256MiB or 1GiB".to_owned()
    }

    fn parse(text: &str) -> Option<Self> {
        amount(text, &SIZE_UNITS).map(Self)
    }

    fn show(&self) -> Json {
        self.to_string().into()
    }

    fn schema() -> Json {
        json!({ "type": ["string", "integer"], "pattern": "^[0-9]+ *(GiB|MiB|KiB)?$", "minimum": 0 })
    }
}

const TIME_UNITS: [(&str, u64); 4] = [("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

impl Setting for Duration {
    fn expected() -> String {
        "a time like 500ms, 10s or 2m".to_owned()
    }

    fn parse(text: &str) -> Option<Self> {
        amount(text, &TIME_UNITS).map(Self::from_millis)
    }

    fn show(&self) -> Json {
        largest_unit(u64::try_from(self.as_millis()).unwrap_or(u64::MAX), &TIME_UNITS).into()
    }

    fn schema() -> Json {
        json!({ "type": "string", "pattern": "^[0-9]+ *(h|m|s|ms)$" })
    }
}

/// A whole number with a unit behind it, in the smallest of the units.
fn amount(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim_start();
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
}

/// The number in the largest unit that has no remainder.
fn largest_unit(number: u64, units: &[(&str, u64)]) -> String {
    let fitting = units.iter().find(|(_, factor)| number > 0 && number.is_multiple_of(*factor));
    let smallest = units[units.len() - 1];
    let (name, factor) = fitting.copied().unwrap_or(smallest);
    format!("{}{name}", number / factor)
}

/// A value as it is written in a file.
pub(super) fn plain(value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        Json::Null => "none".to_owned(),
        Json::Array(items) => {
            format!("[{}]", items.iter().map(plain).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes_and_times() {
        for (text, bytes) in [
            ("64KiB", Some(65_536)),
            ("1GiB", Some(1 << 30)),
            ("256 MiB", Some(256 << 20)),
            ("8192", Some(8_192)),
            ("0", Some(0)),
            ("64KB", None),
            ("1.5GiB", None),
            ("-1", None),
            ("", None),
            ("MiB", None),
            ("99999999999GiB", None),
        ] {
            assert_eq!(ByteSize::parse(text), bytes.map(ByteSize), "{text}");
        }
        for (text, millis) in [
            ("500ms", Some(500)),
            ("10s", Some(10_000)),
            ("2m", Some(120_000)),
            ("1h", Some(3_600_000)),
            ("10", None),
            ("10 seconds", None),
            ("s", None),
        ] {
            assert_eq!(Duration::parse(text), millis.map(Duration::from_millis), "{text}");
        }
    }

    proptest! {
        #[test]
        fn shown_values_can_be_parsed(number in 0..u64::MAX / 4) {
            let size = ByteSize(number);
            prop_assert_eq!(ByteSize::parse(size.show().as_str().unwrap()), Some(size));
            let time = Duration::from_millis(number);
            prop_assert_eq!(Duration::parse(time.show().as_str().unwrap()), Some(time));
        }

        #[test]
        fn no_text_panics(text in ".{0,40}") {
            let _ = (ByteSize::parse(&text), Duration::parse(&text), IpNet::parse(&text));
        }
    }
}
