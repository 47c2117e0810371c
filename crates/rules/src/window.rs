//! How long a window is, in the two ways to write it.

use std::borrow::Cow;
use std::ops::Deref;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};
use tollgate_core::{CalendarUnit, MAX_WINDOW, MIN_WINDOW, Micros};
use tollgate_document::{Decode, Node, Scope, Value, fixed_point, quote};

use crate::value::serialize_millionths;

/// A window in seconds, in whole milliseconds: `0.5`, `60`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seconds(Micros);

impl Seconds {
    /// A window of `millis` milliseconds.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(Micros::from_millis(millis))
    }

    /// The same in the unit of the kernels.
    #[must_use]
    pub const fn micros(self) -> Micros {
        self.0
    }
}

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize_millionths(self.0.get(), serializer)
    }
}

impl Decode for Seconds {
    fn decode(node: &Node, scope: &mut Scope) -> Option<Self> {
        let millis = MIN_WINDOW.as_millis_ceil()..=MAX_WINDOW.as_millis_ceil();
        fixed_point(node, 3, millis, scope).map(Self::from_millis)
    }
}

impl JsonSchema for Seconds {
    fn schema_name() -> Cow<'static, str> {
        "Seconds".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "number", "minimum": 0.001, "maximum": 31_622_400,
        })
    }
}

/// A window with its unit, as written: `500ms`, `10s`, `5m`, `1h30m`, `1d`, or `1 month` of the calendar.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    text: String,
    length: WindowLength,
}

/// How long a window is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WindowLength {
    /// Always the same: `1d` is 24 hours.
    Equal(Micros),
    /// What the calendar says: `1 day` has 23 to 25 hours.
    Calendar(CalendarUnit),
}

impl WindowLength {
    /// Whether the calendar says how long it is.
    #[must_use]
    pub const fn is_of_calendar(self) -> bool {
        matches!(self, Self::Calendar(_))
    }
}

impl Window {
    /// The window of that text.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn new(text: impl Into<String>) -> Result<Self, String> {
        let text = text.into();
        let unit = CalendarUnit::ALL.into_iter().find(|unit| calendar_text(*unit) == text);
        let length = match unit {
            Some(unit) => WindowLength::Calendar(unit),
            None => WindowLength::Equal(parse_window(&text)?),
        };
        Ok(Self { text, length })
    }

    /// The span it stands for.
    #[must_use]
    pub const fn length(&self) -> WindowLength {
        self.length
    }
}

/// The text as written.
impl Deref for Window {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl Serialize for Window {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl Decode for Window {
    fn decode(node: &Node, scope: &mut Scope) -> Option<Self> {
        let Value::String(text) = &node.value else {
            let meant = match &node.value {
                Value::Number(number) => window_like(number),
                _ => None,
            };
            scope.expected(node, "a window with its unit", &window_advice(meant));
            return None;
        };
        let advice = || window_advice(window_like(text));
        Self::new(text).map_err(|message| scope.problem(node.position, message, advice())).ok()
    }
}

impl JsonSchema for Window {
    fn schema_name() -> Cow<'static, str> {
        "Window".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "minLength": 2,
            "pattern": "^(([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?|1 (day|week|month))$",
        })
    }
}

const WINDOW_ADVICE: &str = "write a whole number and a unit: 500ms, 10s, 5m, 1h, 1d, 1h30m; or 1 day, 1 week, \
                             1 month of the calendar, with a time_zone";

/// How a window of the calendar is written. A unit alone, as in `1d`, has the same length every day.
pub(crate) fn calendar_text(unit: CalendarUnit) -> String {
    format!("1 {}", unit.name())
}

fn window_advice(meant: Option<String>) -> String {
    match meant {
        Some(meant) => format!("did you mean {meant}? {WINDOW_ADVICE}"),
        None => WINDOW_ADVICE.to_owned(),
    }
}

/// The window that a text probably means: seconds if it is a number, and units as other programs
/// write them.
fn window_like(text: &str) -> Option<String> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit = match unit.trim().to_ascii_lowercase().as_str() {
        // Many programs write a month like this, and a minute in the small letter.
        "m" if unit.trim() == "M" => return None,
        "" | "s" | "sec" | "secs" | "second" | "seconds" => "s",
        "m" | "min" | "mins" | "minute" | "minutes" => "m",
        "h" | "hr" | "hrs" | "hour" | "hours" => "h",
        "d" | "day" | "days" => "d",
        "ms" | "msec" | "millis" | "millisecond" | "milliseconds" => "ms",
        "mo" | "month" | "months" if matches!(number, "" | "1") => {
            return Some("1 month".to_owned());
        }
        "w" | "week" | "weeks" => {
            let days = number.parse::<u64>().ok()?.checked_mul(7)?;
            return Some(format!("{days}d")).filter(|window| parse_window(window).is_ok());
        }
        _ => return None,
    };
    Some(format!("{number}{unit}")).filter(|window| parse_window(window).is_ok())
}

/// The units of a window in microseconds, the longest first.
const UNITS: [(&str, u64); 5] = [
    ("d", 86_400_000_000),
    ("h", 3_600_000_000),
    ("m", 60_000_000),
    ("s", 1_000_000),
    ("ms", 1_000),
];

/// The span of a window with its unit: `500ms`, `10s`, `5m`, `1h`, `1d`, and several of them from
/// the longest to the shortest, `1h30m`.
///
/// # Errors
/// What is wrong with the text.
pub fn parse_window(text: &str) -> Result<Micros, String> {
    let out_of_range = || format!("the window {} must be between 1ms and 366d", quote(text));
    let no_window = || format!("{} is not a window with its unit", quote(text));
    let mut rest = text;
    let mut units = UNITS.iter();
    let mut total = 0_u64;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, after) = rest.split_at(digits);
        let letters = after.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, after) = after.split_at(letters);
        // The iterator does not turn back, so a unit cannot be repeated or follow a shorter one.
        let scale = units.find(|(name, _)| *name == unit).map(|(_, scale)| *scale);
        let (false, Some(scale)) = (number.is_empty(), scale) else { return Err(no_window()) };
        total = number
            .parse::<u64>()
            .ok()
            .and_then(|number| number.checked_mul(scale)?.checked_add(total))
            .ok_or_else(out_of_range)?;
        rest = after;
    }
    let window = Micros::new(total);
    match window {
        _ if text.is_empty() => Err(no_window()),
        _ if window < MIN_WINDOW || window > MAX_WINDOW => Err(out_of_range()),
        _ => Ok(window),
    }
}
