//! nginx with `auth_request`, set up as in `examples/nginx.conf`.

use std::fs;
use std::net::SocketAddr;

use serde_json::Value;

use tollgate_e2e::client::Answer;
use tollgate_e2e::nginx::{Nginx, free_address};
use tollgate_e2e::program::{curl_from, root};
use tollgate_e2e::server::{Server, Setup};
use tollgate_e2e::until;
use tollgate_e2e::upstream::Upstream;
use tollgate_testbed::{FaultProxy, free_port};

const RULES: &str = "
rules:
  - {rule_id: per_address, limit: 2, window: 1h, identifier_type: ip, soft: {warn_at: 0.9}}
blacklist: [{identifier_type: ip, identifier: 127.0.0.66}]
";

/// nginx with `examples/nginx.conf`.
struct ExampleSite(Nginx);

impl ExampleSite {
    fn start(address: SocketAddr, tollgate: SocketAddr, upstream: SocketAddr) -> Self {
        Self::changed(address, tollgate, upstream, |example| example)
    }

    /// With what operators may change in it.
    fn changed(
        address: SocketAddr,
        tollgate: SocketAddr,
        upstream: SocketAddr,
        change: impl FnOnce(String) -> String,
    ) -> Self {
        let example = fs::read_to_string(root().join("examples/nginx.conf"));
        let mut example = example.expect("the example");
        for (written, real) in [("8000", address), ("8080", tollgate), ("3000", upstream)] {
            let written = format!("127.0.0.1:{written}");
            assert!(example.contains(&written), "no {written} in the example");
            example = example.replace(&written, &real.to_string());
        }
        Self(Nginx::start(address, &change(example)))
    }

    fn ask(&self, client: &str, path: &str, more: &[&str]) -> Answer {
        curl_from(client, &format!("http://{}{path}", self.0.address), more)
    }
}

/// A refusal that reached a client can be traced.
fn is_known(server: &Server, body: &Value, reason: &str) {
    let id = body["error"]["decision_id"].as_str().expect("the id of the decision");
    let explained = server.get_as_admin(&format!("/api/v1/decisions/{id}")).json();
    assert_eq!(explained["answer"]["reason"], reason, "{explained}");
}

