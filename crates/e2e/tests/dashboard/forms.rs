//! Forms change something only if the person who is signed in sent them from a page.

use tollgate_e2e::server::{Server, Setup};

use crate::browser::{Browser, put_rule};

const DELETE: &str = "/ui/rules/extra/delete";

fn start() -> Server {
    let server = Server::start(&Setup::default());
    put_rule(&server, r#"{"rule_id":"extra","limit":5,"window":"1m","identifier_type":"user_id"}"#);
    server
}

fn is_there(server: &Server) -> bool {
    server.get_as_admin("/api/v1/rules/extra").status == 200
}

#[test]
fn a_form_needs_the_token_of_its_session() {
    let server = start();
    let mut browser = Browser::admin(&server);
    let other = Browser::admin(&server).csrf;
    let own = browser.csrf.clone();
    for csrf in ["", "x", &other, &own[1..]] {
        let refused = browser.post_as_is(DELETE, &[("csrf", csrf)], &[]);
        assert_eq!(refused.status, 403, "{csrf}: {refused:?}");
        assert!(refused.text().contains("not one of your session"), "{refused:?}");
    }
    assert_eq!(browser.post_as_is(DELETE, &[], &[]).status, 403);
    assert!(is_there(&server));
    assert_eq!(browser.post(DELETE, &[]).status, 303);
    assert!(!is_there(&server));
}

#[test]
fn a_form_of_another_site_is_refused() {
    let server = start();
    let mut browser = Browser::admin(&server);
    let csrf = browser.csrf.clone();
    for field in [
        ("Origin", "https://evil.example"),
        ("Origin", "null"),
        ("Origin", "http://localhost:1"),
        ("Sec-Fetch-Site", "cross-site"),
        ("Sec-Fetch-Site", "same-site"),
    ] {
        let refused = browser.post_as_is(DELETE, &[("csrf", &csrf)], &[field]);
        assert_eq!(refused.status, 403, "{field:?}: {refused:?}");
        let refused = browser.post_as_is("/ui/sign-in", &[("token", "x")], &[field]);
        assert_eq!(refused.status, 403, "{field:?}: {refused:?}");
    }
    assert!(is_there(&server));
    let own = [("Origin", "http://localhost"), ("Sec-Fetch-Site", "same-origin")];
    assert_eq!(browser.post_as_is(DELETE, &[("csrf", &csrf)], &own).status, 303);
    assert!(!is_there(&server));
}

#[test]
fn only_forms_change_something() {
    let server = start();
    let mut browser = Browser::admin(&server);
    let csrf = browser.csrf.clone();
    for path in [DELETE, "/ui/sign-out", "/ui/client/reset", "/ui/tokens/create"] {
        let got = browser.get(&format!("{path}?csrf={csrf}"));
        assert_eq!(got.status, 405, "{path}: {got:?}");
    }
    let json = [("Content-Type", "application/json")];
    let refused = browser.ask("POST", DELETE, &json, &format!("{{\"csrf\":\"{csrf}\"}}"));
    assert_eq!(refused.status, 415, "{refused:?}");
    let plain = [("Content-Type", "text/plain")];
    let refused = browser.ask("POST", DELETE, &plain, &format!("csrf={csrf}"));
    assert_eq!(refused.status, 415, "{refused:?}");
    assert!(is_there(&server));
    assert!(browser.is_signed_in());
}

#[test]
fn a_form_without_a_session_leads_to_the_sign_in() {
    let server = start();
    let csrf = Browser::admin(&server).csrf;
    let mut stranger = Browser::new(&server);
    let led = stranger.post_as_is(DELETE, &[("csrf", &csrf)], &[]);
    assert_eq!((led.status, led.header("location")), (303, Some("/ui/sign-in")), "{led:?}");
    assert!(is_there(&server));
}

#[test]
fn forms_are_bounded() {
    let server =
        Server::start(&Setup { settings: "limits: {body_bytes: 4KiB}", ..Setup::default() });
    let mut browser = Browser::admin(&server);
    let long = "x".repeat(5_000);
    let refused = browser.post("/ui/new-rule", &[("do", "preview"), ("yaml", &long)]);
    assert_eq!(refused.status, 413, "{refused:?}");
    let many: Vec<(&str, &str)> = vec![("a", ""); 1_001];
    let refused = browser.post("/ui/new-rule", &many);
    assert_eq!(refused.status, 400, "{refused:?}");
    let nul = browser.post("/ui/new-rule", &[("yaml", "a\0b")]);
    assert_eq!(nul.status, 400, "{nul:?}");
}
