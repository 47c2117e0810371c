//! Requests are counted once each, by entry and outcome, whatever the number of rules.

use std::net::SocketAddr;

use serde_json::{Value, json};
use tollgate_testbed::Redis;

use crate::value;
use tollgate_e2e::client::{Connection, request};
use tollgate_e2e::grpc::{CHECK_BATCH, CHECK_RATE_LIMIT, Client, request as envoy_request};
use tollgate_e2e::server::{AUTHORIZE, CHECK, JSON, Server, Setup};
use tollgate_e2e::until;
use tollgate_e2e::upstream::Upstream;

/// Two rules apply to every user, so figures by rule are not figures of requests.
const RULES: &str = "
rules:
  - {rule_id: per_user, limit: 2, window: 300d, identifier_type: user_id, algorithm: fixed_window}
  - {rule_id: again, limit: 1000, window: 300d, identifier_type: user_id, algorithm: fixed_window}
  - {rule_id: per_ip, limit: 2, window: 300d, identifier_type: ip, algorithm: fixed_window}
  - rule_id: queue
    limit: 1
    window: 1h
    algorithm: leaky_bucket
    burst: 3
    identifier_type: tenant
    action: throttle
    throttle: {max_delay_ms: 31622400000}
whitelist: [{identifier_type: user_id, identifier: root}]
blacklist: [{identifier_type: user_id, identifier: mallory}]
";
const OUTCOMES: [&str; 6] = ["allowed", "refused", "denied", "throttled", "unlimited", "error"];

fn start(arguments: &[&str]) -> Server {
    let settings = "identity: {trusted_proxies: [127.0.0.1/32]}";
    Server::start(&Setup { rules: Some(RULES), settings, arguments, ..Setup::default() })
}

/// The counts of an entry, in the order of [`OUTCOMES`].
fn counts(server: &Server, entry: &str) -> [u64; 6] {
    OUTCOMES.map(|outcome| {
        let labels = format!("entry=\"{entry}\",outcome=\"{outcome}\"");
        value(server, &format!("tollgate_requests_total{{{labels}}}")) as u64
    })
}

/// One entry counts what is expected, and no other entry counts anything.
fn assert_counted(server: &Server, entry: &str, expected: [u64; 6]) {
    for known in ["http", "grpc", "envoy", "authorize", "gateway"] {
        let expected = if known == entry { expected } else { [0; 6] };
        assert_eq!(counts(server, known), expected, "{known}: {OUTCOMES:?}");
    }
}

fn user(name: &str) -> String {
    json!({"identifiers": {"user_id": name}}).to_string()
}

