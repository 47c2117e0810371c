//! Every page: what it shows of what happened.

use tollgate_e2e::server::{CHECK, JSON, Server, Setup};
use tollgate_e2e::until;

use crate::browser::{Browser, put_rule};

/// The address of every page, with an example of what has one.
pub(crate) const PAGES: &[&str] = &[
    "/",
    "/?range=4h",
    "/?from=1&until=2",
    "/ui/rules",
    "/ui/rules?q=log&state=enforced&order=name",
    "/ui/rules/login",
    "/ui/rules/login?edit=yaml",
    "/ui/new-rule",
    "/ui/clients",
    "/ui/clients?q=alice",
    "/ui/clients?q=192.0.2.1&type=ip",
    "/ui/client?type=user_id&value=alice",
    "/ui/client?type=user_id&value=alice&type=tenant&value=acme&endpoint=%2Flogin&method=POST",
    "/ui/live",
    "/ui/live?window=300&client=alice&outcome=refused",
    "/ui/try",
    "/ui/try?user_id=alice&endpoint=%2Flogin&method=POST",
    "/ui/simulate",
    "/ui/audit",
    "/ui/audit?log=decisions&client=alice",
    "/ui/lists",
    "/ui/lists?list=blacklist",
    "/ui/lists?list=whitelist",
    "/ui/lists?list=overrides",
    "/ui/keys",
    "/ui/health",
];

const LOGIN: &str = r#"{"rule_id":"login","limit":2,"window":"1h","identifier_type":"user_id",
    "applies_to":{"endpoints":["/login"]},"penalty":{"after":3,"within_seconds":60,"ban_seconds":600}}"#;
const ALICE: &str = r#"{"identifiers":{"user_id":"alice"},"endpoint":"/login","method":"POST"}"#;

/// A server with a rule that has refused a client.
fn start() -> Server {
    let server = Server::start(&Setup::default());
    put_rule(&server, LOGIN);
    server
}

/// Checks a request, and returns the id of its decision.
fn check(server: &Server, body: &str) -> String {
    let answer = server.ask("POST", CHECK, &[JSON], body);
    let answer = answer.json();
    answer["decision_id"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn every_page_is_shown_with_and_without_traffic() {
    let server = start();
    let mut browser = Browser::admin(&server);
    for round in ["nothing happened yet", "something happened"] {
        for path in PAGES {
            let page = browser.get(path);
            assert_eq!(page.status, 200, "{round}: {path}: {page:?}");
            let text = page.text();
            assert!(text.starts_with("<!DOCTYPE html>"), "{path}: {text}");
            assert!(text.ends_with("</html>"), "{path}");
        }
        for _ in 0..4 {
            check(&server, ALICE);
        }
    }
}

#[test]
fn pages_say_what_is_wrong_with_an_address() {
    let server = start();
    let mut browser = Browser::admin(&server);
    for (path, status) in [
        ("/ui/rules/none", 404),
        ("/ui/rules/..", 404),
        ("/ui/rules/%00", 404),
        ("/ui/rules/%ff", 404),
        ("/ui/decisions/none", 404),
        ("/ui/client", 422),
        ("/ui/client?type=user_id&value=", 422),
        ("/ui/client?type=ip&value=nonsense", 422),
        ("/ui/nowhere", 404),
    ] {
        let page = browser.get(path);
        assert_eq!(page.status, status, "{path}: {page:?}");
        assert!(page.text().contains("<h1"), "{path}: {page:?}");
    }
}

#[test]
fn a_decision_is_explained_and_refunded() {
    let server = start();
    let mut browser = Browser::admin(&server);
    let admitted = check(&server, ALICE);
    check(&server, ALICE);
    let refused = check(&server, ALICE);
    let page = browser.get(&format!("/ui/decisions/{refused}"));
    assert_eq!(page.status, 200, "{page:?}");
    assert!(page.text().contains("rule login was exceeded"), "{page:?}");
    let left = |browser: &mut Browser<'_>| {
        let page = browser.get("/ui/client?type=user_id&value=alice&endpoint=%2Flogin").text();
        assert!(page.contains("login"), "{page}");
        let peek = server.post("/api/v1/rate-limit/peek", ALICE).json();
        peek["remaining"].as_u64()
    };
    assert_eq!(left(&mut browser), Some(0));
    let refunded = browser.post("/ui/refund", &[("decision_id", &admitted)]);
    assert_eq!(refunded.status, 303, "{refunded:?}");
    assert_eq!(left(&mut browser), Some(1));
    let again = browser.post("/ui/refund", &[("decision_id", &admitted)]);
    assert_eq!(again.status, 409, "once: {again:?}");
}

#[test]
fn a_client_gets_another_limit_a_tier_a_reset_and_a_place_on_a_list() {
    let server = start();
    let tiers = r#"{"tiers":[{"tier":"free","default":true},{"tier":"pro"}]}"#;
    let made =
        server.ask("PUT", "/api/v1/tiers", &[JSON, tollgate_e2e::server::bearer_admin()], tiers);
    assert_eq!(made.status, 200, "{made:?}");
    let mut browser = Browser::admin(&server);
    let alice = [("type", "user_id"), ("value", "alice")];
    let page = "/ui/client?type=user_id&value=alice";
    let post = |browser: &mut Browser<'_>, path: &str, fields: &[(&str, &str)], expected: u16| {
        let all = [&alice[..], fields].concat();
        let answer = browser.post(path, &all);
        assert_eq!(answer.status, expected, "{path} {fields:?}: {answer:?}");
    };
    let limit =
        |server: &Server| server.post("/api/v1/rate-limit/peek", ALICE).json()["limit"].clone();
    let fields = [("rule_id", "login"), ("limit", "50"), ("minutes", "60")];
    post(&mut browser, "/ui/client/override", &fields, 303);
    assert_eq!(limit(&server), 50);
    assert!(browser.get(page).text().contains("limit 50"));
    let wrong = [("rule_id", "login"), ("limit", "fifty"), ("minutes", "60")];
    post(&mut browser, "/ui/client/override", &wrong, 422);
    post(
        &mut browser,
        "/ui/client/override",
        &[("rule_id", "login"), ("limit", "5"), ("minutes", "0")],
        422,
    );
    post(&mut browser, "/ui/lists/remove", &[("list", "overrides"), ("rule_id", "login")], 303);
    assert_eq!(limit(&server), 2);
    post(&mut browser, "/ui/client/tier", &[("tier", "pro")], 303);
    assert!(browser.get(page).text().contains("pro"));
    post(&mut browser, "/ui/client/tier", &[("tier", "none")], 422);
    post(&mut browser, "/ui/client/tier", &[("tier", "")], 303);
    post(&mut browser, "/ui/client/tier", &[("tier", "")], 404);
    check(&server, ALICE);
    post(&mut browser, "/ui/client/reset", &[], 303);
    post(&mut browser, "/ui/client/ban", &[("reason", "scraper"), ("minutes", "10")], 303);
    assert_eq!(server.check(ALICE)["allowed"], false);
    assert!(browser.get(page).text().contains("scraper"));
    assert!(browser.get("/ui/lists?list=blacklist").text().contains("scraper"));
    post(&mut browser, "/ui/lists/remove", &[("list", "blacklist")], 303);
    post(&mut browser, "/ui/lists/add", &[("list", "whitelist"), ("reason", "ours")], 303);
    assert!(browser.get("/ui/lists?list=whitelist").text().contains("ours"));
    post(&mut browser, "/ui/lists/add", &[("list", "tokens")], 422);
}

