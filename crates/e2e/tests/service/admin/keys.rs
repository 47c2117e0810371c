//! API keys and tokens: shown once, kept as digests, and invalid once revoked.

use serde_json::{Value, json};

use super::desk::{TestServer, step, text};
use tollgate_e2e::server::{ADMIN_TOKEN, Server, Setup};
use tollgate_e2e::until;

const KEYS: &str = "/api/v1/api-keys";
const TOKENS: &str = "/api/v1/tokens";

#[test]
fn api_keys_are_made_shown_once_and_removed() {
    let desk = TestServer::open();
    desk.prepare("PUT", "/api/v1/tiers", r#"{"tiers": [{"tier": "pro"}]}"#);
    let body = r#"{"name": "import", "owner": "alice", "tier": "pro", "tenant": "acme"}"#;
    let tried = desk.prepare("POST", "/api/v1/api-keys?dry_run=true", body);
    assert_eq!(tried["changes"][0]["action"], "create");
    assert_eq!(desk.read(KEYS), json!({"api_keys": []}));

    let made = desk.prepare("POST", KEYS, body);
    let (id, key) = (text(&made, "key_id"), text(&made, "key"));
    assert!(key.starts_with(&format!("tk_{id}_")), "{made}");
    assert_eq!(made["owner"], "alice");
    let given = desk.prepare("POST", KEYS, r#"{"key": "sk_live_1", "owner": "bob"}"#);
    assert_eq!(given["key"], Value::Null, "the caller knows it");
    let listed = desk.read(KEYS);
    assert_eq!(listed["api_keys"].as_array().map(Vec::len), Some(2));
    let told = listed.to_string();
    for secret in ["digest", "sk_live_1", key.as_str()] {
        assert!(!told.contains(secret), "{told}");
    }
    let of_acme = desk.read("/api/v1/api-keys?tenant=acme&tier=pro");
    assert_eq!(of_acme["api_keys"][0]["key_id"], json!(id));
    assert_eq!(of_acme["api_keys"].as_array().map(Vec::len), Some(1));

    let path = format!("{KEYS}/{id}");
    let dry_delete = format!("{path}?dry_run=true");
    let long = json!({"key": "k".repeat(1_025)}).to_string();
    #[rustfmt::skip]
    desk.check(&[
        (step("POST", KEYS, r#"{"key": "sk_live_1"}"#), 409, "known_api_key"),
        (step("POST", KEYS, r#"{"key": ""}"#), 422, "key: a text of 1 to 1024 bytes"),
        (step("POST", KEYS, &long), 422, "key: a text of 1 to 1024 bytes"),
        (step("POST", KEYS, r#"{"tier": "gold"}"#), 422, "\"field\":\"tier\""),
        (step("POST", KEYS, r#"{"digest": "x"}"#), 400, "unknown field"),
        (step("POST", KEYS, "[]"), 400, "invalid_body"),
        (step("GET", "/api/v1/api-keys?owner=bob", ""), 400, "no parameter `owner`"),
        (step("PUT", "/api/v1/tiers", r#"{"tiers": [{"tier": "free"}]}"#), 409, "1 API key is in the tier pro"),
        (step("PUT", "/api/v1/tiers", r#"{"tiers": []}"#), 409, "1 API key is in the tier pro"),
        (step("DELETE", &dry_delete, ""), 200, "\"action\":\"delete\""),
        (step("DELETE", &path, "").when("If-Match", "\"1\""), 412, "changed_meanwhile"),
        (step("DELETE", &path, ""), 204, ""),
        (step("DELETE", &path, ""), 404, "unknown_api_key"),
    ]);
    let log = desk.server.process.errors();
    assert!(!log.contains(&key) && !log.contains("sk_live_1"), "{log}");
}

#[test]
fn tokens_are_made_shown_once_and_revoked() {
    let desk = TestServer::open();
    let body = r#"{"role": "viewer", "name": "dashboard", "expires_at": "2090-01-01T00:00:00Z"}"#;
    desk.prepare("POST", "/api/v1/tokens?dry_run=true", body);
    assert_eq!(desk.read(TOKENS), json!({"tokens": []}));
    let made = desk.prepare("POST", TOKENS, body);
    let (id, token) = (text(&made, "token_id"), text(&made, "token"));
    assert_eq!((&made["role"], &made["name"]), (&json!("viewer"), &json!("dashboard")));
    let listed = desk.read(TOKENS);
    assert_eq!(listed["tokens"][0]["token_id"], json!(id));
    assert_eq!(listed["tokens"][0]["last_used"], Value::Null);
    assert!(!listed.to_string().contains("digest") && !listed.to_string().contains(&token));
    desk.token("tenant-admin", Some("acme"));
    let of_acme = desk.read("/api/v1/tokens?tenant=acme");
    assert_eq!(of_acme["tokens"][0]["role"], "tenant-admin");

    assert_eq!(desk.call(&token, &step("GET", "/api/v1/clients", "")).status, 200);
    until("word that the token is in use", || {
        let listed = desk.read(TOKENS);
        let mut tokens = listed["tokens"].as_array().expect("tokens").iter();
        let used = tokens.find(|it| it["token_id"] == json!(id))?["last_used"].as_str()?.to_owned();
        used.ends_with('Z').then_some(())
    });

    let path = format!("{TOKENS}/{id}");
    let dry_delete = format!("{path}?dry_run=true");
    #[rustfmt::skip]
    desk.check(&[
        (step("POST", TOKENS, "{}"), 400, "missing field `role`"),
        (step("POST", TOKENS, r#"{"role": "god"}"#), 422, "role: one of admin, operator"),
        (step("POST", TOKENS, r#"{"role": "tenant-admin"}"#), 422, "needs the tenant"),
        (step("POST", TOKENS, r#"{"role": "viewer", "tenant": "acme"}"#), 422, "only a tenant-admin"),
        (step("POST", TOKENS, r#"{"role": "viewer", "expires_at": "soon"}"#), 422, "expires_at"),
        (step("POST", TOKENS, r#"{"role": "viewer", "expires_at": "2001-01-01T00:00:00Z"}"#), 422, "a time to come"),
        (step("POST", TOKENS, r#"{"role": "viewer", "name": ""}"#), 422, "name: a text"),
        (step("POST", TOKENS, r#"{"role": "viewer", "token": "tg_1"}"#), 400, "unknown field"),
        (step("DELETE", &dry_delete, ""), 200, "\"action\":\"delete\""),
        (step("DELETE", &path, "").when("If-Match", "\"1\""), 412, "changed_meanwhile"),
        (step("DELETE", &path, ""), 204, ""),
        (step("DELETE", &path, ""), 404, "unknown_token"),
    ]);
    let refused = desk.call(&token, &step("GET", "/api/v1/clients", ""));
    assert_eq!((refused.status, refused.code().as_str()), (401, "wrong_token"));
    let log = desk.server.process.errors();
    assert!(!log.contains(&token), "{log}");
}

/// The token that a server without one in its settings prints when it starts for the first time.
fn printed_token(server: &Server) -> String {
    let said = server.process.output();
    let line = said.lines().find_map(|line| line.strip_prefix("token "));
    line.and_then(|rest| rest.split_whitespace().next()).expect("a token").to_owned()
}

#[test]
fn the_last_administrator_is_not_locked_out() {
    // An empty variable counts as absent.
    let environment = [("TOLLGATE_ADMIN_TOKEN", "")];
    let desk = TestServer::with(&Setup { environment: &environment, ..Setup::default() });
    let first = printed_token(&desk.server);
    let listed = desk.call(&first, &step("GET", TOKENS, "")).json();
    let first_path = format!("{TOKENS}/{}", text(&listed["tokens"][0], "token_id"));
    let refused = desk.call(&first, &step("DELETE", &first_path, ""));
    assert_eq!((refused.status, refused.code().as_str()), (409, "last_admin_token"));
    let operator = desk.call(&first, &step("POST", TOKENS, r#"{"role": "operator"}"#));
    assert_eq!(operator.status, 201);
    assert_eq!(desk.call(&first, &step("DELETE", &first_path, "")).status, 409);
    let second = desk.call(&first, &step("POST", TOKENS, r#"{"role": "admin"}"#)).json();
    assert_eq!(desk.call(&first, &step("DELETE", &first_path, "")).status, 204);
    assert_eq!(desk.call(&first, &step("GET", TOKENS, "")).status, 401);
    let second_path = format!("{TOKENS}/{}", text(&second, "token_id"));
    let refused = desk.call(&text(&second, "token"), &step("DELETE", &second_path, ""));
    assert_eq!((refused.status, refused.code().as_str()), (409, "last_admin_token"));

    // A token in the settings is always valid.
    let settled = TestServer::open();
    let made = settled.prepare("POST", TOKENS, r#"{"role": "admin"}"#);
    settled.prepare("DELETE", &format!("{TOKENS}/{}", text(&made, "token_id")), "");
}

#[test]
fn guesses_of_the_secret_of_a_known_token_are_bounded() {
    let desk = TestServer::open();
    let token = desk.token("operator", None);
    let guess = |number: usize| {
        let mut guessed = token.clone();
        guessed.truncate(guessed.len() - 2);
        guessed.push_str(&format!("{number:02}"));
        let guessed = if guessed == token { format!("{guessed}0") } else { guessed };
        desk.call(&guessed, &step("GET", "/api/v1/rules", ""))
    };
    for number in 0..20 {
        let answer = guess(number);
        assert_eq!((answer.status, answer.code().as_str()), (401, "wrong_token"), "{number}");
    }
    let refused = guess(20);
    assert_eq!((refused.status, refused.code().as_str()), (429, "too_many_calls"));
    assert!(refused.header("retry-after").is_some(), "{refused:?}");
    for known in [token.as_str(), ADMIN_TOKEN] {
        let answer = desk.call(known, &step("GET", "/api/v1/rules", ""));
        assert_eq!(answer.status, 200, "no other client is locked out: {answer:?}");
    }
}
