//! Figures and moments as text: digits in groups, a unit with a space before it, times in UTC.

use crate::model::{Quota, Time};

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// Larger numbers are shown in millions of millions, or they would burst every table.
const MAX_DIGITS: u64 = 9_999_999_999_999;

/// A whole number with commas: `12,400`.
pub(crate) fn count(number: u64) -> String {
    if number > MAX_DIGITS {
        return format!("{} T", count(number / 1_000_000_000_000));
    }
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number and its noun: `1 client`, `3 clients`.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(number), if number == 1 { "" } else { "s" })
}

/// A rate or another number that is not whole: `2,184`, `3.1`, `0.04`.
pub(crate) fn rate(value: f64) -> String {
    // What cannot be shown counts as nothing; what is whole fits.
    let value = if value.is_finite() && value > 0.0 { value.min(1e15) } else { 0.0 };
    match value {
        value if value >= 10.0 => count(value.round() as u64),
        value if value >= 1.0 => format!("{value:.1}"),
        value if value >= 0.005 => trimmed(format!("{value:.2}")),
        value if value > 0.0 => "<0.01".to_owned(),
        _ => "0".to_owned(),
    }
}

/// A share as a percentage without its sign: `3.1`, `73`, `0`.
pub(crate) fn percentage(share: f64) -> String {
    let percent = if share.is_finite() { share.clamp(0.0, 1.0) * 100.0 } else { 0.0 };
    match percent {
        percent if percent > 99.9 && percent < 100.0 => "99.9".to_owned(),
        percent if percent >= 0.05 => trimmed(format!("{percent:.1}")),
        percent if percent > 0.0 => "<0.1".to_owned(),
        _ => "0".to_owned(),
    }
}

/// A part of a whole as a percentage with its sign.
pub(crate) fn part_of(part: u64, whole: u64) -> String {
    let share = if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
    format!("{} %", percentage(share))
}

/// Milliseconds without their unit: `0.31`, `12`.
pub(crate) fn millis(value: f64) -> String {
    let value = if value.is_finite() { value.clamp(0.0, 1e12) } else { 0.0 };
    match value {
        value if value >= 100.0 => count(value.round() as u64),
        value if value >= 10.0 => trimmed(format!("{value:.1}")),
        value => trimmed(format!("{value:.2}")),
    }
}

/// A size: `640 B`, `12.4 MiB`.
pub(crate) fn bytes(size: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    if size < 1_024 {
        return format!("{size} B");
    }
    let mut value = size as f64 / 1_024.0;
    let mut unit = 0;
    while value >= 1_024.0 && unit + 1 < units.len() {
        value /= 1_024.0;
        unit += 1;
    }
    let digits = if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.1}") };
    format!("{} {}", trimmed(digits), units[unit])
}

/// How long something takes, in at most two units: `10 h 55 min`, `1.2 s`.
pub(crate) fn duration(milliseconds: u64) -> String {
    let two = |large: u64, name: &str, small: u64, small_name: &str| {
        let (whole, rest) = (milliseconds / large, milliseconds % large / small);
        if rest == 0 {
            format!("{whole} {name}")
        } else {
            format!("{whole} {name} {rest} {small_name}")
        }
    };
    match milliseconds {
        0 => "0 s".to_owned(),
        1..SECOND => format!("{milliseconds} ms"),
        SECOND..10_000 => {
            format!(
                "{} s",
                trimmed(format!("{}.{}", milliseconds / 1_000, milliseconds / 100 % 10))
            )
        }
        10_000..MINUTE => format!("{} s", milliseconds / SECOND),
        MINUTE..HOUR => two(MINUTE, "min", SECOND, "s"),
        HOUR..DAY => two(HOUR, "h", MINUTE, "min"),
        _ => two(DAY, "d", HOUR, "h"),
    }
}

