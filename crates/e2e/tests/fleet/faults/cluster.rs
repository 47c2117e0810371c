//! Faults of stores that are several servers, which replace and relieve each other.

use tollgate_testbed::{Redis, RedisCluster, Sentinels, until};

use super::{Fault, Forgets, LONG_OUTAGE, OUTAGE, fill, make_room, try_out};
use crate::nodes::cluster_url;

const MASTERS: usize = 3;
/// A slot of the master that has the fault.
const SLOT: u16 = 0;
/// Enough that some of the clients watched are among them.
const MOVED_SLOTS: u16 = 1_500;

#[test]
fn faults_of_a_cluster_stay_within_bounds() {
    let cluster = &RedisCluster::start(MASTERS, 1);
    let master = || cluster.master_of(SLOT);
    let restart_all_that_ended = || {
        for node in cluster.nodes().iter().filter(|node| node.process_id().is_none()) {
            node.restart();
        }
        cluster.wait_until_whole();
    };
    let faults = [
        Fault::harmless("promotes a replica", |_| {
            cluster.failover(cluster.replica_of(master()));
        })
        .short(),
        Fault::harmless("moves 1,500 slots", |_| {
            let from = master();
            let others = [SLOT, 6_000, 12_000].map(|slot| cluster.master_of(slot));
            let to = others.into_iter().find(|to| *to != from).expect("another master");
            cluster.move_slots(from, to, MOVED_SLOTS);
        }),
        Fault::harmless("SCRIPT FLUSH", |_| {
            for node in cluster.nodes() {
                node.command(&["SCRIPT", "FLUSH"]);
            }
        }),
        Fault::new("memory of a master full for 3 s", Forgets::Nothing, |load| {
            let full = &cluster.nodes()[master()];
            fill(full);
            load.wait(load.now(), OUTAGE);
            make_room(full);
        }),
        Fault::new("a master restarted, empty", Forgets::Everything, |_| {
            cluster.nodes()[master()].restart();
            cluster.wait_until_whole();
        }),
        Fault::new("kill -9 of a master", Forgets::WhatWasOnItsWay, |_| {
            cluster.kill_node(master());
            // Its replica is the master now.
            master();
            cluster.wait_until_whole();
        })
        .short()
        .mended_by(restart_all_that_ended),
        Fault::new("SIGSTOP of a master for 10 s", Forgets::WhatWasOnItsWay, |load| {
            let stopped = master();
            cluster.pause_node(stopped);
            load.wait(load.now(), LONG_OUTAGE);
            cluster.nodes()[stopped].resume();
            cluster.wait_until_whole();
        }),
    ];
    try_out("Cluster of 6", &cluster_url(cluster), &faults);
}

#[test]
fn faults_behind_sentinels_stay_within_bounds() {
    let sentinels = &Sentinels::start(3, "main", 1);
    let faults = [Fault::new("kill -9 of the master", Forgets::WhatWasOnItsWay, |_| {
        let before = sentinels.master_address();
        sentinels.kill_master();
        until("another master", || {
            (sentinels.master_address() != before && is_master(sentinels.master())).then_some(())
        });
    })
    .short()];
    try_out("Sentinels", &sentinels.url(), &faults);
}

fn is_master(redis: &Redis) -> bool {
    redis.info("replication").get("role").is_some_and(|role| role == "master")
}
