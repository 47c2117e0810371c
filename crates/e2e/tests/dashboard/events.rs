//! The stream of an open page: figures that move, and its end with the session.

use tollgate_e2e::server::{CHECK, JSON, Server, Setup, bearer_admin};

use crate::browser::{Browser, put_rule, token};

#[test]
fn a_page_gets_its_parts_again_when_something_happens() {
    let server = Server::start(&Setup::default());
    put_rule(&server, r#"{"rule_id":"t","limit":1,"window":"1h","identifier_type":"user_id"}"#);
    let browser = Browser::admin(&server);
    let mut stream = browser.stream("/ui/live");
    let head = stream.read_until(b"event: fragment");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    let fields = head.to_ascii_lowercase();
    assert!(fields.contains("content-type: text/event-stream"), "{head}");
    assert!(fields.contains("cache-control: no-store"), "{head}");
    for _ in 0..3 {
        server.ask("POST", CHECK, &[JSON], r#"{"identifiers":{"user_id":"pushing-client"}}"#);
    }
    stream.read_until(b"pushing-client");
}

#[test]
fn a_stream_needs_a_session_and_a_page() {
    let server = Server::start(&Setup::default());
    let mut browser = Browser::new(&server);
    assert_eq!(browser.get("/ui/events?page=%2F").status, 401);
    let mut browser = Browser::admin(&server);
    for page in ["", "page=", "page=https%3A%2F%2Fevil.example"] {
        let refused = browser.get(&format!("/ui/events?{page}"));
        assert_eq!(refused.status, 422, "{page}: {refused:?}");
    }
}

#[test]
fn a_stream_ends_with_its_session() {
    let server = Server::start(&Setup::default());
    let (id, secret) = token(&server, r#"{"role":"viewer"}"#);
    let browser = Browser::signed_in(&server, &secret);
    let mut stream = browser.stream("/");
    stream.read_until(b"event: fragment");
    let revoked = server.ask("DELETE", &format!("/api/v1/tokens/{id}"), &[bearer_admin()], "");
    assert_eq!(revoked.status, 204, "{revoked:?}");
    stream.read_until(b"event: end");
    let mut browser = Browser::admin(&server);
    let mut stream = browser.stream("/");
    stream.read_until(b"event: fragment");
    assert_eq!(browser.post("/ui/sign-out", &[]).status, 303);
    stream.read_until(b"event: end");
}

#[test]
fn a_server_with_open_pages_ends_at_once() {
    let server = Server::start(&Setup::default());
    let browser = Browser::admin(&server);
    let mut stream = browser.stream("/");
    stream.read_until(b"event: fragment");
    server.stop();
}

/// They were rendered again for as long as the browser held the connection.
#[test]
fn a_stream_of_a_page_without_moving_parts_ends() {
    let server = Server::start(&Setup::default());
    let browser = Browser::admin(&server);
    for page in ["/ui/simulate", "/ui/try", "/ui/lists"] {
        browser.stream(page).read_until(b"event: end");
    }
}
