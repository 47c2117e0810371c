//! Every field of a response.

use serde_json::{Value, json};

use super::{ask, brief, header, seconds, start, start_with};
use tollgate_e2e::grpc::{Client, SHOULD_RATE_LIMIT, descriptor, request};
use tollgate_e2e::server::Setup;

const FILE: &str = "
domain: test
descriptors:
  - {key: user, rate_limit: {unit: year, requests_per_unit: 2}}
  - {key: named, rate_limit: {name: by-name, unit: year, requests_per_unit: 9}}
  - {key: unit, value: second, rate_limit: {unit: second, requests_per_unit: 7}}
  - {key: unit, value: minute, rate_limit: {unit: Minute, requests_per_unit: 7}}
  - {key: unit, value: hour, rate_limit: {unit: HOUR, requests_per_unit: 7}}
  - {key: unit, value: day, rate_limit: {unit: day, requests_per_unit: 7}}
  - {key: unit, value: week, rate_limit: {unit: week, requests_per_unit: 7}}
  - {key: unit, value: month, rate_limit: {unit: month, requests_per_unit: 7}}
  - {key: unit, value: year, rate_limit: {unit: year, requests_per_unit: 7}}
";

#[test]
fn a_response_has_every_field() {
    let settings = "envoy: {refusal_body: true}";
    let server = start_with(FILE, &Setup { settings, ..Setup::default() });
    let mut client = Client::of(&server);
    let ask = request("test", &[&["user=ann"], &["unknown=value"], &["named=x"]]);
    let answer = client.should_rate_limit(&ask);

    assert_eq!(brief(&answer), "OK, OK 1, OK 0, OK 8");
    let statuses = answer["statuses"].as_array().expect("statuses");
    let limit = |number: u32, name: &str| json!({"requests_per_unit": number, "unit": "YEAR", "name": name});
    assert_eq!(statuses[0]["current_limit"], limit(2, ""), "Envoy shows names to clients");
    assert_eq!(statuses[1], json!({"code": "OK", "limit_remaining": 0}), "nothing is known");
    assert_eq!(statuses[2]["current_limit"], limit(9, "by-name"));
    assert_eq!(seconds(&statuses[0]), seconds(&statuses[2]), "windows of a kind end together");
    assert_eq!((&answer["raw_body"], &answer["request_headers_to_add"]), (&json!(""), &json!([])));
    assert_eq!(answer["response_headers_to_add"], json!([]), "Envoy writes its own");
    let metadata = &answer["dynamic_metadata"];
    assert_eq!(metadata["rule_id"], "test.user", "the one with the least left");
    assert_eq!((&metadata["limit"], &metadata["remaining"]), (&json!(2.0), &json!(1.0)));
    let id = metadata["decision_id"].as_str().expect("an id").to_owned();
    assert_eq!(server.get_as_admin(&format!("/api/v1/decisions/{id}")).status, 200);

    client.should_rate_limit(&request("test", &[&["user=ann"]]));
    let refused = client.should_rate_limit(&ask);
    assert_eq!(brief(&refused), "OVER_LIMIT, OVER_LIMIT 0, OK 0, OK 8", "the last was not charged");
    let wait: u64 =
        header(&refused, "retry-after").and_then(|wait| wait.parse().ok()).expect("a wait");
    assert!(wait.abs_diff(seconds(&refused["statuses"][0])) <= 1, "{refused}");
    assert_eq!(header(&refused, "content-type"), Some("application/problem+json"));
    assert_eq!(header(&refused, "cache-control"), Some("no-store"));
    assert_eq!(header(&refused, "x-ratelimit-remaining"), None);
    let metadata = &refused["dynamic_metadata"];
    assert_eq!((&metadata["rule_id"], &metadata["remaining"]), (&json!("test.user"), &json!(0.0)));
    let body: Value =
        serde_json::from_str(refused["raw_body"].as_str().expect("a body")).expect("JSON");
    assert_eq!((&body["status"], &body["violated-policies"]), (&json!(429), &json!(["test.user"])));
    assert_eq!(body["error"]["code"], "RATE_LIMIT_EXCEEDED");
    assert_eq!(body["error"]["rule_id"], "test.user");
    assert_eq!(body["error"]["decision_id"], refused["dynamic_metadata"]["decision_id"]);
    let id = body["error"]["decision_id"].as_str().expect("an id");
    assert_eq!(server.get_as_admin(&format!("/api/v1/decisions/{id}")).status, 200);
}