#[test]
fn checks_over_http() {
    let server = start(&[]);
    assert_counted(&server, "http", [0; 6]);
    for name in ["ann", "ann", "ann", "mallory", "root"] {
        server.check(&user(name));
    }
    let tenant = json!({"identifiers": {"tenant": "acme"}}).to_string();
    server.check(&tenant);
    server.check(&tenant);
    server.check("{}");
    assert_eq!(server.post(CHECK, "{").status, 400);
    assert_eq!(server.post(CHECK, r#"{"rule_id":"nothing"}"#).status, 404);
    assert_counted(&server, "http", [3, 1, 1, 1, 2, 2]);

    // Peeks are not requests, and a repeated call is the same request.
    server.check(r#"{"identifiers":{"user_id":"bob"},"cost":0}"#);
    server.post("/api/v1/rate-limit/peek", &user("bob"));
    let key = ("X-Idempotency-Key", "once");
    for _ in 0..2 {
        assert_eq!(server.ask("POST", CHECK, &[JSON, key], &user("bob")).status, 200);
    }
    assert_counted(&server, "http", [4, 1, 1, 1, 2, 2]);

    // Of a batch, each check is a request.
    let checks = json!({"checks": [
        {"identifiers": {"user_id": "eve"}},
        {"identifiers": {"user_id": "eve"}},
        {"identifiers": {"user_id": "eve"}},
        {"identifiers": {"user_id": "eve"}, "cost": 0},
        {"identifiers": {"user_id": "dan"}, "idempotency_key": "once"},
    ]});
    let answer = server.post("/api/v1/rate-limit/check/batch", &checks.to_string());
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(answer.json()["results"][4]["error"].is_object(), "the key is bob's: {answer:?}");
    assert_counted(&server, "http", [6, 2, 1, 1, 2, 3]);
}

#[test]
fn totals_of_the_statistics_are_requests() {
    let server = start(&[]);
    for name in ["ann", "ann", "ann", "mallory", "root"] {
        server.check(&user(name));
    }
    let stats = server.get_as_admin("/api/v1/stats").json();
    let expected = json!({"requests": 5, "allowed": 2, "refused": 1, "denied": 1, "throttled": 0,
        "unlimited": 1, "error": 0, "degraded": 0});
    assert_eq!(stats["totals"], expected);
    assert_eq!(stats["bans"], json!({"in_force": 0, "made": 0, "not_made": 0}));
    assert_eq!(stats["rules"][0]["banned"], 0);
}

#[test]
fn bans_are_in_the_statistics() {
    let rule = "{rule_id: login, limit: 1, window: 300d, identifier_type: user_id, \
                penalty: {after: 1, within_seconds: 600, ban_seconds: 600}}";
    let server = Server::with_rules(&format!("rules: [{rule}]"));
    server.check(&user("ann"));
    let stats = until("a ban", || {
        server.check(&user("ann"));
        let stats = server.get_as_admin("/api/v1/stats").json();
        (stats["rules"][0]["banned"].as_u64() > Some(0)).then_some(stats)
    });
    assert_eq!(stats["bans"], json!({"in_force": 1, "made": 1, "not_made": 0}));
    assert_eq!(stats["totals"]["denied"], stats["rules"][0]["banned"]);
}

#[test]
fn checks_over_grpc() {
    let server = start(&[]);
    let mut client = Client::of(&server);
    let check = |name: &str| json!({"identifier": name});
    for name in ["ann", "ann", "ann", "mallory", "root"] {
        client.call(CHECK_RATE_LIMIT, &check(name));
    }
    let tenant = json!({"identifier": "acme", "dimension": "tenant"});
    client.call(CHECK_RATE_LIMIT, &tenant);
    client.call(CHECK_RATE_LIMIT, &tenant);
    client.fail(CHECK_RATE_LIMIT, &json!({"identifier": "x", "dimension": "banana"}));
    client.call(CHECK_RATE_LIMIT, &json!({"identifier": "bob", "cost": "0"}));
    assert_counted(&server, "grpc", [3, 1, 1, 1, 1, 1]);
    client.call(CHECK_BATCH, &json!({"checks": [check("bob"), check("bob"), check("bob")]}));
    client.fail(CHECK_BATCH, &json!({"checks": []}));
    assert_counted(&server, "grpc", [5, 2, 1, 1, 1, 2]);
}

#[test]
fn requests_of_envoy() {
    let server = start(&[]);
    let mut client = Client::of(&server);
    for entry in ["user=ann", "user=ann", "user=ann", "user=mallory", "user=root", "other=x"] {
        client.should_rate_limit(&envoy_request("any", &[&[entry]]));
    }
    let tenant = envoy_request("any", &[&["tenant=acme"]]);
    client.should_rate_limit(&tenant);
    client.should_rate_limit(&tenant);
    // Several descriptors are one request.
    client.should_rate_limit(&envoy_request("any", &[&["user=bob"], &["user=eve"]]));
    client.should_rate_limit(&envoy_request("any", &[&["user=bob"], &["user=ann"]]));
    assert_counted(&server, "envoy", [4, 2, 1, 1, 2, 0]);
    client.fail("envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", &json!({}));
    let too_large = envoy_request("any", &[&[&format!("user={}", "x".repeat(5 << 20))]]);
    assert_eq!(client.should_rate_limit(&too_large)["overall_code"], "OVER_LIMIT");
    // As JSON.
    let body = |name: &str| {
        let descriptor = json!({"entries": [{"key": "user", "value": name}]});
        json!({"domain": "any", "descriptors": [descriptor]}).to_string()
    };
    assert_eq!(server.post("/json", &body("dan")).status, 200);
    assert_eq!(server.post("/json", &body("ann")).status, 429);
    assert_ne!(server.post("/json", "{}").status, 200);
    assert_counted(&server, "envoy", [5, 3, 1, 1, 2, 3]);
}

#[test]
fn forward_auth() {
    let server = start(&[]);
    let ask = |client: &str| {
        let fields = [("X-Forwarded-For", client), ("X-Original-URI", "/")];
        server.ask("GET", AUTHORIZE, &fields, "").status
    };
    assert_eq!([(); 3].map(|()| ask("192.0.2.1")), [200, 200, 429]);
    assert_eq!(server.get(AUTHORIZE).status, 400, "nothing describes the request");
    assert_counted(&server, "authorize", [2, 1, 0, 0, 0, 1]);
}

/// Where the gateway of a server listens.
fn gateway_of(server: &Server) -> SocketAddr {
    let said = server.process.output();
    let line = said.lines().find_map(|line| line.strip_prefix("gateway ")).expect("a gateway");
    let url = line.split_whitespace().next().expect("a URL");
    url.rsplit('/').next().and_then(|address| address.parse().ok()).expect("an address")
}

#[test]
fn requests_through_the_gateway() {
    let upstream = Upstream::start();
    let upstream = format!("http://{}", upstream.address);
    let server = start(&["--gateway", "127.0.0.1:0", "--upstream", &upstream]);
    let mut connection = Connection::open(gateway_of(&server));
    let mut ask =
        |fields: &[(&str, &str)]| connection.ask(&request("GET", "/", fields, b"")).status;
    let client = [("X-Forwarded-For", "192.0.2.1")];
    assert_eq!([(); 3].map(|()| ask(&client)), [200, 200, 429]);
    let two_keys = [("X-API-Key", "one"), ("X-API-Key", "two")];
    assert_eq!(ask(&two_keys), 400, "an ambiguous credential");
    assert_counted(&server, "gateway", [2, 1, 0, 0, 0, 1]);
}

#[test]
fn a_store_that_is_unavailable_is_an_error_where_a_rule_fails_closed() {
    let rules = "rules:\n  - {rule_id: closed, limit: 9, window: 1h, identifier_type: user_id, \
                 on_store_failure: closed}\n";
    // Nothing listens there.
    let arguments = ["--store", "redis://127.0.0.1:1"];
    let setup = Setup { rules: Some(rules), arguments: &arguments, ..Setup::default() };
    let server = Server::start(&setup);
    let answer: Value = server.check(&user("ann"));
    assert_eq!(answer["reason"], "store_unavailable", "{answer}");
    assert_counted(&server, "http", [0, 0, 0, 0, 0, 1]);
}

/// Requests whose callers left before the decision were once not counted.
#[test]
fn a_caller_that_leaves_is_an_error() {
    let redis = Redis::start();
    let settings = "store_failure: {deadline: 30s}";
    let url = redis.url();
    let arguments = ["--store", &url];
    let server = Server::start(&Setup {
        rules: Some(RULES),
        settings,
        arguments: &arguments,
        ..Setup::default()
    });
    server.await_store();
    server.check(&user("ann"));
    redis.pause();
    let mut connection = Connection::open(server.address);
    let (body, asking) = (user("ann"), ("Expect", "100-continue"));
    let sent = request("POST", CHECK, &[JSON, asking], body.as_bytes());
    let (head, body) = sent.split_at(sent.len() - body.len());
    connection.send(head).expect("sent");
    // A caller that leaves before its request is read made none.
    connection.read_until(b"100 Continue\r\n\r\n");
    connection.send(body).expect("sent");
    drop(connection);
    until("a request that counts as an error", || {
        (counts(&server, "http") == [1, 0, 0, 0, 0, 1]).then_some(())
    });
    redis.resume();
}
