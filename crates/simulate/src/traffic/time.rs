//! The spellings of time in logs, exact to the microsecond.

use jiff::civil::DateTime;
use jiff::tz::Offset;
use tollgate_core::Timestamp;

const MICROS_PER_SECOND: u64 = 1_000_000;
const MICROS_PER_MILLI: u64 = 1_000;

/// How many bytes `17/May/2015:10:05:03 +0000` has.
pub(super) const COMMON_LOG_LENGTH: usize = 26;

/// Reads `17/May/2015:10:05:03 +0000`, as in the common log format.
pub(super) fn common_log(text: &str) -> Option<Timestamp> {
    // Digits of day, month, year, hour, minute, second and zone.
    #[rustfmt::skip]
    let &[
        d1, d2, b'/', m1, m2, m3, b'/', y1, y2, y3, y4, b':',
        h1, h2, b':', n1, n2, b':', s1, s2, b' ', sign, z1, z2, z3, z4,
    ] = text.as_bytes() else { return None };
    let year = i16::from(two_digits(y1, y2)?) * 100 + i16::from(two_digits(y3, y4)?);
    let (day, month) = (two_digits(d1, d2)?, month([m1, m2, m3])?);
    let (hour, minute) = (two_digits(h1, h2)?, two_digits(n1, n2)?);
    // Like most clocks, ours has no leap seconds.
    let second = if [s1, s2] == *b"60" { 59 } else { two_digits(s1, s2)? };
    let local = DateTime::new(year, month, day, hour, minute, second, 0).ok()?;

    let zone_minute = two_digits(z3, z4).filter(|minute| *minute < 60)?;
    let east = i32::from(two_digits(z1, z2)?) * 3600 + i32::from(zone_minute) * 60;
    let offset = match sign {
        b'+' => Offset::from_seconds(east),
        b'-' => Offset::from_seconds(-east),
        _ => return None,
    };
    from_jiff(offset.ok()?.to_timestamp(local).ok()?)
}

/// Reads seconds since 1970 with an optional fraction, as in nginx' `$msec`.
pub(super) fn epoch_seconds(text: &str) -> Option<Timestamp> {
    decimal(text, MICROS_PER_SECOND)
}

/// Reads RFC 3339, the common log format, or seconds or milliseconds since 1970.
pub(super) fn any(text: &str) -> Option<Timestamp> {
    if let Ok(moment) = text.parse::<jiff::Timestamp>() {
        return from_jiff(moment);
    }
    // 11 digits of seconds end in the year 5138, and 12 of milliseconds begin in 1973.
    match text.split('.').next().map_or(0, str::len) {
        1..=11 => decimal(text, MICROS_PER_SECOND),
        12..=14 => decimal(text, MICROS_PER_MILLI),
        _ => common_log(text),
    }
}

fn from_jiff(moment: jiff::Timestamp) -> Option<Timestamp> {
    u64::try_from(moment.as_microsecond()).ok().map(Timestamp::from_micros)
}

/// A decimal number of units, each of so many microseconds. What is finer is cut off.
fn decimal(text: &str, micros_per_unit: u64) -> Option<Timestamp> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let whole = digits(whole)?.checked_mul(micros_per_unit)?;
    let (kept, finer) = fraction.split_at_checked(fraction.len().min(9))?;
    if !finer.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let scale = 10_u64.pow(u32::try_from(kept.len()).ok()?);
    let part = digits(kept)? * micros_per_unit / scale;
    whole.checked_add(part).map(Timestamp::from_micros)
}

