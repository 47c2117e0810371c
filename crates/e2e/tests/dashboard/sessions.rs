//! Signing in with a token, and everything that ends a session.

use tollgate::rules::format_time;
use tollgate::{Clock as _, Micros, SystemClock};
use tollgate_e2e::server::{ADMIN_TOKEN, CALLER_TOKEN, Server, Setup, bearer_admin};
use tollgate_e2e::until;

use crate::browser::{Browser, SIGN_IN, csrf_of, token};

const RULES: &str = "rules: [{rule_id: all, limit: 1000, window: 1h, identifier_type: ip}]";

#[test]
fn a_token_opens_a_session_and_signing_out_ends_it() {
    let server = Server::start(&Setup::default());
    let mut browser = Browser::new(&server);
    assert!(!browser.is_signed_in());
    let page = browser.get(SIGN_IN);
    assert_eq!(page.status, 200);
    assert!(page.text().contains("name=\"token\""), "{page:?}");
    let opened = browser.sign_in(ADMIN_TOKEN);
    assert_eq!((opened.status, opened.header("location")), (303, Some("/")), "{opened:?}");
    let cookie = opened.header("set-cookie").expect("a cookie");
    for attribute in ["; Path=/", "; HttpOnly", "; SameSite=Strict"] {
        assert!(cookie.contains(attribute), "{cookie}");
    }
    assert!(!cookie.contains("; Secure"), "the connection is not encrypted: {cookie}");
    assert!(browser.is_signed_in());
    let again = browser.get(SIGN_IN);
    assert_eq!((again.status, again.header("location")), (303, Some("/")), "signed in already");
    browser.csrf = csrf_of(&browser.get("/")).expect("a form");
    let stolen = browser.cookie.clone();
    let ended = browser.post("/ui/sign-out", &[]);
    assert_eq!((ended.status, ended.header("location")), (303, Some(SIGN_IN)), "{ended:?}");
    assert!(browser.cookie.is_empty(), "the cookie is removed");
    browser.cookie = stolen;
    assert!(!browser.is_signed_in(), "a copy of the cookie is of no use either");
}

#[test]
fn the_token_is_neither_in_the_cookie_nor_in_a_page_nor_in_the_log() {
    let server = Server::start(&Setup { arguments: &["--log-level", "debug"], ..Setup::default() });
    let mut browser = Browser::admin(&server);
    for path in ["/", "/ui/keys", "/ui/health", "/ui/audit"] {
        let page = browser.get(path);
        assert_eq!(page.status, 200, "{page:?}");
        assert!(!page.text().contains(ADMIN_TOKEN), "{path}");
    }
    assert!(!browser.cookie.contains(ADMIN_TOKEN));
    let said = server.process.errors();
    assert!(said.contains("signed in to the dashboard"), "{said}");
    assert!(!said.contains(ADMIN_TOKEN), "{said}");
    let session = browser.cookie.split('=').nth(1).expect("a session").to_owned();
    assert!(!said.contains(&session), "{said}");
}

#[test]
fn wrong_tokens_are_refused_and_counted() {
    let server = Server::start(&Setup {
        rules: Some(RULES),
        settings: "check_auth: token",
        environment: &[("TOLLGATE_CHECK_TOKEN", CALLER_TOKEN)],
        ..Setup::default()
    });
    let mut browser = Browser::new(&server);
    for wrong in ["", "nonsense", "tg_0123456789ab_x", "a\u{20ac}b", "a\r\nb"] {
        let refused = browser.sign_in(wrong);
        assert_eq!(refused.status, 401, "{wrong:?}: {refused:?}");
        assert!(refused.text().contains("not known here"), "{refused:?}");
        assert!(browser.cookie.is_empty(), "{refused:?}");
        assert!(wrong.is_empty() || !refused.text().contains(wrong), "{refused:?}");
    }
    let caller = browser.sign_in(CALLER_TOKEN);
    assert_eq!(caller.status, 403, "{caller:?}");
    assert!(caller.text().contains("can only check requests"), "{caller:?}");
    let guessed = until("a refusal of more guesses", || {
        Some(browser.sign_in("guess")).filter(|answer| answer.status == 429)
    });
    assert!(guessed.header("retry-after").is_some(), "{guessed:?}");
    assert_eq!(browser.sign_in(ADMIN_TOKEN).status, 303, "a valid token is not locked out");
}

