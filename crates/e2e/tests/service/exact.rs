//! Limits are exact over the wire, however many clients send checks at once.

use std::sync::Barrier;
use std::thread;

use tollgate_e2e::client::{Connection, request};
use tollgate_e2e::server::{CHECK, JSON, PEEK, Server};

const CONNECTIONS: usize = 64;
const LIMIT: usize = 1_000;

/// Windows are so long that nothing refills during a test.
fn rules() -> String {
    let algorithms = [
        "fixed_window",
        "sliding_window_log",
        "sliding_window_counter",
        "token_bucket",
        "leaky_bucket",
        "gcra",
    ];
    let mut text = "rules:\n".to_owned();
    for algorithm in algorithms {
        text += &format!(
            "- {{rule_id: {algorithm}, algorithm: {algorithm}, limit: {LIMIT}, window: 300d, \
             identifier_type: user_id}}\n"
        );
    }
    text
}

/// Sends `times` checks over each of many connections, all at once. Returns how many were allowed.
fn hammer(server: &Server, rule: &str, times: usize) -> usize {
    let body = format!(r#"{{"rule_id":"{rule}","key_type":"user","key_value":"alice"}}"#);
    let check = request("POST", CHECK, &[JSON], body.as_bytes());
    let start = Barrier::new(CONNECTIONS);
    thread::scope(|scope| {
        let ask = || {
            let mut connection = Connection::open(server.address);
            start.wait();
            let answers = (0..times).map(|_| connection.ask(&check).json());
            answers.filter(|answer| answer["allowed"] == true).count()
        };
        let threads: Vec<_> = (0..CONNECTIONS).map(|_| scope.spawn(ask)).collect();
        threads.into_iter().map(|thread| thread.join().expect("answers")).sum()
    })
}

#[test]
fn exactly_as_many_pass_as_are_allowed() {
    let server = Server::with_rules(&rules());
    for line in rules().lines().skip(1) {
        let rule = line.split([' ', ',']).nth(2).expect("a rule");
        let allowed = hammer(&server, rule, LIMIT / CONNECTIONS + 5);
        assert_eq!(allowed, LIMIT, "{rule}");
    }
    assert!(server.figure("tollgate_http_responses_total{status=\"5xx\"}") < 0.5);
}

#[test]
fn copies_of_a_call_that_arrive_together_are_charged_once() {
    const COPIES: usize = 50;
    let server = Server::with_rules(&rules());
    let body = r#"{"rule_id":"gcra","key_type":"user","key_value":"bob","request_count":7}"#;
    let headers = [JSON, ("X-Idempotency-Key", "one and the same")];
    let check = request("POST", CHECK, &headers, body.as_bytes());
    let start = Barrier::new(COPIES);
    let answers: Vec<_> = thread::scope(|scope| {
        let ask = || {
            let mut connection = Connection::open(server.address);
            start.wait();
            connection.ask(&check)
        };
        let threads: Vec<_> = (0..COPIES).map(|_| scope.spawn(ask)).collect();
        threads.into_iter().map(|thread| thread.join().expect("an answer")).collect()
    });
    assert!(answers.iter().all(|answer| answer.body == answers[0].body), "{answers:?}");
    let replayed = answers.iter().filter_map(|answer| answer.header("x-idempotency-replayed"));
    assert_eq!(replayed.count(), COPIES - 1);
    let left = server.post(PEEK, body).json();
    assert_eq!(left["remaining"], LIMIT - 7);
}
