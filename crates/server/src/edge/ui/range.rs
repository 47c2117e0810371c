//! The range of time that a page shows, from its query: `?range=4h`, or `?from=SECONDS&until=SECONDS`.

use tollgate::{Micros, Timestamp};
use tollgate_dashboard::model::{Range, RangeChoice, Time};

use super::convert::time;

/// The longest range: what is kept in memory.
const MAX_RANGE: Micros = Micros::from_secs(24 * 3_600);

/// The range that the words of a query name. What cannot be read is as if it were not there.
pub(super) fn range_of<'a>(parameter: impl Fn(&str) -> Option<&'a str>, now: Timestamp) -> Range {
    let seconds = |name: &str| parameter(name).and_then(|text| text.parse::<u64>().ok());
    if let (Some(from), Some(until)) = (seconds("from"), seconds("until")) {
        let (earliest, latest) = (time(now.minus(MAX_RANGE)), time(now));
        let (from, until) =
            (Time::from_secs(from).max(earliest), Time::from_secs(until).min(latest));
        if from < until {
            return Range { choice: RangeChoice::Custom, from, until };
        }
    }
    let choice = parameter("range").and_then(RangeChoice::from_word).unwrap_or_default();
    let from = time(now.minus(Micros::from_secs(choice.seconds())));
    Range { choice, from, until: time(now) }
}

/// How far back a range begins.
pub(super) fn reach(range: &Range, now: Timestamp) -> Micros {
    let millis = time(now).since(range.from);
    Micros::from_millis(millis.max(1_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);

    #[test]
    fn ranges_are_those_of_the_query_and_never_longer_than_what_is_kept() {
        let check = |query: &[(&str, &str)], expected: (RangeChoice, u64, u64)| {
            let parameter =
                |name: &str| query.iter().find(|(own, _)| *own == name).map(|(_, value)| *value);
            let Range { choice, from, until } = range_of(parameter, NOW);
            assert_eq!((choice, from.as_secs(), until.as_secs()), expected, "{query:?}");
        };
        let now = 1_800_000_000;
        let hour = (RangeChoice::Hour, now - 3_600, now);
        check(&[], hour);
        check(&[("range", "4h")], (RangeChoice::Hours4, now - 14_400, now));
        check(&[("range", "century")], hour);
        let custom = [("from", "1799999000"), ("until", "1799999600")];
        check(&custom, (RangeChoice::Custom, 1_799_999_000, 1_799_999_600));
        check(&[("from", "1799999000")], hour);
        check(&[("from", "1799999600"), ("until", "1799999000")], hour);
        check(&[("from", "0"), ("until", "9999999999")], (RangeChoice::Custom, now - 86_400, now));
        check(&[("from", "x"), ("until", "-1")], hour);
    }
}
