//! Malformed input over gRPC, on purpose or not: every client gets a clear response, and other clients
//! are not affected.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tollgate::Stopwatch;

use crate::hostile::random::Random;
use tollgate_e2e::beside;
use tollgate_e2e::client::{Answer, Connection, request as http_request};
use tollgate_e2e::grpc::{
    CHECK_BATCH, CHECK_RATE_LIMIT, Client, Failure, GET_REMAINING_QUOTA, RESET_LIMIT,
    SHOULD_RATE_LIMIT, descriptor, request,
};
use tollgate_e2e::program::curl;
use tollgate_e2e::server::{Server, Setup};

const RULES: &str = "
rules:
  - {rule_id: per_user, limit: 1000000000, window: 1h, identifier_type: user_id}
  - {rule_id: per_plan, limit: 10, window: 1h, identifier_type: 'attribute:plan'}
";
/// Little of everything that clients can take.
const SETTINGS: &str = "
memory: 4MiB
decisions_kept: 1000
idempotency: {keys: 1000}
limits: {header_timeout: 1s, request_timeout: 1s}
";
const METHODS: [&str; 5] =
    [CHECK_RATE_LIMIT, GET_REMAINING_QUOTA, CHECK_BATCH, SHOULD_RATE_LIMIT, RESET_LIMIT];
/// A well-behaved client waits no longer than that, even while others misbehave on a busy machine.
const LONG: Duration = Duration::from_secs(5);
/// The error for a call whose message does not come.
const LATE: &str = "the call did not arrive in time (limits.request_timeout)";
/// What a server needs, with a margin. Counters have 4 MiB of it.
const MAX_MEMORY_BYTES: u64 = 192 << 20;

fn start() -> Server {
    Server::start(&Setup { rules: Some(RULES), settings: SETTINGS, ..Setup::default() })
}

fn behave_well(client: &mut Client) {
    let stopwatch = Stopwatch::start();
    let answer = client.call(CHECK_RATE_LIMIT, &json!({"identifier": "good"}));
    assert_eq!(answer["allowed"], true, "{answer}");
    let answer = client.should_rate_limit(&request("any", &[&["user=good"]]));
    assert_eq!(answer["overall_code"], "OK", "{answer}");
    assert!(stopwatch.elapsed() < LONG, "answers took {:?}", stopwatch.elapsed());
}

