//! Forward-auth as Traefik and Caddy do it: they pass every response but 2xx on as it is.

use tollgate_e2e::client::Answer;
use tollgate_e2e::server::{AUTHORIZE, Server, Setup};

const RULES: &str = "
rules:
  - rule_id: orders
    limit: 2
    window: 1h
    identifier_type: ip
    applies_to: {hosts: [shop.example], endpoints: [/orders/*], methods: [PUT]}
";

fn check(client: &str, headers: &[(&str, &str)]) {
    let server = Server::start(&Setup {
        rules: Some(RULES),
        settings: "identity: {trusted_proxies: [127.0.0.1/32]}",
        ..Setup::default()
    });
    let own = [("X-Forwarded-For", client)];
    let ask = |more: &[(&str, &str)]| -> Answer {
        server.ask("GET", AUTHORIZE, &[&own, headers, more].concat(), "")
    };
    for left in ["1", "0"] {
        let allowed = ask(&[]);
        assert_eq!((allowed.status, allowed.text().as_str()), (200, ""), "{allowed:?}");
        assert_eq!(allowed.header("x-ratelimit-remaining"), Some(left));
        assert!(allowed.header("ratelimit").is_some(), "{allowed:?}");
    }
    let refused = ask(&[]);
    assert_eq!(refused.status, 429);
    assert_eq!(refused.header("content-type"), Some("application/problem+json"));
    assert_eq!(refused.header("x-ratelimit-remaining"), Some("0"));
    let wait: u64 = refused.header("retry-after").and_then(|wait| wait.parse().ok()).expect("wait");
    assert!((1..=2 * 3600).contains(&wait), "{wait}");
    let body = refused.json();
    assert_eq!(body["error"]["rule_id"], "orders");
    // Also where a proxy drops the body.
    assert_eq!(refused.header("x-tollgate-decision"), body["error"]["decision_id"].as_str());
    assert_eq!(refused.header("x-tollgate-rule"), Some("orders"));
    assert_eq!(body["violated-policies"], serde_json::json!(["orders"]));

    // The client cannot repeat a call for free: idempotency keys are for callers of the check API.
    assert_eq!(ask(&[("X-Idempotency-Key", "again")]).status, 429);
    let other = [("X-Forwarded-For", "198.51.100.7")];
    let other = server.ask("GET", AUTHORIZE, &[&other, headers].concat(), "");
    assert_eq!(other.status, 200, "another client has its own quota");
}

#[test]
fn traefik_gets_200_and_then_429() {
    check(
        "203.0.113.9",
        &[
            ("X-Forwarded-Method", "PUT"),
            ("X-Forwarded-Proto", "https"),
            ("X-Forwarded-Host", "shop.example"),
            ("X-Forwarded-Uri", "/orders/7?express=1"),
            ("X-Forwarded-Port", "443"),
            ("X-Forwarded-Server", "traefik-0"),
            ("X-Real-Ip", "203.0.113.9"),
            ("Accept-Encoding", "gzip"),
            ("User-Agent", "curl/8"),
        ],
    );
}

#[test]
fn caddy_gets_200_and_then_429() {
    check(
        "203.0.113.9",
        &[
            ("X-Forwarded-Method", "PUT"),
            ("X-Forwarded-Proto", "https"),
            ("X-Forwarded-Host", "shop.example"),
            ("X-Forwarded-Uri", "/orders/7"),
            ("Via", "1.1 Caddy"),
        ],
    );
}

/// nginx passes only 401 and 403 on; other proxies of the same server get the real status.
#[test]
fn a_service_chooses_its_refusals_and_each_proxy_its_status() {
    let server = Server::start(&Setup {
        rules: Some("rules: [{rule_id: all, limit: 0, window: 1h, identifier_type: global}]"),
        settings: "refusal: {status: 503, content_type: text/plain, body: 'rule {rule_id} has {remaining} left'}",
        ..Setup::default()
    });
    let ask = |query: &str| {
        server.ask("GET", &format!("{AUTHORIZE}{query}"), &[("X-Original-URI", "/orders")], "")
    };
    for (query, status, real) in
        [("", 503, None), ("?deny_status=403", 403, Some("503")), ("?deny_status=429", 503, None)]
    {
        let refused = ask(query);
        assert_eq!((refused.status, refused.text().as_str()), (status, "rule all has 0 left"));
        assert_eq!(refused.header("content-type"), Some("text/plain"), "{refused:?}");
        assert_eq!(refused.header("x-tollgate-status"), real, "{refused:?}");
        assert_eq!(refused.header("x-content-type-options"), Some("nosniff"), "{refused:?}");
        assert_eq!(refused.header("content-security-policy"), Some("sandbox"), "{refused:?}");
    }
    let wrong = ask("?deny_status=200");
    assert_eq!((wrong.status, &wrong.json()["code"]), (400, &serde_json::json!("invalid_query")));
    // Behind a longer path, the query is the client's.
    let path = format!("{AUTHORIZE}/orders?deny_status=403");
    assert_eq!(server.ask("GET", &path, &[], "").status, 503);
}
