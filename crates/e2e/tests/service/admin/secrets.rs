//! Secrets that must not be shown: API keys that name clients, and tokens to roles that may not list
//! them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use super::desk::{TestServer, step, text};
use tollgate_e2e::server::{CALLER_TOKEN, Setup};

const KEY: &str = "sk_live_PLAINTEXT_0001";
const CHECK: &str = "/api/v1/rate-limit/check";

fn digest() -> String {
    format!("sha256:{}", tollgate_catalog::digest_of(KEY))
}

fn is_denied(desk: &TestServer) -> bool {
    let body = json!({"identifiers": {"api_key": KEY}}).to_string();
    let answer = desk.call(CALLER_TOKEN, &step("POST", CHECK, &body)).json();
    answer["reason"] == "denied"
}

#[test]
fn api_keys_on_lists_are_shown_as_digests() {
    let desk = TestServer::open();
    let viewer = desk.token("viewer", None);
    let digest = digest();
    for written in [KEY, digest.as_str()] {
        let body = json!({"identifier_type": "api_key", "identifier": written}).to_string();
        let made = desk.as_admin("POST", "/api/v1/blacklist", &body);
        assert_eq!((made.status, text(&made.json(), "identifier")), (201, digest.clone()));
        assert!(is_denied(&desk));
        let client = json!({"identifier_type": ["api_key", "tenant"], "identifier": [written, "acme"], "tier": "pro"});
        desk.prepare("PUT", "/api/v1/clients", &client.to_string());
        for path in ["/api/v1/blacklist", "/api/v1/clients", "/api/v1/policy", "/api/v1/audit"] {
            let told = desk.call(&viewer, &step("GET", path, "")).text();
            assert!(told.contains(&digest) && !told.contains(KEY), "{path}: {told}");
        }
        for named in [KEY, digest.as_str()] {
            for query in ["identifier_type=api_key&", ""] {
                let found = desk.read(&format!("/api/v1/blacklist?{query}identifier={named}"));
                assert_eq!(found["blacklist"].as_array().map(Vec::len), Some(1), "{query}{named}");
            }
        }
        let of_client = format!(
            "/api/v1/clients?identifier_type=tenant&identifier_type=api_key&identifier=acme&identifier={written}"
        );
        desk.prepare("DELETE", &of_client, "");
        // Written as a key, removed by its digest, and the other way round.
        let other = if written == KEY { digest.as_str() } else { KEY };
        desk.prepare(
            "DELETE",
            &format!("/api/v1/blacklist?identifier_type=api_key&identifier={other}"),
            "",
        );
        assert!(!is_denied(&desk));
    }
    for name in ["tollgate.db", "tollgate.db-wal", "tollgate.db-shm"] {
        let file = desk.server.folder().join(name);
        let mode = fs::metadata(&file).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
        let bytes = fs::read(&file).expect("a file");
        assert!(!bytes.windows(KEY.len()).any(|it| it == KEY.as_bytes()), "{name} has the key");
    }
    let log = desk.server.process.errors();
    assert!(!log.contains(KEY) && !log.contains("other users"), "{log}");
}

#[test]
fn api_keys_of_a_rules_file_are_shown_as_digests() {
    for written in [KEY.to_owned(), digest()] {
        let desk = TestServer::with_rules(&format!(
            "
rules:
- {{rule_id: key, limit: 1, window: 1h, identifier_type: api_key,
   penalty: {{after: 1, within_seconds: 60, ban_seconds: 600}}}}
blacklist: [{{identifier_type: api_key, identifier: '{written}'}}]"
        ));
        assert!(is_denied(&desk));
        for path in [
            "/api/v1/blacklist",
            "/api/v1/policy",
            "/api/v1/blacklist?identifier=sk_live_PLAINTEXT_0001",
        ] {
            let told = desk.as_admin("GET", path, "").text();
            assert!(told.contains(&digest()) && !told.contains(KEY), "{path}: {told}");
        }
        let other = json!({"identifiers": {"api_key": "sk_other"}}).to_string();
        tollgate_e2e::until("a ban", || {
            let answer = desk.call(CALLER_TOKEN, &step("POST", CHECK, &other)).json();
            (answer["reason"] == "banned").then_some(())
        });
        let told = desk.as_admin("GET", "/api/v1/bans", "").text();
        assert!(told.contains("sha256:") && !told.contains("sk_other"), "{told}");
        desk.prepare("DELETE", "/api/v1/bans?rule_id=key&identifier=sk_other", "");
    }
}

