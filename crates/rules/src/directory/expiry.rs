//! When an entry of the directory begins and ends.

use tollgate_core::Timestamp;

use crate::compile::flaw::Flaw;

/// Reads when an entry ends, if it says so.
pub(crate) fn parse_expiry(text: Option<&str>) -> Result<Option<Timestamp>, Flaw> {
    parse_moment("expires_at", text)
}

/// Reads the time in a field, if there is one.
pub(crate) fn parse_moment(
    field: &'static str,
    text: Option<&str>,
) -> Result<Option<Timestamp>, Flaw> {
    let Some(text) = text else { return Ok(None) };
    let Some(time) = parse_time(text) else {
        return Err(Flaw::new(
            format!("`{text}` is not a time"),
            "write RFC 3339 with an offset, like 2030-12-01T00:00:00Z",
        )
        .within(field));
    };
    Ok(Some(time))
}

/// The time that documents write like that; none if it is no time. What was before 1970 was at its
/// beginning.
#[must_use]
pub fn parse_time(text: &str) -> Option<Timestamp> {
    let time = text.parse::<jiff::Timestamp>().ok()?;
    Some(Timestamp::from_micros(u64::try_from(time.as_microsecond()).unwrap_or(0)))
}

/// Whether an entry has ended: at the very moment it expires it counts no longer.
pub(crate) fn is_over(expires_at: Option<Timestamp>, now: Timestamp) -> bool {
    expires_at.is_some_and(|end| end <= now)
}

/// The time as documents write it.
#[must_use]
pub fn format_time(time: Timestamp) -> String {
    let micros = i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
    let time = jiff::Timestamp::from_microsecond(micros).unwrap_or(jiff::Timestamp::MAX);
    time.to_string()
}
