//! Checks that are read without the HTTP library get the responses that it would have sent, byte for byte.
//! `TOLLGATE_PROPTEST_CASES=50` makes a campaign of it.

use std::{env, io};

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestRunner;
use tollgate_e2e::client::{Connection, request};
use tollgate_e2e::server::{CHECK, JSON, Server, Setup};

const RULES: &str = "rules:
- {rule_id: per_user, limit: 20, window: 300d, identifier_type: user_id, algorithm: fixed_window, soft: {warn_at: 0.5, clear_at: 0.4}}
- {rule_id: per_address, limit: 1000, window: 300d, identifier_type: ip, algorithm: fixed_window}
- {rule_id: seen, limit: 3, window: 300d, identifier_type: user_id, algorithm: fixed_window, action: log_only}
";
const SETTINGS: &str = "check_auth: token
limits: {header_timeout: 1s, request_timeout: 1s}
";
const TOKEN: (&str, &str) = ("TOLLGATE_CHECK_TOKEN", "squeamish-ossifrage");

/// A call that leaves the connection to the library for good.
const LIVE: &[u8] = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n";
/// A call after which the connection ends.
const LAST: &[u8] = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

fn start(settings: &str) -> Server {
    let environment = &[TOKEN];
    Server::start(&Setup { rules: Some(RULES), settings, environment, ..Setup::default() })
}

/// What a server sends, without what differs from call to call and from second to second: ids and dates, but not their
/// length, and the seconds until the end of the window.
fn masked(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = Vec::new();
    for line in text.split("\r\n") {
        let line = match line.split_once("\"decision_id\":\"") {
            Some((before, after)) => {
                let end = after.find('"').unwrap_or(after.len());
                format!("{before}{}{}", "-".repeat(end), &after[end..])
            }
            None if line.starts_with("date: ") => format!("date: {}", line.len()),
            None => line.to_owned(),
        };
        let is_end =
            |number: &&str| number.len() == 8 && number.bytes().all(|it| it.is_ascii_digit());
        let parts = line.split_inclusive(|it: char| !it.is_ascii_digit());
        let parts = parts.map(|part| {
            let number = part.trim_end_matches(|it: char| !it.is_ascii_digit());
            if is_end(&number) { "seconds" } else { part }
        });
        lines.push(parts.collect::<String>());
    }
    lines.join("\n")
}

/// All that is sent on a connection for these bytes, after a call of another kind or without one.
fn responses(server: &Server, bytes: &[u8], is_by_library: bool) -> String {
    let mut connection = server.connect();
    if is_by_library {
        assert_eq!(connection.ask(LIVE).status, 200);
    }
    // What was refused may be closed before everything is sent.
    let _: io::Result<()> = connection.send(&[bytes, LAST].concat());
    masked(&connection.rest())
}

fn header() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "Accept: */*\r\n",
        "accept-encoding: gzip\r\n",
        "USER-AGENT: curl/8\r\n",
        "Connection: keep-alive\r\n",
        "Connection: close\r\n",
        "Content-Type: application/json\r\n",
        "Content-Type: text/plain\r\n",
        "Content-Length: 2\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Host: localhost\r\n",
        "Origin: https://evil.example\r\n",
        "X-Request-Id: 5\r\n",
        "Accept: \nOrigin: https://evil.example\r\n",
        "Accept: \nTransfer-Encoding: chunked\r\n",
        "Accept: a\n\r\n",
        "Accept:\t\x0c\r\n",
        "Accept:\ta\tb \t\r\n",
        "Authorization: Bearer squeamish-ossifrage\r\n",
    ])
}

