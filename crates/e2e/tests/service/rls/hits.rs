//! The cost of a request, and which counters are charged.

use serde_json::{Value, json};

use super::{ask, brief, header, start, start_with};
use tollgate_e2e::grpc::{Client, descriptor, request};
use tollgate_e2e::server::{Server, Setup};
use tollgate_testbed::Redis;

const FILE: &str = "
domain: test
descriptors:
  - {key: user, rate_limit: {unit: year, requests_per_unit: 10}}
  - {key: other, rate_limit: {unit: year, requests_per_unit: 3}}
  - {key: blocked, rate_limit: {unit: second, requests_per_unit: 0}}
  - {key: free, rate_limit: {unlimited: true}}
  - {key: trial, shadow_mode: true, rate_limit: {unit: year, requests_per_unit: 10}}
  - {key: watched, shadow_mode: true, rate_limit: {unit: year, requests_per_unit: 1}}
";

/// Sends a request of one user; the request and the descriptor may each have a cost.
fn hit(client: &mut Client, user: &str, of_request: Value, own: Value) -> String {
    let mut asked = request("test", &[&[&format!("user={user}")]]);
    asked["hits_addend"] = of_request;
    asked["descriptors"][0]["hits_addend"] = own;
    brief(&client.should_rate_limit(&asked))
}

#[test]
fn the_descriptor_says_what_it_costs_or_else_the_request() {
    let server = start(FILE);
    let mut client = Client::of(&server);
    let mut check = |of_request: Value, own: Value, expected: &str| {
        let what = format!("{of_request} {own}");
        assert_eq!(hit(&mut client, "ann", of_request, own), expected, "{what}");
    };
    check(Value::Null, Value::Null, "OK, OK 9");
    check(json!(0), Value::Null, "OK, OK 8");
    check(json!(2), Value::Null, "OK, OK 6");
    check(json!(5), json!("1"), "OK, OK 5");
    check(json!(5), json!("0"), "OK, OK 5");
    check(Value::Null, json!("5"), "OK, OK 0");
    check(Value::Null, Value::Null, "OVER_LIMIT, OVER_LIMIT 0");
}

/// A peek at exactly the limit used to be refused, so callers that charge afterwards lost a request.
#[test]
fn a_peek_is_over_the_limit_only_after_a_charge_beyond_it() {
    let server = start(FILE);
    let mut client = Client::of(&server);
    let mut check = |entry: &str, own: &str, expected: &str| {
        let mut asked = request("test", &[&[entry]]);
        asked["descriptors"][0]["hits_addend"] = json!(own);
        assert_eq!(brief(&client.should_rate_limit(&asked)), expected, "{entry} {own}");
    };
    check("user=ann", "0", "OK, OK 10");
    check("user=ann", "10", "OK, OK 0");
    check("user=ann", "0", "OK, OK 0");
    // What was used is charged afterwards, and is more than the limit.
    check("user=ann", "1", "OVER_LIMIT, OVER_LIMIT 0");
    check("user=ann", "0", "OVER_LIMIT, OVER_LIMIT 0");
    check("user=ann", "1", "OVER_LIMIT, OVER_LIMIT 0");
    check("user=bob", "0", "OK, OK 10");
    // In shadow mode nothing is refused.
    check("trial=ann", "0", "OK, OK 10");
    check("trial=ann", "12", "OK, OK 0");
    check("trial=ann", "0", "OK, OK 0");
}

/// A charge beyond the limit on a node that had seen no peek used to leave the counter at its limit, so that peeks on
/// other nodes passed without end.
#[test]
fn peeks_and_charges_may_reach_different_nodes() {
    let redis = Redis::start();
    let arguments = ["--store", &redis.url()];
    let setup = Setup { arguments: &arguments, ..Setup::default() };
    let nodes = [start_with(FILE, &setup), start_with(FILE, &setup)];
    let [mut peeks, mut charges] = nodes.each_ref().map(Client::of);
    let hit = |client: &mut Client, own: &str| {
        let mut asked = request("test", &[&["other=ann"]]);
        asked["descriptors"][0]["hits_addend"] = json!(own);
        brief(&client.should_rate_limit(&asked))
    };
    let mut passed = 0;
    for _ in 0..10 {
        if hit(&mut peeks, "0").starts_with("OK") {
            passed += 1;
            hit(&mut charges, "1");
        }
    }
    // Three fit, and the fourth goes over the limit.
    assert_eq!(passed, 4);
}

