//! A session with curl, as in the documentation.

use std::process::Command;

use serde_json::{Value, json};

use tollgate_e2e::program::{curl, curl_from};
use tollgate_e2e::server::{CALLER_TOKEN, CHECK, Server, Setup};

const RULES: &str = "
rules:
  - {rule_id: per_user, limit: 2, window: 1h, identifier_type: user_id}
  - {rule_id: per_address, limit: 100, window: 1h, identifier_type: ip}
";

fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn the_suggested_call_works() {
    let server = Server::with_rules(RULES);
    let said = server.process.output();
    let (_, command) = said.split_once("try ").expect("something to try");
    let ran = Command::new("sh").args(["-c", command]).output().expect("a shell");
    let answer = parse(&String::from_utf8_lossy(&ran.stdout));
    assert_eq!((&answer["allowed"], &answer["rule_id"]), (&json!(true), &json!("per_user")));
}

/// The call used to name a variable that is not set if the token is in a file.
#[test]
fn the_suggested_call_has_the_token_of_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("check token"), CALLER_TOKEN).expect("written");
    let settings =
        format!("check_auth: token\ncheck_token_file: {}/check token", folder.path().display());
    let setup = Setup { rules: Some(RULES), settings: &settings, ..Setup::default() };
    let server = Server::start(&setup);
    let said = server.process.output();
    let (_, command) = said.split_once("try ").expect("something to try");
    let ran = Command::new("sh").args(["-c", command]).output().expect("a shell");
    assert_eq!(parse(&String::from_utf8_lossy(&ran.stdout))["allowed"], true, "{said}");
}

#[test]
fn a_session_from_the_first_check_to_an_explained_refusal() {
    let server = Server::with_rules(RULES);
    let url = server.url(CHECK);
    let body = r#"{"identifiers":{"user_id":"alice"},"endpoint":"/orders","method":"POST"}"#;
    let check = |more: &[&str]| curl_from("127.0.0.1", &url, &[&["--json", body], more].concat());

    let first = check(&[]);
    assert_eq!((first.status, first.header("x-ratelimit-remaining")), (200, Some("1")));
    assert_eq!(first.json()["allowed"], true);

    // A call that is repeated with its key is charged once.
    let key = ["--header", "X-Idempotency-Key: order-7"];
    let (second, again) = (check(&key), check(&key));
    assert_eq!(second.json()["remaining"], 0);
    assert_eq!(second.json(), again.json());
    assert_eq!(second.header("x-idempotency-replayed"), None);
    assert_eq!(again.header("x-idempotency-replayed"), Some("true"));

    let refused = check(&[]);
    let answer = refused.json();
    assert_eq!(refused.status, 200, "a check is answered, whatever the answer");
    assert_eq!((&answer["allowed"], &answer["reason"]), (&json!(false), &json!("rate_limited")));
    assert_eq!(answer["rule_id"], "per_user");
    let wait = answer["retry_after"].as_u64().expect("seconds");
    assert_eq!(refused.header("retry-after"), Some(wait.to_string().as_str()));

    let explained = curl(&["--json", body, &server.url("/api/v1/rate-limit/explain")]);
    let rules = parse(&explained)["rules"].as_array().expect("rules").clone();
    let applies = |id: &str| rules.iter().find(|rule| rule["rule_id"] == id).cloned();
    assert!(applies("per_user").is_some() && applies("per_address").is_some(), "{explained}");
}
