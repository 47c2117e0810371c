//! Credentials that an upstream would accept: none of them bypasses the limits of its owner.

use crate::gateway::Gateway;
use crate::raw::{RawUpstream, field};
use crate::upstream::Upstream;
use tollgate_e2e::client::{Answer, request};
use tollgate_e2e::server::{Server, Setup};

const SECRET: &str = "a secret of at least thirty-two bytes";
/// `{"alg":"HS256"}`, `{"sub":"alice","exp":4102444800}` and the signature with the secret.
const TOKEN: &str = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbGljZSIsImV4cCI6NDEwMjQ0NDgwMH0.TTNd3xGvUAMfdUy6D5VrhmUufGKfyYaUI5JEtdUvU5I";
const API_KEY: &str = "key-squeamish-ossifrage";
const RULES: &str = "
rules:
  - {rule_id: per_user, limit: 1, window: 1h, algorithm: fixed_window, identifier_type: user_id}
";
const KNOWN_KEYS: &str = "
  tenant_header: x-tenant
  known_api_keys:
    - {key: 'sha256:a3d14cb757b51682d049487938822afe8b384b4ae5d8d309568552a89a115672', owner: bob}
";

fn gateway(settings: &str, upstream: std::net::SocketAddr) -> Gateway {
    let url = format!("http://{upstream}");
    let settings = format!("identity: {KNOWN_KEYS}{settings}");
    Gateway::of(Server::start(&Setup {
        rules: Some(RULES),
        settings: &settings,
        arguments: &["--gateway", "127.0.0.1:0", "--upstream", &url],
        environment: &[("TOLLGATE_JWT_SECRET", SECRET)],
    }))
}

/// Asks with one more header, which need not be text.
fn ask(gateway: &Gateway, name: &str, value: &[u8]) -> Answer {
    let head = format!("GET / HTTP/1.1\r\nHost: a\r\n{name}: ");
    gateway.connect().ask(&[head.as_bytes(), value, b"\r\n\r\n"].concat())
}

#[test]
fn spellings_that_services_accept_do_not_shed_a_limit() {
    let upstream = Upstream::start();
    let gateway = gateway("", upstream.address);
    let check = |name: &str, value: &[u8], expected: u16| {
        let answer = ask(&gateway, name, value);
        let shown = String::from_utf8_lossy(value);
        assert_eq!(answer.status, expected, "{name}: {shown}: {answer:?}");
        if expected == 400 {
            assert_eq!(answer.code(), "ambiguous_credentials");
        }
    };
    let bearer = |before: &str, after: &str| format!("Bearer{before}{TOKEN}{after}").into_bytes();
    check("Authorization", &bearer(" ", ""), 200);
    check("Authorization", &bearer(" ", ""), 429);
    check("Authorization", &bearer("\t", ""), 429);
    check("Authorization", &bearer("   ", ""), 429);
    check("Authorization", &bearer(" ", "="), 429);
    check("Authorization", &bearer(" ", "=="), 429);
    check("Authorization", &bearer("", ""), 400);
    check("Authorization", &bearer(" ", " x"), 400);
    check("Authorization", &bearer("\u{a0}", ""), 400);
    check("X-API-Key", API_KEY.as_bytes(), 200);
    check("X-API-Key", API_KEY.as_bytes(), 429);
    check("X-API-Key", &[API_KEY.as_bytes(), b"\xa0"].concat(), 400);
    check("X-API-Key", &[b"\xc2\xa0", API_KEY.as_bytes()].concat(), 400);
}

#[test]
fn spellings_with_underscores_are_not_forwarded() {
    let upstream = RawUpstream::echo();
    let gateway = gateway("", upstream.address);
    let fields = [
        ("X_API_Key", API_KEY),
        ("X-API_Key", API_KEY),
        ("X_Tenant", "evil"),
        ("X_Original_URL", "/admin"),
        ("X-Original-URL", "/admin"),
        ("X-Rewrite-URL", "/admin"),
        ("X_Other", "1"),
    ];
    assert_eq!(gateway.ask("GET", "/", &fields, b"").status, 200);
    let head = upstream.heads().pop().expect("a head");
    for (name, _) in &fields[..6] {
        assert_eq!(field(&head, &name.to_lowercase()), None, "{name}: {head}");
    }
    assert_eq!(field(&head, "x_other"), Some("1"), "{head}");
}

#[test]
fn rewrites_of_trusted_proxies_can_be_forwarded() {
    let upstream = RawUpstream::echo();
    let settings = "gateway: {rewrite_headers: trusted}";
    let gateway = gateway(settings, upstream.address);
    let fields = [("X-Original-URL", "/a"), ("X_Original_URL", "/b")];
    assert_eq!(gateway.ask("GET", "/", &fields, b"").status, 200);
    let head = upstream.heads().pop().expect("a head");
    assert_eq!(field(&head, "x-original-url"), Some("/a"), "{head}");
    assert_eq!(field(&head, "x_original_url"), None, "{head}");
}

