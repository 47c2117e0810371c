//! Times for people: RFC 3339.

use tollgate::Timestamp;

/// The moment in RFC 3339, in the second in which it has surely come.
pub(crate) fn rfc_3339(moment: Timestamp) -> String {
    let seconds = i64::try_from(moment.as_micros().div_ceil(1_000_000)).unwrap_or(i64::MAX);
    // What no calendar holds is as good as the last day it does.
    jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::MAX).to_string()
}

/// The very moment in RFC 3339. All are equally long, so that their texts sort as they do.
pub(crate) fn rfc_3339_exact(moment: Timestamp) -> String {
    let micros = i64::try_from(moment.as_micros()).unwrap_or(i64::MAX);
    let moment = jiff::Timestamp::from_microsecond(micros).unwrap_or(jiff::Timestamp::MAX);
    format!("{moment:.6}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_told_exactly() {
        let check = |micros, expected: &str| {
            assert_eq!(rfc_3339_exact(Timestamp::from_micros(micros)), expected);
        };
        check(1_700_000_000_000_000, "2023-11-14T22:13:20.000000Z");
        check(1_700_000_000_000_001, "2023-11-14T22:13:20.000001Z");
        check(u64::MAX, "9999-12-30T22:00:00.999999Z");
    }

    #[test]
    fn moments_are_rounded_up() {
        assert_eq!(rfc_3339(Timestamp::from_secs(1_700_000_000)), "2023-11-14T22:13:20Z");
        assert_eq!(rfc_3339(Timestamp::from_millis(1_700_000_000_001)), "2023-11-14T22:13:21Z");
        assert_eq!(rfc_3339(Timestamp::from_micros(u64::MAX)), jiff::Timestamp::MAX.to_string());
    }
}
