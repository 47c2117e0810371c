//! A candidate on the pages of rules, and its promotion.

use serde_json::{Value, json};
use tollgate_e2e::server::{Server, Setup};
use tollgate_e2e::until;

use crate::browser::{Browser, put_rule};

const API: &str = r#"{"rule_id":"api","limit":10,"window":"300d","identifier_type":"user_id",
    "candidate":{"limit":3}}"#;

fn rule(server: &Server) -> Value {
    server.get_as_admin("/api/v1/rules/api?detail=true").json()
}

/// A page once it has a text: figures are collected every second.
fn page_with(browser: &mut Browser<'_>, path: &str, text: &str) -> String {
    until(text, || Some(browser.get(path).text()).filter(|page| page.contains(text)))
}

#[test]
fn a_candidate_is_shown_with_its_figures_and_promoted() {
    let server = Server::start(&Setup::default());
    put_rule(&server, API);
    let checks = |user: &str, count: usize| {
        let check = json!({"identifiers": {"user_id": user}, "endpoint": "/orders"});
        let body = json!({"checks": vec![check; count]}).to_string();
        assert_eq!(server.post("/api/v1/rate-limit/check/batch", &body).status, 200);
    };
    checks("alice", 5);
    checks("bob", 2);
    let mut browser = Browser::admin(&server);
    let refused = "would have refused <b>2</b> of 7 requests of this node in the last 1 h, and 1 client in the last 5 min";
    let list = page_with(&mut browser, "/ui/rules", refused);
    assert!(list.contains("href=\"/ui/rules/api#candidate\""), "{list}");
    assert!(list.contains("candidate 3"), "{list}");
    let page = page_with(&mut browser, "/ui/rules/api", refused);
    assert!(page.contains("alice") && page.contains("Promote to 3 "), "{page}");
    assert!(page.contains("action=\"/ui/rules/api/promote\""), "{page}");
    assert!(page.contains("name=\"candidate_limit\""), "{page}");
    // The lists of shadow rules lead to the page of the rule.
    let live = page_with(&mut browser, "/ui/live", "api~candidate");
    assert!(!live.contains("/ui/rules/api~candidate"), "{live}");
    // One write, of the version that was shown.
    let version = rule(&server)["version"].to_string();
    let stale = browser.post("/ui/rules/api/promote", &[("version", "999")]);
    assert_eq!(stale.status, 412, "{stale:?}");
    let promoted = browser.post("/ui/rules/api/promote", &[("version", &version)]);
    assert_eq!(promoted.status, 303, "{promoted:?}");
    let location = promoted.header("location").expect("a location").to_owned();
    assert!(browser.get(&location).text().contains("The candidate is in force"), "{location}");
    let now = rule(&server);
    assert_eq!((&now["limit"], now.get("candidate")), (&3.into(), None), "{now}");
    let history = server.get_as_admin("/api/v1/audit?kind=rule&entry=api").json();
    assert_eq!(history["records"].as_array().map(Vec::len), Some(2), "{history}");
    let again = browser.post("/ui/rules/api/promote", &[]);
    assert_eq!(again.status, 422, "{again:?}");
    assert!(again.text().contains("no candidate"), "{again:?}");
    let page = browser.get("/ui/rules/api").text();
    assert!(!page.contains("/promote"), "{page}");
}

/// Pages used to find clients and requests by the first shadow rule only, and to offer overrides of candidates.
#[test]
fn a_client_of_a_candidate_is_shown_beside_another_shadow_rule() {
    // Pages that are asked for until they have the figures read a lot.
    let settings = "limits: {admin_reads_per_minute: 1000000}";
    let server = Server::start(&Setup { settings, ..Setup::default() });
    put_rule(&server, API);
    put_rule(
        &server,
        r#"{"rule_id":"watch","limit":2,"window":"300d","identifier_type":"user_id","action":"log_only",
            "algorithm":"sliding_window_log","applies_to":{"endpoints":["/orders"]}}"#,
    );
    let check = json!({"identifiers": {"user_id": "bob"}, "endpoint": "/orders", "method": "POST"});
    let body = json!({"checks": vec![check; 11]}).to_string();
    assert_eq!(server.post("/api/v1/rate-limit/check/batch", &body).status, 200);
    let mut browser = Browser::admin(&server);
    let refused = "would have refused <b>7</b> of 10 requests of this node in the last 1 h, and 1 client in the last 5 min";
    page_with(&mut browser, "/ui/rules", refused);
    let page = page_with(&mut browser, "/ui/rules/api", refused);
    assert!(page.contains("Clients of this node that it would have refused"), "{page}");
    let client = "/ui/client?type=user_id&value=bob";
    let page = page_with(&mut browser, client, "api~candidate");
    let limits = page.split("id=\"limits\"").nth(1).expect("limits");
    let limits = limits.split("id=\"last-decisions\"").next().expect("their end");
    let items: Vec<&str> = limits.split("<div class=\"limit\">").skip(1).collect();
    let item = |word: &str| {
        let place = items.iter().position(|item| item.contains(word));
        place.unwrap_or_else(|| panic!("no {word}: {limits}"))
    };
    let (own, candidate, watch) = (item("under api<"), item(">candidate<"), item(">shadow<"));
    assert_eq!(candidate, own + 1, "below its rule: {limits}");
    assert!(items[own].contains(">refused POST /orders"), "{limits}");
    for shadow in [candidate, watch] {
        assert!(items[shadow].contains(">would have refused POST /orders"), "{limits}");
        assert!(!items[shadow].contains("used up"), "{limits}");
    }
    assert!(!items[candidate].contains("Double for 4 h"), "{limits}");
    assert!(!page.contains("value=\"api~candidate\""), "no form names it: {page}");
    // Both rules find the requests.
    for path in ["/ui/live?rule_id=", "/ui/audit?log=decisions&rule_id="] {
        for rule_id in ["watch", "api~candidate"] {
            page_with(&mut browser, &format!("{path}{rule_id}"), "/ui/decisions/");
        }
    }
}

