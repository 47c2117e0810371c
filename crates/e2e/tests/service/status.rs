//! The status of a client's own limits: by a token, an API key, or its address.

use serde_json::{Value, json};

use tollgate_e2e::server::{Server, Setup};

const RULES: &str = "
rules:
  - {rule_id: per_user, limit: 50, window: 1h, identifier_type: user_id}
  - {rule_id: per_key, limit: 40, window: 1h, identifier_type: api_key}
  - {rule_id: per_address, limit: 30, window: 1h, identifier_type: ip}
  - {rule_id: login, limit: 3, window: 1h, identifier_type: ip, applies_to: {endpoints: [/login]}}
";
/// The digest is that of `key-squeamish-ossifrage`.
const SETTINGS: &str = "
identity:
  trusted_proxies: []
  jwt: {algorithms: [HS256]}
  known_api_keys:
    - {key: 'sha256:a3d14cb757b51682d049487938822afe8b384b4ae5d8d309568552a89a115672', owner: bob}
";
const SECRET: &str = "a secret of at least thirty-two bytes";
const API_KEY: &str = "key-squeamish-ossifrage";
/// `{"alg":"HS256"}`, `{"sub":"alice","exp":4102444800}` and the signature with the secret.
const TOKEN: &str = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbGljZSIsImV4cCI6NDEwMjQ0NDgwMH0.TTNd3xGvUAMfdUy6D5VrhmUufGKfyYaUI5JEtdUvU5I";

fn start() -> Server {
    Server::start(&Setup {
        rules: Some(RULES),
        settings: SETTINGS,
        environment: &[("TOLLGATE_JWT_SECRET", SECRET)],
        ..Setup::default()
    })
}

fn status(server: &Server, query: &str, headers: &[(&str, &str)]) -> Value {
    let path = format!("/api/v1/rate-limits/status{query}");
    let answer = server.ask("GET", &path, headers, "");
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

/// The rules in the status of a client, and what is left of each.
fn limits(status: &Value) -> Vec<(String, u64)> {
    let limits = status["limits"].as_array().expect("limits").iter();
    let limit = |limit: &Value| {
        let reset = limit["reset_at"].as_str().expect("a time");
        assert!(reset.len() == 20 && reset.ends_with('Z'), "{reset}");
        assert!(limit["full_at"].is_string(), "{limit}");
        assert_eq!(limit["window_seconds"].as_u64(), Some(3600), "a whole number");
        let rule = limit["rule_id"].as_str().expect("a rule").to_owned();
        (rule, limit["remaining"].as_u64().expect("a number"))
    };
    limits.map(limit).collect()
}

#[test]
fn clients_are_known_by_token_key_and_address() {
    let server = start();
    let token = format!("Bearer {TOKEN}");
    let forged = format!("Bearer {}", TOKEN.replace('.', ".e"));
    let check = |headers: &[(&str, &str)], client: &str, rules: &[&str]| {
        let told = status(&server, "", headers);
        assert_eq!(told["client_id"], client, "{headers:?}");
        let told: Vec<_> = limits(&told).into_iter().map(|(rule, _)| rule).collect();
        assert_eq!(told, rules, "{headers:?}");
    };
    check(&[], "127.0.0.1", &["per_address"]);
    check(&[("Authorization", &token)], "alice", &["per_user", "per_address"]);
    check(&[("X-API-Key", API_KEY)], "bob", &["per_user", "per_key", "per_address"]);
    // An unverified credential identifies no client: else each invented one had a fresh quota.
    check(&[("Authorization", &forged)], "127.0.0.1", &["per_address"]);
    check(&[("X-API-Key", "invented")], "127.0.0.1", &["per_address"]);
    check(&[("X-Forwarded-For", "192.0.2.1")], "127.0.0.1", &["per_address"]);
    let log = server.process.errors();
    for secret in [TOKEN, API_KEY, SECRET] {
        assert!(!log.contains(secret), "{log}");
    }
}

#[test]
fn the_status_reports_usage_and_charges_nothing() {
    let server = start();
    let token = ("Authorization", &*format!("Bearer {TOKEN}"));
    for _ in 0..2 {
        let headers = [token, ("X-Forwarded-Uri", "/login")];
        assert_eq!(server.ask("GET", "/api/v1/rate-limit/authorize", &headers, "").status, 200);
    }
    for _ in 0..3 {
        let told = limits(&status(&server, "", &[token]));
        assert_eq!(told, [("per_user".to_owned(), 48), ("per_address".to_owned(), 28)]);
    }
    let told = limits(&status(&server, "?endpoint=/login", &[]));
    let expected = json!([["login", 1], ["per_address", 28]]);
    assert_eq!(json!(told), expected, "limits of single endpoints are shown on request");
    let bad = server.get("/api/v1/rate-limits/status?enpoint=/login");
    assert_eq!((bad.status, bad.code().as_str()), (400, "invalid_query"));
}
