//! The figures of a fleet: every node knows the others, and adds their requests up.

use std::collections::HashMap;
use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;
use tollgate_e2e::server::{Server, Setup};
use tollgate_e2e::until;
use tollgate_testbed::{Postgres, Redis};

const SECRET: (&str, &str) = ("TOLLGATE_FLEET_SECRET", "ours-0123456789abcdef0123456789abcdef");
const OTHER: (&str, &str) = ("TOLLGATE_FLEET_SECRET", "else-0123456789abcdef0123456789abcdef");
const OFTEN: &str = "limits: {admin_reads_per_minute: 1000000, check_calls_per_second: 0}";
const RULES: &str = "rules: [{rule_id: r, limit: 3, window: 300d, identifier_type: user_id}]";

fn node(store: &str, secret: &[(&str, &str)]) -> Server {
    let arguments = ["--store", store];
    let (rules, arguments) = (Some(RULES), arguments.as_slice());
    Server::start(&Setup { rules, settings: OFTEN, arguments, environment: secret })
}

fn read(node: &Server, path: &str) -> Value {
    let answer = node.get_as_admin(path);
    assert_eq!(answer.status, 200, "{path}: {answer:?}");
    answer.json()
}

fn nodes(node: &Server) -> Vec<Value> {
    read(node, "/api/v1/nodes")["nodes"].as_array().expect("a list").clone()
}

/// Waits until every node knows so many.
fn until_all_know(fleet: &[Server], count: usize) {
    for node in fleet {
        until("all nodes", || (nodes(node).len() == count).then_some(()));
    }
}

fn check(node: &Server, users: &[String]) {
    for users in users.chunks(1_000) {
        let checks: Vec<Value> =
            users.iter().map(|user| json!({"identifiers": {"user_id": user}})).collect();
        let body = json!({ "checks": checks }).to_string();
        assert_eq!(node.post("/api/v1/rate-limit/check/batch", &body).status, 200);
    }
}

fn names(list: &Value) -> Vec<(String, u64)> {
    let entry = |it: &Value| {
        let name = it["name"].as_str().expect("a name").to_owned();
        (name, it["count"].as_u64().expect("a count"))
    };
    list["top"].as_array().expect("a list").iter().map(entry).collect()
}

/// Nodes count the revisions of their files separately: 1 here and 1 there said nothing about what is in them.
#[test]
fn nodes_with_other_rules_files_have_other_digests() {
    let redis = Redis::start();
    let fleet = [node(&redis.url(), &[SECRET]), node(&redis.url(), &[SECRET])];
    until_all_know(&fleet, 2);
    let digests = |at: &Server| -> Vec<Value> {
        nodes(at).iter().map(|node| node["rules_file_sha256"].clone()).collect()
    };
    let [first, second] = digests(&fleet[0]).try_into().expect("two nodes");
    assert_eq!(first, second, "the same file");
    let digest = first.as_str().expect("a digest").to_owned();
    assert_eq!(digest, sha256_of(RULES));
    let info = format!("tollgate_rules_file_info{{sha256=\"{digest}\"}}");
    assert!(fleet[1].figure(&info) > 0.0);

    let changed = RULES.replace("limit: 3", "limit: 4");
    fs::write(fleet[1].rules_file(), &changed).expect("written");
    until("another digest on both nodes", || {
        let known = [digests(&fleet[0]), digests(&fleet[1])].concat();
        let ours = known.iter().filter(|it| **it == *digest).count();
        let theirs = known.iter().filter(|it| **it == *sha256_of(&changed)).count();
        ((ours, theirs) == (2, 2)).then_some(())
    });
}

/// Files for Envoy had no digest at all.
#[test]
fn nodes_with_other_files_for_envoy_have_other_digests() {
    let redis = Redis::start();
    let url = redis.url();
    let limit = |limit: u32| {
        format!(
            "{{domain: shop, descriptors: [{{key: user, rate_limit: {{unit: day, requests_per_unit: {limit}}}}}]}}"
        )
    };
    let start = |files: &TempDir| {
        let path = files.path().to_str().expect("a readable path");
        let arguments = ["--store", &url, "--envoy-config", path];
        Server::start(&Setup {
            settings: OFTEN,
            arguments: &arguments,
            environment: &[SECRET],
            ..Setup::default()
        })
    };
    let folder = |files: &[(&str, String)]| {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            fs::write(folder.path().join(name), text).expect("written");
        }
        folder
    };
    let bank = limit(5).replace("shop", "bank");
    let same = [("bank.yaml", bank.clone()), ("shop.yaml", limit(9))];
    let folders = [folder(&same), folder(&same)];
    let fleet = [start(&folders[0]), start(&folders[1])];
    until_all_know(&fleet, 2);
    let digests = |at: &Server| -> Vec<Value> {
        nodes(at).iter().map(|node| node["envoy_config_sha256"].clone()).collect()
    };
    let expected = sha256_of(&format!(
        "{}  bank.yaml\n{}  shop.yaml\n",
        whole_sha256_of(&bank),
        whole_sha256_of(&limit(9))
    ));
    assert_eq!(digests(&fleet[0]), [json!(expected), json!(expected)], "the same files");
    let info = format!("tollgate_envoy_config_info{{sha256=\"{expected}\"}}");
    assert!(fleet[1].figure(&info) > 0.0);
    // The same text under another name is another file.
    fs::rename(folders[1].path().join("bank.yaml"), folders[1].path().join("bench.yaml"))
        .expect("renamed");
    until("another digest", || {
        let known = digests(&fleet[0]);
        (known[0] == *expected && known[1] != *expected).then_some(())
    });
}