/// Sends valid calls while `misbehave` runs; each gets a response. Afterwards the server works as
/// before.
fn beside_a_good_client(server: &Server, misbehave: impl FnOnce(&mut Client)) {
    let answered = AtomicUsize::new(0);
    let ask = |is_over: &AtomicBool| {
        let mut client = Client::of(server);
        while !is_over.load(Ordering::Relaxed) {
            behave_well(&mut client);
            answered.fetch_add(1, Ordering::Relaxed);
        }
    };
    let mut bad = Client::of(server);
    beside(1, ask, || misbehave(&mut bad));
    assert!(answered.into_inner() > 0, "the good client was never answered");
    behave_well(&mut Client::of(server));
    let log = server.process.errors();
    assert!(!log.contains("panicked"), "{log}");
    let peak = server.process.peak_memory();
    assert!(peak < MAX_MEMORY_BYTES, "{peak} bytes of memory");
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Sends bytes as a message; returns the result.
fn send(client: &mut Client, method: &str, bytes: &str, times: usize) -> Result<Value, Failure> {
    client.ask(&json!({"raw": method, "bytes": bytes, "times": times}))
}

#[test]
fn malformed_messages_are_refused_clearly() {
    // Ends too early, has no such field, no such type of field, no text, no end of numbers.
    let malformed =
        ["ff", "08", "0a05", "0a0561", "0000", "0f", "0b", "0a02c328", "0affffffffffffffffff01"];
    let server = start();
    beside_a_good_client(&server, |client| {
        for method in &METHODS[..4] {
            for bytes in malformed {
                let failure = send(client, method, bytes, 1).expect_err("a refusal");
                let is_clear = ["INTERNAL", "INVALID_ARGUMENT"].contains(&failure.code.as_str());
                assert!(is_clear && failure.detail.len() > 10, "{method} {bytes}: {failure:?}");
            }
        }
        let mut random = Random::new(20_260_102);
        for number in 0..600 {
            let length = random.below(60);
            let bytes: Vec<u8> = (0..length).map(|_| random.byte()).collect();
            let method = METHODS[number % METHODS.len()];
            if let Err(failure) = send(client, method, &hex(&bytes), 1) {
                let codes = ["INTERNAL", "INVALID_ARGUMENT", "NOT_FOUND", "UNAUTHENTICATED"];
                assert!(codes.contains(&failure.code.as_str()), "{method} {bytes:?}: {failure:?}");
            }
        }
    });
}

#[test]
fn too_much_of_anything_is_refused() {
    let server = start();
    beside_a_good_client(&server, |client| {
        let mut check = |message: &Value, expected: &str| {
            let failure = client.fail(SHOULD_RATE_LIMIT, message);
            assert_eq!(failure.code, "INVALID_ARGUMENT", "{failure:?}");
            assert!(failure.detail.contains(expected), "{failure:?}");
        };
        let many = vec![descriptor(&["user=x"]); 10_000];
        check(&json!({"domain": "any", "descriptors": many}), "at most 1000 are allowed");
        // Many entries are only slow to send.
        let entries = vec![json!({"key": "k", "value": "v"}); 50_000];
        let deep = json!({"domain": "any", "descriptors": [{ "entries": entries }]});
        client.should_rate_limit(&deep);
        let full = json!({"domain": "any", "descriptors": vec![descriptor(&["plan=x"]); 1_000]});
        assert_eq!(client.should_rate_limit(&full)["overall_code"], "OVER_LIMIT");
        for method in METHODS.into_iter().filter(|method| *method != SHOULD_RATE_LIMIT) {
            // Above `limits.body_bytes`, and far above.
            for times in [(1 << 20) + 1, 40 << 20] {
                let failure = send(client, method, "0a", times).expect_err("a refusal");
                let codes = ["OUT_OF_RANGE", "RESOURCE_EXHAUSTED", "UNAUTHENTICATED"];
                assert!(codes.contains(&failure.code.as_str()), "{method} {times}: {failure:?}");
            }
        }
        for number in 0..40 {
            let check = |place: usize| {
                let key = format!("{number}-{place}-{}", "x".repeat(200));
                json!({"identifier": key, "attributes": {"plan": key}, "idempotency_key": key})
            };
            let checks: Vec<_> = (0..1_000).map(check).collect();
            client.call(CHECK_BATCH, &json!({ "checks": checks }));
        }
        assert!(server.figure("tollgate_memory_bytes") <= f64::from(4 << 20));
        assert!(server.figure("tollgate_idempotency_keys") <= 1_100.0);
    });
}

#[test]
fn unknown_calls_are_unimplemented() {
    let server = start();
    beside_a_good_client(&server, |client| {
        for method in [
            "tollgate.v1.RateLimiter/Nothing",
            "tollgate.v1.RateLimiter/",
            "tollgate.v2.RateLimiter/CheckRateLimit",
            "envoy.service.ratelimit.v2.RateLimitService/ShouldRateLimit",
            "grpc.health.v1.Health/Nothing",
            "a",
            "/",
            "",
        ] {
            for times in [0, 1, 1_000] {
                let failure = send(client, method, "00", times).expect_err("a refusal");
                assert_eq!(failure.code, "UNIMPLEMENTED", "{method}: {failure:?}");
            }
        }
    });
}

/// A call by curl, which can send any header. The message is empty.
fn curl_call(server: &Server, method: &str, more: &[&str]) -> Answer {
    let frame = server.folder().join("frame");
    std::fs::write(&frame, [0; 5]).expect("written");
    let body = format!("@{}", frame.display());
    let url = format!("http://{}/{method}", server.grpc_address);
    let call = ["--http2-prior-knowledge", "--include", "--data-binary", &body, &url];
    let said = curl(&[&call[..], more].concat());
    // The parser of tests knows HTTP/1.1 only, and failures have no body.
    let said = said.replacen("HTTP/2", "HTTP/1.1", 1);
    Answer::parse(said.as_bytes()).unwrap_or_else(|error| panic!("{error}: {said}"))
}

#[test]
fn malformed_heads_are_refused() {
    let server = start();
    beside_a_good_client(&server, |_| {
        for timeout in ["", "m", "5", "5x", "-5m", "123456789m", "5 m", "forever"] {
            let timeout = if timeout.is_empty() {
                "grpc-timeout;".to_owned()
            } else {
                format!("grpc-timeout: {timeout}")
            };
            let more = ["--header", "content-type: application/grpc", "--header", &timeout];
            let answer = curl_call(&server, CHECK_RATE_LIMIT, &more);
            assert_eq!(
                (answer.status, answer.header("grpc-status")),
                (200, Some("3")),
                "{timeout}"
            );
            let detail = answer.header("grpc-message").unwrap_or_default();
            assert!(detail.contains("grpc-timeout"), "{timeout}: {answer:?}");
        }
        for kind in ["text/plain", "application/json", "application/grpc-web", ""] {
            let kind = format!("content-type: {kind}");
            for method in [CHECK_RATE_LIMIT, SHOULD_RATE_LIMIT, "grpc.health.v1.Health/Check", "a"]
            {
                let answer = curl_call(&server, method, &["--header", &kind]);
                assert_eq!(answer.status, 415, "{kind} {method}: {answer:?}");
            }
        }
        // Over HTTP/1.1, as browsers would.
        for path in [&format!("/{CHECK_RATE_LIMIT}"), "/", "/health/live"] {
            for method in ["GET", "POST", "OPTIONS"] {
                let headers = [("Content-Type", "application/grpc")];
                let asked = http_request(method, path, &headers, &[0; 5]);
                let answer = Connection::open(server.grpc_address).ask(&asked);
                assert_eq!(answer.status, 505, "{method} {path}: {answer:?}");
                assert!(answer.text().contains("gRPC"), "{answer:?}");
            }
        }
    });
    let unknown = server.figure("tollgate_grpc_responses_total{code=\"UNKNOWN\"}");
    assert!((unknown - 25.0).abs() < 0.1, "{unknown}");
}

#[test]
fn a_call_ends_with_its_deadline() {
    let server = start();
    let mut client = Client::of(&server);
    let mut check = |timeout: &str, expected: &str| {
        let metadata = json!({ "grpc-timeout": timeout });
        let silence =
            json!({"silence": 1, "streams": 1, "method": CHECK_RATE_LIMIT, "metadata": metadata});
        let ends = client.ask(&silence).expect("an end");
        assert_eq!(ends, json!({ format!("DEADLINE_EXCEEDED: {expected}"): 1 }), "{timeout}");
    };
    check("50m", "the deadline of the call has passed");
    check("20000000n", "the deadline of the call has passed");
    check("1H", LATE);
}

#[test]
fn bytes_that_are_not_http_end_the_connection() {
    let server = start();
    beside_a_good_client(&server, |_| {
        let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
        let mut random = Random::new(9);
        for number in 0..200 {
            let length = random.below(300);
            let noise: Vec<u8> = (0..length).map(|_| random.byte()).collect();
            let mut connection = Connection::open(server.grpc_address);
            // The response may come before everything is sent.
            let _ = connection
                .send(&[if number % 2 == 0 { &preface[..] } else { b"" }, &noise].concat());
            connection.finish();
            connection.rest();
        }
    });
}

#[test]
fn silent_clients_are_cut_off() {
    let server = start();
    beside_a_good_client(&server, |client| {
        let silent: Vec<_> = (0..200).map(|_| Connection::open(server.grpc_address)).collect();
        for method in METHODS.into_iter().chain(["grpc.health.v1.Health/Watch"]) {
            let silence = json!({"silence": 4, "streams": 50, "method": method});
            let ends = client.ask(&silence).expect("ends");
            // A call without permission is refused without waiting for its message.
            let late = format!("DEADLINE_EXCEEDED: {LATE}");
            let expected = if method == RESET_LIMIT { "UNAUTHENTICATED: " } else { &late };
            let ends = ends.as_object().expect("ends");
            let (end, count) = ends.iter().next().expect("an end");
            assert!(end.starts_with(expected), "{method}: {ends:?}");
            assert_eq!((ends.len(), count), (1, &json!(200)), "{method}: {ends:?}");
        }
        for mut connection in silent {
            connection.rest();
        }
    });
}
