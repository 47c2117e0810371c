//! A changed rule, tried on the requests that were made.

use serde_json::{Value, json};
use tollgate_e2e::client::{Answer, request};
use tollgate_e2e::server::{JSON, Server, bearer_admin};
use tollgate_e2e::until;

use super::{check, rule, start};

fn preview(server: &Server, body: &Value) -> Answer {
    server.post_as_admin("/api/v1/preview", &body.to_string())
}

/// Requests and refusals: all, now, then.
fn brief(answer: &Value) -> [u64; 3] {
    let number = |value: &Value| value.as_u64().expect("a number");
    [
        number(&answer["requests"]),
        number(&answer["now"]["refused"]),
        number(&answer["then"]["refused"]),
    ]
}

/// A hundred bodies of 16 MB once waited for their last bytes at the same time.
#[test]
fn a_caller_has_few_previews_in_progress() {
    let server = start("", &json!([rule("few", 5)]));
    let mut unfinished = Vec::new();
    until("all places to be taken", || {
        let fields = [JSON, bearer_admin()];
        let whole = request("POST", "/api/v1/preview", &fields, &[b' '; 100_000]);
        let mut connection = server.connect();
        // One more may have been refused already, and its connection closed.
        let _ = connection.send(&whole[..whole.len() - 1]);
        unfinished.push(connection);
        let answer = preview(&server, &json!({"rule": rule("few", 1)}));
        (answer.status == 429).then_some(())
    });
    drop(unfinished);
    until("places again", || {
        let answer = preview(&server, &json!({"rule": rule("few", 1)}));
        (answer.status == 200).then_some(())
    });
}

#[test]
fn a_changed_rule_is_tried_on_a_known_history() {
    let server = start("", &json!([rule("few", 5)]));
    check(&server, None, &[("ann", 20), ("bob", 4), ("eve", 1)]);
    check(&server, None, &[("bob", 3)]);
    for (name, expected) in [
        ("tollgate_recent_traffic_requests", 28.0..29.0),
        ("tollgate_recent_traffic_bytes", 28.0..1e6),
        ("tollgate_recent_traffic_span_seconds", 1e-6..600.0),
        ("tollgate_recent_traffic_one_in", 1.0..2.0),
        ("tollgate_recent_traffic_lost_total", 0.0..1.0),
    ] {
        let figure = server.figure(name);
        assert!(expected.contains(&figure), "{name} {figure}");
    }
    let expect = |body: &Value, expected: [u64; 3]| {
        let answer = preview(&server, body);
        assert_eq!(answer.status, 200, "{body}: {answer:?}");
        assert_eq!(brief(&answer.json()), expected, "{body}");
        answer.json()
    };
    // 20 and 7 requests: beyond 5 there are 15 and 2.
    let tighter = expect(&json!({"rule": rule("few", 2)}), [28, 17, 23]);
    assert_eq!((&tighter["now"]["clients"], &tighter["then"]["clients"]), (&json!(2), &json!(2)));
    let [bob, ann] = tighter["clients"].as_array().expect("a list").as_slice() else {
        panic!("{tighter}");
    };
    // Both change by 3; the one with more refusals comes first.
    assert_eq!(
        (&bob["client"], &bob["refused_now"], &bob["refused_then"]),
        (&json!("ann"), &json!(15), &json!(18))
    );
    assert_eq!((&ann["client"], &ann["requests"]), (&json!("bob"), &json!(7)));
    assert_eq!((&tighter["one_in"], &tighter["cut"]), (&json!(1), &json!(false)));
    let points = tighter["points"].as_array().expect("points");
    let replayed: u64 = points.iter().filter_map(|point| point["requests"].as_u64()).sum();
    assert_eq!(replayed, 28);
    expect(&json!({"rule": rule("few", 100)}), [28, 17, 0]);
    expect(&json!({"rule": rule("another", 1)}), [28, 17, 25]);
    expect(&json!({"remove": ["few"]}), [28, 17, 0]);
    expect(
        &json!({"policy": {"rules": [rule("few", 100)],
        "blacklist": [{"identifier_type": "user_id", "identifier": "eve"}]}}),
        [28, 17, 1],
    );
    // Nothing was changed or charged by all this.
    let left = server.check(r#"{"identifiers":{"user_id":"eve"}}"#);
    assert_eq!(left["remaining"], 3, "{left}");
}

#[test]
fn what_cannot_be_tried_is_refused_with_a_reason() {
    let server = start("", &json!([rule("few", 5)]));
    for (body, status, code) in [
        (json!({}), 422, "invalid_document"),
        (json!({"rule": {"rule_id": "few", "limit": -1}}), 422, "invalid_document"),
        (json!({"remove": ["nope"]}), 404, "unknown_rule"),
        (json!({"rules": []}), 400, "invalid_body"),
    ] {
        let answer = preview(&server, &body);
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{body}: {answer:?}");
    }
    let answer = preview(&server, &json!({"rule": rule("few", 1)})).json();
    assert_eq!((brief(&answer), &answer["from"]), ([0, 0, 0], &Value::Null), "no requests yet");
}

#[test]
fn requests_are_not_kept_if_that_is_turned_off() {
    let server = start("recent_traffic: 0", &json!([rule("few", 5)]));
    check(&server, None, &[("ann", 20)]);
    let answer = preview(&server, &json!({"rule": rule("few", 1)}));
    assert_eq!((answer.status, answer.code().as_str()), (404, "no_recent_traffic"), "{answer:?}");
    assert!(server.figure("tollgate_recent_traffic_bytes") < 0.5);
}

#[test]
fn headers_are_kept_if_rules_refer_to_them() {
    let by_header = |limit: u64| {
        json!({"rule_id": "devices", "limit": limit, "window": "300d",
        "identifier_type": "header:x-device"})
    };
    let server = start("", &json!([by_header(5)]));
    for device in ["a", "b"] {
        let body = json!({"attributes": {"header:x-device": device}}).to_string();
        (0..4).for_each(|_| drop(server.check(&body)));
    }
    let answer = preview(&server, &json!({"rule": by_header(3)})).json();
    assert_eq!(brief(&answer), [8, 0, 2]);
    assert_eq!(answer["clients"].as_array().map(Vec::len), Some(2), "{answer}");
    let text = answer["clients"].to_string();
    assert!(text.contains("sha256:") && !text.contains("\"a\""), "{text}");
    let other = json!({"rule": {"rule_id": "regions", "limit": 1, "window": "1h", "identifier_type": "header:x-region"}});
    assert_eq!(preview(&server, &other).json()["unknown"], json!(["header:x-region"]));
}
