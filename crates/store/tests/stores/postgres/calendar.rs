//! Windows of the calendar by the clock of the database: nodes whose clocks differ count in one window.

use tollgate_core::{Algorithm, Calendar, CalendarUnit, Quota, Timestamp};
use tollgate_store::Store as _;
use tollgate_testbed::Postgres;

use crate::postgres::{charge, limit, one, patient};

const HOUR: u64 = 3_600_000_000;

#[tokio::test]
async fn nodes_on_both_sides_of_a_boundary_share_the_window_of_the_database() {
    let postgres = Postgres::start();
    let store = patient(&postgres.url());
    let plain = limit(Algorithm::FixedWindow, 5);
    let now = charge(&store, "clock", &plain).await.expect("a response").now.as_micros();
    let (start, end) = (now - HOUR, now + HOUR);
    let starts = [start - HOUR, start, end, end + HOUR].map(Timestamp::from_micros);
    let calendar = Calendar::new(CalendarUnit::Day, "Test/Postgres", starts).expect("windows");
    let quota = Quota::per_calendar_window(5, Box::leak(Box::new(calendar)));
    let limit = quota.compile().expect("a valid quota");
    for (clock, left) in [now, start - HOUR / 2, end + HOUR / 2, 0].into_iter().zip([4, 3, 2, 1]) {
        let clock = Timestamp::from_micros(clock);
        let settled = store.settle(&[one("customer", &limit)], clock).await.expect("a response");
        let report = settled.results[0].report;
        assert_eq!(report.remaining, left, "by a clock of {clock:?}");
        assert_eq!(settled.now.as_micros() + report.reset_after.get(), end);
    }
}