#[test]
fn trailers_carry_no_credentials_and_no_claims() {
    let upstream = Upstream::start();
    let gateway = gateway("", upstream.address);
    let names = [
        "X-Tenant",
        "X_Tenant",
        "X-API-Key",
        "X_API_Key",
        "Authorization",
        "X-Forwarded-For",
        "X_Forwarded_For",
        "X-Original-URL",
        "X-Sum",
    ];
    let trailers: String = names.iter().map(|name| format!("{name}: evil\r\n")).collect();
    let head = format!(
        "POST /sink HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nTransfer-Encoding: chunked\r\nTrailer: {}\r\n\r\n",
        names.join(", ")
    );
    let bytes = format!("{head}1\r\nx\r\n0\r\n{trailers}\r\n");
    assert_eq!(gateway.connect().ask(bytes.as_bytes()).status, 200);
    let seen = upstream.last().trailers.expect("trailers");
    assert_eq!(seen.keys().map(http::HeaderName::as_str).collect::<Vec<_>>(), ["x-sum"]);
}

#[test]
fn unverified_credentials_can_be_refused() {
    let upstream = Upstream::start();
    let gateway = gateway("  unverified: refuse\n", upstream.address);
    let check = |name: &str, value: &str, status: u16, code: &str, challenge: &str| {
        let through_gateway = ask(&gateway, name, value.as_bytes());
        let fields = [(name, value), ("X-Original-URI", "/"), ("X-Forwarded-For", "203.0.113.1")];
        let path = "/api/v1/rate-limit/authorize";
        let forward_auth = gateway.server.connect().ask(&request("GET", path, &fields, b""));
        for answer in [through_gateway, forward_auth] {
            assert_eq!((answer.status, answer.code().as_str()), (status, code), "{name}: {value}");
            let shown = answer.header("www-authenticate").unwrap_or_default();
            assert!(shown.starts_with(challenge), "{answer:?}");
            assert!(!answer.text().contains("nonsense"), "{answer:?}");
        }
    };
    check(
        "Authorization",
        "Bearer nonsense",
        401,
        "invalid_token",
        "Bearer error=\"invalid_token\"",
    );
    check("X-API-Key", "nonsense", 401, "invalid_api_key", "ApiKey");
    assert_eq!(ask(&gateway, "X-API-Key", API_KEY.as_bytes()).status, 200);
    assert_eq!(ask(&gateway, "Accept", b"*/*").status, 200, "no credentials at all");
    let name = "tollgate_tokens_total{outcome=\"malformed\"}";
    assert_eq!(gateway.count(name), 2, "each entry counts why a token was refused");
    assert_eq!(upstream.seen().len(), 2, "what is refused is not forwarded");
}

/// `{"alg":"HS256"}`, `{"sub":"alice","exp":4102444800,"rate_limit":2}` and the signature with the secret.
const TOKEN_WITH_LIMIT: &str = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbGljZSIsImV4cCI6NDEwMjQ0NDgwMCwicmF0ZV9saW1pdCI6Mn0.n5LYgPWltDzEhKQBWvfamuJqMuedw1rkZKabuTSHaHk";

#[test]
fn a_verified_token_carries_its_limit_through_the_gateway() {
    let upstream = Upstream::start();
    let url = format!("http://{}", upstream.address);
    let rules =
        RULES.replace("limit: 1,", "limit: 1, limit_from: {claim: rate_limit, ceiling: 9},");
    let gateway = Gateway::of(Server::start(&Setup {
        rules: Some(&rules),
        settings: "",
        arguments: &["--gateway", "127.0.0.1:0", "--upstream", &url],
        environment: &[("TOLLGATE_JWT_SECRET", SECRET)],
    }));
    let token = format!("Bearer {TOKEN_WITH_LIMIT}");
    for (status, left) in [(200, "1"), (200, "0"), (429, "0")] {
        let answer = ask(&gateway, "Authorization", token.as_bytes());
        assert_eq!((answer.status, answer.header("x-ratelimit-remaining")), (status, Some(left)));
        assert_eq!(answer.header("x-ratelimit-limit"), Some("2"));
    }
    // The same client with a token that says nothing has the limit of the rule, which it has used.
    let answer = ask(&gateway, "Authorization", format!("Bearer {TOKEN}").as_bytes());
    assert_eq!((answer.status, answer.header("x-ratelimit-limit")), (429, Some("1")));
}
