//! `unmatched: deny`: requests that no rule applies to are refused, at every entry point of the server.

use serde_json::{Value, json};

use tollgate_e2e::grpc::{CHECK_RATE_LIMIT, Client, request};
use tollgate_e2e::server::{AUTHORIZE, Server, Setup};

const RULES: &str = "
rules:
  - {rule_id: orders, limit: 100, window: 1h, identifier_type: ip, applies_to: {endpoints: [/orders]}}
  - {rule_id: off, limit: 1, window: 1h, identifier_type: global, enabled: false}
whitelist: [{identifier_type: user_id, identifier: root}]
";

fn start(settings: &str) -> Server {
    Server::start(&Setup { rules: Some(RULES), settings, ..Setup::default() })
}

fn body(endpoint: &str) -> String {
    json!({"identifiers": {"ip": "192.0.2.1"}, "endpoint": endpoint}).to_string()
}

#[test]
fn the_check_api_says_why() {
    for (settings, is_allowed) in
        [("", true), ("unmatched: allow", true), ("unmatched: deny", false)]
    {
        let server = start(settings);
        assert_eq!(server.check(&body("/orders"))["allowed"], true, "{settings}");
        let other = server.check(&body("/other"));
        assert_eq!(other["allowed"], is_allowed, "{settings}: {other}");
        let batch = format!("{{\"checks\":[{},{}]}}", body("/orders"), body("/other"));
        let batch = server.post("/api/v1/rate-limit/check/batch", &batch).json();
        let allowed: Vec<&Value> =
            batch["results"].as_array().expect("results").iter().map(|it| &it["allowed"]).collect();
        assert_eq!(allowed, [&json!(true), &json!(is_allowed)], "{settings}: {batch}");
        let explained = server.post("/api/v1/rate-limit/explain", &body("/other")).json();
        assert_eq!(explained["would_pass"], is_allowed, "{settings}: {explained}");
        let outcome = if is_allowed { "unlimited" } else { "denied" };
        let count = format!("tollgate_requests_total{{entry=\"http\",outcome=\"{outcome}\"}}");
        assert!(server.figure(&count) >= 2.0, "{settings}: {count}");
        if is_allowed {
            continue;
        }
        assert_eq!((&other["reason"], &other["rule_id"]), (&json!("denied"), &Value::Null));
        assert_eq!(other["because"], "no rule applies, and unmatched is deny");
        let id = other["decision_id"].as_str().expect("a refusal has an id");
        let why = server.get_as_admin(&format!("/api/v1/decisions/{id}")).json();
        assert_eq!(why["because"], "no rule applied, and unmatched is deny", "{why}");
        // The caller chose the rule, or the client is never limited.
        let by_rule = r#"{"identifiers":{"ip":"192.0.2.1"},"rule_id":"off"}"#;
        assert_eq!(server.check(by_rule)["allowed"], true);
        let listed = r#"{"identifiers":{"user_id":"root"},"endpoint":"/other"}"#;
        assert_eq!(server.check(listed)["allowed"], true);
        // Without an endpoint, the status of a client says nothing about its requests.
        let status = server.get("/api/v1/rate-limits/status").json();
        assert_eq!(status.get("denied"), None, "{status}");
        let status = server.get("/api/v1/rate-limits/status?endpoint=/other").json();
        assert_eq!(status["denied"], true, "{status}");
    }
}

#[test]
fn forward_auth_and_grpc_deny_too() {
    let server = start("unmatched: deny");
    let ask = |path: &str| server.ask("GET", AUTHORIZE, &[("X-Original-URI", path)], "");
    assert_eq!(ask("/orders").status, 200);
    let refused = ask("/other");
    assert_eq!((refused.status, refused.header("retry-after")), (403, None), "{refused:?}");
    let error = &refused.json()["error"];
    assert_eq!(error["code"], "ACCESS_DENIED");
    assert_eq!(
        error["message"],
        "No rule applies to this request, and such requests are refused here."
    );
    let mut client = Client::of(&server);
    let mut check = |endpoint: &str| {
        let message = json!({"identifier": "192.0.2.1", "dimension": "ip", "endpoint": endpoint});
        client.call(CHECK_RATE_LIMIT, &message)["allowed"].clone()
    };
    assert_eq!((check("/orders"), check("/other")), (json!(true), json!(false)));
}

#[test]
fn envoy_gets_over_limit() {
    let folder = tempfile::tempdir().expect("a folder");
    let file =
        "{domain: test, descriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: 9}},
                 {key: open, rate_limit: {unlimited: true}}]}";
    std::fs::create_dir(folder.path().join("ratelimit")).expect("a directory");
    std::fs::write(folder.path().join("ratelimit/test.yaml"), file).expect("written");
    let path = folder.path().join("ratelimit");
    let arguments = ["--envoy-config", path.to_str().expect("a readable path")];
    let setup = Setup {
        rules: Some(RULES),
        settings: "unmatched: deny",
        arguments: &arguments,
        ..Setup::default()
    };
    let server = Server::start(&setup);
    let mut client = Client::of(&server);
    let mut check = |domain: &str, descriptors: &[&[&str]], expected: &str| {
        let answer = client.should_rate_limit(&request(domain, descriptors));
        assert_eq!(answer["overall_code"], expected, "{domain} {descriptors:?}: {answer}");
        let codes = answer["statuses"].as_array().expect("statuses").iter();
        assert!(codes.clone().all(|status| status["code"] == expected), "{answer}");
    };
    // A domain of the files, and one that the rules are for.
    check("test", &[&["user=u"]], "OK");
    check("test", &[&["open=u"]], "OK");
    check("test", &[&["other=u"], &["user=u"]], "OK");
    check("test", &[&["other=u"], &["another=u"]], "OVER_LIMIT");
    check("own", &[&["remote_address=192.0.2.1", "path=/orders"]], "OK");
    check("own", &[&["remote_address=192.0.2.1", "path=/other"]], "OVER_LIMIT");
}