#[test]
fn a_ban_is_shown_and_lifted() {
    let server = start();
    let mut browser = Browser::admin(&server);
    for _ in 0..6 {
        check(&server, ALICE);
    }
    let page = until("a ban", || {
        let page = browser.get("/ui/lists?list=bans").text();
        Some(page).filter(|page| page.contains("alice"))
    });
    assert!(page.contains("/ui/bans/lift"), "{page}");
    let lifted = browser.post("/ui/bans/lift", &[("rule_id", "login"), ("identifier", "alice")]);
    assert_eq!(lifted.status, 303, "{lifted:?}");
    assert!(!browser.get("/ui/lists?list=bans").text().contains("alice"));
    let again = browser.post("/ui/bans/lift", &[("rule_id", "login"), ("identifier", "alice")]);
    assert_eq!(again.status, 404, "{again:?}");
    assert_eq!(browser.post("/ui/bans/lift", &[("rule_id", "login")]).status, 422);
}

#[test]
fn keys_and_tokens_are_made_shown_once_and_removed() {
    let server = start();
    let mut browser = Browser::admin(&server);
    let made = browser
        .post("/ui/tokens/create", &[("role", "viewer"), ("name", "the wall"), ("days", "30")]);
    assert_eq!(made.status, 200, "{made:?}");
    let text = made.text();
    let token = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let token = token.into_iter().find(|word| word.starts_with("tg_")).expect("a token").to_owned();
    assert!(!browser.get("/ui/keys").text().contains(&token), "it is shown once");
    let mut wall = Browser::signed_in(&server, &token);
    assert!(wall.get("/").text().contains("the wall"));
    let id = token.split('_').nth(1).expect("an id").to_owned();
    let revoked = browser.post("/ui/tokens/revoke", &[("token_id", &id)]);
    assert_eq!(revoked.status, 303, "{revoked:?}");
    assert!(!wall.is_signed_in());
    for wrong in [[("role", "king"), ("days", "")], [("role", "viewer"), ("days", "0")]] {
        let refused = browser.post("/ui/tokens/create", &wrong);
        assert_eq!(refused.status, 422, "{refused:?}");
        assert!(refused.text().contains("role") || refused.text().contains("days"), "{refused:?}");
    }
    let made = browser.post("/ui/keys/create", &[("name", "nightly"), ("owner", "alice")]);
    assert_eq!(made.status, 200, "{made:?}");
    assert!(made.text().contains("tk_"), "{made:?}");
    let keys = server.get_as_admin("/api/v1/api-keys").json();
    let id = keys["api_keys"][0]["key_id"].as_str().expect("an id").to_owned();
    assert_eq!(browser.post("/ui/keys/remove", &[("key_id", &id)]).status, 303);
    assert_eq!(browser.post("/ui/keys/remove", &[("key_id", &id)]).status, 404);
}

