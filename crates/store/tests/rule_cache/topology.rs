//! Servers that take over from others, and a slot that moves.

use std::process::Command;

use tollgate_testbed::{Redis, RedisCluster, Sentinels, until};

use crate::stand::{
    RULES_KEY, check_heard, cluster_url, connect, heard, listening, publish, published_rules, read,
};

#[tokio::test(flavor = "multi_thread")]
async fn the_master_that_sentinels_choose_is_followed() {
    let sentinels = Sentinels::start(3, "mymaster", 2);
    let speaker = connect(&sentinels.url());
    let (rule_cache, mut changes) = listening(&sentinels.url()).await;
    check_heard(&speaker, &rule_cache, &mut changes, &published_rules(1, 1)).await;
    for number in 2..=3 {
        sentinels.kill_master();
        // Rules are published on the new master, and read there.
        heard(&mut changes).await;
        check_heard(&speaker, &rule_cache, &mut changes, &published_rules(1, number)).await;
        let there = sentinels.master().command(&["HGET", RULES_KEY, "#revision"]);
        assert_eq!(there.text(), format!("1-{number}"));
    }
}

/// Makes a sentinel replace a healthy master.
fn replace_master(sentinels: &Sentinels) {
    let url = sentinels.url();
    let mut ports = url.split([':', ',', '/']).filter_map(|word| word.parse::<u16>().ok());
    let port = ports.next().expect("a sentinel").to_string();
    let former = sentinels.master_address();
    let mut command = Command::new("redis-cli");
    command.args(["-e", "-p", &port, "SENTINEL", "FAILOVER", "mymaster"]);
    let answer = command.output().expect("redis-cli");
    assert!(answer.status.success(), "{command:?}: {answer:?}");
    until("another master", || (sentinels.master_address() != former).then_some(()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_master_that_does_not_know_it_was_replaced_is_left() {
    let sentinels = Sentinels::start(3, "mymaster", 1);
    let speaker = connect(&sentinels.url());
    let (rule_cache, mut changes) = listening(&sentinels.url()).await;
    check_heard(&speaker, &rule_cache, &mut changes, &published_rules(1, 1)).await;
    // The former master cannot be demoted, so it keeps its connections and still responds.
    let former = sentinels.master();
    former.command(&["ACL", "SETUSER", "default", "-replicaof", "-slaveof"]);
    replace_master(&sentinels);
    heard(&mut changes).await;
    check_heard(&speaker, &rule_cache, &mut changes, &published_rules(1, 2)).await;
    assert_eq!(former.info("replication")["role"], "master");
    assert_eq!(former.command(&["HGET", RULES_KEY, "#revision"]).text(), "1-1");
}

fn slot(cluster: &RedisCluster) -> u16 {
    let slot = cluster.nodes()[0].command(&["CLUSTER", "KEYSLOT", RULES_KEY]).integer();
    u16::try_from(slot).expect("a slot")
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_of_a_cluster_take_over() {
    let cluster = RedisCluster::start(3, 1);
    let url = cluster_url(&cluster);
    let speaker = connect(&url);
    let (rule_cache, mut changes) = listening(&url).await;
    check_heard(&speaker, &rule_cache, &mut changes, &published_rules(1, 1)).await;
    let first = cluster.master_of(slot(&cluster));
    let heir = cluster.replica_of(first);
    // On demand.
    cluster.failover(heir);
    heard(&mut changes).await;
    assert_eq!(read(&rule_cache).await, Some(published_rules(1, 1)));
    check_heard(&speaker, &rule_cache, &mut changes, &published_rules(1, 2)).await;
    // After a crash.
    cluster.kill_node(heir);
    heard(&mut changes).await;
    check_heard(&speaker, &rule_cache, &mut changes, &published_rules(1, 3)).await;
    assert_eq!(cluster.master_of(slot(&cluster)), first);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rules_are_found_while_their_slot_moves() {
    let cluster = RedisCluster::start(3, 0);
    let slot = slot(&cluster);
    let owner = cluster.master_of(slot);
    let (from, to) = (&cluster.nodes()[owner], &cluster.nodes()[(owner + 1) % 3]);
    let id = |node: &Redis| node.command(&["CLUSTER", "MYID"]).text().to_owned();
    let set = |node: &Redis, state: &str, other: &Redis| {
        let command = ["CLUSTER", "SETSLOT", &slot.to_string(), state, &id(other)];
        assert_eq!(node.command(&command).text(), "OK", "{command:?}");
    };
    let (rule_cache, mut changes) = listening(&cluster_url(&cluster)).await;
    publish(&rule_cache, &published_rules(1, 1)).await;

    set(to, "IMPORTING", from);
    set(from, "MIGRATING", to);
    publish(&rule_cache, &published_rules(1, 2)).await;
    let port = to.port().to_string();
    from.command(&["MIGRATE", "127.0.0.1", &port, RULES_KEY, "0", "5000"]);
    // On the node that imports the slot, before the migration ends.
    assert_eq!(read(&rule_cache).await, Some(published_rules(1, 2)));
    publish(&rule_cache, &published_rules(1, 3)).await;
    set(to, "NODE", to);
    set(from, "NODE", to);
    assert_eq!(read(&rule_cache).await, Some(published_rules(1, 3)));
    check_heard(
        &connect(&cluster_url(&cluster)),
        &rule_cache,
        &mut changes,
        &published_rules(1, 4),
    )
    .await;
    assert_eq!(to.command(&["HGET", RULES_KEY, "#revision"]).text(), "1-4");
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_are_not_named_anywhere_are_remembered() {
    let cluster = RedisCluster::start(3, 1);
    let slot = slot(&cluster);
    let owner = cluster.master_of(slot);
    let stranger = (0..3).find(|node| *node != owner).expect("another master");
    // The only server in the URL does not have the rules, and is killed.
    let url = format!("redis+cluster://{}", cluster.nodes()[stranger].address());
    let (rule_cache, mut changes) = listening(&url).await;
    check_heard(&rule_cache, &rule_cache, &mut changes, &published_rules(1, 1)).await;
    cluster.kill_node(stranger);
    cluster.wait_until_whole();
    cluster.failover(cluster.replica_of(owner));
    heard(&mut changes).await;
    check_heard(&rule_cache, &rule_cache, &mut changes, &published_rules(1, 2)).await;
}
