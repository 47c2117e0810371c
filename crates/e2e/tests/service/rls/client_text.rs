//! Clients choose the length and the bytes of what Envoy sends. Envoy lets a request pass whose check
//! failed, so neither may make one fail.

use serde_json::{Value, json};

use super::{ask, brief, start};
use tollgate_e2e::client::{Connection, request as http_request};
use tollgate_e2e::grpc::{Client, SHOULD_RATE_LIMIT, descriptor, request};
use tollgate_e2e::server::{JSON, Server};

const FILE: &str = "
domain: test
descriptors:
  - {key: user, rate_limit: {unit: year, requests_per_unit: 2}}
  - key: path
    value: /login*end
    share_threshold: true
    rate_limit: {unit: year, requests_per_unit: 3}
";

/// Sends a message as bytes: Python refuses to write text that is not UTF-8.
fn send_raw(client: &mut Client, message: &[u8]) -> Value {
    let bytes: String = message.iter().map(|byte| format!("{byte:02x}")).collect();
    let asked = json!({"raw": SHOULD_RATE_LIMIT, "bytes": bytes, "times": 1});
    client.ask(&asked).unwrap_or_else(|failure| panic!("{message:?}: {failure:?}"))
}

/// A message with one descriptor of one entry, as bytes. Texts are shorter than 100 bytes.
fn message(domain: &[u8], key: &[u8], value: &[u8]) -> Vec<u8> {
    let field = |number: u8, content: &[u8]| {
        let length = u8::try_from(content.len()).expect("a short text");
        [&[number << 3 | 2, length], content].concat()
    };
    let entry = [field(1, key), field(2, value)].concat();
    [field(1, domain), field(2, &field(1, &entry))].concat()
}

/// The `overall_code` of a response as bytes: field 1, a number.
fn is_over(response: &Value) -> bool {
    let bytes = response.as_str().unwrap_or_else(|| panic!("no bytes: {response}"));
    assert!(bytes.starts_with("0801") || bytes.starts_with("0802"), "{bytes}");
    bytes.starts_with("0802")
}

#[test]
fn a_value_of_any_length_is_counted() {
    let server = start(FILE);
    let mut client = Client::of(&server);
    for length in [1_024, 1_025, 4_096, 4_097, 60_000, 900_000, 2_000_000] {
        let long = format!("user={}", "x".repeat(length));
        for expected in ["OK, OK 1", "OK, OK 0", "OVER_LIMIT, OVER_LIMIT 0"] {
            assert_eq!(ask(&mut client, &[&[&long]]), expected, "{length} bytes");
        }
        let other = format!("{long}y");
        assert_eq!(ask(&mut client, &[&[&other]]), "OK, OK 1", "another value of {length} bytes");
        // A long value next to an exhausted limit does not hide it.
        let long_key = format!("{}=x", "k".repeat(length));
        let both = ask(&mut client, &[&[&long], &[&long_key]]);
        assert_eq!(both, "OVER_LIMIT, OVER_LIMIT 0, OK 0", "{length} bytes");
    }
    let domain = "d".repeat(60_000);
    let unknown = client.should_rate_limit(&request(&domain, &[&["key=value"]]));
    assert_eq!(brief(&unknown), "OK, OK 0", "a domain without rules");
}

#[test]
fn a_long_value_is_matched_as_a_whole() {
    let server = start(FILE);
    let mut client = Client::of(&server);
    for (length, left) in [(10, 2), (5_000, 1), (60_000, 0)] {
        let path = format!("path=/login?{}end", "x".repeat(length));
        assert_eq!(ask(&mut client, &[&[&path]]), format!("OK, OK {left}"), "{length} bytes");
    }
    let other = format!("path=/login?{}END", "x".repeat(60_000));
    let answer = client.should_rate_limit(&request("test", &[&[&other]]));
    assert_eq!(answer["statuses"][0]["current_limit"], Value::Null, "the end does not match");
}

#[test]
fn bytes_that_are_not_utf_8_are_counted() {
    let server = start(FILE);
    let mut client = Client::of(&server);
    for value in [&b"\xff"[..], b"j\xf6rg", b"\xc3\x28", b"\xe2\x82"] {
        let asked = message(b"test", b"user", value);
        let codes = [(); 3].map(|()| is_over(&send_raw(&mut client, &asked)));
        assert_eq!(codes, [false, false, true], "{value:?}");
    }
    let other = message(b"test", b"user", b"j\xe4rg");
    assert!(!is_over(&send_raw(&mut client, &other)), "different bytes have different counters");
    // Neither a key nor a domain of such bytes is an error.
    assert!(!is_over(&send_raw(&mut client, &message(b"test", b"\xff", b"x"))));
    assert!(!is_over(&send_raw(&mut client, &message(b"\xff", b"key", b"x"))));
}

/// A message beyond the bound cannot be checked. An error would let the request pass.
#[test]
fn a_message_that_is_too_large_is_refused_and_not_an_error() {
    let server = start(FILE);
    let mut client = Client::of(&server);
    for length in [4 << 20, 40 << 20] {
        let long = format!("other={}", "x".repeat(length));
        assert_eq!(ask(&mut client, &[&[&long]]), "OVER_LIMIT", "{length} bytes");
    }
    assert_eq!(ask(&mut client, &[&["user=ann"]]), "OK, OK 1", "the connection goes on");
}

/// It is small as it is sent, and was an error once it was decompressed.
#[test]
fn a_compressed_message_that_is_too_large_is_refused_and_not_an_error() {
    let server = start(FILE);
    let mut client = Client::of(&server);
    let mut ask = |length: usize| {
        let long = format!("user={}", "x".repeat(length));
        let message = request("test", &[&[&long]]);
        let answer =
            client.ask(&json!({"call": SHOULD_RATE_LIMIT, "message": message, "gzip": true}));
        brief(&answer.expect("no error"))
    };
    for length in [4 << 20, 40 << 20] {
        assert_eq!(ask(length), "OVER_LIMIT", "{length} bytes");
    }
    assert_eq!(ask(60_000), "OK, OK 1", "the connection goes on");
}

#[test]
fn json_counts_values_of_any_length() {
    let server = start(FILE);
    let status = |server: &Server, length: usize| {
        let long = format!("user={}", "x".repeat(length));
        let body = json!({"domain": "test", "descriptors": [descriptor(&[&long])]}).to_string();
        let asked = http_request("POST", "/json", &[JSON], body.as_bytes());
        Connection::open(server.address).ask(&asked).status
    };
    for length in [4_097, 60_000, 3_000_000] {
        let answers = [(); 3].map(|()| status(&server, length));
        assert_eq!(answers, [200, 200, 429], "{length} bytes");
    }
}
