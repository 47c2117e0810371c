//! Outages of seconds, on figures that are written here: alerts fire while requests are affected and stop soon after, and
//! do not fire for single calls.

use crate::evaluation::{TARGET, evaluate};

/// How many scrapes of usual traffic there are before. One is made every 15 seconds.
const USUAL: usize = 80;
/// 1,000 requests a second.
const ALL: u64 = 15_000;

/// A counter that grows by so much from scrape to scrape, so many times each.
fn counter(name: &str, labels: &str, growth: &[(usize, u64)]) -> (String, String) {
    let mut value = 0;
    let mut values = Vec::new();
    for (times, by) in growth {
        for _ in 0..*times {
            value += by;
            values.push(value.to_string());
        }
    }
    (format!("{name}{{{TARGET},{labels}}}"), values.join(" "))
}

/// A gauge with these values, so many times each.
fn gauge(series: String, states: &[(usize, u64)]) -> (String, String) {
    let values: Vec<String> =
        states.iter().flat_map(|(times, value)| vec![value.to_string(); *times]).collect();
    (series, values.join(" "))
}

/// Whether the node can be scraped.
fn up(states: &[(usize, u64)]) -> (String, String) {
    gauge(format!("up{{{TARGET}}}"), states)
}

/// Whether the circuit breaker of the store is closed.
fn store_up(states: &[(usize, u64)]) -> (String, String) {
    gauge(format!("tollgate_store_up{{{TARGET},server=\"redis\"}}"), states)
}

/// Requests of one rule: so many each time, of which so many are not counted in the store.
fn requests(mode: &str, each: u64, uncounted: &[(usize, u64)]) -> Vec<(String, String)> {
    let counted: Vec<(usize, u64)> =
        uncounted.iter().map(|(times, by)| (*times, each - by)).collect();
    let all: Vec<(usize, u64)> = uncounted.iter().map(|(times, _)| (*times, each)).collect();
    let is_closed = mode == "closed";
    let passed = if is_closed { &counted } else { &all };
    let none: Vec<(usize, u64)> = uncounted.iter().map(|(times, _)| (*times, 0)).collect();
    let errors = if is_closed { uncounted } else { none.as_slice() };
    let decided = if mode == "local" { &all } else { &counted };
    vec![
        up(&all.iter().map(|(times, _)| (*times, 1)).collect::<Vec<_>>()),
        counter("tollgate_requests_total", "entry=\"http\",outcome=\"allowed\"", passed),
        counter("tollgate_requests_total", "entry=\"http\",outcome=\"error\"", errors),
        counter("tollgate_decisions_total", "rule_id=\"r\",outcome=\"allowed\"", decided),
        counter("tollgate_decisions_total", "rule_id=\"r\",outcome=\"refused\"", &none),
        counter(
            "tollgate_store_fallbacks_total",
            &format!("rule_id=\"r\",mode=\"{mode}\""),
            uncounted,
        ),
    ]
}

/// Calls to a store: so many each time, of which so many take longer than 50 ms.
fn calls(slow: &[(usize, u64)]) -> Vec<(String, String)> {
    let fast: Vec<(usize, u64)> = slow.iter().map(|(times, by)| (*times, ALL - by)).collect();
    let all: Vec<(usize, u64)> = slow.iter().map(|(times, _)| (*times, ALL)).collect();
    let bucket = "tollgate_store_request_seconds_bucket";
    vec![
        counter(bucket, "server=\"redis\",le=\"0.01\"", &fast),
        counter(bucket, "server=\"redis\",le=\"0.05\"", &fast),
        counter(bucket, "server=\"redis\",le=\"0.1\"", &all),
        counter(bucket, "server=\"redis\",le=\"+Inf\"", &all),
    ]
}

#[test]
fn single_calls_that_miss_the_deadline_are_no_outage() {
    for mode in ["open", "local", "closed"] {
        // One of many, and more than a hundredth of few.
        for (each, uncounted) in [(ALL, 1), (10, 1)] {
            let series = requests(mode, each, &[(USUAL, 0), (1, uncounted), (20, 0)]);
            let at = [1, 2, 4, 8, 12].map(|later| (USUAL + later, Vec::new()));
            evaluate(&series, &at);
        }
    }
}

/// The alert about requests that were not checked began minutes after such an outage.
#[test]
fn an_outage_of_45_seconds_fires_while_it_lasts_and_two_minutes_longer() {
    for (mode, alerts) in [
        ("open", vec!["TollgateFailOpen"]),
        ("local", vec!["TollgateStoreFallback"]),
        ("closed", vec!["TollgateRequestsNotChecked", "TollgateStoreFallback"]),
    ] {
        let series = requests(mode, ALL, &[(USUAL, 0), (3, ALL), (30, 0)]);
        let expected = [
            (USUAL, Vec::new()),
            (USUAL + 1, alerts.clone()),
            (USUAL + 3, alerts),
            (USUAL + 3 + 8, Vec::new()),
            (USUAL + 3 + 20, Vec::new()),
        ];
        evaluate(&series, &expected);
    }
}

#[test]
fn a_small_share_that_passes_uncounted_for_long_fires() {
    let series = requests("open", ALL, &[(USUAL, 0), (40, ALL / 50)]);
    evaluate(&series, &[(USUAL, Vec::new()), (USUAL + 40, vec!["TollgateFailOpen"])]);
}

/// It fired three minutes after a pause of five seconds.
#[test]
fn a_store_that_paused_for_seconds_is_not_slow() {
    let mut series = calls(&[(USUAL, 0), (1, ALL / 3), (30, 0)]);
    series.extend([up(&[(USUAL + 31, 1)]), store_up(&[(USUAL + 31, 1)])]);
    let at = [1, 4, 8, 9, 12, 13, 14, 20].map(|later| (USUAL + later, Vec::new()));
    evaluate(&series, &at);
}

#[test]
fn a_store_that_was_slow_for_minutes_is_slow_for_two_more() {
    let mut series = calls(&[(USUAL, 0), (14, ALL / 3), (20, 0)]);
    series.extend([up(&[(USUAL + 34, 1)]), store_up(&[(USUAL + 34, 1)])]);
    let slow = vec!["TollgateStoreSlow"];
    evaluate(&series, &[(USUAL + 14, slow), (USUAL + 14 + 9, Vec::new())]);
}

/// With labels of Kubernetes, both alerts fired.
#[test]
fn a_store_that_is_unavailable_is_not_slow_as_well() {
    let mut series = calls(&[(USUAL, 0), (20, ALL / 3)]);
    series.extend([up(&[(USUAL + 20, 1)]), store_up(&[(USUAL, 1), (20, 0)])]);
    evaluate(&series, &[(USUAL, Vec::new()), (USUAL + 20, vec!["TollgateStoreUnavailable"])]);
}

/// It fired for a node that had ended.
#[test]
fn a_store_is_slow_only_for_nodes_that_are_up() {
    let mut series = calls(&[(USUAL, 0), (10, ALL / 3)]);
    series.extend([up(&[(USUAL + 10, 1), (20, 0)]), store_up(&[(USUAL + 10, 1)])]);
    let expected = [
        (USUAL + 10, Vec::new()),
        (USUAL + 14, Vec::new()),
        (USUAL + 19, vec!["TollgateDown"]),
        (USUAL + 30, vec!["TollgateDown"]),
    ];
    evaluate(&series, &expected);
}
