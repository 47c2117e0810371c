//! Windows of real time zones, against dates that people know, and against the local date of every quarter of an hour.

use jiff::civil::Weekday;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;

fn seconds(text: &str) -> i64 {
    text.parse::<jiff::Timestamp>().expect("a time").as_second()
}

fn window(unit: CalendarUnit, zone: &str, at: i64) -> (i64, i64) {
    let at = Timestamp::from_secs(u64::try_from(at).expect("after the epoch"));
    let (start, end) = calendar(unit, zone).expect("a time zone").window_at(at);
    let whole = |time: Timestamp| i64::try_from(time.as_micros() / 1_000_000).expect("a time");
    (whole(start), whole(end))
}

#[test]
fn windows_begin_and_end_as_people_expect() {
    use CalendarUnit::{Day, Month, Week};
    for (unit, zone, at, start, length) in [
        (Day, "UTC", "2026-07-01T12:00:00Z", "2026-07-01T00:00:00Z", DAY),
        (Day, "Europe/Berlin", "2026-07-01T12:00:00Z", "2026-06-30T22:00:00Z", DAY),
        // Clocks go forward, and back.
        (Day, "Europe/Berlin", "2026-03-29T12:00:00Z", "2026-03-28T23:00:00Z", 23 * HOUR),
        (Day, "Europe/Berlin", "2026-10-25T12:00:00Z", "2026-10-24T22:00:00Z", 25 * HOUR),
        // Midnight does not exist: the day begins at 01:00.
        (Day, "America/Sao_Paulo", "2018-11-04T12:00:00Z", "2018-11-04T03:00:00Z", 23 * HOUR),
        (Day, "Asia/Beirut", "2022-03-27T12:00:00Z", "2022-03-26T22:00:00Z", 23 * HOUR),
        // Midnight comes back to 23:00 of the day before.
        (Day, "America/Sao_Paulo", "2018-02-17T12:00:00Z", "2018-02-17T02:00:00Z", 25 * HOUR),
        // Two midnights, a minute and an hour apart: the first one counts.
        (Day, "America/St_Johns", "2006-10-29T12:00:00Z", "2006-10-29T02:30:00Z", 25 * HOUR),
        (Day, "America/Havana", "2020-11-01T12:00:00Z", "2020-11-01T04:00:00Z", 25 * HOUR),
        // Half an hour of daylight saving; an offset of three quarters.
        (
            Day,
            "Australia/Lord_Howe",
            "2026-04-05T00:00:00Z",
            "2026-04-04T13:00:00Z",
            DAY + HOUR / 2,
        ),
        (Day, "Asia/Kathmandu", "2026-04-05T00:00:00Z", "2026-04-04T18:15:00Z", DAY),
        // The 30th of December 2011 did not exist in Samoa.
        (Day, "Pacific/Apia", "2011-12-30T09:00:00Z", "2011-12-29T10:00:00Z", DAY),
        (Day, "Pacific/Apia", "2011-12-30T10:00:00Z", "2011-12-30T10:00:00Z", DAY),
        // Weeks begin on Monday.
        (Week, "UTC", "2026-11-15T23:59:59Z", "2026-11-09T00:00:00Z", 7 * DAY),
        (Week, "UTC", "2026-11-16T00:00:00Z", "2026-11-16T00:00:00Z", 7 * DAY),
        (Week, "Europe/Berlin", "2026-10-25T12:00:00Z", "2026-10-18T22:00:00Z", 7 * DAY + HOUR),
        (Month, "UTC", "2023-02-28T23:59:59Z", "2023-02-01T00:00:00Z", 28 * DAY),
        (Month, "UTC", "2024-02-29T23:59:59Z", "2024-02-01T00:00:00Z", 29 * DAY),
        (Month, "UTC", "2100-02-28T00:00:00Z", "2100-02-01T00:00:00Z", 28 * DAY),
        (Month, "Europe/Berlin", "2026-03-31T21:59:59Z", "2026-02-28T23:00:00Z", 31 * DAY - HOUR),
        (Month, "Europe/Berlin", "2026-03-31T22:00:00Z", "2026-03-31T22:00:00Z", 30 * DAY),
        (Month, "Asia/Tokyo", "2026-12-31T15:00:00Z", "2026-12-31T15:00:00Z", 31 * DAY),
    ] {
        let start = seconds(start);
        assert_eq!(
            window(unit, zone, seconds(at)),
            (start, start + length),
            "{unit:?} {zone} {at}"
        );
    }
}

