//! What the page of health says: which counters are hot, whose clock differs, and why the catalog cannot be reached.

use serde_json::json;
use tollgate_e2e::clock::SettableClock;
use tollgate_e2e::server::{Server, Setup};
use tollgate_e2e::until;
use tollgate_testbed::{Postgres, Redis};

use crate::browser::Browser;

/// Checks several users so many times each, in one batch for each user.
fn check(server: &Server, users: impl IntoIterator<Item = String>, times: usize) {
    for user in users {
        let check = json!({"identifiers": {"user_id": user}, "endpoint": "/"});
        let body = json!({"checks": vec![check; times]}).to_string();
        assert_eq!(server.post("/api/v1/rate-limit/check/batch", &body).status, 200);
    }
}

/// The card of hot counters.
fn hot_keys(browser: &mut Browser<'_>) -> String {
    let page = browser.get("/ui/health");
    assert_eq!(page.status, 200, "{page:?}");
    let page = page.text();
    let (_, card) = page.split_once("id=\"hot-keys\"").expect("a card");
    card.split("</section>").next().unwrap_or_default().to_owned()
}

/// The page always said that no counter is hot.
#[test]
fn a_hot_counter_is_named_and_even_traffic_has_none() {
    let server = Server::with_rules(
        "rules: [{rule_id: per_user, limit: 5, window: 1h, identifier_type: user_id}]",
    );
    let mut browser = Browser::admin(&server);
    assert!(hot_keys(&mut browser).contains("No counter is hot."));
    check(&server, (0..50).map(|number| format!("u{number}")), 20);
    let even = hot_keys(&mut browser);
    assert!(even.contains("No counter is hot."), "{even}");
    // Refused requests are charges that were attempted.
    check(&server, ["mallory".to_owned()], 1_000);
    let skewed = hot_keys(&mut browser);
    assert!(skewed.contains("/ui/client?type=user_id&amp;value=mallory"), "{skewed}");
    assert!(skewed.contains("href=\"/ui/rules/per_user\""), "{skewed}");
    assert!(!skewed.contains("No counter is hot.") && !skewed.contains("u1<"), "{skewed}");
    let (_, share) = skewed.rsplit_once("<td class=\"num\">").expect("a share");
    let share: f64 = share.split(' ').next().and_then(|text| text.parse().ok()).expect("a number");
    assert!((40.0..60.0).contains(&share), "half of the requests: {skewed}");
}

#[test]
fn a_counter_of_all_requests_is_hot_and_names_no_client() {
    let server = Server::with_rules(
        "rules: [{rule_id: total, limit: 100000, window: 1h, identifier_type: global}]",
    );
    let mut browser = Browser::admin(&server);
    check(&server, (0..50).map(|number| format!("u{number}")), 20);
    let hot = hot_keys(&mut browser);
    assert!(hot.contains("all requests") && hot.contains("/ui/rules/total"), "{hot}");
    assert!(hot.contains("100 %") && !hot.contains("/ui/client"), "{hot}");
}

/// The page said that the catalog does not respond, and never why.
#[test]
fn the_error_of_a_catalog_that_cannot_be_reached_is_shown_until_it_responds() {
    let postgres = Postgres::start();
    let url = postgres.url();
    let arguments = ["--catalog", url.as_str()];
    let server = Server::start(&Setup { arguments: &arguments, ..Setup::default() });
    let mut browser = Browser::admin(&server);
    let policy = |browser: &mut Browser<'_>| {
        let page = browser.get("/ui/health").text();
        let (_, card) = page.split_once("id=\"policy\"").expect("a card");
        card.split("</section>").next().unwrap_or_default().to_owned()
    };
    let card = policy(&mut browser);
    assert!(card.contains("responds") && !card.contains("Error"), "{card}");
    postgres.kill();
    let card = until("the error", || {
        Some(policy(&mut browser)).filter(|card| card.contains("<dt>Error</dt>"))
    });
    assert!(card.contains("cannot be asked: "), "{card}");
    assert!(card.contains("does not respond") && !card.contains("postgres@"), "{card}");
    postgres.restart();
    until("a catalog that responds", || {
        let card = policy(&mut browser);
        (card.contains("responds") && !card.contains("<dt>Error</dt>")).then_some(())
    });
}

#[test]
fn a_store_whose_clock_differs_is_marked_once_it_does() {
    let (clock, redis) = (SettableClock::new(), Redis::start());
    let url = redis.url();
    let setup = Setup {
        rules: Some("rules: [{rule_id: r, limit: 5, window: 1h, identifier_type: user_id}]"),
        arguments: &["--store", &url],
        environment: &clock.environment(),
        ..Setup::default()
    };
    let server = Server::start(&setup);
    let mut browser = Browser::admin(&server);
    let cell = |browser: &mut Browser<'_>| {
        server.check(r#"{"identifiers":{"user_id":"ann"}}"#);
        let page = browser.get("/ui/health").text();
        let (_, card) = page.split_once("id=\"stores\"").expect("a card");
        let card = card.split("</section>").next().unwrap_or_default();
        let row = card.rsplit("<td ").next().unwrap_or_default();
        row.split("</td>").next().unwrap_or_default().to_owned()
    };
    let before = until("a difference that was measured", || {
        Some(cell(&mut browser)).filter(|cell| cell.contains(" ahead") || cell.contains(" behind"))
    });
    assert!(!before.contains("warn"), "one machine has one clock: {before}");
    clock.set_ahead();
    let after = until("a warning", || Some(cell(&mut browser)).filter(|it| it.contains("warn")));
    // The store is behind by 90 seconds.
    assert!(after.contains("1 min") && after.contains(" behind"), "{after}");
}
