//! A node with neither database nor disk starts with the whole policy, from the copy that others sealed in Redis.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;
use tollgate::Stopwatch;
use tollgate_e2e::client::Answer;
use tollgate_e2e::server::{JSON, Server, bearer_admin};
use tollgate_e2e::until;
use tollgate_testbed::{Postgres, Redis, Reply};

use crate::fleet::{limit_at, node_with, pair, put, rounds};

const OURS: &[(&str, &str)] = &[("TOLLGATE_FLEET_SECRET", "ours-0123456789abcdef0123456789abcdef")];
const THEIRS: &[(&str, &str)] =
    &[("TOLLGATE_FLEET_SECRET", "theirs-0123456789abcdef0123456789abcd")];

const COPY: &str = "ratelimit:policy:active";
const REFUSED: &str = "tollgate_policy_copy_refused_total";

/// A policy with an entry of each kind that a document has.
const POLICY: &str = r#"{
    "rules": [
        {"rule_id": "per_user", "limit": 5, "window": "300d", "identifier_type": "user_id",
         "applies_to": {"user_tiers": ["free"]}},
        {"rule_id": "paid", "limit": 50, "window": "300d", "identifier_type": "user_id",
         "applies_to": {"user_tiers": ["pro"]}},
        {"rule_id": "strict", "limit": 1, "window": "300d", "identifier_type": "user_id",
         "applies_to": {"endpoints": ["/strict"]},
         "penalty": {"after": 1, "within_seconds": 600, "ban_seconds": 6000}},
        {"rule_id": "per_key", "limit": 7, "window": "300d", "identifier_type": "api_key"}
    ],
    "tiers": [{"tier": "free", "default": true}, {"tier": "pro"}],
    "clients": [{"identifier_type": "user_id", "identifier": "paula", "tier": "pro"}],
    "overrides": [{"rule_id": "per_user", "identifier_type": "user_id", "identifier": "olga", "limit": 9}],
    "whitelist": [{"identifier_type": "user_id", "identifier": "wanda"}],
    "blacklist": [{"identifier_type": "user_id", "identifier": "mallory"}]
}"#;

/// What can be read without the database; tiers and bans are always those in force.
const PATHS: [&str; 8] = [
    "/api/v1/policy",
    "/api/v1/rules/per_user",
    "/api/v1/tiers",
    "/api/v1/clients",
    "/api/v1/overrides",
    "/api/v1/whitelist",
    "/api/v1/blacklist",
    "/api/v1/bans",
];

/// A database and a Redis for a fleet.
struct Scene {
    postgres: Postgres,
    redis: Redis,
    folders: TempDir,
}

impl Scene {
    fn start() -> Self {
        let folders = tempfile::tempdir().expect("a folder");
        Self { postgres: Postgres::start(), redis: Redis::start(), folders }
    }

    /// A node with a new folder, which lives as long as the test.
    fn node(&self, secret: &[(&str, &str)]) -> Server {
        self.node_in(&self.new_folder(), secret)
    }

    fn new_folder(&self) -> PathBuf {
        tempfile::tempdir_in(self.folders.path()).expect("a folder").keep()
    }

    fn node_in(&self, folder: &Path, secret: &[(&str, &str)]) -> Server {
        node_with(&self.postgres.url(), &self.redis.url(), folder, secret)
    }

    /// A node that cannot reach the database, with a new folder.
    fn cut_off(&self, secret: &[(&str, &str)]) -> Server {
        // Port 1 is never listened on here.
        let catalog = "postgres://tollgate@127.0.0.1:1/none";
        node_with(catalog, &self.redis.url(), &self.new_folder(), secret)
    }

    /// Waits until the policy that is in force on a node is in Redis.
    fn until_published(&self, node: &Server) {
        let revision = node.figure("tollgate_policy_revision") as u64;
        self.until_revision(revision);
    }

    fn until_revision(&self, revision: u64) {
        until("the copy in Redis", || (self.revision() == Some(revision)).then_some(()));
    }

    /// The revision of the copy in Redis.
    fn revision(&self) -> Option<u64> {
        let Reply::Text(text) = self.redis.command(&["HGET", COPY, "#revision"]) else {
            return None;
        };
        text.rsplit_once('-')?.1.parse().ok()
    }
}

fn check_of(user: &str, path: &str) -> String {
    json!({"identifiers": {"user_id": user}, "endpoint": path, "method": "GET"}).to_string()
}

fn get_as(node: &Server, token: &str, path: &str) -> Answer {
    node.ask("GET", path, &[("Authorization", &format!("Bearer {token}"))], "")
}

fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_else(|| panic!("no {field} in {value}")).to_owned()
}

