//! Refusals are logged also if their callers left before the response.

use serde_json::json;
use tollgate_testbed::Redis;

use super::{DECISIONS, OFTEN, brief, put_policy, rule, settled};
use tollgate_e2e::client::{Connection, request};
use tollgate_e2e::grpc::{
    CHECK_BATCH, CHECK_RATE_LIMIT, Client, SHOULD_RATE_LIMIT, request as envoy_request,
};
use tollgate_e2e::server::{AUTHORIZE, CHECK, JSON, Server, Setup};
use tollgate_e2e::until;

const BATCH: &str = "/api/v1/rate-limit/check/batch";

/// They were counted for bans and for their rules, and were not in the log.
#[test]
fn refusals_whose_callers_left_are_logged() {
    let redis = Redis::start();
    let settings = format!(
        "{OFTEN}\nstore_failure: {{deadline: 30s}}\ndeny_cache: 0s\nidentity: {{api_keys: any}}"
    );
    let url = redis.url();
    let arguments = ["--store", &url, "--catalog", "sqlite:tollgate.db"];
    let server =
        Server::start(&Setup { settings: &settings, arguments: &arguments, ..Setup::default() });
    server.await_store();
    let by_key =
        json!({"rule_id": "keys", "limit": 0, "window": "1h", "identifier_type": "api_key"});
    put_policy(&server, &json!({"rules": [rule("users", 0), by_key]}));
    let mut client = Client::of(&server);
    // The methods are known to the client before it has a deadline.
    client.call(CHECK_RATE_LIMIT, &json!({"identifier": "first"}));
    client.should_rate_limit(&envoy_request("other", &[&["user_id=first"]]));
    settled(&server, DECISIONS, 2);

    redis.pause();
    let check = |user: &str| json!({"identifiers": {"user_id": user}});
    let send = |method: &str, path: &str, headers: &[(&str, &str)], body: &str| {
        let mut connection = Connection::open(server.address);
        connection.send(&request(method, path, headers, body.as_bytes())).expect("sent");
        connection
    };
    let own = json!({"domain": "other", "descriptors": [{"entries": [{"key": "user_id", "value": "json"}]}]});
    let mut in_batch = check("batch");
    in_batch["idempotency_key"] = "2".into();
    let callers = [
        send("POST", "/json", &[JSON], &own.to_string()),
        send("GET", AUTHORIZE, &[("X-API-Key", "k"), ("X-Original-URI", "/b")], ""),
        send("POST", CHECK, &[JSON], &check("http").to_string()),
        send("POST", BATCH, &[JSON], &json!({"checks": [in_batch]}).to_string()),
        send("POST", CHECK, &[JSON, ("X-Idempotency-Key", "1")], &check("once").to_string()),
    ];
    // Those that were sent last are being checked.
    until("checks that have begun", || {
        (server.figure("tollgate_idempotency_keys") > 1.5).then_some(())
    });
    drop(callers);
    // Callers of gRPC choose a deadline.
    for (call, message) in [
        (CHECK_RATE_LIMIT, json!({"identifier": "grpc"})),
        (CHECK_BATCH, json!({"checks": [{"identifier": "grpc batch"}]})),
        (SHOULD_RATE_LIMIT, envoy_request("other", &[&["user_id=envoy"]])),
    ] {
        let late = client.ask(&json!({"call": call, "message": message, "timeout": 0.3}));
        assert_eq!(late.expect_err("no response").code, "DEADLINE_EXCEEDED", "{call}");
    }
    let errors = |entry: &str| {
        server.figure(&format!("tollgate_requests_total{{entry=\"{entry}\",outcome=\"error\"}}"))
    };
    let all = [("http", 3.0), ("envoy", 2.0), ("authorize", 1.0), ("grpc", 2.0)];
    until("callers that have left", || {
        all.iter().all(|(entry, left)| errors(entry) >= *left).then_some(())
    });
    redis.resume();

    let kept = settled(&server, DECISIONS, 10);
    let mut clients = brief(&kept, &["client", "action"]);
    clients.sort_unstable();
    #[rustfmt::skip]
    assert_eq!(clients, [
        "batch refused", "envoy refused", "first refused", "first refused", "grpc batch refused", "grpc refused",
        "http refused", "json refused", "once refused", "sha256:8254c329a928 refused",
    ]);
    // Each request is counted once: as an error.
    for (entry, left) in all {
        assert!((errors(entry) - left).abs() < 0.5, "{entry}");
        let refused = format!("tollgate_requests_total{{entry=\"{entry}\",outcome=\"refused\"}}");
        let expected = if ["grpc", "envoy"].contains(&entry) { 1.0 } else { 0.0 };
        assert!((server.figure(&refused) - expected).abs() < 0.5, "{entry}");
    }
}
