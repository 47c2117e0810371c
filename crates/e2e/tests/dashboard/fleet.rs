//! Pages of a fleet: of which nodes figures are, and which nodes are missing.

use tollgate_e2e::server::{Server, Setup};
use tollgate_e2e::until;
use tollgate_testbed::Redis;

use crate::browser::Browser;

const SECRET: (&str, &str) = ("TOLLGATE_FLEET_SECRET", "ours-0123456789abcdef0123456789abcdef");
const RULES: &str = "rules:
- {rule_id: api, limit: 20, window: 300d, identifier_type: user_id, candidate: {limit: 3}}
";

fn fleet<const NODES: usize>(redis: &Redis) -> [Server; NODES] {
    let url = redis.url();
    let arguments = ["--store", url.as_str()];
    let setup = Setup {
        rules: Some(RULES),
        settings: "limits: {admin_reads_per_minute: 1000000}",
        arguments: &arguments,
        environment: &[SECRET],
    };
    let fleet = [(); NODES].map(|()| Server::start(&setup));
    for node in &fleet {
        until("all nodes", || {
            let nodes = node.get_as_admin("/api/v1/nodes").json();
            (nodes["nodes"].as_array().map(Vec::len) == Some(NODES)).then_some(())
        });
    }
    fleet
}

fn check(node: &Server, user: &str, times: usize) {
    for _ in 0..times {
        node.check(&format!(r#"{{"identifiers":{{"user_id":"{user}"}}}}"#));
    }
}

/// A page once it has a text.
fn page_with(browser: &mut Browser<'_>, path: &str, text: &str) -> String {
    until(text, || Some(browser.get(path).text()).filter(|page| page.contains(text)))
}

/// The part of a page in an element with an id.
fn part<'p>(page: &'p str, id: &str) -> &'p str {
    let (_, rest) = page.split_once(&format!("id=\"{id}\"")).expect(id);
    rest.split("</section>").next().unwrap_or_default()
}

/// Health showed them green, and the lists of clients were those of one node without a word.
#[test]
fn pages_say_that_other_nodes_cannot_be_reached() {
    let redis = Redis::start();
    let [one, _other] = fleet::<2>(&redis);
    check(&one, "ann", 21);
    let mut browser = Browser::admin(&one);
    page_with(&mut browser, "/ui/live", "2 nodes, in the last 1 min");
    let health = page_with(&mut browser, "/ui/health", "reachable");
    assert!(!part(&health, "nodes").contains("closed"), "{health}");
    redis.kill();
    let alone = "this node only: others cannot be reached";
    let page = page_with(&mut browser, "/", alone);
    assert!(page.contains("Other nodes cannot be reached"), "{page}");
    let health = browser.get("/ui/health").text();
    let nodes = part(&health, "nodes");
    assert!(nodes.contains("Figures are of this node only."), "{nodes}");
    assert_eq!(nodes.matches("silent for ").count(), 1, "{nodes}");
    assert!(!nodes.contains(">reachable<"), "{nodes}");
    assert!(browser.get("/ui/live").text().contains(alone));
    assert!(browser.get("/ui/rules/api").text().contains(alone));
}

/// Nodes that had crashed or ended counted for ten minutes.
#[test]
fn only_nodes_that_are_alive_count_for_what_is_admitted_without_the_store() {
    let redis = Redis::start();
    let [one, ended, crashed, other] = fleet::<4>(&redis);
    let mut browser = Browser::admin(&one);
    let together = |nodes: u64| {
        format!("while the store is away, {nodes} nodes x 2 x 20 = {} are admitted", nodes * 40)
    };
    page_with(&mut browser, "/ui/rules/api", &together(4));
    ended.stop();
    page_with(&mut browser, "/ui/rules/api", &together(3));
    crashed.process.signal("KILL");
    page_with(&mut browser, "/ui/rules/api", &together(2));
    // Those that only cannot be reached go on counting.
    redis.kill();
    let page = page_with(&mut browser, "/ui/rules/api", "others cannot be reached");
    assert!(page.contains(&together(2)), "{page}");
    drop(other);
}

/// Requests were those of the node, clients those of the fleet.
#[test]
fn figures_of_a_candidate_are_all_of_one_node() {
    let redis = Redis::start();
    let [one, other] = fleet::<2>(&redis);
    check(&one, "alice", 5);
    check(&other, "bob", 10);
    let mut browser = Browser::admin(&one);
    let tried = "would have refused <b>2</b> of 5 requests of this node in the last 1 h, \
                 and 1 client in the last 5 min";
    let list = page_with(&mut browser, "/ui/rules", tried);
    assert!(list.contains("requests of this node"), "{list}");
    let page = page_with(&mut browser, "/ui/rules/api", tried);
    let card = part(&page, "candidate");
    assert!(card.contains("alice") && !card.contains("bob"), "{card}");
}

/// Figures of this node and of the fleet, of now and of the range, stood side by side without a word.
#[test]
fn cards_of_the_overview_say_of_what_and_when_they_are() {
    let redis = Redis::start();
    let [one, other] = fleet::<2>(&redis);
    check(&one, "ann", 21);
    check(&other, "ann", 1);
    let mut browser = Browser::admin(&one);
    let page = page_with(&mut browser, "/?range=4h", "2 nodes, in the last 5 min");
    for text in [
        "this node · 2 nodes ",
        "this node, in the last 4 h",
        "Requests that were decided while the store could not be reached",
    ] {
        assert!(page.contains(text), "{text}: {page}");
    }
    assert!(part(&page, "top-rules").contains("this node, in the last 4 h"), "{page}");
}
