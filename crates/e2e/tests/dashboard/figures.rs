//! What figures of one node say: without requests, with counters in memory, near a limit, of refusals, and when rules change.

use serde_json::json;
use tollgate_e2e::server::{JSON, Server, Setup, bearer_admin};
use tollgate_e2e::until;

use crate::browser::{Browser, put_rule};

fn check(server: &Server, user: &str, endpoint: &str, times: usize) {
    let check = json!({"identifiers": {"user_id": user}, "endpoint": endpoint});
    let body = json!({"checks": vec![check; times]}).to_string();
    assert_eq!(server.post("/api/v1/rate-limit/check/batch", &body).status, 200);
}

/// "Check p99 0 ms" was said of no checks, and a store in memory had a circuit breaker.
#[test]
fn what_is_not_there_has_no_figure() {
    let server = Server::start(&Setup::default());
    let mut browser = Browser::admin(&server);
    let page = browser.get("/").text();
    assert!(page.contains("Check p99</span><b class=\"\">–<small></small>"), "{page}");
    assert!(page.contains("in memory"), "{page}");
    let health = browser.get("/ui/health").text();
    let (_, nodes) = health.split_once("id=\"nodes\"").expect("nodes");
    let nodes = nodes.split("</section>").next().unwrap_or_default();
    assert!(nodes.contains("in memory") && !nodes.contains(">closed<"), "{nodes}");
    assert!(!health.contains("1 counters") && !health.contains("1</b> counters"), "{health}");
}

/// 84 % stood above 100 %, since the list was in the order of requests.
#[test]
fn clients_near_a_limit_are_in_the_order_of_what_is_shown() {
    let server = Server::start(&Setup::default());
    put_rule(
        &server,
        r#"{"rule_id":"large","limit":100,"window":"300d","identifier_type":"user_id",
            "applies_to":{"endpoints":["/large"]}}"#,
    );
    put_rule(
        &server,
        r#"{"rule_id":"small","limit":2,"window":"300d","identifier_type":"user_id",
            "applies_to":{"endpoints":["/small"]}}"#,
    );
    check(&server, "often", "/large", 90);
    check(&server, "full", "/small", 2);
    let mut browser = Browser::admin(&server);
    let near = until("both clients", || {
        let page = browser.get("/ui/live").text();
        let (_, near) = page.split_once("Near a limit")?;
        let near = near.split("</section>").next()?.to_owned();
        (near.contains("often") && near.contains("full")).then_some(near)
    });
    let place = |text: &str| near.find(text).expect(text);
    assert!(place("100 %") < place("90 %") && place("full") < place("often"), "{near}");
}

/// Every ban was drawn as "rev 13 · 4 rules", though no rule had changed.
#[test]
fn a_ban_is_not_drawn_as_a_change_of_rules() {
    let server = Server::start(&Setup::default());
    let mut browser = Browser::admin(&server);
    put_rule(
        &server,
        r#"{"rule_id":"login","limit":2,"window":"300d","identifier_type":"user_id"}"#,
    );
    let changed =
        |browser: &mut Browser<'_>| browser.get("/?range=15m").text().matches("revision ").count();
    check(&server, "ann", "/login", 2);
    let revision =
        |server: &Server| server.get_as_admin("/api/v1/stats").json()["revision"].clone();
    let of_rule = revision(&server);
    let title = format!("revision {of_rule}: ");
    until("the change of a rule", || {
        browser.get("/?range=15m").text().contains(&title).then_some(())
    });
    let before = changed(&mut browser);
    for address in ["192.0.2.1", "192.0.2.2"] {
        let ban = json!({"identifier_type": "ip", "identifier": address, "reason": "scraper"});
        let path = "/api/v1/blacklist";
        let made = server.ask("POST", path, &[JSON, bearer_admin()], &ban.to_string());
        assert!(matches!(made.status, 200 | 201), "{made:?}");
    }
    let of_ban = revision(&server);
    assert_ne!(of_rule, of_ban);
    // The history of the API has it, so that it was seen.
    until("the last revision in the history", || {
        let history = server.get_as_admin("/api/v1/history?range=1h").json();
        let last = history["revisions"].as_array()?.last()?["revision"].clone();
        (last == of_ban).then_some(())
    });
    assert_eq!(changed(&mut browser), before);
    assert!(!browser.get("/?range=15m").text().contains(&format!("revision {of_ban}: ")));
}

/// What stands behind points was only in made-up data.
#[test]
fn a_point_names_the_rule_that_refused_most_and_whether_it_was_one_client() {
    let server = Server::start(&Setup::default());
    for (rule_id, limit) in [("login", 2), ("small", 1)] {
        let rule = json!({"rule_id": rule_id, "limit": limit, "window": "300d", "identifier_type": "user_id",
            "applies_to": {"endpoints": [format!("/{rule_id}")]}});
        put_rule(&server, &rule.to_string());
    }
    let mut browser = Browser::admin(&server);
    let mut note = |expected: &str| {
        let line = format!(" {expected}");
        until(expected, || {
            let page = browser.get("/?range=15m").text();
            let (_, notes) = page.split_once("data-notes=\"")?;
            let notes = notes.split('"').next()?;
            // Each line has the number of its point.
            notes.lines().any(|it| it.ends_with(&line)).then_some(())
        });
    };
    let checks = |parts: &[(&str, &str, usize)]| {
        let checks: Vec<_> = parts
            .iter()
            .flat_map(|(user, endpoint, times)| {
                vec![json!({"identifiers": {"user_id": user}, "endpoint": endpoint}); *times]
            })
            .collect();
        let body = json!({"checks": checks}).to_string();
        assert_eq!(server.post("/api/v1/rate-limit/check/batch", &body).status, 200);
    };
    // Of each, one passes.
    checks(&[("bob", "/small", 3), ("eve", "/small", 2)]);
    note("small: 100 % of refusals");
    // 10 of ann, and 3 of the others.
    checks(&[("bob", "/small", 2), ("eve", "/small", 1), ("ann", "/login", 12)]);
    note("login: 76 % of refusals, of one client");
    let banned = json!({"identifier_type": "user_id", "identifier": "zoe", "reason": "scraper"});
    let made =
        server.ask("POST", "/api/v1/blacklist", &[JSON, bearer_admin()], &banned.to_string());
    assert!(matches!(made.status, 200 | 201), "{made:?}");
    checks(&[("zoe", "/", 2)]);
    note("deny list or no rule: 100 % of refusals, of one client");
}
