//! Servers that take over from others, and slots that move, while requests go on.

use std::collections::BTreeMap;
use std::thread;

use tollgate_core::Algorithm;
use tollgate_store::RemoteSettings;
use tollgate_testbed::{Redis, RedisCluster, Sentinels, until};

use crate::redis::load::Load;
use crate::redis::stand::{
    LONG, cluster_url, commands, connect, key, limit, patient, take, timed, until_it_answers,
};

/// Keys by slot, of a node that has some.
fn slots(node: &Redis) -> BTreeMap<u16, Vec<String>> {
    let mut slots: BTreeMap<u16, Vec<String>> = BTreeMap::new();
    for key in node.command(&["KEYS", "*"]).list() {
        let slot = node.command(&["CLUSTER", "KEYSLOT", key.text()]).integer();
        let slot = u16::try_from(slot).expect("a slot");
        slots.entry(slot).or_default().push(key.text().to_owned());
    }
    slots
}

/// How often a node responded with TRYAGAIN.
fn told_to_try_again(node: &Redis) -> u64 {
    let errors = node.info("errorstats");
    let count = errors.get("errorstat_TRYAGAIN").and_then(|stats| stats.strip_prefix("count="));
    count.map_or(0, |count| count.parse().expect("a number"))
}

/// How often a node received ASKING: requests for a slot that it is importing.
fn asked(node: &Redis) -> u64 {
    commands(node).get("asking").copied().unwrap_or(0)
}

/// Migrates a slot as slowly as possible, so that requests meet every state of the migration.
fn move_slot(nodes: [&Redis; 2], slot: u16, keys: &[String]) {
    let [from, to] = nodes;
    let (text, port) = (slot.to_string(), to.port().to_string());
    let id = |node: &Redis| node.command(&["CLUSTER", "MYID"]).text().to_owned();
    let set = |node: &Redis, words: &[&str]| {
        let command: Vec<&str> =
            ["CLUSTER", "SETSLOT", &text].into_iter().chain(words.iter().copied()).collect();
        assert_eq!(node.command(&command).text(), "OK", "{command:?}");
    };
    let migrate = |keys: &[String]| {
        for key in keys {
            from.command(&["MIGRATE", "127.0.0.1", &port, key, "0", "5000"]);
        }
    };
    set(to, &["IMPORTING", &id(from)]);
    set(from, &["MIGRATING", &id(to)]);
    let (first, others) = keys.split_at(1);
    migrate(first);
    let tried = || told_to_try_again(from) + told_to_try_again(to);
    let before = tried();
    until("many requests during the migration", || (tried() > before + 50).then_some(()));
    migrate(others);
    let before = asked(to);
    until("requests that are redirected by ASK", || (asked(to) > before + 10).then_some(()));
    set(to, &["NODE", &id(to)]);
    set(from, &["NODE", &id(to)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn slot_migration_fails_no_request() {
    let cluster = RedisCluster::start(3, 0);
    let load = Load::start(connect(&cluster_url(&cluster), patient()).await);
    load.settle_in().await;
    for (from, to) in [(0, 1), (1, 2), (2, 0)] {
        let nodes = [&cluster.nodes()[from], &cluster.nodes()[to]];
        for (slot, keys) in slots(nodes[0]).into_iter().take(2) {
            assert_eq!(keys.len(), 2, "the record and the log of one subject lie together");
            move_slot(nodes, slot, &keys);
        }
    }
    load.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_joins_late_is_found_and_gets_one_connection() {
    let cluster = RedisCluster::start(3, 0);
    let load = Load::start(connect(&cluster_url(&cluster), patient()).await);
    load.settle_in().await;
    let late = Redis::builder().setting("cluster-enabled", "yes").start();
    let port = cluster.nodes()[0].port().to_string();
    late.command(&["CLUSTER", "MEET", "127.0.0.1", &port]);
    let nodes = || cluster.nodes().iter().chain([&late]);
    until("a cluster that knows all its nodes", || {
        let knows_all = |node: &Redis| {
            let facts = node.command(&["CLUSTER", "INFO"]);
            facts.text().contains("cluster_known_nodes:4")
                && facts.text().contains("cluster_state:ok")
        };
        nodes().all(knows_all).then_some(())
    });
    let (slot, keys) = slots(&cluster.nodes()[0]).into_iter().next().expect("a slot in use");
    let connections = || {
        let clients = late.command(&["CLIENT", "LIST"]);
        clients.text().lines().filter(|client| client.contains("cmd=eval")).count()
    };
    let mut most = 0;
    thread::scope(|scope| {
        let moving = scope.spawn(|| move_slot([&cluster.nodes()[0], &late], slot, &keys));
        while !moving.is_finished() {
            most = most.max(connections());
        }
        moving.join().expect("a slot that moves");
    });
    until("requests to the late one", || (commands(&late).get("evalsha")? > &100).then_some(()));
    assert_eq!((most, connections()), (1, 1));
    load.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_take_over() {
    let cluster = RedisCluster::start(3, 1);
    let url = cluster_url(&cluster);
    // On demand, without a loss and without an error.
    let load = Load::start(connect(&url, patient()).await);
    load.settle_in().await;
    let master = cluster.master_of(0);
    let heir = cluster.replica_of(master);
    cluster.failover(heir);
    load.end().await;

    // After a crash.
    let store = connect(&url, RemoteSettings::default()).await;
    let subjects: Vec<String> = (0..20).map(|number| format!("client {number}")).collect();
    for subject in &subjects {
        until_it_answers(&store, key("accident", subject)).await;
    }
    cluster.kill_node(heir);
    let (_, time) = timed(async {
        for subject in &subjects {
            until_it_answers(&store, key("accident", subject)).await;
        }
    })
    .await;
    println!("cluster: all counters answered again {time:?} after a master was killed");
    assert_eq!(cluster.master_of(0), master);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_master_that_sentinels_choose_is_followed() {
    let sentinels = Sentinels::start(3, "mymaster", 2);
    let store = connect(&sentinels.url(), RemoteSettings::default()).await;
    let some = limit(Algorithm::Gcra, 10, LONG);
    for number in 1..=2 {
        until_it_answers(&store, key("a", "x")).await;
        sentinels.kill_master();
        assert!(take(&store, key("a", "x"), &some).await.is_err(), "an answer without a server");
        let (_, time) = timed(until_it_answers(&store, key("a", "x"))).await;
        println!("sentinels: answered again {time:?} after master {number} was killed");
    }
}
