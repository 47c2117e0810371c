//! How long a response asks its client to wait.

use std::time::Duration;

use http::header::{DATE, RETRY_AFTER};
use http::{HeaderMap, StatusCode};

use super::date::unix_seconds;
use super::fields::{exhausted, number, text};

/// A number above this is a date: as a number of seconds to wait it would be thirty years.
const FIRST_DATE: u64 = 1_000_000_000;

/// How long to wait after a 429 that does not say: long enough that a service under load is not asked again at once.
const UNSTATED_WAIT: Duration = Duration::from_secs(5);

/// How long to wait after a response that does not say.
pub(super) fn unstated_wait(status: StatusCode) -> Duration {
    if status == StatusCode::TOO_MANY_REQUESTS { UNSTATED_WAIT } else { Duration::ZERO }
}

/// Whether the service refused the request, and may accept it later.
pub(super) fn is_for_later(status: StatusCode) -> bool {
    matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE)
}

/// How long to wait, if the response says so. `now` is the time of this machine in seconds since 1970,
/// for dates of services that do not tell theirs.
pub(super) fn wait_asked(status: StatusCode, headers: &HeaderMap, now: u64) -> Option<Duration> {
    let now = text(headers, DATE.as_str()).and_then(unix_seconds).unwrap_or(now);
    if !is_for_later(status) {
        return nothing_left(headers, now);
    }
    retry_after(headers, now).or_else(|| nothing_left(headers, now)).or_else(|| {
        let is_refused = status == StatusCode::TOO_MANY_REQUESTS;
        is_refused.then(|| reset(headers, "x-ratelimit-reset", now)).flatten()
    })
}

/// Seconds, or a date.
fn retry_after(headers: &HeaderMap, now: u64) -> Option<Duration> {
    let text = text(headers, RETRY_AFTER.as_str())?;
    let seconds = number(text).or_else(|| Some(unix_seconds(text)?.saturating_sub(now)))?;
    Some(Duration::from_secs(seconds))
}

/// How long until there is more again, if nothing is left now.
fn nothing_left(headers: &HeaderMap, now: u64) -> Option<Duration> {
    let is_spent = |name| text(headers, name).and_then(number) == Some(0);
    let lines = headers.get_all("ratelimit").iter().filter_map(|line| line.to_str().ok());
    let by_draft = lines.filter_map(exhausted).max().map(Duration::from_secs);
    by_draft
        .or_else(|| {
            let is_spent = is_spent("ratelimit-remaining");
            is_spent.then(|| reset(headers, "ratelimit-reset", now)).flatten()
        })
        .or_else(|| {
            let is_spent = is_spent("x-ratelimit-remaining");
            is_spent.then(|| reset(headers, "x-ratelimit-reset", now)).flatten()
        })
}

