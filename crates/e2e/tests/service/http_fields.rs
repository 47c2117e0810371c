//! Header fields that do not belong to one call: the end of an API version, and the encoding of the documentation.

use tollgate_e2e::program::curl;
use tollgate_e2e::server::{AUTHORIZE, CHECK, Server, Setup, bearer_admin};

const RULES: &str = "
rules:
  - {rule_id: a, limit: 1000, window: 1h, identifier_type: user_id}
whitelist: [{identifier_type: ip, identifier: 192.0.2.1}, {identifier_type: ip, identifier: 192.0.2.2}]
";

#[test]
fn the_end_of_a_version_is_announced_by_its_responses_alone() {
    let settings = "api: {v1: {deprecated_at: '2027-01-31T00:00:00Z', \
                    sunset_at: '2027-07-31T00:00:00Z', link: 'https://docs.example/api-v2'}}";
    let server = Server::start(&Setup { rules: Some(RULES), settings, ..Setup::default() });
    let check = |method: &str, path: &str, body: &str, status: u16, is_announced: bool| {
        let headers = [("Content-Type", "application/json"), bearer_admin()];
        let answer = server.ask(method, path, &headers, body);
        assert_eq!(answer.status, status, "{path}: {answer:?}");
        let expected = is_announced.then_some("@1801353600");
        assert_eq!(answer.header("deprecation"), expected, "{path}: {answer:?}");
        let expected = is_announced.then_some("Sat, 31 Jul 2027 00:00:00 GMT");
        assert_eq!(answer.header("sunset"), expected, "{path}: {answer:?}");
        let links = answer.header_values("link");
        for relation in ["deprecation", "sunset"] {
            let link = format!("<https://docs.example/api-v2>; rel=\"{relation}\"");
            assert_eq!(links.contains(&&*link), is_announced, "{path}: {links:?}");
        }
        answer
    };
    let alice = r#"{"identifiers":{"user_id":"alice"}}"#;
    check("POST", CHECK, alice, 200, true);
    check("POST", CHECK, "{", 400, true);
    check("GET", "/admin/api/v1/rate-limits/rules", "", 200, true);
    check("GET", "/api/v1/nowhere", "", 404, true);
    let page = check("GET", "/api/v1/whitelist?limit=1", "", 200, true);
    let links = page.header_values("link");
    assert!(links.iter().any(|link| link.contains("rel=\"next\"")), "{links:?}");
    // Responses of forward-auth go to end clients, and these calls have no version.
    check("GET", &format!("{AUTHORIZE}/orders"), "", 200, false);
    check("GET", "/health/ready", "", 200, false);
    check("GET", "/metrics", "", 200, false);
}

#[test]
fn nothing_is_announced_unless_the_settings_say_so() {
    let server = Server::with_rules(RULES);
    let answer = server.post(CHECK, r#"{"identifiers":{"user_id":"alice"}}"#);
    for name in ["deprecation", "sunset", "link"] {
        assert_eq!(answer.header(name), None, "{answer:?}");
    }
}

/// The files are stored compressed, and used to be sent so to clients that cannot decode them.
#[test]
fn the_documentation_is_compressed_only_for_clients_that_accept_it() {
    let server = Server::with_rules(RULES);
    let path = "/docs/swagger-ui.css";
    let get = |fields: &[(&str, &str)]| {
        let answer = server.ask("GET", path, fields, "");
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.header("vary"), Some("accept-encoding"), "{answer:?}");
        answer
    };
    let plain = get(&[]);
    assert_eq!(plain.header("content-encoding"), None);
    assert!(plain.text().contains(".swagger-ui"), "{plain:?}");
    for refused in ["identity", "br", "gzip;q=0"] {
        let answer = get(&[("Accept-Encoding", refused)]);
        assert_eq!(answer.header("content-encoding"), None, "{refused}");
        assert!(answer.body == plain.body, "{refused}");
    }
    let compressed = get(&[("Accept-Encoding", "br, gzip")]);
    assert_eq!(compressed.header("content-encoding"), Some("gzip"));
    assert!(compressed.body.len() < plain.body.len() / 2, "{} bytes", compressed.body.len());
    // A client that decodes it gets the same file.
    assert!(curl(&["--compressed", &server.url(path)]) == plain.text());
}