fn check(deny_status: &str, host: &str) {
    let settings = format!(
        "identity: {{trusted_proxies: [127.0.0.1/32]}}\nauthorize: {{deny_status: {deny_status}}}"
    );
    let server =
        Server::start(&Setup { rules: Some(RULES), settings: &settings, ..Setup::default() });
    let upstream = Upstream::start();
    let nginx = ExampleSite::start(free_address(host), server.address, upstream.address);

    for (left, path) in [("1", "/orders?page=1"), ("0", "/orders?page=2")] {
        let answer = nginx.ask("127.0.0.2", path, &[]);
        assert_eq!((answer.status, answer.text().as_str()), (200, "upstream"), "{answer:?}");
        assert_eq!(answer.header("x-ratelimit-limit"), Some("2"));
        assert_eq!(answer.header("x-ratelimit-remaining"), Some(left));
        assert!(answer.header("x-ratelimit-reset").is_some(), "{answer:?}");
        assert!(answer.header("ratelimit").is_some(), "{answer:?}");
        assert_eq!(answer.header("retry-after"), None);
        let warning = (left == "0").then_some("per_address: 0 of 2 left");
        assert_eq!(answer.header("x-ratelimit-warning"), warning);
    }

    // Headers of the client about its address and its request are ignored.
    let lies = ["X-Forwarded-For: 192.0.2.1", "X-Original-URI: /free", "X-Forwarded-Uri: /free"];
    let lies = lies.map(|lie| ["--header", lie]).concat();
    for more in [&[][..], &lies] {
        let answer = nginx.ask("127.0.0.2", "/orders?page=3", more);
        assert_eq!(answer.status, 429, "{answer:?}");
        assert_eq!(answer.header("content-type"), Some("application/problem+json"));
        assert_eq!(answer.header("x-ratelimit-remaining"), Some("0"));
        let left = answer.header("ratelimit").expect("what is left");
        assert!(left.starts_with("\"per_address\";r=0"), "{left}");
        let body = answer.json();
        assert_eq!(body["error"]["code"], "RATE_LIMIT_EXCEEDED");
        assert_eq!(body["status"], 429);
        let wait = body["error"]["retry_after"].as_u64().expect("seconds");
        assert_eq!(answer.header("retry-after"), Some(wait.to_string().as_str()));
        assert_eq!(body["error"]["rule_id"], "per_address");
        is_known(&server, &body, "rate_limited");
    }

    let other = nginx.ask("127.0.0.3", "/orders", &["--request", "DELETE"]);
    assert_eq!(other.status, 200, "another address has its own quota");
    let denied = nginx.ask("127.0.0.66", "/orders", &[]);
    assert_eq!(denied.status, 403, "on the deny list");
    let body = denied.json();
    assert_eq!(body["error"]["code"], "ACCESS_DENIED");
    assert!(body["error"]["rule_id"].is_null(), "{body}");
    is_known(&server, &body, "denied");
    assert_eq!(
        upstream.asked(),
        ["GET /orders?page=1", "GET /orders?page=2", "DELETE /orders"],
        "refused requests do not reach the service"
    );

    // A path that could be read in two ways is the client's fault, not a failure.
    for path in ["/orders%2F7", "/x/..%2forders"] {
        let ambiguous = nginx.ask("127.0.0.5", path, &["--path-as-is"]);
        assert_eq!(ambiguous.status, 400, "{path}: {ambiguous:?}");
        assert_eq!(ambiguous.json()["error"]["code"], "AMBIGUOUS_REQUEST");
    }

    let complaints = nginx.0.log();
    let is_silent = !complaints.contains("unexpected status");
    assert_eq!(is_silent, deny_status == "403", "{complaints}");

    drop(server);
    let unavailable = until("nginx noticing that the server is gone", || {
        Some(nginx.ask("127.0.0.4", "/orders", &[])).filter(|answer| answer.status != 200)
    });
    assert_eq!(unavailable.status, 503, "{unavailable:?}");
}

#[test]
fn a_refusal_with_403_reaches_the_client_as_429() {
    check("403", "127.77.0.1");
}

#[test]
fn a_refusal_with_429_reaches_the_client_as_429() {
    check("429", "127.77.0.2");
}

#[test]
fn refusals_do_not_cost_nginx_a_connection() {
    let settings = "authorize: {deny_status: 403}";
    let server = Server::start(&Setup { rules: Some(RULES), settings, ..Setup::default() });
    let upstream = Upstream::start();
    let relay = FaultProxy::start(server.address);
    let nginx = ExampleSite::start(free_address("127.77.0.3"), relay.address(), upstream.address);
    let statuses: Vec<u16> =
        (0..12).map(|_| nginx.ask("127.0.0.2", "/orders", &[]).status).collect();
    assert_eq!((&statuses[..2], &statuses[2..]), (&[200; 2][..], &[429; 10][..]));
    assert_eq!(relay.accepted(), 1, "one connection for all checks");
}

#[test]
fn nginx_fails_open_with_one_line_of_the_example() {
    let upstream = Upstream::start();
    let nowhere = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let open = |example: String| {
        let line = "#error_page 502 504 = @fail_open;";
        assert!(example.contains(line), "no {line} in the example");
        example.replace(line, &line[1..])
    };
    let address = free_address("127.77.0.4");
    let nginx = ExampleSite::changed(address, nowhere, upstream.address, open);
    assert_eq!(nginx.ask("127.0.0.2", "/orders", &[]).status, 200);
    assert_eq!(upstream.asked(), ["GET /orders"]);
    // It fails closed without it.
    let address = free_address("127.77.0.5");
    let nginx = ExampleSite::start(address, nowhere, upstream.address);
    assert_eq!(nginx.ask("127.0.0.2", "/orders", &[]).status, 503);
    assert_eq!(upstream.asked(), ["GET /orders"]);
}
