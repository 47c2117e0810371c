//! Envoy with `ext_authz`: over HTTP, set up as in `examples/envoy-ext-authz.yaml`, and over gRPC, as in
//! `examples/envoy-ext-authz-grpc.yaml`.

use serde_json::json;
use tollgate_e2e::client::{Connection, request};
use tollgate_e2e::envoy::Envoy;
use tollgate_e2e::grpc::{AUTHORIZE, Client};
use tollgate_e2e::server::{Server, Setup};
use tollgate_e2e::upstream::Upstream;

const RULES: &str = "
rules:
  - {rule_id: per_address, limit: 3, window: 1h, identifier_type: ip}
  - rule_id: login
    limit: 1
    window: 1h
    identifier_type: ip
    applies_to: {endpoints: [/login], methods: [POST]}
";

#[test]
fn requests_pass_until_they_are_refused_with_429() {
    check(|server, upstream| {
        let ports =
            [("8000", 0), ("8080", server.address.port()), ("3000", upstream.address.port())];
        Envoy::start("envoy-ext-authz.yaml", &ports)
    });
}

#[test]
fn requests_are_refused_with_429_over_grpc_too() {
    check(|server, upstream| {
        let ports =
            [("8000", 0), ("8081", server.grpc_address.port()), ("3000", upstream.address.port())];
        let changes = [("timeout: 0.25s", "timeout: 10s")];
        Envoy::start_with("envoy-ext-authz-grpc.yaml", &ports, &changes)
    });
}

fn check(start: impl Fn(&Server, &Upstream) -> Envoy) {
    let server = Server::start(&Setup {
        rules: Some(RULES),
        settings: "identity: {trusted_proxies: [127.0.0.1/32]}",
        ..Setup::default()
    });
    let upstream = Upstream::start();
    let envoy = start(&server, &upstream);

    for (left, path) in [("2", "/orders?page=1"), ("1", "/orders?page=2"), ("0", "/")] {
        let answer = envoy.ask("127.0.0.2", path, &[]);
        assert_eq!((answer.status, answer.text().as_str()), (200, "upstream"), "{answer:?}");
        assert_eq!(answer.header("x-ratelimit-limit"), Some("3"));
        assert_eq!(answer.header("x-ratelimit-remaining"), Some(left));
        assert!(answer.header("ratelimit").is_some(), "{answer:?}");
    }

    // Headers of the client about its address and its request are ignored.
    let lies = ["X-Forwarded-For: 192.0.2.1", "X-Original-URI: /free", "X-Forwarded-Uri: /free"];
    let lies = lies.map(|lie| ["--header", lie]).concat();
    for more in [&[][..], &lies] {
        let answer = envoy.ask("127.0.0.2", "/orders", more);
        assert_eq!(answer.status, 429, "{answer:?}");
        assert_eq!(answer.header("content-type"), Some("application/problem+json"));
        assert_eq!(answer.header("x-ratelimit-remaining"), Some("0"));
        assert!(answer.header("retry-after").is_some(), "{answer:?}");
        let left = answer.header("ratelimit").expect("what is left");
        assert!(left.starts_with("\"per_address\";r=0"), "{left}");
        let body = answer.json();
        assert_eq!(body["error"]["code"], "RATE_LIMIT_EXCEEDED");
        assert_eq!(body["error"]["rule_id"], "per_address");
    }

    // Method and path reach the rules, in any spelling of the path.
    let login = ["--request", "POST", "--path-as-is"];
    assert_eq!(envoy.ask("127.0.0.3", "/login?next=/", &login).status, 200);
    assert_eq!(envoy.ask("127.0.0.3", "/a/../login", &login).status, 400, "two ways to read it");
    let refused = envoy.ask("127.0.0.3", "/%6cogin;x=1", &login);
    assert_eq!(refused.status, 429, "{refused:?}");
    assert_eq!(refused.json()["error"]["rule_id"], "login");
    assert_eq!(envoy.ask("127.0.0.3", "/login", &[]).status, 200, "only POST is limited");
    assert_eq!(
        upstream.asked(),
        ["GET /orders?page=1", "GET /orders?page=2", "GET /", "POST /login?next=/", "GET /login"],
        "refused requests do not reach the service"
    );
}