fn body() -> impl Strategy<Value = String> {
    let user = prop::sample::select(vec!["ann", "bob", "", "\\u0061nn", "\u{e9}ve"]);
    let ip = prop::sample::select(vec!["192.0.2.1", "::1", "1.2.3", ""]);
    let rest = prop::sample::select(vec![
        "",
        r#","detail":false"#,
        r#","detail":true"#,
        r#","cost":5"#,
        r#","cost":0"#,
        r#","cost":99"#,
        r#","cost":-1"#,
        r#","idempotency_key":"a""#,
        r#","endpoint":"/a/../b?c""#,
        r#","rule_id":"per_user","key_type":"user","key_value":"cat""#,
        r#","rule_id":"none","key_type":"user","key_value":"cat""#,
        r#","banana":1"#,
    ]);
    (user, ip, rest).prop_map(|(user, ip, rest)| {
        format!(r#"{{"identifiers":{{"user_id":"{user}","ip":"{ip}"}}{rest}}}"#)
    })
}

fn call() -> impl Strategy<Value = Vec<u8>> {
    let change = prop::option::weighted(0.2, (any::<Index>(), any::<u8>()));
    let is_authorized = prop::bool::weighted(0.9);
    let headers = prop::collection::vec(header(), 0..3);
    (headers, body(), is_authorized, change).prop_map(|(headers, body, is_authorized, change)| {
        let token = format!("Bearer {}", TOKEN.1);
        let fields: Vec<(&str, &str)> =
            [JSON].into_iter().chain(is_authorized.then_some(("Authorization", &*token))).collect();
        let mut bytes = request("POST", CHECK, &fields, body.as_bytes());
        let head = bytes.iter().position(|byte| *byte == b'\n').expect("a line") + 1;
        bytes.splice(head..head, headers.concat().into_bytes());
        if let Some((place, byte)) = change {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        bytes
    })
}

#[test]
fn plain_calls_get_the_responses_of_the_library() {
    let (plain, library) = (start(SETTINGS), start(SETTINGS));
    let factor = env::var("TOLLGATE_PROPTEST_CASES").ok().and_then(|factor| factor.parse().ok());
    let cases = 300 * factor.unwrap_or(1_u32);
    let mut runner = TestRunner::new(ProptestConfig::with_cases(cases));
    let calls = prop::collection::vec(call(), 1..4);
    runner
        .run(&calls, |calls| {
            let bytes = calls.concat();
            let expected = responses(&library, &bytes, true);
            prop_assert_eq!(responses(&plain, &bytes, false), expected);
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{error}"));
}

/// Calls in all pieces that a network may make of them.
#[test]
fn calls_that_arrive_in_pieces_are_served() {
    let server = start(SETTINGS);
    let token = format!("Bearer {}", TOKEN.1);
    let body = br#"{"identifiers":{"user_id":"ann"},"cost":0}"#;
    let call = request("POST", CHECK, &[JSON, ("Authorization", &token)], body);
    let both = [&*call, &*call].concat();
    for end in (1..both.len()).step_by(7) {
        let mut connection = server.connect();
        connection.send(&both[..end]).expect("sent");
        // The first response shows that the server has read what was sent so far, if that is a call.
        let mut answered = 0;
        if end >= call.len() {
            assert_eq!(connection.answer().expect("a response").status, 200);
            answered = 1;
        }
        connection.send(&both[end..]).expect("sent");
        for _ in answered..2 {
            assert_eq!(connection.answer().expect("a response").status, 200, "{end}");
        }
    }
}

/// A head may have few fields by the settings: then the library counts them.
#[test]
fn the_number_of_fields_is_bounded_by_the_settings() {
    let server = start("check_auth: token\nlimits: {header_count: 10}\n");
    let fields = [&[JSON][..], &[("Accept", "*/*"); 8]].concat();
    assert_eq!(server.connect().ask(&request("POST", CHECK, &fields, b"{}")).status, 431);
}

#[test]
fn a_connection_without_plain_calls_ends_when_it_is_idle() {
    let server = start("check_auth: token\nlimits: {idle_timeout: 1s, header_timeout: 1s}\n");
    let token = format!("Bearer {}", TOKEN.1);
    let call = request("POST", CHECK, &[JSON, ("Authorization", &token)], b"{}");
    let mut connections: Vec<Connection> = (0..3).map(|_| server.connect()).collect();
    assert_eq!(connections[0].ask(&call).status, 200);
    let pipelined = [&*call, b"POST /api/v1/rate-"].concat();
    assert_eq!(connections[1].ask(&pipelined).status, 200);
    for connection in &mut connections {
        assert_eq!(connection.rest(), b"");
    }
}