/// Clients used to learn the id of the limit, which envoyproxy/ratelimit does not tell.
#[test]
fn a_refusal_has_a_body_only_if_a_setting_says_so() {
    let check = |settings: &str, body: &str, content_type: Option<&str>| {
        let server = start_with(FILE, &Setup { settings, ..Setup::default() });
        let mut client = Client::of(&server);
        let ask = request("test", &[&["user=ann"]]);
        client.should_rate_limit(&ask);
        client.should_rate_limit(&ask);
        let refused = client.should_rate_limit(&ask);
        assert_eq!(refused["overall_code"], "OVER_LIMIT", "{refused}");
        assert_eq!(refused["raw_body"], body);
        assert_eq!(header(&refused, "content-type"), content_type);
        assert_eq!(header(&refused, "content-security-policy"), content_type.map(|_| "sandbox"));
        assert!(header(&refused, "retry-after").is_some(), "{refused}");
        assert_eq!(refused["dynamic_metadata"]["rule_id"], "test.user", "for Envoy alone");
    };
    check("", "", None);
    // The format is that of the gateway.
    let own = "{envoy: {refusal_body: true}, refusal: {body: 'over {rule_id}', content_type: text/plain}}";
    check(own, "over test.user", Some("text/plain"));
}

#[test]
fn an_unknown_request_passes() {
    let server = start(FILE);
    let mut client = Client::of(&server);
    let answer =
        client.should_rate_limit(&request("test", &[&["unknown=value"], &["user=a", "too=deep"]]));
    assert_eq!(brief(&answer), "OK, OK 0, OK 0");
    assert_eq!(answer["dynamic_metadata"], Value::Null, "nothing was decided");
    assert_eq!(answer["response_headers_to_add"], json!([]));
}

#[test]
fn a_setting_adds_header_fields() {
    let settings = "envoy: {headers: [x-ratelimit, draft-11]}";
    let server = start_with(FILE, &Setup { settings, ..Setup::default() });
    let mut client = Client::of(&server);
    let answer = client.should_rate_limit(&request("test", &[&["user=ann"], &["named=x"]]));
    assert_eq!(header(&answer, "x-ratelimit-limit"), Some("2"), "the one with the least left");
    assert_eq!(header(&answer, "x-ratelimit-remaining"), Some("1"));
    assert_eq!(header(&answer, "retry-after"), None);
    assert_eq!(header(&answer, "content-type"), None);
    let both = header(&answer, "ratelimit").expect("what is left");
    assert!(both.contains("\"test.user\";r=1") && both.contains(";r=8"), "{both}");
}

#[test]
fn units_are_those_of_envoy() {
    let settings = "envoy: {headers: [x-ratelimit]}";
    let server = start_with(FILE, &Setup { settings, ..Setup::default() });
    let mut client = Client::of(&server);
    let mut check = |unit: &str, length: u64| {
        let answer = client.should_rate_limit(&request("test", &[&[&format!("unit={unit}")]]));
        let status = &answer["statuses"][0];
        assert_eq!(status["current_limit"]["unit"], unit.to_uppercase(), "{answer}");
        assert_eq!(answer["dynamic_metadata"]["rule_id"], format!("test.unit_{unit}"));
        assert!((1..=length).contains(&seconds(status)), "{answer}");
        // Windows begin with 1970, so they end when this many seconds are full.
        let reset: u64 =
            header(&answer, "x-ratelimit-reset").and_then(|at| at.parse().ok()).expect("a time");
        assert_eq!(reset % length, 0, "{answer}");
    };
    check("second", 1);
    check("minute", 60);
    check("hour", 3_600);
    check("day", 86_400);
    check("week", 7 * 86_400);
    check("month", 30 * 86_400);
    check("year", 365 * 86_400);
}

#[test]
fn invalid_requests_are_errors() {
    let server = start(FILE);
    let mut client = Client::of(&server);
    let mut check = |request: &Value, expected: &str| {
        let failure = client.fail(SHOULD_RATE_LIMIT, request);
        assert_eq!(failure.code, "INVALID_ARGUMENT", "{request}: {failure:?}");
        assert!(failure.detail.contains(expected), "{request}: {failure:?}");
    };
    let user = descriptor(&["user=ann"]);
    check(&json!({}), "domain: it is empty");
    check(&json!({"domain": "test"}), "descriptors: there is none");
    for limit in [json!({"requests_per_unit": 5}), json!({"requests_per_unit": 5, "unit": 77})] {
        let mut own = user.clone();
        own["limit"] = limit;
        check(&json!({"domain": "test", "descriptors": [own]}), "descriptors[0].limit.unit");
    }
    assert_eq!(ask(&mut client, &[&["user=ann"]]), "OK, OK 1", "none of them was charged");
}

/// These used to be `INVALID_ARGUMENT`, which Envoy takes for a failure and lets pass in its own way.
#[test]
fn a_descriptor_without_entries_and_a_carried_limit_of_an_unknown_domain_pass() {
    let server = start(FILE);
    let mut client = Client::of(&server);
    let user = descriptor(&["user=ann"]);
    let empty = json!({"domain": "test", "descriptors": [{}, user]});
    assert_eq!(brief(&client.should_rate_limit(&empty)), "OK, OK 0, OK 1");
    let mut own = user;
    own["limit"] = json!({"requests_per_unit": 0, "unit": "DAY"});
    let carried = json!({"domain": "unheard-of", "descriptors": [own]});
    assert_eq!(brief(&client.should_rate_limit(&carried)), "OK, OK 0");
}