#[test]
fn a_peek_at_a_limit_that_a_request_carries_is_over_it_after_a_charge_beyond_it() {
    let server = start(FILE);
    let mut client = Client::of(&server);
    let mut check = |own: &str, expected: &str| {
        let mut asked = request("test", &[&["any=x"]]);
        asked["descriptors"][0]["hits_addend"] = json!(own);
        asked["descriptors"][0]["limit"] = json!({"requests_per_unit": 2, "unit": "YEAR"});
        assert_eq!(brief(&client.should_rate_limit(&asked)), expected, "{own}");
    };
    check("2", "OK, OK 0");
    check("0", "OK, OK 0");
    check("3", "OVER_LIMIT, OVER_LIMIT 0");
    check("0", "OVER_LIMIT, OVER_LIMIT 0");
}

#[test]
fn a_cost_beyond_the_limit_takes_what_is_left() {
    let server = start(FILE);
    let mut client = Client::of(&server);
    let mut check = |user: &str, own: Value, expected: &str| {
        assert_eq!(hit(&mut client, user, Value::Null, own.clone()), expected, "{user} {own}");
    };
    check("ann", json!("4"), "OK, OK 6");
    check("ann", json!("7"), "OVER_LIMIT, OVER_LIMIT 0");
    check("ann", json!("1"), "OVER_LIMIT, OVER_LIMIT 0");
    check("bob", json!(u64::MAX.to_string()), "OVER_LIMIT, OVER_LIMIT 0");
    check("bob", json!("0"), "OVER_LIMIT, OVER_LIMIT 0");
}

#[test]
fn fields_report_a_drained_or_empty_limit() {
    let settings = "envoy: {headers: [x-ratelimit]}";
    let server = start_with(FILE, &Setup { settings, ..Setup::default() });
    let mut client = Client::of(&server);
    let mut check = |own: &str, remaining: &str, waits: bool| {
        let mut asked = request("test", &[&["user=ann"]]);
        asked["descriptors"][0]["hits_addend"] = json!(own);
        let answer = client.should_rate_limit(&asked);
        assert_eq!(header(&answer, "x-ratelimit-remaining"), Some(remaining), "{own}");
        let wait = header(&answer, "retry-after").map(str::parse::<u64>);
        assert_eq!(wait.is_some_and(|wait| wait.is_ok_and(|wait| wait > 0)), waits, "{own}");
        assert_eq!(header(&answer, "cache-control").is_some(), waits, "{own}");
    };
    check("4", "6", false);
    // It costs more than is left, and takes what is left.
    check("7", "0", true);
    // A peek finds that it was exceeded.
    check("0", "0", true);
}

