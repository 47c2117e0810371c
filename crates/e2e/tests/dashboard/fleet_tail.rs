//! The tail of decisions on the page Live: those of all nodes, within a second, for tenants only their own.

use serde_json::{Value, json};
use tollgate_e2e::server::{CHECK, JSON, Server, Setup};
use tollgate_e2e::until;
use tollgate_testbed::{Postgres, Redis};

use crate::browser::{Browser, put_rule, token};

const SECRET: (&str, &str) = ("TOLLGATE_FLEET_SECRET", "ours-0123456789abcdef0123456789abcdef");
const SETTINGS: &str = "{limits: {admin_reads_per_minute: 1000000}, store_failure: {deadline: 5s}}";
/// Every check is refused.
const RULES: &str = "rules:
- {rule_id: none, limit: 0, window: 300d, identifier_type: user_id}
";
/// How many decisions the tail has.
const TAIL: usize = 50;

fn nodes(node: &Server) -> Vec<Value> {
    let nodes = node.get_as_admin("/api/v1/nodes").json();
    nodes["nodes"].as_array().expect("a list").clone()
}

fn fleet<const NODES: usize>(setup: &Setup<'_>) -> [Server; NODES] {
    let fleet = [(); NODES].map(|()| Server::start(setup));
    for node in &fleet {
        until("all nodes", || (nodes(node).len() == NODES).then_some(()));
    }
    fleet
}

/// Nodes that share Redis.
fn with_redis<const NODES: usize>(redis: &Redis) -> [Server; NODES] {
    let url = redis.url();
    let arguments = ["--store", url.as_str()];
    let environment = &[SECRET];
    fleet(&Setup { rules: Some(RULES), settings: SETTINGS, arguments: &arguments, environment })
}

/// Has a node refuse a request, and returns the id of the decision.
fn refuse(node: &Server, user: &str, endpoint: &str) -> String {
    let body = json!({"identifiers": {"user_id": user}, "endpoint": endpoint}).to_string();
    let refused = node.check(&body);
    assert_eq!(refused["allowed"], false, "{refused}");
    refused["decision_id"].as_str().expect("an id").to_owned()
}

/// The ids of the decisions in the tail of a page, the newest first.
fn listed(page: &str) -> Vec<String> {
    let links = page.split("href=\"/ui/decisions/").skip(1);
    links.map(|rest| rest.split('"').next().unwrap_or_default().to_owned()).collect()
}

/// In any order: the clocks of nodes differ by as much as it takes to correct them by that of the store.
fn sorted(mut ids: Vec<String>) -> Vec<String> {
    ids.sort_unstable();
    ids
}

/// What the page says of the nodes that the decisions are of.
fn tail_of(page: &str) -> String {
    let (_, rest) = page.split_once("id=\"tail-of\"").expect("a legend");
    let text = rest.split("<button").next().unwrap_or_default();
    let mut shown = String::new();
    for piece in text.split_once('>').map_or("", |(_, text)| text).split('<') {
        shown.push_str(piece.split_once('>').map_or(piece, |(_, text)| text));
    }
    shown
}

/// The tail was that of the node that a load balancer happened to choose.
#[test]
fn the_tail_has_the_decisions_of_all_nodes() {
    let redis = Redis::start();
    let fleet = with_redis::<3>(&redis);
    let ids: Vec<String> = fleet
        .iter()
        .enumerate()
        .map(|(place, node)| refuse(node, &format!("user-{place}"), &format!("/orders/{place}")))
        .collect();
    for node in &fleet {
        let mut browser = Browser::admin(node);
        let page = until("decisions of all nodes", || {
            let page = browser.get("/ui/live").text();
            (sorted(listed(&page)) == sorted(ids.clone())).then_some(page)
        });
        assert_eq!(tail_of(&page).trim(), "the last ones of 3 nodes");
        for listed in nodes(node) {
            let name = listed["name"].as_str().expect("a name");
            assert!(page.contains(&format!(">{name}</td>")), "{name}: {page}");
        }
        for (filter, expected) in [
            ("client=user-1", &ids[1..2]),
            ("endpoint=%2Forders%2F2", &ids[2..]),
            ("rule_id=none&outcome=refused&client=user-0", &ids[..1]),
            ("outcome=throttled", &[]),
            ("client=user", &[]),
        ] {
            // A node that is busy may not respond in time.
            until(filter, || {
                let page = browser.get(&format!("/ui/live?{filter}")).text();
                tail_of(&page).contains("3 nodes").then(|| assert_eq!(listed(&page), expected))
            });
        }
    }
}

