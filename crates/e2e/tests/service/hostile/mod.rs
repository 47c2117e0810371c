//! Malformed input over HTTP, on purpose or not: every client gets a clear response, and other clients
//! are not affected.

mod bodies;
mod heads;
pub(crate) mod random;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use tollgate::Stopwatch;

use heads::Expected;
use random::Random;
use tollgate_e2e::beside;
use tollgate_e2e::client::{Answer, Connection, request};
use tollgate_e2e::server::{AUTHORIZE, CHECK, JSON, Server, Setup, bearer_admin};

const RULES: &str = "
rules:
  - {rule_id: per_user, limit: 1000000000, window: 1h, identifier_type: user_id}
  - {rule_id: per_address, limit: 1000000000, window: 1h, identifier_type: ip}
  - {rule_id: per_key, limit: 10, window: 1h, identifier_type: api_key, algorithm: sliding_window_log}
";
/// Little of everything that clients can take.
const SETTINGS: &str = "
memory: 4MiB
log_level: debug
decisions_kept: 1000
idempotency: {keys: 1000}
identity: {api_keys: any, trusted_proxies: [127.0.0.1/32]}
limits:
  header_timeout: 1s
  request_timeout: 1s
  admin_reads_per_minute: 1000000
  admin_writes_per_minute: 1000000
";
const BATCH: &str = "/api/v1/rate-limit/check/batch";
/// Calls with a body, all of them.
const WITH_BODY: &[&str] = &[
    CHECK,
    BATCH,
    "/api/v1/rate-limit/peek",
    "/api/v1/rate-limit/explain",
    "/api/v1/rate-limit/refund",
    "/api/v1/rate-limit/reset",
];
/// A well-behaved client waits no longer than that, even while others misbehave on a busy machine.
const LONG: Duration = Duration::from_secs(5);
/// What a server needs, with a margin. Counters have 4 MiB of it.
const MAX_MEMORY_BYTES: u64 = 192 << 20;

fn start() -> Server {
    Server::start(&Setup { rules: Some(RULES), settings: SETTINGS, ..Setup::default() })
}

/// Sends valid requests while `misbehave` runs; each gets a response. Afterwards the server works as
/// before.
fn beside_a_good_client(server: &Server, misbehave: impl FnOnce(&Server)) {
    let answered = AtomicUsize::new(0);
    let address = server.address;
    let ask = |is_over: &AtomicBool| {
        while !is_over.load(Ordering::Relaxed) {
            behave_well(address);
            answered.fetch_add(1, Ordering::Relaxed);
        }
    };
    beside(1, ask, || misbehave(server));
    assert!(answered.into_inner() > 0, "the good client was never answered");
    behave_well(address);
    let log = server.process.errors();
    assert!(!log.contains("panicked"), "{log}");
    let peak = server.process.peak_memory();
    assert!(peak < MAX_MEMORY_BYTES, "{peak} bytes of memory");
    assert!(server.figure("tollgate_http_responses_total{status=\"5xx\"}") < 0.5);
}

fn behave_well(address: SocketAddr) {
    let stopwatch = Stopwatch::start();
    let check = request("POST", CHECK, &[JSON], br#"{"identifiers":{"user_id":"good"}}"#);
    let answer = Connection::open(address).ask(&check);
    assert_eq!((answer.status, &answer.json()["allowed"]), (200, &true.into()), "{answer:?}");
    assert!(stopwatch.elapsed() < LONG, "an answer took {:?}", stopwatch.elapsed());
}

/// An error with a code and a message.
fn assert_clear(what: &str, answer: &Answer) {
    assert!((400..500).contains(&answer.status), "{what}: {answer:?}");
    assert!(!answer.code().is_empty(), "{what}: {answer:?}");
    let detail = answer.json()["detail"].as_str().map(str::len);
    assert!(detail.is_some_and(|length| (10..2_000).contains(&length)), "{what}: {answer:?}");
}

fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(300)]).into_owned()
}

#[test]
fn malformed_bodies_are_refused_clearly() {
    let server = start();
    beside_a_good_client(&server, |server| {
        let mut connection = server.connect();
        for path in WITH_BODY {
            for body in bodies::hand_made() {
                let answer = connection.ask(&request("POST", path, &[JSON, bearer_admin()], &body));
                assert_clear(&format!("{path} {}", shown(&body)), &answer);
            }
            let body = bodies::VALID.as_bytes();
            for content_type in bodies::CONTENT_TYPES {
                let headers = [("Content-Type", *content_type), bearer_admin()];
                let answer = connection.ask(&request("POST", path, &headers, body));
                assert_eq!(answer.status, 415, "{path} {content_type}: {answer:?}");
                assert_clear(content_type, &answer);
            }
            let huge = vec![b' '; (1 << 20) + 1];
            let mut unlucky = server.connect();
            let answer = unlucky.ask(&request("POST", path, &[JSON, bearer_admin()], &huge));
            assert_eq!(answer.status, 413, "{path}: {answer:?}");
            assert_clear("a huge body", &answer);
        }
    });
}

#[test]
fn a_thousand_damaged_bodies_do_no_harm() {
    let server = start();
    beside_a_good_client(&server, |server| {
        let mut connection = server.connect();
        let mut random = Random::new(20_260_101);
        let mut refused = 0;
        while refused < 1_500 {
            let path = random.pick(WITH_BODY);
            let body = bodies::damaged(&mut random);
            let answer = connection.ask(&request("POST", path, &[JSON, bearer_admin()], &body));
            // Some damage is harmless, such as another letter in a name.
            if answer.status != 200 {
                assert_clear(&format!("{path} {}", shown(&body)), &answer);
                refused += 1;
            }
        }
    });
}

