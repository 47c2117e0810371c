//! `POST /json`, for clients without gRPC.

use serde_json::{Value, json};

use super::{brief, start_with};
use tollgate_e2e::client::Answer;
use tollgate_e2e::server::{CALLER_TOKEN, JSON, Server, Setup};

const FILE: &str =
    "{domain: test, descriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: 9}}]}";

fn ask(server: &Server, body: &Value) -> Answer {
    server.post("/json", &body.to_string())
}

/// The field names of the JSON response, as gRPC has them.
fn in_brief(answer: &Value) -> String {
    let statuses = answer["statuses"].as_array().expect("statuses").iter();
    let statuses = statuses.map(|status| {
        let left = status.get("limitRemaining").cloned().unwrap_or(json!(0));
        json!({"code": status["code"], "limit_remaining": left})
    });
    brief(&json!({"overall_code": answer["overallCode"], "statuses": statuses.collect::<Vec<_>>()}))
}

#[test]
fn both_spellings_mean_the_same() {
    let server = start_with(FILE, &Setup::default());
    let check = |body: Value, status: u16, expected: &str| {
        let answer = ask(&server, &body);
        assert_eq!(answer.status, status, "{body}: {answer:?}");
        assert_eq!(answer.header("content-type"), Some("application/json"), "{answer:?}");
        assert_eq!(in_brief(&answer.json()), expected, "{body}");
    };
    let body = |name: &str, value: Value, own: &str, own_value: Value| {
        let mut body = json!({"domain": "test", "descriptors": [{"entries": [{"key": "user", "value": "a"}]}]});
        if !name.is_empty() {
            body[name] = value;
        }
        if !own.is_empty() {
            body["descriptors"][0][own] = own_value;
        }
        body
    };
    check(body("", Value::Null, "", Value::Null), 200, "OK, OK 8");
    check(body("hitsAddend", json!(2), "", Value::Null), 200, "OK, OK 6");
    check(body("hits_addend", json!(2), "", Value::Null), 200, "OK, OK 4");
    check(body("", Value::Null, "hitsAddend", json!("1")), 200, "OK, OK 3");
    check(body("", Value::Null, "hits_addend", json!(1)), 200, "OK, OK 2");
    check(body("hitsAddend", json!(5), "hitsAddend", json!("0")), 200, "OK, OK 2");
    let most = i64::MAX.to_string();
    check(body("", Value::Null, "hitsAddend", json!(most)), 429, "OVER_LIMIT, OVER_LIMIT 0");
    check(body("", Value::Null, "", Value::Null), 429, "OVER_LIMIT, OVER_LIMIT 0");
    let carried = |name: &str| json!({name: 4, "unit": "DAY"});
    check(body("", Value::Null, "limit", carried("requestsPerUnit")), 200, "OK, OK 3");
    check(body("", Value::Null, "limit", carried("requests_per_unit")), 200, "OK, OK 2");
}

#[test]
fn a_response_has_the_names_of_protobuf() {
    let server = start_with(FILE, &Setup::default());
    let entries = json!([{"key": "user", "value": "a"}]);
    let body = json!({"domain": "test", "descriptors": [{"entries": entries}, {"entries": [{"key": "no"}]}]});
    let answer = ask(&server, &body).json();
    let status = &answer["statuses"][0];
    let limit = json!({"requestsPerUnit": 9, "unit": "YEAR", "name": ""});
    assert_eq!(status["currentLimit"], limit);
    assert!(
        status["durationUntilReset"].as_str().is_some_and(|text| text.ends_with('s')),
        "{answer}"
    );
    assert_eq!(answer["statuses"][1], json!({"code": "OK"}));
    assert!(answer["dynamicMetadata"]["decision_id"].is_string(), "{answer}");
    assert_eq!(answer["responseHeadersToAdd"], Value::Null, "none by default");
    let metadata = &answer["dynamicMetadata"];
    assert_eq!((&metadata["rule_id"], &metadata["remaining"]), (&json!("test.user"), &json!(8)));
}

#[test]
fn bodies_that_cannot_be_read_are_refused() {
    let server = start_with(FILE, &Setup::default());
    let check = |body: &str, expected: &str| {
        let answer = server.post("/json", body);
        assert_eq!(answer.status, 400, "{body}: {answer:?}");
        assert!(
            answer.text().contains(expected) && !answer.code().is_empty(),
            "{body}: {answer:?}"
        );
    };
    let with = |own: &str| {
        format!(r#"{{"domain":"test","descriptors":[{{"entries":[{{"key":"user"}}],{own}}}]}}"#)
    };
    check("", "");
    check("[]", "");
    check("{", "");
    check(r#"{"domain":"test"}"#, "descriptors");
    check(r#"{"domain":"","descriptors":[{"entries":[{"key":"user"}]}]}"#, "domain");
    check(r#"{"domain":"test","descriptors":[]}"#, "descriptors");
    check(r#"{"domain":"test","descriptors":[{"entries":[{"key":"user"}]}],"hits":1}"#, "hits");
    check(&with(r#""hitsAddend":"-1""#), "descriptors[0].hitsAddend");
    check(&with(r#""hitsAddend":"many""#), "descriptors[0].hitsAddend");
    check(&with(r#""hitsAddend":1.5"#), "descriptors[0].hitsAddend");
    check(
        &with(r#""limit":{"requestsPerUnit":1,"unit":"FORTNIGHT"}"#),
        "descriptors[0].limit.unit",
    );
    check(&with(r#""limit":{"requestsPerUnit":-1,"unit":"DAY"}"#), "descriptors[0].limit");
    assert_eq!(server.get("/json").status, 405);
}

/// `curl --data` sends the type of forms, and other clients send none; both used to get a 415.
#[test]
fn a_body_needs_no_content_type() {
    let server = start_with(FILE, &Setup::default());
    let body = r#"{"domain":"test","descriptors":[{"entries":[{"key":"user","value":"a"}]},{}]}"#;
    let types = ["text/plain", "application/x-www-form-urlencoded", "application/json"];
    let types = types.map(|kind| vec![("Content-Type", kind)]);
    for headers in types.iter().chain(&[vec![]]) {
        let answer = server.ask("POST", "/json", headers, body);
        assert_eq!(answer.status, 200, "{headers:?}: {answer:?}");
    }
}

#[test]
fn json_needs_a_token_where_checks_do() {
    let setup = Setup {
        settings: "check_auth: token",
        environment: &[("TOLLGATE_CHECK_TOKEN", CALLER_TOKEN)],
        ..Setup::default()
    };
    let server = start_with(FILE, &setup);
    let body = r#"{"domain":"test","descriptors":[{"entries":[{"key":"user","value":"a"}]}]}"#;
    assert_eq!(server.post("/json", body).status, 401);
    let bearer = format!("Bearer {CALLER_TOKEN}");
    assert_eq!(server.ask("POST", "/json", &[JSON, ("Authorization", &bearer)], body).status, 200);
}
