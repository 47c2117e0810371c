//! No spelling of a path bypasses the rule for it.

use serde_json::json;

use tollgate_e2e::client::request;
use tollgate_e2e::server::{AUTHORIZE, CHECK, JSON, Server, Setup};

const RULES: &str = "
rules:
  - rule_id: login
    limit: 1
    window: 1h
    identifier_type: ip
    applies_to: {endpoints: [/login]}
";

/// All of them are `/login`.
const SPELLINGS: &[&str] = &[
    "/login",
    "/login/",
    "/login//",
    "//login",
    "///login",
    "/./login",
    "/login/.",
    "/a/../login",
    "/../login",
    "/../../login",
    "/login/a/..",
    "/%6cogin",
    "/%6Cogin",
    "/l%6Fgin",
    "/%6c%6f%67%69%6e",
    "/%2e/login",
    "/%2E%2e/login",
    "/a/%2e%2e/login",
    "/a/.%2E/login",
    "/login?next=/orders",
    "/login?",
    "/login/?a=//b",
    "/login?q=\u{fc}",
    "/\u{fc}/../login",
    "/login#top",
];

/// These are something else, and not limited.
const OTHERS: &[&str] = &["/LOGIN", "/log%69n2", "/login/a", "/a/login", "/logi", "/"];

/// A client logs in once, which is its limit, and then with every spelling.
fn check(client: &str, server: &Server, ask: impl Fn(&str) -> Vec<u8>) {
    let mut connection = server.connect();
    let mut is_allowed = |path: &str| {
        let answer = connection.ask(&ask(path));
        match answer.status {
            200 if answer.body.is_empty() => true,
            200 => answer.json()["allowed"] == true,
            // A malformed path does not pass either.
            400 | 429 => false,
            _ => panic!("{client} {path}: {answer:?}"),
        }
    };
    assert!(is_allowed("/login"), "{client}");
    for path in SPELLINGS {
        assert!(!is_allowed(path), "{client}: {path} slips past");
    }
    for path in OTHERS {
        assert!(is_allowed(path), "{client}: {path} is another path");
    }
}

#[test]
fn every_spelling_of_a_path_is_limited_by_its_rule() {
    let server = Server::start(&Setup {
        rules: Some(RULES),
        settings: "identity: {trusted_proxies: [127.0.0.1/32]}",
        ..Setup::default()
    });
    check("192.0.2.1", &server, |path| {
        let body = json!({"identifiers": {"ip": "192.0.2.1"}, "endpoint": path}).to_string();
        request("POST", CHECK, &[JSON], body.as_bytes())
    });
    let headers = ["X-Original-URI", "X-Forwarded-Uri"];
    let scopes = ["", "https://shop.example", "HTTP://shop.example:8080"];
    let ways = headers.iter().flat_map(|header| scopes.iter().map(move |scope| (header, scope)));
    for (number, (header, scope)) in ways.enumerate() {
        let client = format!("192.0.2.1{number}");
        check(&client, &server, |path| {
            let uri = format!("{scope}{path}");
            let headers = [(*header, uri.as_str()), ("X-Forwarded-For", &client)];
            request("GET", AUTHORIZE, &headers, b"")
        });
    }
    check("192.0.2.2", &server, |path| {
        // A fragment never leaves a client.
        let path = path.split('#').next().unwrap_or_default();
        let headers = [("X-Forwarded-For", "192.0.2.2")];
        request("GET", &format!("{AUTHORIZE}{path}"), &headers, b"")
    });
}

#[test]
fn a_path_that_is_not_text_is_limited_by_its_rule() {
    let server = Server::with_rules(RULES);
    let mut connection = server.connect();
    let mut ask = |header: &str, path: &[u8]| {
        let head = format!("GET {AUTHORIZE} HTTP/1.1\r\nHost: a\r\n{header}: ");
        connection.ask(&[head.as_bytes(), path, b"\r\n\r\n"].concat()).status
    };
    assert_eq!(ask("X-Original-URI", b"/login"), 200);
    for header in ["X-Original-URI", "X-Forwarded-Uri"] {
        for path in [&b"/login?\xff"[..], b"/login/?a=\xc3\x28"] {
            assert_eq!(ask(header, path), 429, "{header}: {}", String::from_utf8_lossy(path));
        }
        assert_eq!(ask(header, b"/\xff/../login"), 400, "{header}");
        assert_eq!(ask(header, b"/x#/../login\xfe"), 400, "{header}");
    }
}