#[test]
fn all_descriptors_are_charged_or_none() {
    let server = start(FILE);
    let mut client = Client::of(&server);
    let both: &[&[&str]] = &[&["user=ann"], &["other=x"]];
    for left in [2, 1, 0] {
        assert_eq!(ask(&mut client, both), format!("OK, OK {}, OK {left}", left + 7));
    }
    for _ in 0..5 {
        assert_eq!(ask(&mut client, both), "OVER_LIMIT, OK 7, OVER_LIMIT 0");
    }
    assert_eq!(ask(&mut client, &[&["user=ann"]]), "OK, OK 6", "the refusals took nothing");
    // Nor is anything charged if one of several costs more than is left.
    let mut dear = request("test", &[&["user=bob"], &["other=y"]]);
    dear["hits_addend"] = json!(4);
    assert_eq!(brief(&client.should_rate_limit(&dear)), "OVER_LIMIT, OK 10, OVER_LIMIT 0");
    assert_eq!(ask(&mut client, &[&["other=y"]]), "OK, OK 2");
    // A peek that is over its limit refuses the others too.
    let mut look = request("test", both);
    look["descriptors"][1]["hits_addend"] = json!("0");
    assert_eq!(brief(&client.should_rate_limit(&look)), "OK, OK 5, OK 0", "used up, not exceeded");
    assert_eq!(ask(&mut client, &[&["other=x"]]), "OVER_LIMIT, OVER_LIMIT 0");
    assert_eq!(brief(&client.should_rate_limit(&look)), "OVER_LIMIT, OK 5, OVER_LIMIT 0");
    assert_eq!(ask(&mut client, &[&["user=ann"]]), "OK, OK 4");
}

#[test]
fn one_counter_that_is_named_twice_is_charged_twice() {
    let server = start(FILE);
    let mut client = Client::of(&server);
    let twice: &[&[&str]] = &[&["other=x"], &["user=ann"], &["other=x"]];
    assert_eq!(ask(&mut client, twice), "OK, OK 1, OK 9, OK 1");
    assert_eq!(ask(&mut client, twice), "OVER_LIMIT, OVER_LIMIT 0, OK 9, OVER_LIMIT 0");
    assert_eq!(ask(&mut client, &[&["other=x"]]), "OK, OK 0");
}

#[test]
fn unlimited_descriptors_pass_and_limits_of_zero_refuse() {
    let server = start(FILE);
    let mut client = Client::of(&server);
    let unlimited = "OK, OK 4294967295";
    for _ in 0..20 {
        let answer = client.should_rate_limit(&request("test", &[&["free=x"]]));
        assert_eq!(brief(&answer), unlimited);
        assert_eq!(answer["statuses"][0]["current_limit"], Value::Null);
    }
    for _ in 0..2 {
        let answer = client.should_rate_limit(&request("test", &[&["blocked=x"], &["user=ann"]]));
        assert_eq!(brief(&answer), "OVER_LIMIT, OVER_LIMIT 0, OK 10");
        assert_eq!(header(&answer, "retry-after"), None, "waiting does not help");
        assert_eq!(answer["statuses"][0]["current_limit"]["requests_per_unit"], 0);
    }
    let mut look = request("test", &[&["blocked=x"]]);
    look["descriptors"][0]["hits_addend"] = json!("0");
    assert_eq!(brief(&client.should_rate_limit(&look)), "OVER_LIMIT, OVER_LIMIT 0");
}

#[test]
fn a_shadow_limit_counts_and_refuses_no_request() {
    let server = start(FILE);
    let mut client = Client::of(&server);
    assert_eq!(ask(&mut client, &[&["watched=x"]]), "OK, OK 0");
    for left in [9, 8, 7] {
        let answer = client.should_rate_limit(&request("test", &[&["watched=x"], &["user=ann"]]));
        assert_eq!(brief(&answer), format!("OK, OK 0, OK {left}"));
        assert_eq!(answer["statuses"][0]["current_limit"]["requests_per_unit"], 1);
        assert_eq!(answer["raw_body"], "");
    }
    let exceeded = server
        .figure("tollgate_decisions_total{rule_id=\"test.watched\",outcome=\"would_refuse\"}");
    assert!((exceeded - 3.0).abs() < 0.1, "{exceeded}");
}

