//! `tollgate store show`: what people see of a record in Redis.

use std::fs;
use std::process::Output;

use serde_json::Value;
use tollgate_testbed::{Redis, RedisCluster};

use crate::nodes::{self, cluster_url};
use tollgate_e2e::server::{Server, Setup, tollgate};

const RULES: &str = "rules:
- {rule_id: burst, limit: 10, window: 1h, algorithm: gcra, identifier_type: user_id}
- {rule_id: daily, limit: 1000, window: 1d, algorithm: sliding_window_counter, identifier_type: user_id}
- {rule_id: exact, limit: 100, window: 1h, algorithm: sliding_window_log, identifier_type: user_id}
";

/// `tg:` and eleven characters.
const SHORTEST_KEY: usize = 14;

fn show(store: &str, arguments: &[&str]) -> Output {
    let mut command = tollgate();
    command.args(["store", "show", "--store", store]).args(arguments);
    command.output().expect("the command runs")
}

/// All keys of servers.
fn keys<'a>(servers: impl IntoIterator<Item = &'a Redis>) -> Vec<String> {
    let keys = servers.into_iter().map(|server| server.command(&["KEYS", "*"]));
    keys.flat_map(|keys| keys.list().iter().map(|key| key.text().to_owned()).collect::<Vec<_>>())
        .collect()
}

/// Has a node charge a client three times, and returns the node and the key of the client's record.
fn charged(store: &str, keys: impl Fn() -> Vec<String>) -> (Server, String) {
    let node = nodes::start(1, store, RULES, "{}").pop().expect("a node");
    for _ in 0..3 {
        let decision = node.check(r#"{"identifiers":{"user_id":"alice"}}"#);
        assert_eq!((&decision["allowed"], &decision["degraded"]), (&true.into(), &Value::Null));
    }
    // That of the log beside it has a colon, those of the fleet are shorter.
    let keys = keys();
    let mut records =
        keys.iter().filter(|key| key.len() >= SHORTEST_KEY && key.matches(':').count() == 1);
    let record = records.next().unwrap_or_else(|| panic!("{keys:?}"));
    (node, record.clone())
}

#[test]
fn a_record_is_shown_by_rule() {
    let redis = Redis::start();
    let (node, key) = charged(&redis.url(), || keys([&redis]));
    let rules = node.rules_file().display().to_string();
    let shown = show(&redis.url(), &["--rules", &rules, "--json", &key]);
    let record: Value = serde_json::from_slice(&shown.stdout).expect("JSON");
    assert_eq!((shown.status.code(), &record["key"]), (Some(0), &Value::from(key.as_str())));
    let counter = |rule: &str| {
        let counters = record["counters"].as_array().expect("counters");
        counters.iter().find(|it| it["rule_id"] == rule).unwrap_or_else(|| panic!("{record}"))
    };
    let figures = |rule: &str| {
        let it = counter(rule);
        [&it["algorithm"], &it["limit"], &it["window_ms"], &it["used"], &it["held"]]
            .map(Value::to_string)
    };
    assert_eq!(figures("burst"), ["\"gcra\"", "10", "3600000", "3", "0"]);
    assert_eq!(figures("daily"), ["\"sliding_window_counter\"", "null", "86400000", "3", "0"]);
    assert_eq!(figures("exact"), ["\"sliding_window_log\"", "null", "3600000", "3", "0"]);

    // Keys are hashes under a secret, so that a node says which is whose.
    let explained = tollgate()
        .args(["explain", "--user-id", "alice", "--server", &node.url("")])
        .output()
        .expect("the command runs");
    let explained = String::from_utf8(explained.stdout).expect("text");
    assert!(explained.contains(&format!("\ncounters in Redis: {key}\n")), "{explained}");

    let shown = show(&redis.url(), &["--rules", &rules, &key]);
    let text = String::from_utf8(shown.stdout).expect("text");
    for expected in ["3 counters", "burst", "10 / 1 h", "sliding_window_log", "kept until"] {
        assert!(text.contains(expected), "{expected} is not in\n{text}");
    }
    // Without rules, counters have the numbers of their rules.
    let shown = show(&redis.url(), &[&key]);
    let text = String::from_utf8(shown.stdout).expect("text");
    assert!(text.contains("(tag ") && !text.contains("burst"), "{text}");
    assert!(text.contains("name the rules with --rules or --catalog"), "{text}");
}

/// Limits of Envoy's files were shown as numbers.
#[test]
fn limits_of_envoy_files_are_named() {
    let redis = Redis::start();
    let folder = tempfile::tempdir().expect("a folder");
    let files = folder.path().join("ratelimit");
    fs::create_dir(&files).expect("a directory");
    let limit =
        "{domain: shop, descriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 9}}]}";
    fs::write(files.join("shop.yaml"), limit).expect("written");
    let path = files.to_str().expect("a readable path");
    let arguments = ["--store", &redis.url(), "--envoy-config", path];
    let node = Server::start(&Setup { arguments: &arguments, ..Setup::default() });
    let body = r#"{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"ann"}]},
        {"entries":[{"key":"user","value":"bob"}],"limit":{"requests_per_unit":5,"unit":"DAY"}}]}"#;
    assert_eq!(node.post("/json", body).status, 200);
    let all = keys([&redis]);
    let records = all.iter().filter(|key| key.len() >= SHORTEST_KEY);
    let mut named: Vec<String> = records
        .map(|key| {
            let shown = show(&redis.url(), &["--envoy-config", path, "--json", key]);
            let record: Value = serde_json::from_slice(&shown.stdout).expect("JSON");
            record["counters"][0]["rule_id"].as_str().unwrap_or("-").to_owned()
        })
        .collect();
    named.sort_unstable();
    assert_eq!(named, ["carried-limit", "shop.user"]);
    let missing = show(&redis.url(), &["--envoy-config", "/nowhere", "tg:x"]);
    let said = String::from_utf8_lossy(&missing.stderr);
    assert!(missing.status.code() == Some(2) && said.contains("cannot read /nowhere"), "{said}");
}

#[test]
fn a_record_in_a_cluster_is_shown() {
    let cluster = RedisCluster::start(3, 0);
    let (node, key) = charged(&cluster_url(&cluster), || keys(cluster.nodes()));
    let rules = node.rules_file().display().to_string();
    let shown = show(&cluster_url(&cluster), &["--rules", &rules, "--json", &key]);
    let record: Value = serde_json::from_slice(&shown.stdout).expect("JSON");
    assert_eq!(record["counters"].as_array().map(Vec::len), Some(3), "{record}");
}

#[test]
fn what_cannot_be_shown_is_said() {
    let redis = Redis::start();
    redis.command(&["RPUSH", "list", "1"]);
    redis.command(&["SET", "text", "hello"]);
    let url = redis.url();
    redis.command(&["SET", "record", "\u{1}"]);
    let check = |store: &str, key: &str, code: i32, expected: &str| {
        let shown = show(store, &[key]);
        let said = String::from_utf8_lossy(&shown.stderr).into_owned();
        assert_eq!(shown.status.code(), Some(code), "{key}: {said}");
        assert!(said.contains(expected), "{key}: {said}");
    };
    check(&url, "nothing", 1, "there is no record at the key nothing");
    for key in ["list", "text"] {
        check(&url, key, 1, &format!("the key {key} in {url} holds no counters"));
    }
    check(&url, "record", 0, "");
    check("memory:", "tg:x", 2, "counters are in memory; only");
    check("redis://127.0.0.1:1", "tg:x", 2, "cannot read redis://127.0.0.1:1");
}