/// How long ago, or how far ahead, in one unit: `3 s`, `4 min`, `2 h`, `5 d`.
pub(crate) fn rough(milliseconds: u64) -> String {
    match milliseconds {
        0..MINUTE => format!("{} s", milliseconds / SECOND),
        MINUTE..HOUR => format!("{} min", milliseconds / MINUTE),
        HOUR..DAY => format!("{} h", milliseconds / HOUR),
        _ => format!("{} d", milliseconds / DAY),
    }
}

/// The window of a limit: `1 s`, `5 min`, `1 h`, `1 day`.
fn window(milliseconds: u64) -> String {
    for (unit, name) in [(DAY, "day"), (HOUR, "h"), (MINUTE, "min"), (SECOND, "s")] {
        if milliseconds >= unit && milliseconds.is_multiple_of(unit) {
            let number = milliseconds / unit;
            let plural = if unit == DAY && number > 1 { "s" } else { "" };
            return format!("{number} {name}{plural}");
        }
    }
    duration(milliseconds)
}

/// A limit in its one form, without what it counts by: `10 / 1 s, burst 50`.
pub(crate) fn limit(quota: &Quota) -> String {
    let window = quota.calendar.clone().unwrap_or_else(|| window(quota.window_ms));
    let burst = quota.burst.map_or_else(String::new, |burst| format!(", burst {}", count(burst)));
    format!("{} / {window}{burst}", count(quota.limit))
}

/// A limit with what it counts by: `10 / 1 s, burst 50 · ip`.
pub(crate) fn quota(quota: &Quota) -> String {
    if quota.identifiers.is_empty() {
        return limit(quota);
    }
    format!("{} · {}", limit(quota), quota.identifiers.join(", "))
}

/// The time of day: `12:41:08`.
pub(crate) fn clock(time: Time) -> String {
    let it = time.calendar();
    format!("{:02}:{:02}:{:02}", it.hour, it.minute, it.second)
}

/// The milliseconds of a time of day: `.213`.
pub(crate) fn fraction(time: Time) -> String {
    format!(".{:03}", time.calendar().millisecond)
}

/// The time of day to the minute: `12:41`.
pub(crate) fn short_clock(time: Time) -> String {
    let it = time.calendar();
    format!("{:02}:{:02}", it.hour, it.minute)
}

/// The day: `12 Nov`, with the year if it is not the current one.
pub(crate) fn day(time: Time, now: Time) -> String {
    let (it, today) = (time.calendar(), now.calendar());
    let month = MONTHS[usize::try_from(it.month - 1).unwrap_or(0) % 12];
    if it.year == today.year {
        format!("{} {month}", it.day)
    } else {
        format!("{} {month} {}", it.day, it.year)
    }
}

/// A moment as short as it can be: `12:41:08` today, else `12 Nov 12:41`.
pub(crate) fn moment(time: Time, now: Time) -> String {
    let (it, today) = (time.calendar(), now.calendar());
    if (it.year, it.month, it.day) == (today.year, today.month, today.day) {
        clock(time)
    } else {
        minute(time, now)
    }
}

/// A moment to the minute: `12:41` today, else `12 Nov 12:41`.
pub(crate) fn minute(time: Time, now: Time) -> String {
    let (it, today) = (time.calendar(), now.calendar());
    if (it.year, it.month, it.day) == (today.year, today.month, today.day) {
        short_clock(time)
    } else {
        format!("{} {}", day(time, now), short_clock(time))
    }
}

/// From one moment to another: `09:00 to 13:00`, with days where they differ.
pub(crate) fn span(from: Time, until: Time, now: Time) -> String {
    let (it, end) = (from.calendar(), until.calendar());
    let is_one_day = (it.year, it.month, it.day) == (end.year, end.month, end.day);
    if is_one_day && until.since(from) < 5 * MINUTE {
        format!("{} to {}", clock(from), clock(until))
    } else if is_one_day {
        format!("{} to {}", short_clock(from), short_clock(until))
    } else {
        let side = |time: Time| format!("{} {}", day(time, now), short_clock(time));
        format!("{} to {}", side(from), side(until))
    }
}