#[test]
fn a_request_is_tried_and_charged_only_if_that_is_wanted() {
    let server = start();
    let mut browser = Browser::admin(&server);
    let path = "/ui/try?user_id=alice&endpoint=%2Flogin&method=POST";
    let text = browser.get(path).text();
    assert!(text.contains("login") && text.contains("default_per_ip"), "{text}");
    let peek = || server.post("/api/v1/rate-limit/peek", ALICE).json()["remaining"].clone();
    assert_eq!(peek(), 2, "nothing was charged");
    let fields = [("user_id", "alice"), ("endpoint", "/login"), ("method", "POST")];
    assert_eq!(browser.post("/ui/try", &fields).status, 200);
    assert_eq!(peek(), 1);
    let wrong = browser.get("/ui/try?cost=many");
    assert!(wrong.text().contains("a whole number"), "{wrong:?}");
}

#[test]
fn the_tail_shows_refusals_as_they_happen() {
    let server = start();
    let mut browser = Browser::admin(&server);
    for _ in 0..3 {
        check(&server, ALICE);
    }
    let shown =
        |browser: &mut Browser<'_>, path: &str| browser.get(path).text().contains("/ui/decisions/");
    until("a refusal in the tail", || shown(&mut browser, "/ui/live").then_some(()));
    assert!(shown(&mut browser, "/ui/live?client=alice&outcome=refused&endpoint=%2Flog"));
    assert!(!shown(&mut browser, "/ui/live?client=bob"));
    assert!(!shown(&mut browser, "/ui/live?outcome=throttled"));
    assert!(!shown(&mut browser, "/ui/live?endpoint=%2Fother"));
}

#[test]
fn the_audit_log_takes_times_as_people_type_them() {
    let server = start();
    let mut browser = Browser::admin(&server);
    let page = browser.get("/ui/audit?since=10m&until=0%3A00").text();
    assert!(page.contains("value=\"10m\""), "what was typed stays: {page}");
    let shows = |browser: &mut Browser<'_>, since: &str| {
        let page = browser.get(&format!("/ui/audit?since={since}"));
        assert_eq!(page.status, 200, "{page:?}");
        page.text().contains("href=\"/ui/rules/login\"")
    };
    for since in
        ["10m", "2h", "2020-11-18", "2020-11-18+21:00", "2020-11-18T20:50", "2020-11-18T20:50:00Z"]
    {
        assert!(shows(&mut browser, since), "{since}");
    }
    assert!(!shows(&mut browser, "2999-01-01"));
    let wrong = browser.get("/ui/audit?since=yesterday").text();
    assert!(wrong.contains("Since is no time: write a time of UTC like 21:00"), "{wrong}");
    let listed = browser.get("/ui/audit?log=decisions&since=10m").text();
    assert!(listed.contains("No decisions that fit"), "{listed}");
    assert!(!listed.contains("2030-12-01"), "{listed}");
}

#[test]
fn a_new_token_has_no_role_until_one_is_chosen() {
    let server = start();
    let mut browser = Browser::admin(&server);
    let page = browser.get("/ui/keys").text();
    let select = page.split("<select name=\"role\"").nth(1).expect("a choice");
    let (tag, options) = select.split_once('>').expect("a tag");
    assert!(tag.contains("required"), "{tag}");
    assert!(options.starts_with("<option value=\"\" selected"), "{options}");
    let refused = browser.post("/ui/tokens/create", &[("name", "x"), ("role", "")]);
    assert!(refused.status >= 400, "{refused:?}");
    let tokens = server.get_as_admin("/api/v1/tokens").json();
    assert!(!tokens.to_string().contains("\"name\":\"x\""), "{tokens}");
}

#[test]
fn long_names_are_broken_between_their_words() {
    let server = start();
    put_rule(
        &server,
        r#"{"rule_id":"default_per_api_key","limit":2,"window":"1h","identifier_type":"api_key",
            "applies_to":{"endpoints":["/login","/api/login"]}}"#,
    );
    let mut browser = Browser::admin(&server);
    let list = browser.get("/ui/rules").text();
    assert!(list.contains("default_<wbr>per_<wbr>api_<wbr>key"), "{list}");
    // The hint of the field says one a line, so it shows one a line.
    let page = browser.get("/ui/rules/default_per_api_key").text();
    let field = page.split("name=\"endpoints\"").nth(1).expect("a field");
    let text = field.split_once('>').and_then(|(_, rest)| rest.split('<').next()).expect("a text");
    assert_eq!(text, "/login\n/api/login");
}