#[test]
fn a_form_keeps_what_it_does_not_show_of_a_candidate() {
    let server = Server::start(&Setup::default());
    put_rule(&server, API);
    let mut browser = Browser::admin(&server);
    let yaml = "rule_id: api\nlimit: 10\nwindow: 300d\nidentifier_type: user_id\n\
                candidate: {limit: 3, algorithm: gcra}\n";
    let version = rule(&server)["version"].to_string();
    let saved = browser.post(
        "/ui/rules/api",
        &[
            ("do", "save"),
            ("mode", "form"),
            ("yaml", yaml),
            ("version", &version),
            ("rule_id", "api"),
            ("limit", "10"),
            ("window", "300d"),
            ("algorithm", "sliding_window_counter"),
            ("identifier_type", "user_id"),
            ("cost", "1"),
            ("candidate_limit", "4"),
            ("enabled", "on"),
        ],
    );
    assert_eq!(saved.status, 303, "{saved:?}");
    assert_eq!(rule(&server)["candidate"], json!({"limit": 4, "algorithm": "gcra"}));
}

#[test]
fn the_preview_of_a_candidate_says_what_it_would_refuse_and_whose() {
    let server = Server::start(&Setup::default());
    put_rule(
        &server,
        r#"{"rule_id":"api","limit":10,"window":"300d","identifier_type":"user_id"}"#,
    );
    for (user, count) in [("alice", 5), ("bob", 2)] {
        let check = json!({"identifiers": {"user_id": user}, "endpoint": "/orders"});
        let body = json!({"checks": vec![check; count]}).to_string();
        assert_eq!(server.post("/api/v1/rate-limit/check/batch", &body).status, 200);
    }
    let mut browser = Browser::admin(&server);
    let yaml =
        "rule_id: api\nlimit: 10\nwindow: 300d\nidentifier_type: user_id\ncandidate: {limit: 2}\n";
    let fields = [("do", "preview"), ("mode", "yaml"), ("yaml", yaml)];
    let page = browser.post("/ui/rules/api", &fields).text();
    let refused = "Would have refused <b>3</b> of 7 requests that pass, of 1 client.";
    assert!(page.contains(refused), "{page}");
    let section = page.split("id=\"candidate-effect\"").nth(1).expect("a section");
    let section = section.split("</section>").next().expect("its end");
    assert!(section.contains("Candidate 2 / 300 days") && section.contains("alice"), "{section}");
    assert!(!section.contains("bob"), "{section}");
    assert!(page.contains("The rule itself refuses as before."), "{page}");
    // Without a candidate there is no such part.
    let fields = [
        ("do", "preview"),
        ("mode", "yaml"),
        ("yaml", yaml.split("candidate").next().expect("a rule")),
    ];
    assert!(!browser.post("/ui/rules/api", &fields).text().contains("candidate-effect"));
}

#[test]
fn a_viewer_promotes_nothing() {
    let server = Server::start(&Setup::default());
    put_rule(&server, API);
    let made = server.post_as_admin("/api/v1/tokens", r#"{"role":"viewer","name":"eyes"}"#);
    let token = made.json()["token"].as_str().expect("a token").to_owned();
    let mut browser = Browser::signed_in(&server, &token);
    let page = browser.get("/ui/rules/api").text();
    assert!(page.contains("Candidate") && !page.contains("/promote"), "{page}");
    let refused = browser.post("/ui/rules/api/promote", &[]);
    assert_eq!(refused.status, 403, "{refused:?}");
    assert_eq!(rule(&server)["limit"], 10);
}
