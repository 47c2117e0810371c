//! Paths that servers read in different ways: none of them bypasses the rule for another path.

use crate::gateway::Gateway;
use crate::raw::RawUpstream;
use tollgate_e2e::client::{Answer, request};

const RULES: &str = "
rules:
  - rule_id: login
    limit: 1
    window: 1h
    identifier_type: ip
    applies_to: {endpoints: [/login]}
";

/// Spellings that some server takes for `/login`, and the response to each once its limit is reached.
const SPELLINGS: &[(&str, u16)] = &[
    ("/login", 429),
    ("/login/", 429),
    ("//login", 400),
    ("//x/login", 400),
    ("/%6cogin", 429),
    ("/login?x=1", 429),
    ("/login;x=1", 429),
    ("/login;", 429),
    ("/login%3Bx", 429),
    ("/login%2F", 400),
    ("/login%2f", 400),
    ("/x/..%2flogin", 400),
    ("/x\\..\\login", 400),
    ("/x%5c..%5Clogin", 400),
    ("/x/../login", 400),
    ("/./login", 400),
    ("/%2e/login", 400),
    ("/..;/login", 400),
    ("/.;/login", 400),
    ("/login%00", 400),
    ("/login%20", 400),
    ("/login%0a", 400),
    ("/login%", 400),
];

/// Sends a request to the gateway and to forward-auth of the same server, as two clients.
fn ask_both(gateway: &Gateway, path: &str, more: &[(&str, &str)]) -> [Answer; 2] {
    let client = ("X-Forwarded-For", "203.0.113.1");
    let fields: Vec<_> = [&[client], more].concat();
    let through_gateway = gateway.connect().ask(&request("GET", path, &fields, b""));
    let described = [("X-Forwarded-For", "203.0.113.2"), ("X-Original-URI", path)];
    let authorize = "/api/v1/rate-limit/authorize";
    let forward_auth = gateway.server.connect().ask(&request("GET", authorize, &described, b""));
    [through_gateway, forward_auth]
}

fn check(settings: &str, spellings: &[(&str, u16)]) {
    let upstream = RawUpstream::echo();
    let url = format!("http://{}", upstream.address);
    let gateway = Gateway::start(RULES, settings, &[url]);
    for answer in ask_both(&gateway, "/login", &[]) {
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    let before = upstream.heads().len();
    for (path, expected) in spellings {
        for answer in ask_both(&gateway, path, &[]) {
            assert_eq!(answer.status, *expected, "{path}: {answer:?}");
            if *expected == 400 {
                assert_eq!(answer.code(), "ambiguous_path");
            }
        }
    }
    let passed = spellings.iter().filter(|(_, status)| *status == 200).count();
    assert_eq!(upstream.heads().len(), before + passed, "what is refused is not forwarded");
}

#[test]
fn no_spelling_of_a_path_gets_around_its_rule() {
    check("", SPELLINGS);
    check("", &[("/LOGIN", 200), ("/Login", 200)]);
}

#[test]
fn capital_letters_can_be_ignored() {
    check("paths: {case: insensitive}", SPELLINGS);
    check("paths: {case: insensitive}", &[("/LOGIN", 429), ("/Login;X=1", 429), ("/l%4Fgin", 429)]);
}

#[test]
fn a_lenient_gateway_forwards_what_it_matched() {
    let lenient =
        [("/login;x=1", 200), ("/login%2F", 200), ("/x/../login", 429), ("/login%20", 200)];
    check("paths: {mode: lenient}", &lenient);
}

#[test]
fn what_passes_is_forwarded_as_it_came() {
    let upstream = RawUpstream::echo();
    let gateway = Gateway::before(upstream.address);
    for path in ["/a;v=1/b?x=..%2f", "/a//b/", "/%7Eme/%C3%BC", "/a.b/..c", "/A%20b"] {
        assert_eq!(gateway.get(path).status, 200, "{path}");
        let head = upstream.heads().pop().expect("a head");
        assert!(head.starts_with(&format!("GET {path} HTTP/1.1\r\n")), "{path}: {head}");
    }
}