/// The first digits of what `sha256sum` prints.
fn sha256_of(text: &str) -> String {
    whole_sha256_of(text).chars().take(16).collect()
}

fn whole_sha256_of(text: &str) -> String {
    let mut sum = Command::new("sha256sum")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("sha256sum");
    sum.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("written");
    let printed = sum.wait_with_output().expect("it ends").stdout;
    String::from_utf8_lossy(&printed).chars().take(64).collect()
}

fn fleet_adds_up(fleet: &[Server]) {
    until_all_know(fleet, fleet.len());
    for (place, node) in fleet.iter().enumerate() {
        let users = vec!["ann".to_owned(); place + 2];
        check(node, &users);
    }
    // 2 + 3 + 4 requests.
    for node in fleet {
        let top = until("figures of all nodes", || {
            let top = read(node, "/api/v1/top");
            (names(&top["busiest"]) == [("ann".to_owned(), 9)]).then_some(top)
        });
        assert_eq!((&top["scope"], &top["nodes"]), (&json!("fleet"), &json!(3)));
        let stats = until("counts of all nodes", || {
            let stats = read(node, "/api/v1/stats");
            (stats["totals"]["requests"] == 9).then_some(stats)
        });
        let totals = &stats["totals"];
        assert_eq!((&stats["nodes"], &stats["silent_nodes"]), (&json!(3), &json!([])));
        let counted = &stats["rules"][0];
        assert_eq!((&counted["rule_id"], &counted["admitted"]), (&json!("r"), &totals["allowed"]));
        assert_eq!(counted["refused"], totals["refused"], "{stats}");
    }
    let own = read(&fleet[0], "/api/v1/top?scope=node");
    assert_eq!(names(&own["busiest"]), [("ann".to_owned(), 2)]);
    assert_eq!((&own["scope"], &own["nodes"]), (&json!("node"), &json!(1)));
    assert_eq!(read(&fleet[2], "/api/v1/stats?scope=node")["totals"]["requests"], 4);
}

#[test]
fn nodes_that_share_redis_add_their_figures_up() {
    let redis = Redis::start();
    let fleet = [(); 3].map(|()| node(&redis.url(), &[SECRET]));
    fleet_adds_up(&fleet);
    // With counters in one store 3 of 9 pass.
    assert_eq!(read(&fleet[1], "/api/v1/stats")["totals"]["refused"], 6);
    let list = nodes(&fleet[0]);
    let own: Vec<bool> = list.iter().map(|it| it["this"] == true).collect();
    assert_eq!(own, [true, false, false]);
    for it in &list {
        assert_eq!(it["version"], env!("CARGO_PKG_VERSION"), "{it}");
        assert_eq!((&it["store"]["state"], &it["store"]["servers"]), (&json!("up"), &json!(1)));
        assert!(it["age_seconds"].as_f64().is_some_and(|age| age < 5.0), "{it}");
        assert_eq!(it["revision"], 1, "{it}");
    }
}

#[test]
fn a_node_that_does_not_respond_is_listed_with_its_age() {
    let redis = Redis::start();
    let fleet = [(); 3].map(|()| node(&redis.url(), &[SECRET]));
    until_all_know(&fleet, 3);
    let [a, _b, c] = &fleet;
    let name = nodes(c)[0]["name"].clone();
    c.process.signal("STOP");
    let silent = until("a silent node", || {
        let top = read(a, "/api/v1/top");
        (top["silent_nodes"] == json!([name])).then_some(top)
    });
    assert_eq!(silent["nodes"], 2, "{silent}");
    // After a few seconds it is not waited for any more, and still named and listed.
    let listed = until("a node that is not waited for", || {
        let stats = read(a, "/api/v1/stats");
        assert_eq!((&stats["nodes"], &stats["silent_nodes"]), (&json!(2), &json!([name])));
        let listed = nodes(a).into_iter().find(|it| it["name"] == name).expect("it is listed");
        (listed["status"] == "silent").then_some(listed)
    });
    assert!(listed["age_seconds"].as_f64().is_some_and(|age| age > 3.0), "{listed}");
    c.process.signal("CONT");
    until("it is back", || (read(a, "/api/v1/stats")["nodes"] == 3).then_some(()));
}