/// The date by which windows of a unit differ.
fn label(unit: CalendarUnit, date: Date) -> Date {
    match unit {
        CalendarUnit::Day => date,
        CalendarUnit::Week => {
            let since = i64::from(date.weekday().since(Weekday::Monday));
            date.checked_sub(since.days()).expect("a date")
        }
        CalendarUnit::Month => date.first_of_month(),
    }
}

fn zones() -> Vec<String> {
    db().available().map(|name| name.as_str().to_owned()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    /// Walks through time by the local date, which is the other way round: from moments to dates. A new window begins
    /// just where a date is shown that is later than all before it.
    #[test]
    fn windows_change_where_the_local_date_first_does(
        zone in select(zones()),
        unit in select(CalendarUnit::ALL.to_vec()),
        // From 1971 until 2199, in quarters of an hour.
        quarter in 35_040..8_000_000_i64,
        near_a_transition in any::<bool>(),
    ) {
        let local = TimeZone::get(&zone).expect("a time zone");
        let mut around = quarter * HOUR / 4;
        if near_a_transition {
            let moment = jiff::Timestamp::from_second(around).expect("a time");
            let next = local.following(moment).next().map(|next| next.timestamp().as_second());
            around = next.filter(|next| *next < 7_200_000_000).unwrap_or(around);
        }
        let days = if unit == CalendarUnit::Month { 40 } else { 9 };
        let mut at = (around - days * DAY) / (HOUR / 4) * (HOUR / 4);
        let mut latest: Option<Date> = None;
        let mut last_start = None;
        while at < around + days * DAY {
            let date = local.to_datetime(jiff::Timestamp::from_second(at).expect("a time")).date();
            let label = label(unit, date);
            let is_new = latest.is_some_and(|latest| label > latest);
            latest = latest.max(Some(label));
            let (start, end) = window(unit, &zone, at);
            prop_assert!(start <= at && at < end);
            if let Some(last) = last_start.replace(start) {
                prop_assert_eq!(start != last, is_new, "{} in {} at {}", unit.name(), zone, at);
            }
            at += HOUR / 4;
        }
    }
}

#[test]
fn unknown_zones_get_advice() {
    for (name, expected) in [
        ("Europe/Berln", "did you mean Europe/Berlin?"),
        ("europe/berlin", "did you mean Europe/Berlin?"),
        ("Berlin", "did you mean Europe/Berlin?"),
        ("New York", "did you mean America/New_York?"),
        ("utc", "did you mean UTC?"),
        ("PST", "write an IANA name like Europe/Berlin, or UTC"),
        ("", "write an IANA name like Europe/Berlin, or UTC"),
        ("+02:00", "write an IANA name like Europe/Berlin, or UTC"),
        ("somewhere over the rainbow", "write an IANA name like Europe/Berlin, or UTC"),
    ] {
        let flaw = time_zone(name).expect_err("an unknown time zone");
        assert_eq!(flaw.advice, expected, "{name}");
    }
    let flaw = time_zone(&"Europe/".repeat(100_000)).expect_err("an unknown time zone");
    assert!(flaw.message.len() < 1_000, "{}", flaw.message.len());
}

#[test]
fn every_zone_has_calendars_that_rules_share() {
    let zones = zones();
    assert!(zones.len() > 400, "{}", zones.len());
    for zone in &zones {
        let month = calendar(CalendarUnit::Month, zone).expect("a calendar");
        let again = calendar(CalendarUnit::Month, zone).expect("a calendar");
        assert!(std::ptr::eq(month, again), "{zone}");
    }
    let mut ids: Vec<u64> = Vec::new();
    for zone in &zones {
        ids.extend(calendar(CalendarUnit::Month, zone).map(Calendar::id));
    }
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), zones.len(), "the ids of calendars are distinct");
}
