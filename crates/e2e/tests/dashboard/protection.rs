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

/// Everybody may send this form: a hundred megabytes of them once waited for their last bytes.
#[test]
fn the_sign_in_reads_short_forms_only() {
    let server = Server::start(&Setup::default());
    let mut browser = Browser::new(&server);
    assert_eq!(browser.sign_in(&"x".repeat(10_000)).status, 401);
    assert_eq!(browser.sign_in(&"x".repeat(20_000)).status, 413);
}

#[test]
fn pages_count_as_reads_of_their_token() {
    let settings = "limits: {admin_reads_per_minute: 12}";
    let server = Server::start(&Setup { settings, ..Setup::default() });
    let mut browser = Browser::admin(&server);
    let statuses: Vec<u16> = (0..12).map(|_| browser.get("/ui/rules").status).collect();
    assert_eq!((statuses[0], statuses[11]), (200, 429), "{statuses:?}");
}

#[test]
fn a_page_cannot_rebind_its_name_to_the_dashboard() {
    for settings in [
        "admin: 127.0.0.1:0",
        "admin: 127.0.0.1:0\ncheck_auth: token",
        // One listener for checks and pages.
        "check_auth: none",
        "check_auth: token",
    ] {
        cannot_rebind(settings);
    }
}

fn cannot_rebind(settings: &str) {
    let settings = format!("hosts: [tollgate.internal]\n{settings}");
    let token = [("TOLLGATE_CHECK_TOKEN", "caller-correct-horse-battery")];
    // Where no caller needs a token, the server refuses to have one.
    let environment = if settings.contains("check_auth: token") { &token[..] } else { &[] };
    let server = Server::start(&Setup { settings: &settings, environment, ..Setup::default() });
    let address = server.admin_address.unwrap_or(server.address);
    let ask_for = |path: &str, host: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        Connection::open(address).ask(request.as_bytes())
    };
    let ask = |host: &str| ask_for("/ui/sign-in", host);
    for host in ["127.0.0.1", "localhost:8082", "[::1]", "TOLLGATE.internal:80"] {
        assert_eq!(ask(host).status, 200, "{host}: {settings}");
    }
    for host in ["evil.example", "localhost.evil.example"] {
        let refused = ask(host);
        assert_eq!(refused.status, 421, "{host}: {settings}");
        assert_eq!(ask_for("/", host).status, 421, "{host}: {settings}");
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