/// Some write the seconds that are left, some the date in seconds since 1970.
fn reset(headers: &HeaderMap, name: &str, now: u64) -> Option<Duration> {
    let seconds = number(text(headers, name)?)?;
    let left = if seconds > FIRST_DATE { seconds.saturating_sub(now) } else { seconds };
    Some(Duration::from_secs(left))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderName, HeaderValue};

    /// Sunday, 15 November 2026, 06:21:53 GMT.
    const NOW: u64 = 1_794_723_713;

    fn check(status: u16, fields: &[(&'static str, &'static str)], expected: Option<u64>) {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            let value = HeaderValue::from_static(value);
            headers.append(HeaderName::from_static(name), value);
        }
        let status = StatusCode::from_u16(status).expect("a status");
        let asked = wait_asked(status, &headers, NOW);
        assert_eq!(asked, expected.map(Duration::from_secs), "{status} {fields:?}");
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        for status in [429, 503] {
            check(status, &[("retry-after", "60")], Some(60));
            check(status, &[("retry-after", " 0 ")], Some(0));
            check(status, &[("retry-after", "Sun, 15 Nov 2026 06:22:53 GMT")], Some(60));
            check(status, &[("retry-after", "Sunday, 15-Nov-26 06:22:53 GMT")], Some(60));
            check(status, &[("retry-after", "Sun Nov 15 06:22:53 2026")], Some(60));
            check(status, &[("retry-after", "Sun, 15 Nov 2026 06:00:00 GMT")], Some(0));
            for odd in ["", "soon", "-1", "1 minute", "Sun, 32 Nov 2026 06:22:53 GMT", "+5"] {
                check(status, &[("retry-after", odd)], None);
            }
            check(status, &[("retry-after", "18446744073709551615")], Some(u64::MAX));
            check(status, &[("retry-after", "18446744073709551616")], None);
        }
        check(200, &[("retry-after", "60")], None);
        check(202, &[("retry-after", "60")], None);
    }

    #[test]
    fn the_date_of_the_service_counts_if_it_tells_it() {
        let late = ("date", "Sun, 15 Nov 2026 06:22:50 GMT");
        check(429, &[late, ("retry-after", "Sun, 15 Nov 2026 06:22:53 GMT")], Some(3));
        check(429, &[late, ("x-ratelimit-reset", "1794723773")], Some(3));
        let odd = ("date", "yesterday");
        check(429, &[odd, ("x-ratelimit-reset", "1794723773")], Some(60));
    }

    #[test]
    fn the_fields_of_drafts() {
        check(200, &[("ratelimit", "\"per_user\";r=0;t=4")], Some(4));
        check(200, &[("ratelimit", "\"per_user\";r=1;t=4")], None);
        check(200, &[("ratelimit", "\"per_user\";r=0")], None);
        check(200, &[("ratelimit", "\"a\";r=0;t=4, \"b\";r=0;t=9, \"c\";r=5;t=99")], Some(9));
        check(200, &[("ratelimit", "\"a\";r=0;t=4"), ("ratelimit", "\"b\";r=0;t=9")], Some(9));
        check(200, &[("ratelimit", "\"a,b;r=0;t=7\";r=3;t=4")], None);
        check(200, &[("ratelimit", "\"a\\\",\";r=0;t=7;pk=:YQ==:")], Some(7));
        check(200, &[("ratelimit", "default;r=0;t=2")], Some(2));
        check(200, &[("ratelimit", "limit=10, remaining=0, reset=4")], Some(4));
        check(200, &[("ratelimit", "limit=10, remaining=1, reset=4")], None);
        let policy = ("ratelimit-policy", "\"per_user\";q=10;w=60");
        check(200, &[policy, ("ratelimit", "\"per_user\";r=0;t=4")], Some(4));
        check(200, &[("ratelimit-remaining", "0"), ("ratelimit-reset", "4")], Some(4));
        check(200, &[("ratelimit-remaining", "2"), ("ratelimit-reset", "4")], None);
        // What is refused says how long, whatever is left for cheaper calls.
        check(429, &[("ratelimit", "\"a\";r=0;t=9"), ("retry-after", "2")], Some(2));
        check(503, &[("ratelimit", "\"a\";r=0;t=9")], Some(9));
        for odd in ["", ";", ",", "=", "\"", "\"\\", "r=0;t=4;", "\"a\";r=x;t=4", "\"a\";r=0;t=-4"]
        {
            let expected = (odd == "r=0;t=4;").then_some(4);
            check(200, &[("ratelimit", odd)], expected);
        }
    }

    #[test]
    fn the_fields_with_an_x() {
        let none_left = ("x-ratelimit-remaining", "0");
        check(200, &[none_left, ("x-ratelimit-reset", "1794723773")], Some(60));
        check(200, &[none_left, ("x-ratelimit-reset", "60")], Some(60));
        check(200, &[none_left, ("x-ratelimit-reset", "1794723772.25")], Some(60));
        check(200, &[none_left, ("x-ratelimit-reset", "1794723700")], Some(0));
        check(200, &[none_left, ("x-ratelimit-reset", "now")], None);
        check(200, &[("x-ratelimit-remaining", "1"), ("x-ratelimit-reset", "60")], None);
        check(200, &[("x-ratelimit-reset", "60")], None);
        // A refusal needs no word about what is left.
        check(429, &[("x-ratelimit-reset", "60")], Some(60));
        check(503, &[("x-ratelimit-reset", "60")], None);
        check(429, &[], None);
    }
}