/// With `failure_mode_allow`, a check that fails lets its request pass.
#[test]
fn a_client_cannot_switch_limits_off_by_what_it_sends() {
    const TIMES: usize = 20;
    let server = Server::start(&Setup {
        rules: Some(RULES),
        settings: "identity: {trusted_proxies: [127.0.0.1/32]}",
        ..Setup::default()
    });
    let upstream = Upstream::start();
    let ports = [("8000", 0), ("8080", server.address.port()), ("3000", upstream.address.port())];
    let open = "failure_mode_allow: true\n                      http_service:";
    let changes = [("timeout: 0.25s", "timeout: 10s"), ("http_service:", open)];
    let envoy = Envoy::start_with("envoy-ext-authz.yaml", &ports, &changes);
    let mut connection = Connection::open(envoy.address);
    for _ in 0..3 {
        assert_eq!(connection.ask(&request("GET", "/", &[], b"")).status, 200);
    }
    let mut check = |what: &str, bytes: &[u8]| {
        for _ in 0..TIMES {
            let answer = connection.ask(bytes);
            assert_eq!(answer.status, 429, "{what}: {answer:?}");
        }
    };
    let long = "x".repeat(58_000);
    check("a path of 9,000 bytes", &request("GET", &format!("/?{}", &long[..9_000]), &[], b""));
    check("the longest path", &request("GET", &format!("/?{long}"), &[], b""));
    check("a long key", &request("GET", "/", &[("X-API-Key", &long)], b""));
    check("a long token", &request("GET", "/", &[("Authorization", &long)], b""));
    for byte in [0xff, 0xc3, 0x80] {
        let mut bytes = request("GET", "/", &[("X-API-Key", "a?b")], b"");
        let place = bytes.iter().rposition(|byte| *byte == b'?').expect("the place");
        bytes[place] = byte;
        check("a byte that is not UTF-8", &bytes);
    }
}

#[test]
fn a_message_has_the_status_and_the_metadata_of_a_decision() {
    let server = Server::with_rules(RULES);
    let mut client = Client::of(&server);
    let failure = client.fail(AUTHORIZE, &json!({"attributes": {}}));
    assert_eq!(failure.code, "INVALID_ARGUMENT");
    assert!(failure.detail.contains("attributes.request.http"), "{failure:?}");
    let login =
        json!({"method": "POST", "path": "/login?x", "headers": {":path": "/free", "a": "b"}});
    let login = json!({"attributes": {"request": {"http": login}}});
    let first = client.call(AUTHORIZE, &login);
    assert_eq!(first["status"]["code"], 0, "{first}");
    assert!(first["ok_response"]["response_headers_to_add"].is_array(), "{first}");
    let refused = client.call(AUTHORIZE, &login);
    assert_eq!(refused["status"]["code"], 7, "{refused}");
    assert_eq!(refused["denied_response"]["status"]["code"], 429, "{refused}");
    let metadata = &refused["dynamic_metadata"];
    assert_eq!(metadata["rule_id"], "login", "{refused}");
    let body = refused["denied_response"]["body"].as_str().expect("a body");
    assert!(body.contains(metadata["decision_id"].as_str().expect("an id")), "{body}");
    // What is ambiguous is refused as over HTTP.
    let twice = json!({"attributes": {"request": {"http": {"method": "GET", "path": "//login"}}}});
    let ambiguous = client.call(AUTHORIZE, &twice);
    assert_eq!(ambiguous["denied_response"]["status"]["code"], 400, "{ambiguous}");
}
