//! What figures say of nodes that are missing: because they ended, crashed, or cannot be reached.

use std::process::Command;

use serde_json::{Value, json};
use tollgate_e2e::server::{ADMIN_TOKEN, Server, Setup, tollgate};
use tollgate_e2e::until;
use tollgate_testbed::Redis;

const SECRET: (&str, &str) = ("TOLLGATE_FLEET_SECRET", "ours-0123456789abcdef0123456789abcdef");
const OFTEN: &str = "limits: {admin_reads_per_minute: 1000000, check_calls_per_second: 0}";
const RULES: &str = "rules: [{rule_id: r, limit: 3, window: 300d, identifier_type: user_id}]";
const SINCE: &str = "others_unreachable_since";

fn fleet(redis: &Redis) -> [Server; 2] {
    let url = redis.url();
    let arguments = ["--store", url.as_str()];
    let setup = Setup {
        rules: Some(RULES),
        settings: OFTEN,
        arguments: &arguments,
        environment: &[SECRET],
    };
    let fleet = [(); 2].map(|()| Server::start(&setup));
    for node in &fleet {
        until("both nodes", || (nodes(node).len() == 2).then_some(()));
        node.check(r#"{"identifiers":{"user_id":"ann"}}"#);
    }
    fleet
}

fn read(node: &Server, path: &str) -> Value {
    let answer = node.get_as_admin(path);
    assert_eq!(answer.status, 200, "{path}: {answer:?}");
    answer.json()
}

fn nodes(node: &Server) -> Vec<Value> {
    read(node, "/api/v1/nodes")["nodes"].as_array().expect("a list").clone()
}

fn name(node: &Server) -> Value {
    nodes(node)[0]["name"].clone()
}

/// What a command prints.
fn printed(node: &Server, words: &[&str]) -> String {
    let mut command: Command = tollgate();
    command.args(words).current_dir(node.folder());
    command.env("TOLLGATE_SERVER", node.url("")).env("TOLLGATE_TOKEN", ADMIN_TOKEN);
    let output = command.output().expect("the command runs");
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// A node of which only the age is known has no figures, and is not ready.
fn assert_silent(node: &Value) {
    assert_eq!(node["status"], "silent", "{node}");
    for figure in ["requests_per_second", "refused_per_second", "store"] {
        assert_eq!(node[figure], Value::Null, "{figure}: {node}");
    }
}

/// Each node claimed to be the whole fleet, and listed the others as ready.
#[test]
fn with_the_store_away_figures_are_said_to_be_of_one_node() {
    let redis = Redis::start();
    let [one, other] = fleet(&redis);
    let missing = name(&other);
    let whole = until("figures of both", || {
        let stats = read(&one, "/api/v1/stats");
        (stats["nodes"] == 2).then_some(stats)
    });
    assert_eq!((&whole["silent_nodes"], whole.get(SINCE)), (&json!([]), None), "{whole}");
    assert!(printed(&one, &["stats"]).contains(", figures of 2 nodes\n"));
    redis.kill();
    let alone = until("the loss to be noticed", || {
        let stats = read(&one, "/api/v1/stats");
        // At no time is one node the whole fleet.
        assert!(stats["nodes"] == 2 || stats["silent_nodes"] == json!([missing]), "{stats}");
        stats.get(SINCE).is_some().then_some(stats)
    });
    assert_eq!((&alone["nodes"], &alone["silent_nodes"]), (&json!(1), &json!([missing])));
    let top = read(&one, "/api/v1/top");
    assert_eq!((&top["nodes"], &top["silent_nodes"]), (&json!(1), &json!([missing])));
    assert_eq!(top[SINCE], alone[SINCE]);
    let own = read(&one, "/api/v1/stats?scope=node");
    assert_eq!((own.get(SINCE), &own["silent_nodes"]), (None, &json!([])), "it was asked for");
    let list = read(&one, "/api/v1/nodes");
    assert_eq!(list[SINCE], alone[SINCE]);
    assert_eq!(list["nodes"][0]["status"], "ready");
    assert_silent(&list["nodes"][1]);
    let said = "other nodes cannot be reached since ";
    let named = format!("without 1 silent node: {}\n", missing.as_str().expect("a name"));
    let stats = printed(&one, &["stats"]);
    assert!(stats.contains(said) && stats.contains(&named), "{stats}");
    let ranked = printed(&one, &["decisions", "top"]);
    assert!(ranked.contains(said) && ranked.contains(&named), "{ranked}");
    let top = printed(&one, &["top", "--once"]);
    assert!(top.contains(said) && top.contains("1 node did not respond"), "{top}");
    let top = printed(&one, &["top", "--once", "--json"]);
    let top: Value = serde_json::from_str(&top).expect("JSON");
    assert_eq!(top[SINCE], alone[SINCE]);
    redis.restart();
    until("the fleet again", || {
        let stats = read(&one, "/api/v1/stats");
        (stats["nodes"] == 2 && stats.get(SINCE).is_none()).then_some(())
    });
    assert!(nodes(&one).iter().all(|node| node["status"] == "ready"));
}

/// It stayed in the list for ten minutes, as ready, with the rate of its last second.
#[test]
fn a_node_that_ends_says_farewell() {
    let redis = Redis::start();
    let [one, other] = fleet(&redis);
    other.stop();
    until("the farewell", || {
        let list = nodes(&one);
        assert!(list.iter().all(|node| node["status"] != "silent"), "{list:?}");
        (list.len() == 1).then_some(())
    });
    let stats = read(&one, "/api/v1/stats");
    assert_eq!((&stats["nodes"], &stats["silent_nodes"]), (&json!(1), &json!([])));
    assert_eq!(stats.get(SINCE), None, "{stats}");
}

/// Its figures left the sums without a word, five seconds after it was last heard.
#[test]
fn a_node_that_crashed_is_silent_and_stays_named() {
    let redis = Redis::start();
    let [one, other] = fleet(&redis);
    let missing = name(&other);
    other.process.signal("KILL");
    until("a silent node", || {
        let stats = read(&one, "/api/v1/stats");
        assert!(stats["nodes"] == 2 || stats["silent_nodes"] == json!([missing]), "{stats}");
        let list = nodes(&one);
        let crashed = list.iter().find(|node| node["name"] == missing).expect("it is listed");
        (crashed["status"] == "silent").then_some(())
    });
    assert_silent(&nodes(&one)[1]);
    let stats = read(&one, "/api/v1/stats");
    assert_eq!((&stats["nodes"], &stats["silent_nodes"]), (&json!(1), &json!([missing])));
    assert_eq!(stats.get(SINCE), None, "{stats}");
}
