//! `quota_mode`, and metadata of limits that are not exceeded.

use serde_json::{Value, json};

use super::{brief, header, start};
use tollgate_e2e::grpc::{Client, request};

const FILE: &str = "
domain: test
descriptors:
  - key: service
    value: one
    quota_mode: true
    rate_limit: {unit: year, requests_per_unit: 1}
    metadata: {target: {name: one, weight: 1.5}, tags: [a]}
  - key: service
    value: two
    quota_mode: true
    rate_limit: {unit: year, requests_per_unit: 2}
    metadata: {target: {name: two, region: north}}
  - key: user
    rate_limit: {unit: year, requests_per_unit: 3}
  - key: trial
    quota_mode: true
    shadow_mode: true
    rate_limit: {unit: year, requests_per_unit: 0}
";

const BOTH: &[&[&str]] = &[&["service=one"], &["service=two"]];

#[test]
fn a_request_is_refused_once_all_of_its_quotas_are_exceeded() {
    let server = start(FILE);
    let mut client = Client::of(&server);
    let mut check = |descriptors: &[&[&str]], expected: &str| {
        let answer = client.should_rate_limit(&request("test", descriptors));
        assert_eq!(brief(&answer), expected, "{descriptors:?}");
        answer
    };
    let first = check(BOTH, "OK, OK 0, OK 1");
    let metadata = &first["dynamic_metadata"]["metadata"];
    let merged = json!({"name": "one", "weight": 1.5, "region": "north"});
    assert_eq!((&metadata["target"], &metadata["tags"]), (&merged, &json!(["a"])));
    let second = check(BOTH, "OK, OVER_LIMIT 0, OK 0");
    let left = json!({"name": "two", "region": "north"});
    assert_eq!(second["dynamic_metadata"]["metadata"], json!({"target": left}));
    let refused = check(BOTH, "OVER_LIMIT, OVER_LIMIT 0, OVER_LIMIT 0");
    assert_eq!(refused["dynamic_metadata"]["metadata"], Value::Null);
    let refusing = refused["dynamic_metadata"]["rule_id"].as_str();
    assert!(refusing.is_some_and(|rule_id| rule_id.starts_with("test.service_")), "{refused}");
    // A limit without quota_mode refuses by itself, and one of another service does not help.
    for left in [2, 1, 0] {
        check(&[&["user=ann"], &["trial=x"]], &format!("OK, OK {left}, OK 0"));
    }
    check(&[&["user=ann"], &["trial=x"]], "OVER_LIMIT, OVER_LIMIT 0, OK 0");
    check(&[&["user=bob"], &["service=one"]], "OVER_LIMIT, OK 3, OVER_LIMIT 0");
    check(
        &[&["user=bob"], &["service=one"], &["service=two"]],
        "OVER_LIMIT, OK 3, OVER_LIMIT 0, OVER_LIMIT 0",
    );
    check(&[&["user=bob"]], "OK, OK 2");
    // Requests that one quota admitted were once counted as refused, since another was exceeded.
    let counted = |outcome: &str| {
        server.figure(&format!("tollgate_requests_total{{entry=\"envoy\",outcome=\"{outcome}\"}}"))
    };
    assert_eq!((counted("allowed"), counted("refused")), (6.0, 4.0));
}

#[test]
fn counters_of_one_model_are_one_group() {
    let file = "
domain: test
descriptors:
  - key: model_name_override
    descriptors:
      - key: tenant
        quota_mode: true
        rate_limit: {unit: year, requests_per_unit: 1}
      - key: any
        quota_mode: true
        rate_limit: {unit: year, requests_per_unit: 9}
";
    let server = start(file);
    let mut client = Client::of(&server);
    let small = ["model_name_override=small", "tenant=a"];
    let other = ["model_name_override=small", "any=x"];
    let large = ["model_name_override=large", "tenant=a"];
    let mut check = |descriptors: &[&[&str]], expected: &str| {
        assert_eq!(brief(&client.should_rate_limit(&request("test", descriptors))), expected);
    };
    check(&[&small, &other], "OK, OK 0, OK 8");
    // The tenant has used up its share of the model, so the model is exceeded, and the other one is left.
    check(&[&small, &other, &large], "OK, OVER_LIMIT 0, OK 7, OK 0");
    check(&[&small, &other], "OVER_LIMIT, OVER_LIMIT 0, OK 7");
}

/// It was that of the quota with the longest wait, although the request passes as soon as one has something left.
#[test]
fn retry_after_of_refused_quotas_is_that_of_the_first_that_has_something_left() {
    let file = "
domain: test
descriptors:
  - {key: long, quota_mode: true, rate_limit: {unit: year, requests_per_unit: 1}}
  - {key: short, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: user, rate_limit: {unit: month, requests_per_unit: 1}}
";
    let server = start(file);
    let mut client = Client::of(&server);
    let mut ask = |descriptors: &[&[&str]]| {
        let answer = client.should_rate_limit(&request("test", descriptors));
        let wait = header(&answer, "retry-after").map(|wait| wait.parse().expect("seconds"));
        (answer["overall_code"] == "OK", wait.unwrap_or(0_u64))
    };
    let [long, short, user]: [&[&str]; 3] = [&["long=x"], &["short=x"], &["user=u"]];
    for used_up in [&[long, short][..], &[user]] {
        assert_eq!(ask(used_up), (true, 0));
    }
    let waits = [long, short, user].map(|one| ask(&[one]).1);
    let mut check = |descriptors: &[&[&str]], expected: u64| {
        let (is_allowed, wait) = ask(descriptors);
        // A second or two may have passed.
        assert!(!is_allowed && wait.abs_diff(expected) < 60, "{descriptors:?}: {wait} {expected}");
    };
    // Twice: the second may come from the deny cache.
    for _ in 0..2 {
        check(&[long, short], waits[0].min(waits[1]));
        check(&[short, long], waits[0].min(waits[1]));
        // A limit that is no quota has to have something left, too.
        check(&[short, user, long], waits[2].max(waits[0].min(waits[1])));
    }
}
