//! Windows of the calendar by the clock of the server: nodes whose clocks differ count in one window.

use tollgate_core::{Calendar, CalendarUnit, Charge, Limit, Micros, Quota, Timestamp};
use tollgate_store::redis::RedisStore;
use tollgate_store::{RemoteSettings, Store as _, StoreErrorKind};
use tollgate_testbed::{Redis, Reply};

use crate::redis::stand::{connect, key, one, patient};

const HOUR: u64 = 3_600_000_000;

/// A limit of five in a calendar whose windows begin at these times.
fn limit(starts: &[u64]) -> Limit {
    let starts = starts.iter().copied().map(Timestamp::from_micros);
    let calendar = Calendar::new(CalendarUnit::Day, "Test/Redis", starts).expect("windows");
    Quota::per_calendar_window(5, Box::leak(Box::new(calendar))).compile().expect("a valid quota")
}

fn server_time(redis: &Redis) -> u64 {
    let Reply::List(parts) = redis.command(&["TIME"]) else { panic!("TIME has two parts") };
    let part = |place: usize| parts[place].text().parse::<u64>().expect("a number");
    part(0) * 1_000_000 + part(1)
}

/// What is left after one unit, charged by a node whose clock says `at`.
async fn left(store: &RedisStore, limit: &Limit, at: u64) -> (u64, Timestamp, u64) {
    let charge = one(key("monthly", "customer"), limit);
    let settled = store.settle(&[charge], Timestamp::from_micros(at)).await.expect("a response");
    let report = settled.results[0].report;
    (report.remaining, settled.now, report.reset_after.get())
}

#[tokio::test]
async fn nodes_on_both_sides_of_a_boundary_share_the_window_of_the_server() {
    let redis = Redis::start();
    let now = server_time(&redis);
    let (start, end) = (now - HOUR, now + HOUR);
    let limit = limit(&[start - 24 * HOUR, start, end, end + 24 * HOUR, end + 48 * HOUR]);
    let store = connect(&redis.url(), patient()).await;
    // On time; behind, in the window before; ahead, in the one after; two windows ahead.
    let clocks = [now, start - HOUR, end + HOUR, end + 25 * HOUR];
    for (clock, expected) in clocks.into_iter().zip([4, 3, 2, 1]) {
        let (left, judged_at, reset_after) = left(&store, &limit, clock).await;
        assert_eq!(left, expected, "by a clock of {clock}");
        assert_eq!(judged_at.as_micros() + reset_after, end, "the calendar says when it ends");
    }
    let lives =
        redis.command(&["PEXPIRETIME", &store.keys_of(&key("monthly", "customer"))[0]]).integer();
    let lives = u64::try_from(lives).expect("a moment") * 1_000;
    assert!((end..end + 5_000_000).contains(&lives), "kept until {lives}, not {end}");
}

/// The server cannot know in which window it is, so the rule's `on_store_failure` decides.
#[tokio::test]
async fn clocks_further_apart_than_two_windows_are_an_error() {
    let redis = Redis::start();
    let now = server_time(&redis);
    let days: Vec<u64> = (0..40).map(|day| now - 20 * 24 * HOUR - HOUR + day * 24 * HOUR).collect();
    let limit = limit(&days);
    let store = connect(&redis.url(), patient()).await;
    for clock in [now - 3 * 24 * HOUR, now + 3 * 24 * HOUR] {
        let charge = one(key("monthly", "customer"), &limit);
        let error = store.settle(&[charge], Timestamp::from_micros(clock)).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Refused);
        let why = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        assert!(why.contains("more than two windows apart"), "{why}");
    }
    assert_eq!(left(&store, &limit, now).await.0, 4, "nothing was charged");
}

#[tokio::test]
async fn a_window_ends_at_the_very_boundary() {
    let redis = Redis::start();
    let settings = RemoteSettings { uses_callers_clock: true, ..patient() };
    let store = connect(&redis.url(), settings).await;
    let limit = limit(&[100 * HOUR, 123 * HOUR, 148 * HOUR, 172 * HOUR]);
    for (at, expected) in [
        (100 * HOUR, (4, 23 * HOUR)),
        (123 * HOUR - 1, (3, 1)),
        (123 * HOUR, (4, 25 * HOUR)),
        // A clock that steps back does not return to the window before.
        (123 * HOUR - 1, (3, 25 * HOUR + 1)),
        (148 * HOUR, (4, 24 * HOUR)),
    ] {
        let (left, _, reset_after) = left(&store, &limit, at).await;
        assert_eq!((left, reset_after), expected, "at {at}");
    }
    let charge = Charge { cost: 9, ..one(key("monthly", "customer"), &limit) };
    let at = Timestamp::from_micros(150 * HOUR);
    let never = store.settle(&[charge], at).await.expect("a response").results[0];
    assert_eq!((never.admitted, never.report.retry_after), (false, None));
    let charge = Charge { cost: 5, ..charge };
    let later = store.settle(&[charge], at).await.expect("a response").results[0];
    assert_eq!(later.report.retry_after.map(Micros::get), Some(22 * HOUR));
}
