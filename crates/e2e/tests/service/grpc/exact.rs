//! Limits are exact when gRPC and HTTP charge the same counters at once.

use std::sync::Barrier;
use std::thread;

use serde_json::json;

use tollgate_e2e::client::{Connection, request};
use tollgate_e2e::grpc::{CHECK_RATE_LIMIT, Client, SHOULD_RATE_LIMIT};
use tollgate_e2e::server::{CHECK, JSON, Server};

const CONNECTIONS: usize = 64;
const LIMIT: usize = 1_000;
/// Neither side alone reaches the limit; both together exceed it.
const TIMES: usize = 10;
const ALGORITHMS: [&str; 6] = [
    "fixed_window",
    "sliding_window_log",
    "sliding_window_counter",
    "token_bucket",
    "leaky_bucket",
    "gcra",
];

/// Windows are so long that nothing refills during a test. Each rule has its own attribute.
fn rules() -> String {
    let rule = |algorithm: &&str| {
        format!(
            "- {{rule_id: {algorithm}, algorithm: {algorithm}, limit: {LIMIT}, window: 300d, \
             identifier_type: 'attribute:{algorithm}'}}\n"
        )
    };
    format!("rules:\n{}", ALGORITHMS.iter().map(rule).collect::<String>())
}

/// How many checks over HTTP are allowed while gRPC sends checks too; the last to arrive says `go`.
fn hammer_http(server: &Server, body: &str, go: impl FnOnce() + Send) -> usize {
    let check = request("POST", CHECK, &[JSON], body.as_bytes());
    let start = Barrier::new(CONNECTIONS + 1);
    thread::scope(|scope| {
        let ask = || {
            let mut connection = Connection::open(server.address);
            start.wait();
            let answers = (0..TIMES).map(|_| connection.ask(&check).json());
            answers.filter(|answer| answer["allowed"] == true).count()
        };
        let threads: Vec<_> = (0..CONNECTIONS).map(|_| scope.spawn(ask)).collect();
        start.wait();
        go();
        threads.into_iter().map(|thread| thread.join().expect("answers")).sum()
    })
}

#[test]
fn exactly_as_many_pass_as_are_allowed() {
    let server = Server::with_rules(&rules());
    let mut client = Client::of(&server);
    for (place, algorithm) in ALGORITHMS.into_iter().enumerate() {
        let attributes = json!({ algorithm: "x" });
        let entries = json!([{"key": algorithm, "value": "x"}]);
        // Both services of gRPC, in turn.
        let (method, message) = if place % 2 == 0 {
            (CHECK_RATE_LIMIT, json!({ "attributes": attributes }))
        } else {
            (SHOULD_RATE_LIMIT, json!({"domain": "any", "descriptors": [{"entries": entries}]}))
        };
        let hammer = json!({
            "hammer": method, "message": message, "connections": CONNECTIONS, "times": TIMES
        });
        assert_eq!(client.ask(&hammer).expect("ready"), "ready");
        let body = json!({ "attributes": attributes }).to_string();
        let over_http = hammer_http(&server, &body, || client.tell(&json!("go")));
        let over_grpc = client.hear().expect("a count");
        let over_grpc = over_grpc.as_u64().unwrap_or_else(|| panic!("{algorithm}: {over_grpc}"));
        assert_eq!(over_http as u64 + over_grpc, LIMIT as u64, "{algorithm}");
        assert!(over_http > 0 && over_grpc > 0, "{algorithm}: {over_http} and {over_grpc}");
    }
    assert!(server.figure("tollgate_http_responses_total{status=\"5xx\"}") < 0.5);
}