#[test]
fn a_request_can_carry_its_limit() {
    let server = start(FILE);
    let mut client = Client::of(&server);
    let carried = |entry: &str, limit: u32, unit: &str| {
        let mut own = descriptor(&[entry]);
        own["limit"] = json!({"requests_per_unit": limit, "unit": unit});
        json!({"domain": "test", "descriptors": [own]})
    };
    for left in [1, 0] {
        let answer = client.should_rate_limit(&carried("user=ann", 2, "MONTH"));
        assert_eq!(brief(&answer), format!("OK, OK {left}"));
        let limit = json!({"requests_per_unit": 2, "unit": "MONTH", "name": ""});
        assert_eq!(answer["statuses"][0]["current_limit"], limit);
    }
    let refused = client.should_rate_limit(&carried("user=ann", 2, "MONTH"));
    assert_eq!(brief(&refused), "OVER_LIMIT, OVER_LIMIT 0");
    assert!(header(&refused, "retry-after").is_some(), "{refused}");
    // Others with the same limit have their own counters, and no file has to have the limit.
    assert_eq!(brief(&client.should_rate_limit(&carried("user=bob", 2, "MONTH"))), "OK, OK 1");
    assert_eq!(brief(&client.should_rate_limit(&carried("new=x", 1, "DAY"))), "OK, OK 0");
    assert_eq!(
        brief(&client.should_rate_limit(&carried("free=x", 0, "YEAR"))),
        "OVER_LIMIT, OVER_LIMIT 0"
    );
    assert_eq!(ask(&mut client, &[&["user=ann"]]), "OK, OK 9", "the file's own limit is untouched");
}

/// How often a limit allowed and refused; in shadow mode, how often it would have refused.
fn decisions(server: &Server, rule: &str, refused: &str) -> [u64; 2] {
    ["allowed", refused].map(|outcome| {
        let labels = format!("rule_id=\"{rule}\",outcome=\"{outcome}\"");
        server.figure(&format!("tollgate_decisions_total{{{labels}}}")) as u64
    })
}

#[test]
fn a_limit_in_shadow_mode_counts_what_it_would_refuse_if_enforced() {
    let server = start(FILE);
    let mut client = Client::of(&server);
    let mut hit = |entry: &str, hits: u32| {
        let mut asked = request("test", &[&[entry]]);
        asked["hits_addend"] = json!(hits);
        brief(&client.should_rate_limit(&asked))
    };
    for (hits, enforced, shadow) in [
        (7, "OK, OK 3", "OK, OK 3"),
        (7, "OVER_LIMIT, OVER_LIMIT 0", "OK, OK 0"),
        (1, "OVER_LIMIT, OVER_LIMIT 0", "OK, OK 0"),
        (2, "OVER_LIMIT, OVER_LIMIT 0", "OK, OK 0"),
        (1, "OVER_LIMIT, OVER_LIMIT 0", "OK, OK 0"),
    ] {
        assert_eq!(hit("user=ann", hits), enforced, "{hits}");
        assert_eq!(hit("trial=ann", hits), shadow, "{hits}");
    }
    // Each request is counted once, although the second took what was left.
    assert_eq!(decisions(&server, "test.user", "refused"), [1, 4]);
    assert_eq!(decisions(&server, "test.trial", "would_refuse"), [1, 4]);
}

/// They were one counter, which each of them began anew.
#[test]
fn carried_limits_of_different_units_are_counted_apart() {
    let server = start("{domain: test, descriptors: [{key: other}]}");
    let mut client = Client::of(&server);
    let descriptor = |limit: u32, unit: &str| {
        json!({"entries": [{"key": "user", "value": "ann"}],
               "limit": {"requests_per_unit": limit, "unit": unit}})
    };
    let mut check = |descriptors: &[Value], expected: &str| {
        let request = json!({"domain": "test", "descriptors": descriptors});
        assert_eq!(brief(&client.should_rate_limit(&request)), expected, "{request}");
    };
    check(&[descriptor(1, "MONTH")], "OK, OK 0");
    check(&[descriptor(1, "MONTH")], "OVER_LIMIT, OVER_LIMIT 0");
    check(&[descriptor(9, "YEAR")], "OK, OK 8");
    check(&[descriptor(1, "MONTH")], "OVER_LIMIT, OVER_LIMIT 0");
    check(&[descriptor(9, "YEAR"), descriptor(1, "MONTH")], "OVER_LIMIT, OK 8, OVER_LIMIT 0");
}
