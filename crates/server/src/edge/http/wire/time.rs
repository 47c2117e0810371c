//! Times in RFC 3339, and as header fields have them.

use tollgate::Timestamp;

/// A time to come in RFC 3339, rounded up to the second: no client returns too early.
pub(crate) fn rfc_3339(moment: Timestamp) -> String {
    of_second(moment.as_micros().div_ceil(1_000_000))
}

/// A time of the past in RFC 3339, rounded down to the second, as in access logs.
pub(crate) fn rfc_3339_past(moment: Timestamp) -> String {
    of_second(moment.as_micros() / 1_000_000)
}

fn of_second(second: u64) -> String {
    let second = i64::try_from(second).unwrap_or(i64::MAX);
    // A time beyond the calendar becomes its last day.
    jiff::Timestamp::from_second(second).unwrap_or(jiff::Timestamp::MAX).to_string()
}

/// A time in RFC 3339, exact to the microsecond. All texts are equally long, so that they sort by time.
pub(crate) fn rfc_3339_exact(moment: Timestamp) -> String {
    let micros = i64::try_from(moment.as_micros()).unwrap_or(i64::MAX);
    let moment = jiff::Timestamp::from_microsecond(micros).unwrap_or(jiff::Timestamp::MAX);
    format!("{moment:.6}")
}

/// A time as in the header field `Date`.
pub(crate) fn http_date(moment: Timestamp) -> [u8; 29] {
    let second = i64::try_from(moment.as_micros() / 1_000_000).unwrap_or(i64::MAX);
    let moment = jiff::Timestamp::from_second(second).unwrap_or(jiff::Timestamp::MAX);
    let text = moment.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
    // All of them are equally long, up to the last day of the calendar.
    text.as_bytes().first_chunk().copied().unwrap_or([b' '; 29])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_header_fields_are_in_english_and_utc() {
        let check = |second, expected: &[u8; 29]| {
            assert_eq!(http_date(Timestamp::from_secs(second)), *expected);
        };
        check(784_111_777, b"Sun, 06 Nov 1994 08:49:37 GMT");
        check(0, b"Thu, 01 Jan 1970 00:00:00 GMT");
        check(u64::MAX / 1_000_000, b"Thu, 30 Dec 9999 22:00:00 GMT");
    }

    #[test]
    fn times_are_exact_to_the_microsecond() {
        let check = |micros, expected: &str| {
            assert_eq!(rfc_3339_exact(Timestamp::from_micros(micros)), expected);
        };
        check(1_700_000_000_000_000, "2023-11-14T22:13:20.000000Z");
        check(1_700_000_000_000_001, "2023-11-14T22:13:20.000001Z");
        check(u64::MAX, "9999-12-30T22:00:00.999999Z");
    }

    #[test]
    fn times_to_come_are_rounded_up_and_past_ones_down() {
        assert_eq!(rfc_3339(Timestamp::from_secs(1_700_000_000)), "2023-11-14T22:13:20Z");
        assert_eq!(rfc_3339(Timestamp::from_millis(1_700_000_000_001)), "2023-11-14T22:13:21Z");
        let past = Timestamp::from_millis(1_700_000_000_999);
        assert_eq!(rfc_3339_past(past), "2023-11-14T22:13:20Z");
        assert_eq!(rfc_3339(Timestamp::from_micros(u64::MAX)), jiff::Timestamp::MAX.to_string());
    }
}