#[test]
fn a_revoked_or_expired_token_ends_its_sessions() {
    let server = Server::start(&Setup::default());
    let (id, secret) = token(&server, r#"{"role":"viewer"}"#);
    let mut browser = Browser::signed_in(&server, &secret);
    assert!(browser.is_signed_in());
    let revoked = server.ask("DELETE", &format!("/api/v1/tokens/{id}"), &[bearer_admin()], "");
    assert_eq!(revoked.status, 204, "{revoked:?}");
    assert!(!browser.is_signed_in());
    let led = browser.get("/ui/rules?q=a");
    assert_eq!(led.header("location"), Some("/ui/sign-in?next=%2Fui%2Frules%3Fq%3Da"), "{led:?}");

    let soon = format_time(SystemClock.now().plus(Micros::from_secs(2)));
    let body = format!(r#"{{"role":"operator","expires_at":"{soon}"}}"#);
    let (_, secret) = token(&server, &body);
    let mut browser = Browser::signed_in(&server, &secret);
    until("the end of the token", || (!browser.is_signed_in()).then_some(()));
}

#[test]
fn a_forged_session_is_no_session() {
    let server = Server::start(&Setup::default());
    let mut browser = Browser::admin(&server);
    let (name, value) = browser.cookie.split_once('=').expect("a cookie");
    let (name, value) = (name.to_owned(), value.to_owned());
    let mut flipped = value.clone().into_bytes();
    flipped[30] = if flipped[30] == b'A' { b'B' } else { b'A' };
    let flipped = String::from_utf8(flipped).expect("a text");
    for forged in ["", "x", &value[..40], &flipped, &"A".repeat(5_000)] {
        browser.cookie = format!("{name}={forged}");
        assert!(!browser.is_signed_in(), "{forged}");
    }
    // Another program on the same host may set a cookie of that name: the right one still counts.
    browser.cookie = format!("{name}=x; other=1; {name}={value}");
    assert!(browser.is_signed_in());
}

#[test]
fn a_person_returns_to_the_page_that_was_asked_for_and_to_no_other_site() {
    let server = Server::start(&Setup::default());
    let check = |next: &str, expected: &str| {
        let mut browser = Browser::new(&server);
        let fields = [("token", ADMIN_TOKEN), ("next", next)];
        let opened = browser.post_as_is(SIGN_IN, &fields, &[]);
        assert_eq!((opened.status, opened.header("location")), (303, Some(expected)), "{next}");
    };
    check("/ui/rules?q=a", "/ui/rules?q=a");
    check("https://evil.example", "/");
    check("//evil.example", "/");
    check("/\\evil.example", "/");
    check("/a\r\nSet-Cookie: x=1", "/");
}

#[test]
fn nodes_with_one_secret_accept_the_sessions_of_each_other() {
    let secret = "0123456789abcdef0123456789abcdef";
    let start = |secret: &str| {
        let environment = [("TOLLGATE_FLEET_SECRET", secret)];
        Server::start(&Setup { rules: Some(RULES), environment: &environment, ..Setup::default() })
    };
    let (one, two) = (start(secret), start(secret));
    let cookie = Browser::admin(&one).cookie;
    let mut other = Browser::new(&two);
    other.cookie.clone_from(&cookie);
    assert!(other.is_signed_in(), "the same secret");
    let stranger = start("another secret of thirty-two chars");
    let mut other = Browser::new(&stranger);
    other.cookie = cookie;
    assert!(!other.is_signed_in(), "another fleet");
}

/// Browsers send no cookie after a link on another site, so the page asks once more.
#[test]
fn a_link_from_elsewhere_leads_to_the_page() {
    let server = Server::start(&Setup::default());
    let mut browser = Browser::new(&server);
    let linked = browser.get_with("/ui/rules", &[("Sec-Fetch-Site", "cross-site")]);
    assert_eq!((linked.status, linked.header("refresh")), (200, Some("0")), "{linked:?}");
    let own = browser.get_with("/ui/rules", &[("Sec-Fetch-Site", "same-origin")]);
    assert_eq!(own.status, 303, "{own:?}");
}
