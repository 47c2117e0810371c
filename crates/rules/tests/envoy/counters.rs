//! Which requests share a counter.

use crate::request::{config, counter};

const FILE: &str = "
domain: d
descriptors:
  - {key: any, rate_limit: {unit: day}}
  - {key: fixed, value: x, rate_limit: {unit: day}}
  - {key: own, value: 'x*', rate_limit: {unit: day}}
  - {key: shared, value: 'x*y', share_threshold: true, rate_limit: {unit: day}}
  - {key: a_b, value: 'c*', share_threshold: true, rate_limit: {unit: day}}
  - {key: 'wild*', share_threshold: true, rate_limit: {unit: day}}
  - key: outer
    value: 'o*'
    share_threshold: true
    descriptors:
      - {key: inner, rate_limit: {unit: day}}
      - {key: inner, value: 'i*', share_threshold: true, rate_limit: {unit: day}}
  - key: open
    value: 'o*'
    descriptors:
      - {key: inner, value: 'i*', share_threshold: true, rate_limit: {unit: day}}
";

#[test]
fn a_counter_is_named_by_the_domain_and_all_keys_and_values() {
    for (request, expected) in [
        ("any=1", "1:d3:any1:1"),
        ("any=", "1:d3:any0:"),
        ("any=1:2", "1:d3:any3:1:2"),
        ("any=é", "1:d3:any2:é"),
        ("fixed=x", "1:d5:fixed1:x"),
        ("own=x1", "1:d3:own2:x1"),
        ("own=x2", "1:d3:own2:x2"),
        ("shared=x1y", "1:d6:shared3:x*y"),
        ("shared=x2y", "1:d6:shared3:x*y"),
        ("shared=x*y", "1:d6:shared3:x*y"),
        ("outer=o1,inner=1", "1:d5:outer2:o*5:inner1:1"),
        ("outer=o2,inner=2", "1:d5:outer2:o*5:inner1:2"),
        ("outer=o1,inner=i1", "1:d5:outer2:o*5:inner2:i*"),
        ("outer=o2,inner=i2", "1:d5:outer2:o*5:inner2:i*"),
        ("open=o1,inner=i1", "1:d4:open2:o15:inner2:i*"),
        ("open=o2,inner=i2", "1:d4:open2:o25:inner2:i*"),
        // The key is that of the request, even where the file joins it differently.
        ("a_b=c1", "1:d3:a_b2:c*"),
        ("a=b_c1", "1:d1:a4:b_c*"),
        ("wild=1", "1:d4:wild5:wild*"),
        ("wildly=1", "1:d6:wildly5:wild*"),
        // What carries its limit needs no limit in a file.
        ("!any=1", "1:d3:any1:1"),
        ("!other=1,more=2", "1:d5:other1:14:more1:2"),
        ("!shared=x1y", "1:d6:shared3:x1y"),
        ("!", "1:d"),
    ] {
        assert_eq!(counter(&config(FILE), "d", request), expected, "{request}");
    }
}

#[test]
fn a_counter_does_not_show_its_values() {
    let config = config(FILE);
    let verdicts = crate::request::verdicts(&config, "d", "any=secret").expect("the domain");
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