/// A moment for programs: `2025-11-18T12:41:08Z`.
pub(crate) fn rfc_3339(time: Time) -> String {
    let it = time.calendar();
    let millis =
        if it.millisecond == 0 { String::new() } else { format!(".{:03}", it.millisecond) };
    format!("{:04}-{:02}-{:02}T{}{millis}Z", it.year, it.month, it.day, clock(time))
}

/// A decimal number without zeros at its end.
fn trimmed(mut digits: String) -> String {
    if digits.contains('.') {
        digits.truncate(digits.trim_end_matches('0').trim_end_matches('.').len());
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short_and_grouped() {
        let check = |text: String, expected: &str| assert_eq!(text, expected);
        check(count(0), "0");
        check(count(999), "999");
        check(count(12_400), "12,400");
        check(count(u64::MAX), "18,446,744 T");
        check(counted(1, "client"), "1 client");
        check(counted(0, "client"), "0 clients");
        check(rate(2_184.4), "2,184");
        check(rate(3.13), "3.1");
        check(rate(0.5), "0.5");
        check(rate(0.0001), "<0.01");
        check(rate(f64::NAN), "0");
        check(rate(-1.0), "0");
        check(percentage(0.031), "3.1");
        check(percentage(1.0), "100");
        check(percentage(0.9999), "99.9");
        check(percentage(0.000_01), "<0.1");
        check(percentage(f64::INFINITY), "0");
        check(part_of(0, 0), "0 %");
        check(millis(0.314), "0.31");
        check(millis(1_234.5), "1,235");
        check(bytes(640), "640 B");
        check(bytes(13_002_342), "12.4 MiB");
        check(bytes(u64::MAX), "16777216 TiB");
    }

    #[test]
    fn durations_have_two_units() {
        let check = |milliseconds, expected: &str| assert_eq!(duration(milliseconds), expected);
        check(0, "0 s");
        check(250, "250 ms");
        check(1_200, "1.2 s");
        check(9_000, "9 s");
        check(59_999, "59 s");
        check(61_000, "1 min 1 s");
        check(39_300_000, "10 h 55 min");
        check(86_400_000, "1 d");
        check(97_200_000, "1 d 3 h");
    }

    #[test]
    fn a_limit_has_one_form() {
        let check = |limit, window_ms, burst, calendar: Option<&str>, by: &str, expected: &str| {
            let calendar = calendar.map(str::to_owned);
            let identifiers = by.split_whitespace().map(str::to_owned).collect();
            let limit =
                Quota { limit, window_ms, burst, calendar, identifiers, ..Quota::default() };
            assert_eq!(quota(&limit), expected);
        };
        check(10, 1_000, Some(50), None, "ip", "10 / 1 s, burst 50 · ip");
        check(1_000, 3_600_000, None, None, "tenant user_id", "1,000 / 1 h · tenant, user_id");
        check(5, 500, None, None, "", "5 / 500 ms");
        check(20, 86_400_000, None, None, "tenant", "20 / 1 day · tenant");
        check(
            20,
            1,
            None,
            Some("1 month, Europe/Berlin"),
            "ip",
            "20 / 1 month, Europe/Berlin · ip",
        );
        check(90, 5_400_000, None, None, "", "90 / 90 min");
    }

    #[test]
    fn moments_are_short() {
        let now = Time::from_secs(1_763_470_868);
        assert_eq!(moment(now, now), "13:01:08");
        assert_eq!(moment(Time::from_secs(1_763_000_000), now), "13 Nov 02:13");
        assert_eq!(moment(Time::from_secs(1_700_000_000), now), "14 Nov 2023 22:13");
        assert_eq!(rfc_3339(Time::from_millis(1_763_470_868_213)), "2025-11-18T13:01:08.213Z");
        assert_eq!(span(Time::from_secs(1_763_456_400), now, now), "09:00 to 13:01");
        let yesterday = Time::from_secs(1_763_384_468);
        assert_eq!(span(yesterday, now, now), "17 Nov 13:01 to 18 Nov 13:01");
    }
}
