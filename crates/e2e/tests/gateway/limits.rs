//! Limits on requests through the gateway.

use std::process::Command;

use crate::gateway::Gateway;
use crate::upstream::Upstream;
use tollgate_e2e::client::Answer;
use tollgate_e2e::program::curl_from;
use tollgate_e2e::until;

#[test]
fn a_limit_is_enforced_and_reported() {
    let upstream = Upstream::start();
    let rules = "rules: [{rule_id: per_address, limit: 2, window: 1h, identifier_type: ip}]";
    let gateway = Gateway::with_rules(rules, upstream.address);
    for left in ["1", "0"] {
        let answer = gateway.get("/");
        assert_eq!((answer.status, answer.header("x-ratelimit-remaining")), (200, Some(left)));
    }
    let refused = gateway.get("/");
    assert_eq!((refused.status, refused.header("x-ratelimit-remaining")), (429, Some("0")));
    assert_eq!(refused.json()["error"]["rule_id"], "per_address");
    assert!(
        refused.header("retry-after").is_some() && refused.header("x-tollgate-decision").is_some()
    );
    // Another client has its own counter.
    assert_eq!(curl_from("127.0.0.9", &gateway.url("/"), &[]).status, 200);
    assert_eq!(upstream.seen().len(), 3);
    assert_eq!(["2xx", "429", "5xx"].map(|status| gateway.answers(status)), [3, 1, 0]);
    let judged = "tollgate_decisions_total{rule_id=\"per_address\",outcome=\"refused\"}";
    assert_eq!(gateway.count(judged), 1);
}

#[test]
fn a_service_chooses_the_body_of_refusals() {
    let upstream = Upstream::start();
    let rules = "
rules: [{rule_id: r, limit: 1, window: 1h, identifier_type: ip, algorithm: gcra}]
blacklist: [{identifier_type: ip, identifier: 127.0.0.9}]";
    let upstreams = [format!("http://{}", upstream.address)];
    let gateway = Gateway::start(rules, "refusal: {body: flat}", &upstreams);
    assert_eq!(gateway.get("/").status, 200);
    let refused = gateway.get("/");
    assert_eq!((refused.status, refused.header("content-type")), (429, Some("application/json")));
    let wait = refused.header("retry-after").expect("a wait");
    let flat = format!(r#"{{"error":"Rate limit exceeded","retry_after":{wait}}}"#);
    assert_eq!(refused.text(), flat);
    let denied = curl_from("127.0.0.9", &gateway.url("/"), &[]);
    assert_eq!(
        (denied.status, &*denied.json()["error"]["code"].to_string()),
        (403, "\"ACCESS_DENIED\"")
    );
}

#[test]
fn a_rule_chooses_its_refusal_and_unmatched_requests_are_denied() {
    let upstream = Upstream::start();
    let rules = "
rules:
  - {rule_id: paid, limit: 0, window: 1h, identifier_type: ip, applies_to: {endpoints: [/paid]},
     refusal: {status: 402, body: 'rule {rule_id}', content_type: text/plain}}
  - {rule_id: free, limit: 0, window: 1h, identifier_type: ip, applies_to: {endpoints: [/free]}}";
    let upstreams = [format!("http://{}", upstream.address)];
    let gateway = Gateway::start(rules, "unmatched: deny\nrefusal: {body: flat}", &upstreams);
    let paid = gateway.get("/paid");
    assert_eq!((paid.status, paid.text().as_str()), (402, "rule paid"));
    assert_eq!(paid.header("content-type"), Some("text/plain"));
    let guards = |answer: &Answer| {
        ["x-content-type-options", "content-security-policy"]
            .map(|name| answer.header(name).map(str::to_owned))
    };
    assert_eq!(
        guards(&paid),
        ["nosniff", "sandbox"].map(|it| Some(it.to_owned())),
        "it may be a page"
    );
    let free = gateway.get("/free");
    assert_eq!((free.status, &free.json()["error"]), (429, &"Rate limit exceeded".into()));
    let other = gateway.get("/other");
    assert_eq!((other.status, &other.json()["error"]["code"]), (403, &"ACCESS_DENIED".into()));
    assert_eq!(guards(&other), [None, None], "a problem document is none");
    assert!(upstream.seen().is_empty());
}

#[test]
fn failures_are_refunded_and_prices_are_charged() {
    let upstream = Upstream::start();
    let rules =
        "rules: [{rule_id: r, limit: 100, window: 1h, identifier_type: ip, refund_on: [5xx]}]";
    let gateway = Gateway::with_rules(rules, upstream.address);
    let left = |path: &str| {
        let answer = gateway.get(path);
        assert_eq!(answer.header("x-request-cost"), None, "{answer:?}");
        answer
            .header("x-ratelimit-remaining")
            .expect("what is left")
            .parse::<u64>()
            .expect("a number")
    };
    assert_eq!(left("/"), 99);
    assert_eq!(left("/status/503"), 98);
    assert_eq!(left("/cost/25"), 98);
    assert_eq!(left("/status/404"), 73);
    // A failure of the gateway is refunded too.
    let url = [format!("http://{}", closed_port())];
    let gateway = Gateway::start(rules, "", &url);
    for _ in 0..3 {
        assert_eq!(gateway.get("/").header("x-ratelimit-remaining"), Some("99"));
    }
}

fn closed_port() -> std::net::SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port")
}

#[test]
fn the_body_of_a_refused_request_is_not_swallowed() {
    let upstream = Upstream::start();
    let rules = "rules: [{rule_id: none, limit: 0, window: 1h, identifier_type: global}]";
    let gateway = Gateway::with_rules(rules, upstream.address);
    // A small body is read, and the connection stays.
    let mut connection = gateway.connect();
    for _ in 0..2 {
        let answer =
            connection.ask(&tollgate_e2e::client::request("POST", "/", &[], &[b'x'; 1000]));
        assert_eq!((answer.status, answer.header("connection")), (429, None));
    }
    // A large body is not, and the connection ends with the response.
    let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\n";
    connection.send(&[head.as_bytes(), &[b'x'; 100_000]].concat()).expect("sent");
    let answer = connection.answer().expect("an answer");
    assert_eq!((answer.status, answer.header("connection")), (429, Some("close")));
    assert_eq!(connection.rest(), b"");
    // Over HTTP/2 the stream ends after the response, and the connection stays.
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("large");
    std::fs::File::create(&file).and_then(|file| file.set_len(1 << 30)).expect("a file");
    let said = Command::new("/usr/bin/nghttp").arg("-nvd").arg(file).arg(gateway.url("/")).output();
    let said = String::from_utf8_lossy(&said.expect("nghttp runs").stdout).into_owned();
    let answer = said.find(":status: 429").expect("an answer");
    let rest = &said[answer..];
    let end = rest.find("; END_STREAM").expect("the end of the answer");
    assert!(rest[end..].contains("(error_code=NO_ERROR(0x00))"), "{said}");
    assert!(!rest.contains("send DATA"), "{said}");
    assert!(upstream.seen().is_empty());
    until("all counted", || (gateway.answers("429") == 4).then_some(()));
}
