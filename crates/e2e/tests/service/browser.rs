//! A web page in a browser on the same machine: it must not use a server that needs no token.

use tollgate_e2e::client::{Answer, Connection};
use tollgate_e2e::server::{AUTHORIZE, CHECK, Server, Setup};

const BODY: &str = r#"{"identifiers":{"ip":"192.0.2.1"}}"#;

/// A check with these header fields.
fn check(server: &Server, fields: &str) -> Answer {
    let length = BODY.len();
    let head = format!("POST {CHECK} HTTP/1.1\r\n{fields}Content-Type: application/json\r\n");
    let bytes = format!("{head}Content-Length: {length}\r\n\r\n{BODY}");
    Connection::open(server.address).ask(bytes.as_bytes())
}

#[test]
fn a_page_cannot_rebind_its_name_to_the_check_api() {
    let settings = "hosts: [tollgate.internal]";
    let server = Server::start(&Setup { settings, ..Setup::default() });
    for host in ["127.0.0.1", "localhost:8080", "[::1]", "TOLLGATE.internal:80"] {
        assert_eq!(check(&server, &format!("Host: {host}\r\n")).status, 200, "{host}");
    }
    for host in ["evil.example", "evil.example:8080", "localhost.evil.example"] {
        let refused = check(&server, &format!("Host: {host}\r\n"));
        assert_eq!((refused.status, refused.code().as_str()), (421, "unknown_host"), "{host}");
        let get = format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n");
        assert_eq!(server.connect().ask(get.as_bytes()).status, 421, "{host}");
    }
    let authorize = format!("GET {AUTHORIZE}/orders HTTP/1.1\r\nHost: shop.example\r\n\r\n");
    assert_eq!(server.connect().ask(authorize.as_bytes()).status, 200, "the client of a proxy");
}

#[test]
fn a_page_of_another_site_cannot_charge_a_client() {
    let server = Server::start(&Setup::default());
    for field in ["Origin: https://evil.example", "Origin: null", "Sec-Fetch-Site: cross-site"] {
        let refused = check(&server, &format!("Host: localhost\r\n{field}\r\n"));
        let expected = (403, "cross_site_request");
        assert_eq!((refused.status, refused.code().as_str()), expected, "{field}");
    }
    let own = "Host: localhost\r\nOrigin: http://localhost:8080\r\nSec-Fetch-Site: same-origin\r\n";
    assert_eq!(check(&server, own).status, 200);
}

/// A token protects it, so every host name is accepted.
#[test]
fn a_server_with_a_token_answers_to_every_host() {
    let server = Server::start(&Setup {
        arguments: &["--check-auth", "token"],
        environment: &[("TOLLGATE_CHECK_TOKEN", "check-squeamish-ossifrage")],
        ..Setup::default()
    });
    let fields = "Host: limits.example\r\nAuthorization: Bearer check-squeamish-ossifrage\r\n";
    assert_eq!(check(&server, fields).status, 200);
}
