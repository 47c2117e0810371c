//! The permission that each call needs.

use serde_json::{Value, json};

use tollgate_e2e::grpc::{
    AUTHORIZE, CHECK_BATCH, CHECK_RATE_LIMIT, Client, Failure, GET_REMAINING_QUOTA, HEALTH, REFUND,
    RESET_LIMIT, SHOULD_RATE_LIMIT, request,
};
use tollgate_e2e::process::Process;
use tollgate_e2e::server::{ADMIN_TOKEN, CALLER_TOKEN, Server, Setup, command};

fn start(settings: &str) -> Server {
    let environment = [("TOLLGATE_CHECK_TOKEN", CALLER_TOKEN)];
    Server::start(&Setup { settings, environment: &environment, ..Setup::default() })
}

fn code(answer: Result<Value, Failure>) -> String {
    answer.map_or_else(|failure| failure.code, |_| "OK".to_owned())
}

#[test]
fn every_call_needs_its_permission() {
    const OPEN: [&str; 3] = ["OK", "OK", "OK"];
    const CALLERS: [&str; 3] = ["UNAUTHENTICATED", "OK", "OK"];
    const OPERATORS: [&str; 3] = ["UNAUTHENTICATED", "PERMISSION_DENIED", "OK"];
    let ann = json!({"identifier": "ann"});
    let authorized = json!({"attributes": {"request": {"http": {"method": "GET", "path": "/"}}}});
    let calls = [
        (CHECK_RATE_LIMIT, ann.clone(), OPEN, CALLERS),
        (GET_REMAINING_QUOTA, ann.clone(), OPEN, CALLERS),
        (CHECK_BATCH, json!({"checks": [ann]}), OPEN, CALLERS),
        (REFUND, json!({"check": ann}), OPERATORS, OPERATORS),
        (RESET_LIMIT, ann, OPERATORS, OPERATORS),
        (SHOULD_RATE_LIMIT, request("any", &[&["user=ann"]]), OPEN, CALLERS),
        (AUTHORIZE, authorized, OPEN, CALLERS),
        (HEALTH, json!({}), OPEN, OPEN),
    ];
    for (settings, is_open) in [("check_auth: none", true), ("check_auth: token", false)] {
        let server = start(settings);
        let mut client = Client::of(&server);
        for (method, message, open, closed) in &calls {
            let answers = [
                client.try_call(method, message),
                client.try_call_as(CALLER_TOKEN, method, message),
                client.try_call_as(ADMIN_TOKEN, method, message),
            ];
            let expected = if is_open { open } else { closed };
            assert_eq!(&answers.map(code), expected, "{settings} {method}");
        }
        let log = server.process.errors();
        assert!(!log.contains(ADMIN_TOKEN) && !log.contains(CALLER_TOKEN), "{log}");
    }
}

#[test]
fn guesses_of_tokens_are_bounded() {
    let server = start("check_auth: token");
    let mut client = Client::of(&server);
    let message = json!({"identifier": "ann"});
    let mut guess = |token: &str| client.try_call_as(token, CHECK_RATE_LIMIT, &message);
    for number in 0..20 {
        assert_eq!(code(guess(&format!("guess-{number}"))), "UNAUTHENTICATED", "{number}");
    }
    let refused = guess("guess-20").expect_err("too many guesses");
    assert_eq!(refused.code, "RESOURCE_EXHAUSTED", "{refused:?}");
    assert!(refused.metadata["retry-after"].is_string(), "{refused:?}");
    assert_eq!(code(guess(CALLER_TOKEN)), "OK", "the right token still works");
    assert!(!server.process.errors().contains("guess-"), "{}", server.process.errors());
}

#[test]
fn calls_to_the_server_are_rate_limited() {
    let server = start("{check_auth: none, limits: {check_calls_per_second: 1}}");
    let mut client = Client::of(&server);
    let asked = request("any", &[&["user=ann"]]);
    let refused = (0..100).find_map(|_| client.try_call(SHOULD_RATE_LIMIT, &asked).err());
    let refused = refused.expect("a refusal");
    assert_eq!(refused.code, "RESOURCE_EXHAUSTED", "{refused:?}");
    assert!(refused.detail.contains("limits.check_calls_per_second"), "{refused:?}");
    assert_eq!(code(client.try_call(HEALTH, &json!({}))), "OK", "health is another matter");
}

#[test]
fn a_port_on_a_public_address_needs_check_auth() {
    let folder = tempfile::tempdir().expect("a folder");
    let check = |address: &str| {
        let setup = Setup { arguments: &["--grpc", address], ..Setup::default() };
        let mut process = Process::start(&mut command(&setup, folder.path()));
        assert_eq!(process.end().code(), Some(2), "{address}");
        let errors = process.errors();
        let expected = format!("{address} can be reached from other machines");
        assert!(errors.contains(&expected) && errors.lines().count() == 1, "{errors}");
        assert_eq!(process.output(), "");
    };
    check("0.0.0.0:0");
    check("[::]:0");
    let server = start("{check_auth: token, grpc: '0.0.0.0:0'}");
    drop(server);
}
