//! How the server shuts down, and when it refuses to start.

use std::net::TcpStream;

use tollgate_e2e::process::Process;
use tollgate_e2e::server::{CHECK, Server, Setup, command};
use tollgate_e2e::until;

#[test]
fn requests_in_flight_get_responses_at_shutdown() {
    let mut server = Server::start(&Setup::default());
    let body = r#"{"identifiers":{"user_id":"alice"}}"#;
    let (half, other_half) = body.split_at(body.len() / 2);
    let mut check = server.connect();
    let head = format!(
        "POST {CHECK} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{half}",
        body.len()
    );
    check.send(head.as_bytes()).expect("sent");
    let mut ready = server.connect();
    ready.send(b"GET /health/ready HTTP/1.1\r\nHost: local").expect("sent");
    // An answer over a third connection shows that the two before it were accepted.
    assert_eq!(server.get("/health/ready").status, 200);

    server.process.signal("TERM");
    server
        .process
        .until("word of the end", |process| process.errors().contains("ending").then_some(()));
    until("the closed port", || TcpStream::connect(server.address).is_err().then_some(()));
    ready.send(b"host\r\n\r\n").expect("sent");
    let draining = ready.answer().expect("an answer");
    assert_eq!((draining.status, &draining.json()["status"]), (503, &"draining".into()));
    check.send(other_half.as_bytes()).expect("sent");
    let answer = check.answer().expect("an answer");
    assert_eq!((answer.status, &answer.json()["allowed"]), (200, &true.into()));
    assert_eq!(server.process.end().code(), Some(0), "{}", server.process.errors());
}

#[test]
fn shutdown_waits_for_load_balancers() {
    let settings = "limits: {shutdown_delay: 1h}";
    let mut server = Server::start(&Setup { settings, ..Setup::default() });
    assert_eq!(server.get("/health/ready").header("connection"), None);
    server.process.signal("TERM");
    until("a server that is not ready", || {
        (server.get("/health/ready").status == 503).then_some(())
    });
    let answer = server.post(CHECK, r#"{"identifiers":{"user_id":"alice"}}"#);
    assert_eq!((answer.status, &answer.json()["allowed"]), (200, &true.into()));
    // Clients that keep their connections would not notice otherwise.
    assert_eq!(answer.header("connection"), Some("close"));
    server.process.signal("TERM");
    assert_eq!(server.process.end().code(), Some(0), "{}", server.process.errors());
}

#[test]
fn a_server_on_a_public_address_needs_check_auth() {
    let folder = tempfile::tempdir().expect("a folder");
    let check = |arguments: &[&str], expected: &str| {
        let setup = Setup { arguments, ..Setup::default() };
        let mut process = Process::start(&mut command(&setup, folder.path()));
        assert_eq!(process.end().code(), Some(2), "{arguments:?}");
        let errors = process.errors();
        assert!(
            errors.contains(expected) && errors.lines().count() == 1,
            "{arguments:?}: {errors}"
        );
        assert_eq!(process.output(), "");
    };
    check(&["--http", "0.0.0.0:0"], "0.0.0.0:0 can be reached from other machines");
    check(&["--http", "[::]:0"], "[::]:0 can be reached from other machines");
    check(&["--check-auth", "token"], "TOLLGATE_CHECK_TOKEN");
    check(&["--check-auth", "mtls"], "tls.client_ca");
    check(&["--check-auth", "maybe"], "expected none, token or mtls");
}
