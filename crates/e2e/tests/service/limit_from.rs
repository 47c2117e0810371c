//! Limits that tokens carry: at forward-auth, in a check, and in an explanation.

use tollgate_e2e::server::{Server, Setup};

const RULES: &str = "
rules:
  - {rule_id: api, limit: 5, window: 1h, algorithm: fixed_window, identifier_type: user_id,
     limit_from: {claim: rate_limit, ceiling: 8}}
  - {rule_id: address, limit: 100, window: 1h, algorithm: fixed_window, identifier_type: ip}
";
/// With the path of the request behind it.
const AUTHORIZE: &str = "/api/v1/rate-limit/authorize/home";
const SECRET: &str = "a secret of at least thirty-two bytes";

/// The claims of tokens, all with `{"alg":"HS256"}`, `"exp":4102444800` and a signature with the secret.
const ALICE: &str = // {"sub":"alice"}
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbGljZSIsImV4cCI6NDEwMjQ0NDgwMH0.TTNd3xGvUAMfdUy6D5VrhmUufGKfyYaUI5JEtdUvU5I";
const ALICE_WITH_2: &str = // {"sub":"alice","rate_limit":2}
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbGljZSIsImV4cCI6NDEwMjQ0NDgwMCwicmF0ZV9saW1pdCI6Mn0.n5LYgPWltDzEhKQBWvfamuJqMuedw1rkZKabuTSHaHk";
const CAROL_WITH_TEXT: &str = // {"sub":"carol","rate_limit":"2"}
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJjYXJvbCIsImV4cCI6NDEwMjQ0NDgwMCwicmF0ZV9saW1pdCI6IjIifQ.gsv4TiLU62azMSEauDngxhfF2xNUmnXOjJh2tyd0mJY";
const DAVE_WITH_1000: &str = // {"sub":"dave","rate_limit":1000}
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJkYXZlIiwiZXhwIjo0MTAyNDQ0ODAwLCJyYXRlX2xpbWl0IjoxMDAwfQ.j95ZTH9dBtGbUl5Dk6gedbac6pqKwkXU1Tapg9zR_lo";
const ERIN_BELOW_ZERO: &str = // {"sub":"erin","rate_limit":-1}
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJlcmluIiwiZXhwIjo0MTAyNDQ0ODAwLCJyYXRlX2xpbWl0IjotMX0.tO9XzztDqetrX2A_OWiX9q9hjhvfFaPC3EUbDUcDhSA";

fn start() -> Server {
    Server::start(&Setup {
        rules: Some(RULES),
        settings: "identity: {jwt: {algorithms: [HS256]}}",
        environment: &[("TOLLGATE_JWT_SECRET", SECRET)],
        ..Setup::default()
    })
}

#[test]
fn forward_auth_takes_the_limit_of_a_verified_token() {
    let server = start();
    let check = |headers: &[(&str, &str)], expected: &str| {
        let answer = server.ask("GET", AUTHORIZE, headers, "");
        assert_eq!(answer.status, 200, "{headers:?}: {answer:?}");
        assert_eq!(answer.header("x-ratelimit-limit"), Some(expected), "{headers:?}");
    };
    let token = |token: &str| format!("Bearer {token}");
    let auth = "Authorization";
    check(&[(auth, &token(ALICE_WITH_2))], "2");
    check(&[(auth, &token(CAROL_WITH_TEXT))], "2");
    check(&[(auth, &token(DAVE_WITH_1000))], "8");
    check(&[(auth, &token(ERIN_BELOW_ZERO))], "5");
    // The same counter, under the limit of the rule: a token without the claim starts no new one.
    check(&[(auth, &token(ALICE))], "5");
    let used_up = server.ask("GET", AUTHORIZE, &[(auth, &token(ALICE_WITH_2))], "");
    assert_eq!(used_up.status, 429, "two were used: {used_up:?}");
    // A forged token carries nothing, and no header does.
    let forged = token(DAVE_WITH_1000).replace(".j95Z", ".j95Y");
    check(&[(auth, &forged)], "100");
    check(&[("Rate-Limit", "8"), ("Rate_Limit", "8")], "100");
}

#[test]
fn a_check_and_its_explanation_take_the_claim_of_the_caller() {
    let server = start();
    let body = r#"{"identifiers":{"user_id":"frank"},"attributes":{"claim:rate_limit":"7"}}"#;
    let answer = server.post("/api/v1/rate-limit/check", body).json();
    assert_eq!((&answer["limit"], &answer["remaining"]), (&7.into(), &6.into()), "{answer}");
    let explained = server.post("/api/v1/rate-limit/explain", body).json();
    let quota = &explained["rules"][0]["quota"];
    assert_eq!((&quota["limit"], &quota["limit_from"]), (&7.into(), &"claim:rate_limit".into()));
    let cut = body.replace("\"7\"", "\"9\"");
    let quota = server.post("/api/v1/rate-limit/explain", &cut).json()["rules"][0]["quota"].clone();
    assert_eq!(quota["limit_from"], "the ceiling of claim:rate_limit", "{quota}");
}
