//! What pages cost the server with many rules and keys: processor time, which other work on the machine does not change.

use std::time::Duration;

use serde_json::{Value, json};
use tollgate_e2e::client::{Connection, request};
use tollgate_e2e::server::{JSON, Server, Setup, bearer_admin};

use crate::browser::Browser;
use crate::pages::PAGES;

const SETTINGS: &str =
    "{limits: {admin_reads_per_minute: 1000000, admin_writes_per_minute: 1000000,
  check_calls_per_second: 0}, audit: {sample_allowed: 1}}";
const BATCH: &str = "/api/v1/rate-limit/check/batch";
const RULES: usize = 1_000;
/// A preview replays a request of each, several times, without optimizations. The benchmark has 100,000.
const KEYS: usize = 1_000;
/// How often each page is asked for.
const TIMES: u32 = 20;
/// The most that a page may take, of which a server with optimizations takes a tenth.
const MAX_TIME: Duration = Duration::from_millis(200);

/// A server with many rules, and as many keys that are active.
fn busy_server() -> Server {
    let server = Server::start(&Setup { settings: SETTINGS, ..Setup::default() });
    let rule = |number: usize| {
        let (rule_id, endpoint) = (format!("r{number}"), format!("/service-{}/*", number / 4));
        json!({"rule_id": rule_id, "limit": 1, "window": "1h", "identifier_type": "user_id",
            "applies_to": {"endpoints": [endpoint]}})
    };
    let rules: Vec<Value> = (0..RULES).map(rule).collect();
    let policy = json!({ "rules": rules }).to_string();
    let put = server.ask("PUT", "/api/v1/policy?prune=rules", &[JSON, bearer_admin()], &policy);
    assert_eq!(put.status, 200, "{put:?}");
    let mut connection = Connection::open(server.address);
    // The second request of each is refused.
    for users in [0..KEYS, 0..KEYS / 10] {
        let check = |user: usize| {
            let endpoint = format!("/service-{}/x", user % (RULES / 4));
            json!({"identifiers": {"user_id": format!("user-{user}")}, "endpoint": endpoint})
        };
        let checks: Vec<Value> = users.map(check).collect();
        for checks in checks.chunks(1_000) {
            let body = json!({ "checks": checks }).to_string();
            let answer = connection.ask(&request("POST", BATCH, &[JSON], body.as_bytes()));
            assert_eq!(answer.status, 200, "{answer:?}");
        }
    }
    server
}

/// The processor time that one of many requests for a page takes.
fn cost(server: &Server, mut show: impl FnMut()) -> Duration {
    // What is made once and kept is not counted.
    show();
    let before = server.process.processor_time();
    (0..TIMES).for_each(|_| show());
    (server.process.processor_time() - before) / TIMES
}

#[test]
fn no_page_takes_long_with_a_thousand_rules() {
    let server = busy_server();
    let mut browser = Browser::admin(&server);
    let refused = server.check(r#"{"identifiers":{"user_id":"user-1"},"endpoint":"/service-1/x"}"#);
    assert_eq!(refused["allowed"], false, "{refused}");
    let decision = format!("/ui/decisions/{}", refused["decision_id"].as_str().expect("an id"));
    let addresses = PAGES.iter().map(|path| path.replace("/ui/rules/login", "/ui/rules/r1"));
    let addresses = addresses.chain([decision, "/ui/client?type=user_id&value=user-1".to_owned()]);
    let mut costs = Vec::new();
    for path in addresses {
        let cost = cost(&server, || {
            let page = browser.get(&path);
            assert_eq!(page.status, 200, "{path}: {page:?}");
        });
        costs.push((path, cost));
    }
    let yaml = "rule_id: r1\nlimit: 2\nwindow: 1h\nidentifier_type: user_id\n";
    let preview = [("do", "preview"), ("mode", "yaml"), ("yaml", yaml)];
    costs.push((
        "a preview".to_owned(),
        cost(&server, || {
            let page = browser.post("/ui/rules/r1", &preview);
            assert_eq!(page.status, 200, "{page:?}");
        }),
    ));
    costs.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
    let all: Vec<String> = costs.iter().map(|(page, cost)| format!("{cost:?} {page}")).collect();
    println!("{}", all.join("\n"));
    assert!(costs.iter().all(|(_, cost)| *cost < MAX_TIME), "{}", all.join("\n"));
}
