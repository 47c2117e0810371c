//! Changes of operators take effect at once in spite of the deny cache, and every entry point of a node
//! counts in the store.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};
use tollgate::Stopwatch;
use tollgate_testbed::{Postgres, Redis, RedisCluster};

use crate::nodes::{self, cluster_url};
use tollgate_e2e::process::Process;
use tollgate_e2e::server::{PEEK, Server, Setup, command};
use tollgate_e2e::until;

const REFUND: &str = "/api/v1/rate-limit/refund";
const RESET: &str = "/api/v1/rate-limit/reset";
const BATCH: &str = "/api/v1/rate-limit/check/batch";

const PATIENT: &str = "{store_failure: {deadline: 5s}, deny_cache: 1s}";
/// How long a node may use a cached refusal that another node has invalidated.
const BELIEVED: Duration = Duration::from_secs(1);
/// What a busy machine may add.
const SLACK: Duration = Duration::from_secs(3);

const ALICE: &str = r#"{"identifiers":{"user_id":"alice"}}"#;
const LIMIT: u64 = 5;

fn rules(limit: u64) -> String {
    format!(
        "rules: [{{rule_id: per_user, limit: {limit}, window: 300d, identifier_type: user_id}}]\n"
    )
}

/// Two nodes, both of which have just refused Alice.
fn two_that_refuse(store: &str) -> [Server; 2] {
    let nodes = nodes::start(2, store, &rules(LIMIT), PATIENT);
    let nodes: [Server; 2] = nodes.try_into().unwrap_or_else(|_| panic!("two nodes"));
    for _ in 0..LIMIT {
        assert_eq!(nodes[0].check(ALICE)["allowed"], true);
    }
    refuse(&nodes);
    nodes
}

fn refuse(nodes: &[Server; 2]) {
    for node in nodes {
        assert_eq!(node.check(ALICE)["allowed"], false);
    }
}

/// Waits until a node lets Alice pass, which it must soon.
fn expect_soon(node: &Server, since: &Stopwatch) {
    until("the other node to notice", || (node.check(ALICE)["allowed"] == true).then_some(()));
    let waited = since.elapsed();
    assert!(waited <= BELIEVED + SLACK, "the other node noticed after {waited:?}");
}

#[test]
fn a_raised_limit_is_in_force_at_once() {
    let redis = Redis::start();
    let nodes = two_that_refuse(&redis.url());
    for node in &nodes {
        fs::write(node.rules_file(), rules(LIMIT + 5)).expect("written");
        node.process.signal("HUP");
        until("the raised limit", || {
            let answer = node.check(ALICE);
            let is_raised = answer["limit"] == LIMIT + 5;
            // Refused up to the last moment, and never under the new limit.
            assert_eq!(answer["allowed"], is_raised, "{answer}");
            is_raised.then_some(())
        });
    }
    assert_eq!(nodes[0].post(PEEK, ALICE).json()["remaining"], 3);
}

#[test]
fn refunds_and_resets_are_seen_at_once_here_and_soon_elsewhere() {
    let redis = Redis::start();
    let nodes = two_that_refuse(&redis.url());
    let check = |path: &str, left: u64| {
        let act = || {
            let answer = nodes[0].post_as_admin(path, ALICE);
            assert_eq!((answer.status, &answer.json()["counters"]), (200, &json!(1)), "{answer:?}");
        };
        act();
        let answer = nodes[0].check(ALICE);
        let found = (&answer["allowed"], &answer["remaining"]);
        assert_eq!(found, (&json!(true), &json!(left)), "{path}");
        for _ in 0..left {
            nodes[0].check(ALICE);
        }
        refuse(&nodes);
        act();
        expect_soon(&nodes[1], &Stopwatch::start());
        for _ in 0..left {
            nodes[1].check(ALICE);
        }
        refuse(&nodes);
    };
    check(REFUND, 0);
    check(RESET, LIMIT - 1);
}

