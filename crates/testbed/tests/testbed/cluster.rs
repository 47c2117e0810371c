//! A Redis Cluster.

use tollgate_testbed::{RedisCluster, Reply, until};

use crate::{is_gone, text};

/// The slot of the key `bar`, as the documentation of Redis has it.
const SLOT_OF_BAR: u16 = 5061;

#[test]
fn masters_are_replaced_and_slots_move_with_their_keys() {
    let cluster = RedisCluster::start(3, 1);
    assert_eq!(cluster.urls().len(), 6);
    let get = |node: usize| cluster.nodes()[node].command(&["GET", "bar"]);
    let is_moved = |reply: &Reply| matches!(reply, Reply::Error(why) if why.starts_with("MOVED"));

    let master = cluster.master_of(SLOT_OF_BAR);
    assert_eq!(cluster.nodes()[master].command(&["SET", "bar", "value"]), text("OK"));
    let replica = cluster.replica_of(master);
    assert!(is_moved(&get(replica)));

    cluster.failover(replica);
    assert_eq!(cluster.master_of(SLOT_OF_BAR), replica);
    assert_eq!(cluster.replica_of(replica), master);
    assert_eq!(get(replica), text("value"));
    assert!(is_moved(&get(master)));

    let id = cluster.nodes()[replica].process_id().expect("a process");
    cluster.kill_node(replica);
    assert!(is_gone(id));
    assert_eq!(cluster.master_of(SLOT_OF_BAR), master);
    cluster.wait_until_whole();
    assert_eq!(get(master), text("value"));

    cluster.nodes()[replica].restart();
    cluster.wait_until_whole();
    assert_eq!(cluster.replica_of(master), replica);

    // Slots move last: a master that is killed just after it received slots can come back without the
    // last one of them, and Redis does not repair that by itself.
    // The key is in the last third of the slots of its master, so most of them have to go.
    let other = cluster.master_of(16_383);
    cluster.move_slots(master, other, SLOT_OF_BAR + 1);
    assert_eq!(cluster.master_of(SLOT_OF_BAR), other);
    assert_eq!(cluster.master_of(SLOT_OF_BAR + 1), master);
    assert_eq!(get(other), text("value"));
}

#[test]
fn a_cluster_without_replicas_misses_a_node_that_is_paused() {
    let cluster = RedisCluster::start(3, 0);
    let master = cluster.master_of(SLOT_OF_BAR);
    let witness = cluster.master_of(16_383);
    cluster.pause_node(master);
    let ask = || cluster.nodes()[witness].command(&["CLUSTER", "INFO"]);
    until("a cluster that knows its loss", || {
        ask().text().contains("cluster_state:fail").then_some(())
    });
    cluster.nodes()[master].resume();
    cluster.wait_until_whole();
    assert_eq!(cluster.master_of(SLOT_OF_BAR), master);
}

#[test]
#[should_panic(expected = "3 masters or more")]
fn two_masters_are_too_few() {
    RedisCluster::start(2, 0);
}