#[test]
fn nodes_with_a_shared_catalog_add_their_figures_up_without_a_shared_store() {
    let postgres = Postgres::start();
    let catalog = postgres.url();
    let arguments = ["--catalog", catalog.as_str()];
    let setup = Setup { settings: OFTEN, arguments: &arguments, ..Setup::default() };
    let fleet = [(); 3].map(|()| Server::start(&setup));
    let rules = r#"{"rules": [{"rule_id": "r", "limit": 3, "window": "300d", "identifier_type": "user_id"}]}"#;
    let put = fleet[0].ask(
        "PUT",
        "/api/v1/policy?prune=rules",
        &[tollgate_e2e::server::JSON, tollgate_e2e::server::bearer_admin()],
        rules,
    );
    assert_eq!(put.status, 200, "{put:?}");
    for node in &fleet {
        until("the rules", || {
            (nodes(node)[0]["revision"] == nodes(&fleet[0])[0]["revision"]).then_some(())
        });
    }
    fleet_adds_up(&fleet);
}

/// Anyone who can write to the store can send messages; only those of the fleet count.
#[test]
fn a_node_of_another_fleet_is_not_heard() {
    let (redis, postgres) = (Redis::start(), Postgres::start());
    let catalog = postgres.url();
    // The same channels, through one database, with another secret.
    let start = |secret: (&str, &str)| {
        let arguments = ["--catalog", catalog.as_str()];
        let (arguments, environment) = (arguments.as_slice(), [secret]);
        Server::start(&Setup { arguments, environment: &environment, ..Setup::default() })
    };
    let [ours, theirs, also_ours] = [start(SECRET), start(OTHER), start(SECRET)];
    until("the other node of the fleet", || (nodes(&ours).len() == 2).then_some(()));
    until("the other node of the fleet", || (nodes(&also_ours).len() == 2).then_some(()));
    assert_eq!(nodes(&theirs).len(), 1, "it is alone");
    // Without a secret there is nothing to seal messages with.
    let alone = [(); 2].map(|()| node(&redis.url(), &[]));
    assert_eq!(read(&alone[0], "/api/v1/top")["nodes"], 1);
}

/// On Zipf traffic over three nodes, the true top 20 are among the 25 that are shown.
#[test]
fn the_top_of_zipf_traffic_over_three_nodes_is_found() {
    const REQUESTS: usize = 30_000;
    let redis = Redis::start();
    let fleet = [(); 3].map(|()| node(&redis.url(), &[SECRET]));
    until_all_know(&fleet, 3);
    let sums: Vec<f64> = (1..=20_000_u32)
        .scan(0.0, |sum, rank| {
            *sum += 1.0 / f64::from(rank);
            Some(*sum)
        })
        .collect();
    let total = sums.last().copied().unwrap_or_default();
    let (mut state, mut exact) = (7_u64, HashMap::<String, u64>::new());
    let users: Vec<String> = (0..REQUESTS)
        .map(|_| {
            // The generator of Knuth's MMIX.
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let wanted = (state >> 11) as f64 / (1_u64 << 53) as f64 * total;
            let user = format!("u{}", sums.partition_point(|sum| *sum < wanted));
            *exact.entry(user.clone()).or_default() += 1;
            user
        })
        .collect();
    for (number, part) in users.chunks(1_000).enumerate() {
        check(&fleet[number % 3], part);
    }
    let mut expected: Vec<(&String, &u64)> = exact.iter().collect();
    expected.sort_unstable_by_key(|(name, count)| (std::cmp::Reverse(**count), (*name).clone()));
    let top = until("figures of three nodes", || {
        let top = read(&fleet[0], "/api/v1/top?limit=25&window=300");
        (top["nodes"] == 3).then_some(top)
    });
    let shown: HashMap<String, u64> = names(&top["busiest"]).into_iter().collect();
    let may_lack = top["busiest"]["may_lack"].as_u64().expect("a number");
    assert_eq!(shown.len(), 25);
    for (name, count) in expected.iter().take(20) {
        let told = shown.get(*name).unwrap_or_else(|| panic!("{name} is missing: {shown:?}"));
        assert!(told <= count && **count <= told + may_lack, "{name}: {told}, not {count}");
    }
}