#[test]
fn a_peek_charges_nothing() {
    let redis = Redis::start();
    let nodes = nodes::start(2, &redis.url(), &rules(LIMIT), PATIENT);
    nodes[0].check(ALICE);
    for node in nodes.iter().cycle().take(10) {
        assert_eq!(node.post(PEEK, ALICE).json()["remaining"], LIMIT - 1);
    }
    assert_eq!(nodes[1].check(ALICE)["remaining"], LIMIT - 2);
}

/// Sends a batch of a hundred checks: half for one client, half for many.
fn check_batch(store: &str) {
    let node = &nodes::start(1, store, &rules(LIMIT), PATIENT)[0];
    let check = |user: &str| json!({"identifiers": {"user_id": user}});
    let one = (0..50).map(|_| check("alice"));
    let many = (0..50).map(|number| check(&format!("user {number}")));
    let checks: Vec<Value> = one.chain(many).collect();
    let answer = node.post(BATCH, &json!({ "checks": checks }).to_string());
    assert_eq!(answer.status, 200, "{store}: {answer:?}");
    let answer = answer.json();
    let results = answer["results"].as_array().expect("results");
    assert_eq!(results.len(), 100, "{store}");
    for (number, result) in results.iter().enumerate() {
        assert_eq!(result.get("degraded"), None, "{store}: {result}");
        let is_allowed = number < LIMIT as usize || number >= 50;
        assert_eq!(result["allowed"], is_allowed, "{store}, check {number}: {result}");
    }
}

#[test]
fn a_batch_is_counted_in_order() {
    check_batch(&Redis::start().url());
    check_batch(&cluster_url(&RedisCluster::start(3, 0)));
    check_batch(&Postgres::start().url());
}

/// Two nodes with a limit for each user of the domain `shop`.
fn two_for_envoy(store: &str, limit: u32) -> [Server; 2] {
    let folder = tempfile::tempdir().expect("a folder");
    let file = format!(
        "{{domain: shop, descriptors: [{{key: user, rate_limit: {{unit: year, requests_per_unit: {limit}}}}}]}}"
    );
    fs::write(folder.path().join("shop.yaml"), file).expect("written");
    let path = folder.path().to_str().expect("a readable path");
    let arguments = ["--store", store, "--envoy-config", path];
    let setup = Setup { settings: PATIENT, arguments: &arguments, ..Setup::default() };
    [(); 2].map(|()| Server::start(&setup))
}

#[test]
fn requests_of_envoy_are_counted_in_the_store() {
    let redis = Redis::start();
    let nodes = two_for_envoy(&redis.url(), 3);
    let body = r#"{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"alice"}]}]}"#;
    for (node, expected) in [(0, 200), (1, 200), (0, 200), (1, 429), (0, 429)] {
        let answer = nodes[node].post("/json", body);
        assert_eq!(answer.status, expected, "{answer:?}");
    }
    let keys = "return #redis.call('KEYS', 'tg:*')";
    assert_eq!(
        redis.command(&["EVAL", keys, "0"]).integer(),
        4,
        "counter, mark, number and start of records"
    );
}

/// A refusal from the deny cache said that a quota which is used up has some left.
#[test]
fn a_refusal_from_the_deny_cache_names_no_quota_that_is_used_up() {
    let (redis, folder) = (Redis::start(), tempfile::tempdir().expect("a folder"));
    let limit = |value: &str| {
        format!(
            "{{key: service, value: {value}, quota_mode: true, metadata: {{free: {{{value}: 1}}}}, \
             rate_limit: {{unit: year, requests_per_unit: 1}}}}"
        )
    };
    let file = format!("{{domain: shop, descriptors: [{}, {}]}}", limit("one"), limit("two"));
    fs::write(folder.path().join("shop.yaml"), file).expect("written");
    let path = folder.path().to_str().expect("a readable path");
    let arguments = ["--store", &redis.url(), "--envoy-config", path];
    let settings = "{store_failure: {deadline: 5s}, deny_cache: 1s}";
    let node = Server::start(&Setup { settings, arguments: &arguments, ..Setup::default() });
    let body = r#"{"domain":"shop","descriptors":[{"entries":[{"key":"service","value":"one"}]},{"entries":[{"key":"service","value":"two"}]}]}"#;
    assert_eq!(node.post("/json", body).status, 200);
    for _ in 0..3 {
        let refused = node.post("/json", body);
        let said = refused.json();
        assert_eq!(refused.status, 429, "{said}");
        let codes: Vec<&str> = ["/statuses/0/code", "/statuses/1/code"]
            .into_iter()
            .filter_map(|place| said.pointer(place)?.as_str())
            .collect();
        assert_eq!(codes, ["OVER_LIMIT", "OVER_LIMIT"], "{said}");
        assert!(!said.to_string().contains("free"), "{said}");
    }
}