#[test]
fn a_node_with_neither_database_nor_disk_has_the_whole_policy() {
    let scene = Scene::start();
    let first = scene.node(OURS);
    let applied = put(&first, "/api/v1/policy?prune=rules", POLICY);
    assert_eq!(applied.status, 200, "{applied:?}");
    let key = first.post_as_admin("/api/v1/api-keys", r#"{"owner":"alice","tier":"pro"}"#);
    assert_eq!(key.status, 201, "{key:?}");
    let key = text(&key.json(), "key");
    let token = first.post_as_admin("/api/v1/tokens", r#"{"role":"viewer"}"#);
    assert_eq!(token.status, 201, "{token:?}");
    let token = text(&token.json(), "token");
    // Refused once, so banned.
    first.check(&check_of("barry", "/strict"));
    first.check(&check_of("barry", "/strict"));
    until("the ban", || first.get_as_admin("/api/v1/bans").text().contains("barry").then_some(()));
    until("the revision of the ban", || {
        let revision = scene.postgres.query("SELECT revision FROM tollgate_catalog");
        let in_force = first.figure("tollgate_policy_revision") as u64;
        (in_force.to_string() == revision).then_some(())
    });
    scene.until_published(&first);
    assert!(first.figure("tollgate_policy_copy_bytes") > 500.0);
    let before = PATHS.map(|path| first.get_as_admin(path).text());

    scene.postgres.kill();
    drop(first);
    let second = scene.node(OURS);
    let errors = second.process.errors();
    assert!(errors.contains("the policy that other nodes published in Redis"), "{errors}");
    for (path, expected) in PATHS.iter().zip(&before) {
        let answer = second.get_as_admin(path);
        assert_eq!((answer.status, &answer.text()), (200, expected), "{path}");
        let is_marked = answer.header("x-tollgate-stale-since").is_some_and(|since| since > "2020");
        assert!(
            is_marked || ["/api/v1/tiers", "/api/v1/bans"].contains(path),
            "{path}: {answer:?}"
        );
    }
    // Since when is known from the node that published it.
    assert!(second.figure("tollgate_catalog_last_sync_age_seconds") < 600.0);
    let limit = |user: &str| {
        let rules = second.check(&check_of(user, "/"))["rules"].clone();
        let rules = rules.as_array().expect("rules").clone();
        let rule = rules.into_iter().find(|rule| rule["rule_id"] != "strict");
        rule.and_then(|rule| rule["limit"].as_u64())
    };
    assert_eq!((limit("paula"), limit("olga"), limit("anna")), (Some(50), Some(9), Some(5)));
    for _ in 0..10 {
        assert_eq!(second.check(&check_of("wanda", "/"))["allowed"], true);
    }
    assert_eq!(second.check(&check_of("mallory", "/"))["allowed"], false);
    let banned = second.check(&check_of("barry", "/strict"));
    assert!(banned["allowed"] == false && banned.to_string().contains("banned"), "{banned}");
    // API keys and tokens are known by their digests.
    let by_key = |key: &str| {
        let path = "/api/v1/rate-limit/authorize";
        let fields = [("X-Api-Key", key), ("X-Original-URI", "/"), ("X-Original-Method", "GET")];
        second.ask("GET", path, &fields, "").header("x-ratelimit-limit").map(str::to_owned)
    };
    assert_ne!(by_key(&key), by_key("tgk_unknown"), "a known key is counted");
    assert_eq!(get_as(&second, &token, "/api/v1/rules").status, 200);
    assert_eq!(get_as(&second, "tg_wrong", "/api/v1/rules").status, 401);
    assert_eq!(put(&second, "/api/v1/policy", &pair(5)).status, 503);
    // What it has is on its disk now, and it goes on with the database where that is.
    scene.postgres.restart();
    until("a write", || (put(&second, "/api/v1/policy", &pair(78)).status == 200).then_some(()));
    assert_eq!(limit_at(&second), 78);
}

/// What others did to the copy, and what a node without the database says of it.
fn check_refused(scene: &Scene, secret: &[(&str, &str)], act: &[&[&str]], expected: &str) {
    scene.redis.command(&["COPY", COPY, "genuine", "REPLACE"]);
    for command in act {
        let reply = scene.redis.command(command);
        assert!(!matches!(reply, Reply::Error(_)), "{command:?}: {reply:?}");
    }
    let node = scene.node(secret);
    let errors = node.process.errors();
    assert!(errors.contains(expected), "{act:?}: {errors}");
    assert!(errors.contains("starting with those that are built in"), "{act:?}: {errors}");
    assert_eq!(node.check(r#"{"identifiers":{"user_id":"x"}}"#)["rule_id"], "default_per_user");
    assert_eq!(node.get("/health/ready").json()["status"], "waiting_for_catalog", "{act:?}");
    if errors.contains("is refused") {
        assert!(node.figure(REFUSED) >= 1.0, "{act:?}");
    }
    drop(node);
    scene.redis.command(&["COPY", "genuine", COPY, "REPLACE"]);
}

#[test]
fn a_copy_that_is_not_genuine_is_refused() {
    let scene = Scene::start();
    let first = scene.node(OURS);
    assert_eq!(put(&first, "/api/v1/policy?prune=rules", &pair(66)).status, 200);
    scene.until_published(&first);
    scene.postgres.kill();
    drop(first);
    let refused = "the copy of the policy in Redis is refused";
    let set = |field: &'static str, value: &'static str| ["HSET", COPY, field, value];
    check_refused(&scene, OURS, &[&set("#header", "forged")], "it is not sealed");
    check_refused(&scene, OURS, &[&["HDEL", COPY, "#header"]], "it is not sealed");
    check_refused(&scene, OURS, &[&set("#revision", "1-1")], "its revision is not the one");
    let chunks = |act: &str| {
        format!(
            "for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do \
             if string.find(field, ':') then {act} end end"
        )
    };
    let removed = chunks("redis.call('HDEL', KEYS[1], field)");
    check_refused(&scene, OURS, &[&["EVAL", &removed, "1", COPY]], "chunk 1 of 1 is missing");
    let cut = chunks(
        "redis.call('HSET', KEYS[1], field, string.sub(redis.call('HGET', KEYS[1], field), 1, -2))",
    );
    check_refused(
        &scene,
        OURS,
        &[&["EVAL", &cut, "1", COPY]],
        "chunk 1 is missing, cut or changed",
    );
    let unsealed = chunks("redis.call('HSET', KEYS[1], field, '{}')");
    check_refused(&scene, OURS, &[&["EVAL", &unsealed, "1", COPY]], refused);
    let not_a_hash: [&[&str]; 2] = [&["DEL", COPY], &["SET", COPY, "x"]];
    check_refused(&scene, OURS, &not_a_hash, "it is not a hash");
    check_refused(&scene, &[], &[], "cannot be read without the fleet's secret");
    // Another fleet: without the mark of ours, it may use this store.
    let without_mark: [&[&str]; 1] = [&["DEL", "tg:fleet"]];
    check_refused(&scene, THEIRS, &without_mark, "was not sealed with this fleet's secret");
    scene.redis.command(&["DEL", "tg:fleet"]);
    // The genuine one is used.
    assert_eq!(limit_at(&scene.node(OURS)), 66);
}

/// A running node puts a genuine copy in the place of a forged one, whatever revision that claims.
#[test]
fn a_forged_copy_is_replaced() {
    let scene = Scene::start();
    let first = scene.node(OURS);
    assert_eq!(put(&first, "/api/v1/policy?prune=rules", &pair(66)).status, 200);
    scene.until_published(&first);
    let revision = scene.revision().expect("a revision");
    let claimed = format!("{}-{}", u64::MAX, u64::MAX);
    scene.redis.command(&["HSET", COPY, "#revision", &claimed, "#header", "forged"]);
    scene.until_revision(revision);
    assert!(first.figure(REFUSED) >= 1.0);
    assert_eq!(limit_at(&scene.cut_off(OURS)), 66);
    // A key that cannot be replaced is reported.
    let errors = "tollgate_policy_copy_errors_total";
    assert!(first.figure(errors) < 1.0);
    scene.redis.command(&["DEL", COPY]);
    scene.redis.command(&["SET", COPY, "x"]);
    until("an error", || (first.figure(errors) >= 1.0).then_some(()));
    until("a line", || first.process.errors().contains("it is not a hash").then_some(()));
    scene.redis.command(&["DEL", COPY]);
    scene.until_revision(revision);
}

#[test]
fn an_old_copy_never_replaces_a_newer_one() {
    let scene = Scene::start();
    let (first, folder) = (scene.node(OURS), scene.new_folder());
    assert_eq!(put(&first, "/api/v1/policy?prune=rules", &pair(11_000)).status, 200);
    scene.until_published(&first);
    scene.redis.command(&["COPY", COPY, "old"]);
    assert_eq!(put(&first, "/api/v1/policy", &pair(22_000)).status, 200);
    scene.until_published(&first);
    let newest = scene.revision().expect("a revision");
    scene.postgres.kill();
    drop(first);
    let second = scene.node_in(&folder, OURS);
    assert_eq!(limit_at(&second), 22_000);
    // The node has seen a newer one: it stays with that, and publishes it again.
    scene.redis.command(&["COPY", "old", COPY, "REPLACE"]);
    scene.redis.command(&["PUBLISH", "ratelimit:rules:changed", "1-1"]);
    until("the newer copy", || {
        assert_eq!(limit_at(&second), 22_000);
        (scene.revision() == Some(newest)).then_some(())
    });
    drop(second);
    // So does a start from its disk.
    scene.redis.command(&["COPY", "old", COPY, "REPLACE"]);
    assert_eq!(limit_at(&scene.node_in(&folder, OURS)), 22_000);
}

#[test]
fn a_node_cut_off_from_the_database_follows_the_others_through_redis() {
    let scene = Scene::start();
    let first = scene.node(OURS);
    assert_eq!(put(&first, "/api/v1/policy?prune=rules", &pair(11_000)).status, 200);
    scene.until_published(&first);
    let second = scene.cut_off(OURS);
    assert_eq!(limit_at(&second), 11_000);
    assert_eq!(put(&first, "/api/v1/policy", &pair(22_000)).status, 200);
    until("the change", || (limit_at(&second) == 22_000).then_some(()));
    let rule = second.get_as_admin("/api/v1/rules/pair_one");
    assert_eq!(rule.json()["limit"], 22_000, "{rule:?}");
}

/// The copy came back into force when the catalog was away, with tokens and rules that a restore had undone.
#[test]
fn a_restored_catalog_replaces_the_copy_of_what_was_undone() {
    let scene = Scene::start();
    scene.postgres.query("CREATE DATABASE fleet");
    let url = scene.postgres.url();
    let url = format!("{}/fleet", url.rsplit_once('/').expect("a database").0);
    let start = || node_with(&url, &scene.redis.url(), &scene.new_folder(), OURS);
    let write = |limit: u64| {
        let node = start();
        assert_eq!(put(&node, "/api/v1/policy", &pair(limit)).status, 200);
        scene.until_published(&node);
    };
    write(11_000);
    scene.postgres.query("CREATE DATABASE backup TEMPLATE fleet");
    write(22_000);
    scene.postgres.query("DROP DATABASE fleet WITH (FORCE)");
    scene.postgres.query("CREATE DATABASE fleet TEMPLATE backup");
    let undone = scene.redis.command(&["HGET", COPY, "#revision"]);
    let node = start();
    assert_eq!(limit_at(&node), 11_000);
    until("another copy", || {
        (scene.redis.command(&["HGET", COPY, "#revision"]) != undone).then_some(())
    });
    assert_eq!(limit_at(&scene.cut_off(OURS)), 11_000);
}

/// Clients in each of the documents that fill a catalog.
const CLIENTS: usize = 5_000;

/// A policy with 5,000 clients; with `TOLLGATE_SOAK_PROPAGATION`, with 100,000.
#[test]
fn a_large_policy_is_published_and_loaded() {
    let scene = Scene::start();
    scene.redis.command(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]);
    scene.redis.command(&["CONFIG", "SET", "slowlog-max-len", "100000"]);
    let logged = ("RUST_LOG", "info,tollgate_server::policy=debug");
    let first = scene.node(&[OURS[0], logged]);
    let documents = rounds(1, 20);
    for document in 0..documents {
        let client = |number: usize| json!({"identifier_type": "user_id", "identifier": format!("client {document} {number}"), "tier": "pro"});
        let clients: Vec<Value> = (0..CLIENTS).map(client).collect();
        let body = json!({"tiers": [{"tier": "pro"}], "clients": clients}).to_string();
        // A busy database may not respond in time.
        until("the clients", || {
            let applied = first.ask("PUT", "/api/v1/policy", &[JSON, bearer_admin()], &body);
            (applied.status == 200).then_some(())
        });
    }
    scene.until_published(&first);
    assert_eq!(put(&first, "/api/v1/policy?prune=rules", &pair(33)).status, 200);
    scene.until_published(&first);
    let log = first.process.errors();
    let published = log.lines().rfind(|line| line.contains("policy published"));
    let published = published.expect("a line of the log").to_owned();
    let bytes = first.figure("tollgate_policy_copy_bytes");
    scene.postgres.kill();
    drop(first);
    let slowest = "local slowest = 0 \
                   for _, call in ipairs(redis.call('SLOWLOG', 'GET', -1)) do \
                   if call[3] > slowest then slowest = call[3] end end return slowest";
    let slowest = scene.redis.command(&["EVAL", slowest, "0"]).integer();
    let began = Stopwatch::start();
    let second = scene.node(OURS);
    let loaded = began.elapsed();
    assert_eq!(limit_at(&second), 33);
    let last = format!(
        "/api/v1/clients?identifier_type=user_id&identifier=client%20{}%20{}",
        documents - 1,
        CLIENTS - 1
    );
    let found = second.get_as_admin(&last);
    assert!(found.status == 200 && found.text().contains("pro"), "{found:?}");
    println!(
        "{} clients: {bytes} bytes in Redis, a node started after {loaded:?}, the slowest call took Redis {slowest} us\n\
         {published}",
        documents * CLIENTS
    );
    assert!(slowest < 250_000, "a call that took {slowest} us");
}