#[test]
fn a_catalog_that_other_users_can_read_is_warned_about() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("tollgate.db");
    fs::write(&file, "").expect("written");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("permissions");
    let server = tollgate_e2e::server::Server::start_in(folder, &Setup::default());
    let log = server.process.errors();
    assert!(log.contains("other users can read the catalog") && log.contains("mode 644"), "{log}");
}

#[test]
fn viewers_do_not_see_tokens_in_the_audit_log() {
    let desk = TestServer::open();
    let made = desk.prepare(
        "POST",
        "/api/v1/tokens",
        r#"{"role":"tenant-admin","tenant":"acme","name":"secret-name"}"#,
    );
    let (tenant_admin, id) = (text(&made, "token"), text(&made, "token_id"));
    let names = [desk.token("viewer", None), desk.token("operator", None), tenant_admin];
    for token in &names {
        let answer = desk.call(token, &step("GET", "/api/v1/audit?kind=token", ""));
        assert_eq!((answer.status, answer.code().as_str()), (403, "right_missing"), "{answer:?}");
        for path in ["/api/v1/audit".to_owned(), format!("/api/v1/audit?entry={id}")] {
            let page = desk.call(token, &step("GET", &path, ""));
            assert_eq!(page.status, 200, "{page:?}");
            let lines =
                desk.call(token, &step("GET", &path, "").when("Accept", "application/x-ndjson"));
            let told = page.text() + &lines.text();
            assert!(!told.contains("secret-name") && !told.contains(r#""kind":"token""#), "{told}");
        }
    }
    let told: Value = desk.read("/api/v1/audit?kind=token");
    assert!(told.to_string().contains("secret-name"), "{told}");
}

/// Names that no database can store get the same response from every call.
#[test]
fn nul_bytes_in_names_are_a_400() {
    let desk = TestServer::open();
    let rule = r#"{"limit": 1, "window": "1h", "identifier_type": "user_id"}"#;
    for (method, path, body) in [
        ("GET", "/api/v1/rules/a%00", ""),
        ("PUT", "/api/v1/rules/a%00", rule),
        ("PATCH", "/api/v1/rules/a%00", r#"{"limit": 1}"#),
        ("DELETE", "/api/v1/rules/a%00", ""),
        ("GET", "/api/v1/users/a%00/limits", ""),
        ("PUT", "/api/v1/users/a%00/tier", r#"{"tier": "pro"}"#),
        ("DELETE", "/api/v1/tokens/a%00", ""),
        ("DELETE", "/api/v1/api-keys/a%00", ""),
    ] {
        let answer = desk.as_admin(method, path, body);
        let place = format!("{method} {path}: {answer:?}");
        assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_path"), "{place}");
        assert!(answer.text().contains("NUL byte"), "{place}");
    }
    for (method, path) in [
        ("GET", "/api/v1/rules?tenant=a%00"),
        ("GET", "/api/v1/rules?after=a%00"),
        ("GET", "/api/v1/clients?tier=a%00"),
        ("GET", "/api/v1/overrides?rule_id=a%00"),
        ("GET", "/api/v1/blacklist?identifier_type=user_id&identifier=a%00"),
        ("DELETE", "/api/v1/blacklist?identifier_type=user_id&identifier=a%00"),
        ("GET", "/api/v1/bans?rule_id=a%00"),
        ("DELETE", "/api/v1/bans?rule_id=a%00&identifier=a"),
        ("GET", "/api/v1/audit?entry=a%00"),
        ("GET", "/api/v1/audit/decisions?client=a%00"),
        ("GET", "/api/v1/tokens?tenant=a%00"),
    ] {
        let answer = desk.as_admin(method, path, "");
        let place = format!("{method} {path}: {answer:?}");
        assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_query"), "{place}");
        assert!(answer.text().contains("NUL byte"), "{place}");
    }
}
