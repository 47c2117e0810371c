//! `tollgate simulate --store` gives the results of the vectors with every store.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::NamedTempFile;
use tollgate_testbed::{Postgres, Redis, RedisCluster, free_port};

use crate::nodes::{cluster_url, is_soak};
use tollgate_e2e::server::tollgate;

/// Every so many-th vector is replayed where time is short, and all with large figures.
const STRIDE: usize = 3;
const LARGE: &str = "over_2_53";

struct Ran {
    code: Option<i32>,
    output: String,
    errors: String,
}

fn simulate(store: &str, rule: &Value, trace: &str) -> Ran {
    let mut file = NamedTempFile::new().expect("a file");
    file.write_all(trace.as_bytes()).expect("written");
    let ran = tollgate()
        .args(["simulate", "--json", "--store", store, "--rule", &rule.to_string()])
        .arg(file.path())
        .output()
        .expect("the binary runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("readable output");
    Ran { code: ran.status.code(), output: text(ran.stdout), errors: text(ran.stderr) }
}

fn vectors() -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors");
    let mut files: Vec<_> = fs::read_dir(folder)
        .expect("the vectors")
        .map(|file| file.expect("a file").path())
        .collect();
    files.sort_unstable();
    let read = |path| -> Vec<Value> {
        let text = fs::read_to_string(path).expect("a readable file");
        let file: Value = serde_json::from_str(&text).expect("a file of vectors");
        file["vectors"].as_array().expect("vectors").clone()
    };
    files.into_iter().flat_map(read).collect()
}

/// Replays vectors on a store.
fn check(store: &str) {
    let vectors = vectors();
    let is_wanted = |(place, vector): &(usize, &Value)| {
        let tags = vector["tags"].as_array().expect("tags");
        is_soak() || place % STRIDE == 0 || tags.iter().any(|tag| tag == LARGE)
    };
    let wanted: Vec<&Value> =
        vectors.iter().enumerate().filter(is_wanted).map(|(_, vector)| vector).collect();
    wanted.iter().for_each(|vector| replay(store, vector));
    println!("{} of {} vectors on {store}", wanted.len(), vectors.len());
    assert!(wanted.len() >= 100, "too few vectors: {}", wanted.len());
}

fn replay(store: &str, vector: &Value) {
    let is_meter = vector["mode"] == "meter";
    let algorithm = if is_meter { "token_bucket".into() } else { vector["algorithm"].clone() };
    let window = vector["window_ms"].as_u64().expect("a window");
    let rule = json!({
        "algorithm": algorithm,
        "limit": vector["limit"],
        "window": format!("{window}ms"),
        "burst": vector["burst"],
    });
    let steps = vector["steps"].as_array().expect("steps");
    let line = |step: &Value| {
        format!("{{\"t_ms\":{},\"key\":\"k\",\"cost\":{}}}\n", step["t_ms"], step["cost"])
    };
    let trace: String = steps.iter().map(line).collect();
    let ran = simulate(store, &rule, &trace);
    let name = &vector["name"];
    assert_eq!((ran.code, &*ran.errors), (Some(0), ""), "{name} on {store}");
    let answers: Vec<Value> =
        ran.output.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(answers.len(), steps.len(), "{name} on {store}");
    for (number, (step, answer)) in steps.iter().zip(&answers).enumerate() {
        for (field, expected) in step["expect"].as_object().expect("expectations") {
            assert_eq!(&answer[field], expected, "{name} on {store}, step {number}: {field}");
        }
    }
}

#[test]
fn redis_gives_the_answers_of_the_vectors() {
    check(&Redis::start().url());
}

#[test]
fn a_cluster_gives_the_answers_of_the_vectors() {
    check(&cluster_url(&RedisCluster::start(3, 0)));
}

#[test]
fn postgres_gives_the_answers_of_the_vectors() {
    check(&Postgres::start().url());
}

#[test]
fn simulations_do_not_share_counters() {
    let (redis, postgres) = (Redis::start(), Postgres::start());
    let rule = json!({"limit": 2, "window": "1h"});
    let trace = "{\"t_ms\":0,\"key\":\"k\"}\n".repeat(3);
    for store in [redis.url(), postgres.url()] {
        let first = simulate(&store, &rule, &trace);
        assert_eq!(first.output.matches("\"allowed\":true").count(), 2, "{}", first.errors);
        assert_eq!(simulate(&store, &rule, &trace).output, first.output, "{store}");
    }
}

#[test]
fn errors_about_stores_omit_secrets() {
    let check = |store: &str, expected: &str| {
        let ran =
            simulate(store, &json!({"limit": 1, "window": "1s"}), "{\"t_ms\":0,\"key\":\"k\"}\n");
        assert_eq!((ran.code, &*ran.output), (Some(2), ""), "{store}: {}", ran.errors);
        assert!(ran.errors.contains(expected), "{store}: {}", ran.errors);
        assert!(!ran.errors.contains("hunter2"), "{store}: {}", ran.errors);
    };
    check("localhost:6379", "write memory:, redis://host:port");
    check("mysql://me:hunter2@localhost/limits", "write memory:, redis://host:port");
    check("redis://:hunter2@localhost:many", "a host and maybe a port");
    check("redis://:hunter2@localhost?colour=red", "colour is unknown");
    check("redis://:hunter2@a,b", "need redis+sentinel");
    check("redis+sentinel://:hunter2@localhost", "the name of the master is missing");
    check("postgres://me:hunter2@localhost:many/limits", "invalid port number");
    check("postgres://me:hunter2@localhost/limits?ssl_mode=on", "`ssl_mode` is not a parameter");
    let unreachable = format!("127.0.0.1:{}", free_port());
    let away = format!("cannot count in redis://:***@{unreachable}");
    check(&format!("redis://:hunter2@{unreachable}"), &away);
    check(&format!("redis+cluster://:hunter2@{unreachable}"), "no server responds there");
    check(&format!("redis+sentinel://:hunter2@{unreachable}/main"), "no server responds there");
    check(
        &format!("postgres://me:hunter2@{unreachable}/limits"),
        "cannot count in postgres://me:***@",
    );
    let locked = Redis::builder().password("correct-horse").start();
    check(&format!("redis://:hunter2@{}", locked.address()), "cannot count in redis://:***@");
}
