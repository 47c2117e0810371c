//! Times as people type them to say which part of a log they want.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use tollgate_core::Timestamp;

use crate::directory::expiry::parse_time;
use crate::window::parse_window;

/// How such a time is written, for messages.
pub const PAST_TIME: &str = "write a time of UTC like 21:00 (today), 2026-11-18, 2026-11-18 21:00 or 2026-11-18T21:00:00Z, \
                             or 2h for two hours ago";

/// The time that a person means: `21:00` is today, `2026-11-18 21:00` is of UTC as well, `2h` is two hours ago. RFC 3339
/// with an offset is read as it is. None if it is no time.
#[must_use]
pub fn parse_past_time(text: &str, now: Timestamp) -> Option<Timestamp> {
    let text = text.trim();
    if let Some(time) = parse_time(text) {
        return Some(time);
    }
    if let Ok(ago) = parse_window(text) {
        return Some(now.minus(ago));
    }
    let civil = match text.parse::<DateTime>() {
        Ok(civil) => civil,
        Err(_) if text.contains(':') => today(now)?.to_datetime(text.parse::<Time>().ok()?),
        Err(_) => return None,
    };
    let zoned = civil.to_zoned(TimeZone::UTC).ok()?;
    let micros = u64::try_from(zoned.timestamp().as_microsecond()).unwrap_or(0);
    Some(Timestamp::from_micros(micros))
}

fn today(now: Timestamp) -> Option<Date> {
    let micros = i64::try_from(now.as_micros()).ok()?;
    let now = jiff::Timestamp::from_microsecond(micros).ok()?;
    Some(now.to_zoned(TimeZone::UTC).date())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format_time;

    #[test]
    fn a_time_is_read_as_people_type_it() {
        let now = parse_time("2026-11-18T21:30:00Z").expect("a time");
        let check = |text: &str, expected: Option<&str>| {
            let read = parse_past_time(text, now).map(format_time);
            assert_eq!(read.as_deref(), expected, "{text}");
        };
        check("21:00", Some("2026-11-18T21:00:00Z"));
        check(" 09:05:07 ", Some("2026-11-18T09:05:07Z"));
        check("2026-11-18 21:00", Some("2026-11-18T21:00:00Z"));
        check("2026-11-18T20:50", Some("2026-11-18T20:50:00Z"));
        check("2026-11-17", Some("2026-11-17T00:00:00Z"));
        check("2026-11-18T21:00:00Z", Some("2026-11-18T21:00:00Z"));
        check("2026-11-18T21:00:00+01:00", Some("2026-11-18T20:00:00Z"));
        check("10m", Some("2026-11-18T21:20:00Z"));
        check("2h", Some("2026-11-18T19:30:00Z"));
        check("1d", Some("2026-11-17T21:30:00Z"));
        for text in
            ["", "yesterday", "25:00", "2026-13-01", "21", "-2h", "2026-11-18 25:00", "1 month"]
        {
            check(text, None);
        }
    }
}
