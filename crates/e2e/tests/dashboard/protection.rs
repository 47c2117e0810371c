//! What protects pages: header fields, the host, caching; and the setting that leaves the dashboard out.

use tollgate_e2e::client::Connection;
use tollgate_e2e::server::{Server, Setup};

use crate::browser::{Browser, SIGN_IN};

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

#[test]
fn every_page_has_the_fields_that_protect_it() {
    let server = Server::start(&Setup::default());
    let mut browser = Browser::admin(&server);
    for path in ["/", SIGN_IN, "/ui/rules", "/ui/nowhere", "/ui/rules/none"] {
        let page = browser.get(path);
        for (name, value) in [
            ("content-security-policy", POLICY),
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("referrer-policy", "same-origin"),
            ("cache-control", "no-store"),
        ] {
            assert_eq!(page.header(name), Some(value), "{path} {name}");
        }
        let text = page.text();
        for inline in ["<style", "style=\"", " onclick=", "<script>", "javascript:"] {
            assert!(!text.contains(inline), "{path}: {inline}");
        }
        for outside in ["src=\"http", "href=\"http", "src=\"//", "href=\"//"] {
            assert!(!text.contains(outside), "{path}: {outside}");
        }
    }
}

#[test]
fn a_page_cannot_rebind_its_name_to_the_dashboard() {
    let settings = "hosts: [tollgate.internal]\nadmin: 127.0.0.1:0";
    let server = Server::start(&Setup { settings, ..Setup::default() });
    let admin = server.admin_address.expect("a separate listener");
    let ask = |host: &str| {
        let request = format!("GET /ui/sign-in HTTP/1.1\r\nHost: {host}\r\n\r\n");
        Connection::open(admin).ask(request.as_bytes())
    };
    for host in ["127.0.0.1", "localhost:8082", "[::1]", "TOLLGATE.internal:80"] {
        assert_eq!(ask(host).status, 200, "{host}");
    }
    for host in ["evil.example", "localhost.evil.example"] {
        let refused = ask(host);
        assert_eq!(refused.status, 421, "{host}");
        assert!(refused.text().contains("setting hosts"), "it says what to do: {refused:?}");
    }
}

#[test]
fn assets_are_kept_forever_and_found_by_their_digest() {
    let server = Server::start(&Setup::default());
    let mut browser = Browser::new(&server);
    let page = browser.get(SIGN_IN).text();
    let names = page.split('"').filter(|part| part.starts_with("/ui/assets/"));
    let names: Vec<String> = names.map(str::to_owned).collect();
    assert!(names.len() >= 3, "{page}");
    for name in names {
        let asset = browser.get(&name);
        assert_eq!(asset.status, 200, "{name}");
        let cache = asset.header("cache-control").expect("a field");
        assert!(cache.contains("immutable") && cache.contains("max-age=31536000"), "{cache}");
        let tag = asset.header("etag").expect("a tag").to_owned();
        let again = browser.get_with(&name, &[("If-None-Match", &tag)]);
        assert_eq!((again.status, again.body.len()), (304, 0), "{name}");
        let other = browser.get_with(&name, &[("If-None-Match", "\"x\"")]);
        assert_eq!(other.status, 200, "{name}");
    }
    assert_eq!(browser.get("/ui/assets/dashboard.css").status, 404);
}

#[test]
fn the_dashboard_is_on_the_listener_of_the_admin_api() {
    let server = Server::start(&Setup { settings: "admin: 127.0.0.1:0", ..Setup::default() });
    let mut browser = Browser::admin(&server);
    assert!(browser.is_signed_in());
    assert_eq!(server.get("/").header("location"), Some("/docs/"), "not on that of the check API");
    assert_eq!(server.get(SIGN_IN).status, 404);
}

#[test]
fn a_setting_leaves_the_dashboard_out() {
    let server = Server::start(&Setup { settings: "dashboard: false", ..Setup::default() });
    assert_eq!(server.get("/").header("location"), Some("/docs/"));
    let unknown = server.get(SIGN_IN);
    assert_eq!((unknown.status, unknown.code().as_str()), (404, "unknown_path"));
    assert_eq!(server.get("/docs/").status, 200);
}

#[test]
fn the_api_keeps_its_problems() {
    let server = Server::start(&Setup::default());
    let mut browser = Browser::admin(&server);
    let page = browser.get("/ui/nowhere");
    assert_eq!(page.status, 404);
    assert!(page.header("content-type").is_some_and(|it| it.starts_with("text/html")), "{page:?}");
    assert_eq!(browser.get("/nowhere").code(), "unknown_path");
    // A session is for pages: the API wants a token.
    assert_eq!(browser.get("/api/v1/rules").code(), "token_required");
    assert_eq!(server.get("/docs/").status, 200);
}
