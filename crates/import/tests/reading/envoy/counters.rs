//! What counters must not show, and what they outlive. Which requests share one is in `cases`.

use crate::envoy::request::{config, counter};

#[test]
fn a_counter_does_not_show_its_values() {
    let config = config("{domain: d, descriptors: [{key: any, rate_limit: {unit: day}}]}");
    let verdicts = crate::envoy::request::verdicts(&config, "d", "any=secret").expect("the domain");
    assert!(!format!("{verdicts:?}").contains("secret"), "{verdicts:?}");
}

#[test]
fn a_counter_outlives_a_change_of_its_limit() {
    let before = config("{domain: d, descriptors: [{key: a, rate_limit: {unit: day}}]}");
    let after = config(
        "domain: d
descriptors:
  - {key: b, rate_limit: {unit: day}}
  - {key: a, value: x, rate_limit: {unit: hour, requests_per_unit: 7, algorithm: gcra}}
",
    );
    assert_eq!(counter(&before, "d", "a=x"), counter(&after, "d", "a=x"));
}