/// Of many decisions, the newest of all nodes are shown, and no more than fit.
#[test]
fn the_tail_is_bounded_over_all_nodes() {
    let redis = Redis::start();
    let [one, other] = with_redis::<2>(&redis);
    // With texts as long as they are kept, more than one message has room for.
    let long = "x".repeat(2_000);
    let old: Vec<String> = (0..TAIL).map(|_| refuse(&one, &long, &format!("/{long}"))).collect();
    let new: Vec<String> =
        (0..TAIL / 2).map(|_| refuse(&other, &long, &format!("/{long}"))).collect();
    let expected = sorted(old.into_iter().rev().take(TAIL - new.len()).chain(new).collect());
    let mut browser = Browser::admin(&one);
    until("the newest decisions", || {
        let listed = listed(&browser.get("/ui/live").text());
        assert!(listed.len() <= TAIL, "{} decisions", listed.len());
        (sorted(listed) == expected).then_some(())
    });
}

#[test]
fn a_node_that_does_not_respond_is_missing_in_the_tail_and_the_page_says_so() {
    let redis = Redis::start();
    let [one, other, frozen] = with_redis::<3>(&redis);
    let [first, second] = [refuse(&one, "ann", "/"), refuse(&other, "ann", "/")];
    let _third = refuse(&frozen, "ann", "/");
    frozen.process.signal("STOP");
    let mut browser = Browser::admin(&one);
    let page = until("two of three nodes", || {
        let page = browser.get("/ui/live").text();
        (tail_of(&page).trim() == "the last ones of 2 of 3 nodes").then_some(page)
    });
    assert_eq!(sorted(listed(&page)), sorted(vec![first, second]));
    frozen.process.signal("CONT");
    until("all of them", || (listed(&browser.get("/ui/live").text()).len() == 3).then_some(()));
    redis.kill();
    until("a fleet that is cut off", || {
        let page = browser.get("/ui/live").text();
        tail_of(&page).contains("this node only: others cannot be reached").then_some(())
    });
}

/// An administrator of a tenant sees decisions about requests of that tenant, whichever node made them, and no machines.
#[test]
fn a_tenant_sees_its_own_decisions_of_all_nodes() {
    let (redis, postgres) = (Redis::start(), Postgres::start());
    let (catalog, url) = (postgres.url(), redis.url());
    let arguments = ["--store", url.as_str(), "--catalog", catalog.as_str()];
    let settings = SETTINGS;
    let [one, other] = fleet::<2>(&Setup { settings, arguments: &arguments, ..Setup::default() });
    for tenant in ["acme", "globex"] {
        let rule = json!({"rule_id": format!("{tenant}_api"), "limit": 0, "window": "1h",
            "identifier_type": "user_id", "tenant": tenant});
        put_rule(&one, &rule.to_string());
    }
    let (_, secret) = token(&one, r#"{"role":"tenant-admin","tenant":"acme"}"#);
    let refuse = |tenant: &str| {
        let identifiers = json!({"user_id": format!("user-of-{tenant}"), "tenant": tenant});
        let body = json!({ "identifiers": identifiers }).to_string();
        until("the rules", || {
            let decision = other.ask("POST", CHECK, &[JSON], &body).json();
            (decision["allowed"] == false).then(|| decision["decision_id"].to_string())
        })
    };
    let [of_globex, of_acme] = ["globex", "acme"].map(refuse);
    let mut admin = Browser::admin(&one);
    until("decisions of the other node", || {
        let listed = listed(&admin.get("/ui/live").text());
        let has = |id: &String| listed.contains(&id.trim_matches('"').to_owned());
        (has(&of_acme) && has(&of_globex)).then_some(())
    });
    let mut tenant = Browser::signed_in(&one, &secret);
    let own = [of_acme.trim_matches('"').to_owned()];
    for path in ["/ui/live", "/ui/live?client=user-of-acme", "/ui/live?rule_id=acme_api"] {
        until(path, || {
            let page = tenant.get(path).text();
            assert!(!page.contains("globex"), "{path}: {page}");
            for node in nodes(&one) {
                let name = node["name"].as_str().expect("a name");
                assert!(!page.contains(&format!(">{name}<")), "{path} names {name}: {page}");
            }
            (listed(&page) == own).then_some(())
        });
    }
    for path in ["/ui/live?client=user-of-globex", "/ui/live?rule_id=globex_api"] {
        let page = tenant.get(path).text();
        assert_eq!(listed(&page), [""; 0], "{path}: {page}");
    }
}