#[test]
fn malformed_heads_are_refused_or_cut_off() {
    let server = start();
    beside_a_good_client(&server, |server| {
        for (bytes, expected) in heads::hand_made() {
            let mut connection = server.connect();
            // The response may come before everything is sent.
            let _ = connection.send(&bytes);
            if !matches!(expected, Expected::Status(_)) {
                connection.finish();
            }
            let status = connection.answer().ok().map(|answer| answer.status);
            let is_fine = match expected {
                Expected::Status(expected) => status == Some(expected),
                Expected::End => status.is_none(),
                Expected::StatusOrEnd(expected) => status.is_none_or(|status| status == expected),
            };
            assert!(is_fine, "{status:?}: {}", shown(&bytes));
        }
        let mut random = Random::new(7);
        for _ in 0..300 {
            let bytes = heads::damaged(&mut random);
            let mut connection = server.connect();
            let _ = connection.send(&bytes);
            connection.finish();
            // Some damage is harmless, some leaves no request to respond to.
            if let Ok(answer) = connection.answer() {
                assert!(answer.status < 500, "{}: {answer:?}", shown(&bytes));
            }
        }
    });
}

#[test]
fn odd_paths_methods_and_headers_are_answered() {
    let server = start();
    beside_a_good_client(&server, |server| {
        let mut connection = server.connect();
        for (method, path) in heads::odd_requests() {
            let answer = connection.ask(&request(method, path, &[bearer_admin()], b""));
            let what = format!("{method} {path}");
            if method == "HEAD" {
                assert!((400..500).contains(&answer.status), "{what}: {answer:?}");
            } else {
                assert_clear(&what, &answer);
            }
        }
        for (name, value) in heads::odd_headers() {
            let answer = connection.ask(&heads::authorize_with(name, &value));
            let is_fine = [200, 400, 414, 429].contains(&answer.status);
            assert!(is_fine, "{name}: {}: {answer:?}", shown(&value));
        }
        for key in heads::odd_idempotency_keys() {
            let rest = [b"Content-Length: 2\r\nX-Idempotency-Key: ", &key[..], b"\r\n\r\n{}"];
            let answer = connection.ask(&heads::check_with(&rest.concat()));
            assert_clear(&format!("key {}", shown(&key)), &answer);
        }
    });
}

#[test]
fn clients_that_are_too_slow_are_cut_off() {
    let server = start();
    beside_a_good_client(&server, |server| {
        let silent: Vec<_> = (0..200).map(|_| server.connect()).collect();
        let mut late_body = server.connect();
        late_body.send(&heads::check_with(b"Content-Length: 9\r\n\r\n{")).expect("sent");
        let mut late_head = server.connect();
        late_head.send(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\nX-").expect("sent");
        let answer = late_body.answer().expect("an answer");
        assert_eq!(answer.status, 408, "{answer:?}");
        assert_clear("a late body", &answer);
        assert!(late_head.rest().is_empty());
        for mut connection in silent {
            assert!(connection.rest().is_empty());
        }
    });
}

#[test]
fn invented_keys_take_no_more_memory_than_there_is() {
    let server = start();
    beside_a_good_client(&server, |server| {
        let mut connection = server.connect();
        for batch in 0..100 {
            let check = |number: usize| {
                let key = format!("{batch}-{number}-{}", "x".repeat(200));
                json!({"identifiers": {"user_id": key, "api_key": key}, "idempotency_key": key})
            };
            let checks: Vec<_> = (0..1_000).map(check).collect();
            let body = json!({ "checks": checks }).to_string();
            let answer = connection.ask(&request("POST", BATCH, &[JSON], body.as_bytes()));
            assert_eq!(answer.status, 200, "{answer:?}");
        }
        assert!(server.figure("tollgate_memory_bytes") <= f64::from(4 << 20));
        assert!(server.figure("tollgate_idempotency_keys") <= 1_100.0);
    });
}

#[test]
fn wrong_tokens_are_refused_and_never_logged() {
    let server = start();
    beside_a_good_client(&server, |server| {
        let mut random = Random::new(11);
        let mut statuses = Vec::new();
        for number in 0..200 {
            let token = heads::odd_token(&mut random, number);
            let head = b"GET /api/v1/rules HTTP/1.1\r\nHost: localhost\r\nAuthorization: ";
            let head = [head, &token[..], b"\r\n\r\n"].concat();
            let answer = server.connect().ask(&head);
            assert_clear(&shown(&token), &answer);
            statuses.push(answer.status);
        }
        assert!(statuses.iter().all(|status| [401, 429].contains(status)), "{statuses:?}");
        assert_eq!(statuses.last(), Some(&429), "guessing comes to an end");
        // Tokens and keys of clients behind a proxy are not logged either.
        let secrets = [("Authorization", "Bearer secret-of-a-client"), ("X-API-Key", "secret-key")];
        assert_eq!(server.ask("GET", &format!("{AUTHORIZE}/"), &secrets, "").status, 200);
    });
    let log = server.process.errors();
    assert!(!log.contains("secret"), "{log}");
}