#[test]
fn a_peek_of_envoy_sees_a_charge_beyond_the_limit_on_another_node() {
    let redis = Redis::start();
    let nodes = two_for_envoy(&redis.url(), 2);
    let check = |node: usize, hits: u32, expected: u16| {
        let body = format!(
            r#"{{"domain":"shop","descriptors":[{{"entries":[{{"key":"user","value":"alice"}}],"hitsAddend":{hits}}}]}}"#
        );
        let answer = nodes[node].post("/json", &body);
        assert_eq!(answer.status, expected, "node {node}, {hits} hits: {answer:?}");
    };
    check(0, 0, 200);
    check(1, 0, 200);
    check(0, 2, 200);
    check(1, 0, 200);
    check(1, 1, 429);
    check(0, 0, 429);
}

/// Envoy was sent 119 of 60: a node without its store counts by twice the limit.
#[test]
fn envoy_gets_no_more_than_the_limit_while_the_store_is_away() {
    let redis = Redis::start();
    let nodes = two_for_envoy(&redis.url(), 3);
    redis.kill();
    let body = r#"{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"alice"}]}]}"#;
    let left: Vec<u64> = (0..6)
        .map(|_| {
            let answer = nodes[0].post("/json", body).json();
            assert_eq!(answer["statuses"][0]["currentLimit"]["requestsPerUnit"], 3, "{answer}");
            assert!(answer["dynamicMetadata"]["remaining"].as_u64() <= Some(3), "{answer}");
            // A zero is left out.
            answer["statuses"][0]["limitRemaining"].as_u64().unwrap_or(0)
        })
        .collect();
    // This node alone lets twice the limit pass, and promises the limit.
    assert_eq!(left, [2, 1, 0, 0, 0, 0]);
}

const BEYOND: &str = "rules:
  - rule_id: modest
    limit: 5
    window: 1h
    identifier_type: user_id
  - rule_id: boundless
    limit: 1099511627777
    window: 1h
    identifier_type: user_id
";

#[test]
fn limits_that_redis_cannot_count_are_refused() {
    let redis = Redis::start();
    let url = redis.url();
    let arguments = ["--store", url.as_str()];
    let setup = Setup { rules: Some(BEYOND), arguments: &arguments, ..Setup::default() };
    let folder = tempfile::tempdir().expect("a folder");
    let mut process = Process::start(&mut command(&setup, folder.path()));
    assert_eq!(process.end().code(), Some(2), "{}", process.errors());
    let is_reported = |said: &str| {
        said.contains("policy.yaml:7:12")
            && said.contains("1099511627777")
            && said.contains("Redis")
    };
    assert!(is_reported(&process.errors()), "{}", process.errors());

    // One unit less fits, and memory takes any limit.
    let fitting = BEYOND.replace("1099511627777", "1099511627776");
    let node = &nodes::start(1, &url, &fitting, PATIENT)[0];
    let boundless = r#"{"rule_id":"boundless","key_type":"user","key_value":"alice"}"#;
    assert_eq!(node.check(boundless)["remaining"], 1_099_511_627_775_u64);
    drop(Server::start(&Setup { rules: Some(BEYOND), ..Setup::default() }));

    fs::write(node.rules_file(), BEYOND).expect("written");
    node.process.signal("HUP");
    let log = until("word of the new file", || {
        Some(node.process.errors()).filter(|log| log.contains("the last good ones stay in force"))
    });
    assert!(is_reported(&log), "{log}");
    let answer = node.check(boundless);
    assert_eq!((&answer["allowed"], &answer["limit"]), (&json!(true), &json!(1_u64 << 40)));
}
