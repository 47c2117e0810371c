//! A catalog that nodes with another store have written: a node with Redis takes no policy that Redis cannot count.

use serde_json::{Value, json};
use tempfile::TempDir;
use tollgate_e2e::process::Process;
use tollgate_e2e::server::{Server, Setup, command};
use tollgate_e2e::until;
use tollgate_testbed::{Postgres, Redis, Reply};

use crate::fleet::{limit_at, node, node_with, pair, put};

const SECRET: &[(&str, &str)] =
    &[("TOLLGATE_FLEET_SECRET", "ours-0123456789abcdef0123456789abcdef")];
const REPLACE: &str = "/api/v1/policy?prune=rules";
const CROWDED: [&str; 3] = ["rule many-64", "rule many-65", "at most 64 rules"];

/// More rules by one identifier than fit into a record, with the pair.
fn crowded(limit: u64) -> String {
    let many = (0..66).map(|number| json!({"rule_id": format!("many-{number:02}"), "limit": 9, "window": "1h", "identifier_type": "api_key"}));
    let mut policy: Value = serde_json::from_str(&pair(limit)).expect("JSON");
    policy["rules"].as_array_mut().expect("rules").extend(many);
    policy.to_string()
}

/// Two rules whose refusals would be counted together.
fn colliding() -> String {
    let rule = |id: &str| {
        json!({"rule_id": id, "limit": 9, "window": "1h", "identifier_type": "user_id",
               "penalty": {"after": 5, "within_seconds": 60, "ban_seconds": 60}})
    };
    json!({"rules": [rule("rule-1223"), rule("rule-1733")]}).to_string()
}

fn write(node: &Server, policy: &str) {
    let written = put(node, REPLACE, policy);
    assert_eq!(written.status, 200, "{written:?}");
}

/// It counted with colliding tags, or with more rules than fit into a record, and said nothing.
#[test]
fn a_node_does_not_start_with_a_policy_that_redis_cannot_count() {
    let postgres = Postgres::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = format!("sqlite:{}", folder.path().join("catalog.db").display());
    let cases: [(String, &[&str]); 2] = [
        (crowded(7), &CROWDED),
        (colliding(), &["rule rule-1733", "refusals by rule-1733", "bans by rule-1223"]),
    ];
    for catalog in [file, postgres.url()] {
        // Each catalog is another fleet.
        let redis = Redis::start();
        let store = redis.url();
        for (policy, expected) in &cases {
            write(&node(&catalog, "memory", &folder), policy);
            let empty = redis.command(&["DBSIZE"]).integer();
            let arguments = ["--catalog", catalog.as_str(), "--store", store.as_str()];
            let setup = Setup { arguments: &arguments, ..Setup::default() };
            let other = tempfile::tempdir().expect("a folder");
            let mut process = Process::start(&mut command(&setup, other.path()));
            assert_eq!(process.end().code(), Some(2), "{}", process.errors());
            let errors = process.errors();
            assert!(errors.contains("holds an invalid policy"), "{errors}");
            assert!(expected.iter().all(|text| errors.contains(text)), "{errors}");
            assert_eq!(redis.command(&["DBSIZE"]).integer(), empty, "nothing was counted");
        }
        write(&node(&catalog, "memory", &folder), &pair(8));
        assert_eq!(limit_at(&node(&catalog, &store, &folder)), 8);
    }
}

/// The last valid policy stays in force, as with any invalid one.
#[test]
fn a_policy_that_redis_cannot_count_comes_into_force_only_elsewhere() {
    let (redis, postgres) = (Redis::start(), Postgres::start());
    let folders = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let counting = node(&postgres.url(), &redis.url(), &folders[0]);
    let other = node(&postgres.url(), "memory", &folders[1]);
    write(&other, &pair(8));
    until("the policy", || (limit_at(&counting) == 8).then_some(()));
    write(&other, &crowded(9));
    assert_eq!(limit_at(&other), 9);
    let log = until("word of it", || {
        let log = counting.process.errors();
        log.contains("the last good rules stay in force").then_some(log)
    });
    assert!(CROWDED.iter().all(|text| log.contains(text)), "{log}");
    assert_eq!(limit_at(&counting), 8);
    assert!(counting.figure("tollgate_config_errors_total") >= 1.0);
    // A write that mends it is accepted here, and one that does not is refused.
    assert_eq!(put(&counting, REPLACE, &crowded(10)).status, 422);
    write(&counting, &pair(11));
    until("the valid policy", || (limit_at(&counting) == 11).then_some(()));
    until("all nodes", || (limit_at(&other) == 11).then_some(()));
}

/// What is in force is published, not what the catalog has.
#[test]
fn a_policy_that_redis_cannot_count_is_not_published_there() {
    let (redis, postgres) = (Redis::start(), Postgres::start());
    let folders = [(); 3].map(|()| tempfile::tempdir().expect("a folder"));
    let catalog = postgres.url();
    let other = node_with(&catalog, "memory", folders[0].path(), SECRET);
    write(&other, &pair(8));
    let publisher = node_with(&catalog, &redis.url(), folders[1].path(), SECRET);
    let published = || redis.command(&["HGET", "ratelimit:policy:active", "#revision"]);
    let is_copy = |revision: &Reply| matches!(revision, Reply::Text(_));
    let first = until("a copy", || Some(published()).filter(is_copy));
    write(&other, &crowded(9));
    until("word of it", || {
        publisher.process.errors().contains("the last good rules stay in force").then_some(())
    });
    redis.command(&["DEL", "ratelimit:policy:active"]);
    assert_eq!(until("the copy again", || Some(published()).filter(is_copy)), first);
    assert_eq!(limit_at(&cut_off(&redis, &folders[2])), 8);
}

/// A node that cannot reach the database.
fn cut_off(redis: &Redis, folder: &TempDir) -> Server {
    // Port 1 is never listened on here.
    node_with("postgres://tollgate@127.0.0.1:1/none", &redis.url(), folder.path(), SECRET)
}
