//! Every call of the description, by every role.

use std::collections::HashSet;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};
use tollgate::rules::format_time;
use tollgate::{Clock as _, Micros, SystemClock};

use super::desk::{TestServer, step, text};
use super::rights_table::{CALLS, Least};
use tollgate_e2e::client::{Answer, request};
use tollgate_e2e::program::curl_from;
use tollgate_e2e::server::JSON;
use tollgate_e2e::until;

const METHODS: [&str; 5] = ["get", "put", "post", "patch", "delete"];
/// How many guesses one address has; more are refused as too many.
const GUESSES: usize = 15;

/// Every call that the description has: method and path.
fn described(description: &Value) -> Vec<(String, String)> {
    let paths = description["paths"].as_object().expect("paths");
    let calls = paths.iter().flat_map(|(path, item)| {
        let methods = METHODS.into_iter().filter(|method| item.get(method).is_some());
        methods.map(|method| (method.to_owned(), path.clone()))
    });
    calls.collect()
}

fn least(method: &str, path: &str) -> Least {
    let found = CALLS.iter().find(|(its, at, _)| *its == method && *at == path);
    let missing = || panic!("{method} {path}: say in rights_table.rs which right it needs");
    found.map_or_else(missing, |(_, _, least)| *least)
}

/// A path with names of missing entries, and an empty but valid body.
fn filled(path: &str) -> String {
    let parts = path.split('/').map(|part| if part.starts_with('{') { "nope" } else { part });
    parts.collect::<Vec<_>>().join("/")
}

fn body(method: &str) -> &'static str {
    if matches!(method, "get" | "delete") { "" } else { "{}" }
}

/// The head of a response, and its body if it is an error: a stream of events has no end.
fn ask(desk: &TestServer, method: &str, path: &str, token: Option<&str>) -> Answer {
    let mut headers = vec![JSON, ("Connection", "close"), ("X-Original-URI", "/")];
    headers.extend(token.map(|token| ("X-Tollgate-Token", token)));
    let method = method.to_uppercase();
    let sent = request(&method, &filled(path), &headers, body(&method.to_lowercase()).as_bytes());
    let mut stream = TcpStream::connect(desk.server.address).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    stream.write_all(&sent).expect("sent");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("a head");
        head.push(byte[0]);
    }
    let is_error = !head.starts_with(b"HTTP/1.1 2");
    if is_error {
        stream.read_to_end(&mut head).expect("a body");
    } else {
        let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default().to_vec();
        head = [&line[..], b"\r\nContent-Length: 0\r\n\r\n"].concat();
    }
    Answer::parse(&head).unwrap_or_else(|error| panic!("{error}: {method} {path}"))
}

fn expired_token(desk: &TestServer) -> String {
    let soon = SystemClock.now().plus(Micros::from_secs(2));
    let body = json!({"role": "admin", "expires_at": format_time(soon)}).to_string();
    let made = desk.prepare("POST", "/api/v1/tokens", &body);
    let token = text(&made, "token");
    until("the end of a token", || {
        let answer = desk.call(&token, &step("GET", "/api/v1/rules", ""));
        (answer.status == 401).then(|| assert_eq!(answer.code(), "expired_token"))
    });
    token
}

#[test]
fn every_call_needs_its_permission() {
    let desk = TestServer::open();
    let description = desk.server.get("/openapi.json").json();
    let calls = described(&description);
    let roles = ["admin", "operator", "viewer", "caller", "tenant-admin"];
    let tokens = roles.map(|role| {
        let tenant = (role == "tenant-admin").then_some("acme");
        (role, desk.token(role, tenant))
    });
    let expired = expired_token(&desk);
    for (number, (method, path)) in calls.iter().enumerate() {
        let least = least(method, path);
        for (role, token) in &tokens {
            let answer = ask(&desk, method, path, Some(token));
            let place = format!("{method} {path} by {role}: {answer:?}");
            let is_refused = answer.status == 403 && answer.code() == "right_missing";
            assert_ne!(answer.status, 401, "{place}");
            assert_eq!(is_refused, !least.roles().contains(role), "{place}");
            assert!(answer.status < 500, "{place}");
            if is_refused {
                assert!(
                    answer.text().contains(&format!("needs the role {}", least.name())),
                    "{place}"
                );
            }
        }
        let is_open = least == Least::Nothing;
        // Each address has only so many guesses.
        let address = format!("127.0.1.{}", 1 + number / GUESSES);
        let url = desk.server.url(&filled(path));
        let method_name = method.to_uppercase();
        let wrong = curl_from(
            &address,
            &url,
            &["-X", &method_name, "-H", "X-Tollgate-Token: nonsense", "--json", body(method)],
        );
        for (who, answer) in [
            ("a client without a token", ask(&desk, method, path, None)),
            ("the holder of an expired token", ask(&desk, method, path, Some(&expired))),
            ("the holder of a wrong token", wrong),
        ] {
            assert_eq!(answer.status == 401, !is_open, "{method} {path} by {who}: {answer:?}");
        }
    }
}

#[test]
fn the_description_lists_every_call_once() {
    let desk = TestServer::open();
    let description = desk.server.get("/openapi.json").json();
    let calls = described(&description);
    for (method, path, _) in CALLS {
        let is_there = calls.iter().any(|(its, at)| its == method && at == path);
        assert!(is_there, "{method} {path} is not described");
    }
    let mut names = HashSet::new();
    for (method, path) in &calls {
        let call = &description["paths"][path][method];
        assert!(names.insert(text(call, "operationId")), "{method} {path}: its name is taken");
        // Checks need no token where the settings say so, and proxies have another header.
        let least = least(method, path);
        if !matches!(least, Least::Nothing | Least::Caller | Least::Look) {
            assert_eq!(call["security"], json!([{"token": []}]), "{method} {path}");
            for status in ["401", "403", "429"] {
                assert!(call["responses"][status].is_object(), "{method} {path}: no {status}");
            }
        }
    }
}