/// A number of nothing but digits; the standard parser would also take a plus sign.
fn digits(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

fn two_digits(tens: u8, ones: u8) -> Option<i8> {
    let digit = |byte: u8| byte.is_ascii_digit().then(|| (byte - b'0').cast_signed());
    Some(digit(tens)? * 10 + digit(ones)?)
}

fn month(name: [u8; 3]) -> Option<i8> {
    Some(match &name {
        b"Jan" => 1,
        b"Feb" => 2,
        b"Mar" => 3,
        b"Apr" => 4,
        b"May" => 5,
        b"Jun" => 6,
        b"Jul" => 7,
        b"Aug" => 8,
        b"Sep" => 9,
        b"Oct" => 10,
        b"Nov" => 11,
        b"Dec" => 12,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_log_times_are_read() {
        let check = |text: &str, seconds: Option<u64>| {
            assert_eq!(common_log(text), seconds.map(Timestamp::from_secs), "{text}");
        };
        check("17/May/2015:10:05:03 +0000", Some(1_431_857_103));
        check("17/May/2015:12:05:03 +0200", Some(1_431_857_103));
        check("17/May/2015:04:35:03 -0530", Some(1_431_857_103));
        check("01/Jan/1970:00:00:00 +0000", Some(0));
        check("31/Dec/1969:19:00:00 -0500", Some(0));
        check("29/Feb/2024:23:59:59 +0000", Some(1_709_251_199));
        check("31/Dec/2016:23:59:60 +0000", Some(1_483_228_799));
        check("31/Dec/1969:23:59:59 +0000", None);
        check("29/Feb/2023:00:00:00 +0000", None);
        check("00/May/2015:10:05:03 +0000", None);
        check("17/Mai/2015:10:05:03 +0000", None);
        check("17/May/2015:24:05:03 +0000", None);
        check("17/May/2015:10:60:03 +0000", None);
        check("17/May/2015:10:05:61 +0000", None);
        check("17/May/2015:10:05:03 +0060", None);
        check("17/May/2015:10:05:03 +9900", None);
        check("17/May/2015:10:05:03  0000", None);
        check("17/May/2015:10:05:0x +0000", None);
        check("17/May/2015:10:05:03", None);
        check("", None);
    }

    #[test]
    fn seconds_since_1970_are_exact() {
        let check = |text: &str, micros: Option<u64>| {
            assert_eq!(epoch_seconds(text), micros.map(Timestamp::from_micros), "{text}");
        };
        check("1431857103.123", Some(1_431_857_103_123_000));
        check("1431857103", Some(1_431_857_103_000_000));
        check("4102444800.999", Some(4_102_444_800_999_000));
        check("0.0000019", Some(1));
        check("1.123456789123456789123456789", Some(1_123_456));
        check("0", Some(0));
        check("-1", None);
        check("+1", None);
        check("1.", None);
        check(".5", None);
        check("1.5x", None);
        check("1.123456789x", None);
        check("1e9", None);
        check("", None);
        check("18446744073709551615", None);
        check("99999999999999999999999", None);
    }

    #[test]
    fn any_spelling_is_recognised() {
        let check = |text: &str, micros: Option<u64>| {
            assert_eq!(any(text), micros.map(Timestamp::from_micros), "{text}");
        };
        check("2015-05-17T10:05:03+00:00", Some(1_431_857_103_000_000));
        check("2015-05-17T12:05:03.123456789+02:00", Some(1_431_857_103_123_456));
        check("2015-05-17 10:05:03Z", Some(1_431_857_103_000_000));
        check("17/May/2015:10:05:03 +0000", Some(1_431_857_103_000_000));
        check("1431857103", Some(1_431_857_103_000_000));
        check("1431857103.5", Some(1_431_857_103_500_000));
        check("1431857103123", Some(1_431_857_103_123_000));
        check("1431857103123.456", Some(1_431_857_103_123_456));
        check("2015-05-17T10:05:03", None);
        check("1969-12-31T23:59:59Z", None);
        check("99999999999", Some(99_999_999_999_000_000));
        check("100000000000", Some(100_000_000_000_000));
        check("99999999999999", Some(99_999_999_999_999_000));
        check("100000000000000", None);
        check("yesterday", None);
        check("", None);
    }
}
