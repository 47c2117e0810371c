//! Checks of different slots cannot share a call. Those for one server of a cluster share its round trips.

use tokio::task::JoinSet;
use tollgate_core::Algorithm;
use tollgate_store::Store as _;
use tollgate_testbed::{Redis, RedisCluster};

use crate::redis::stand::{
    LONG, NO_TIME, cluster_url, connect, forget_commands, key, limit, one, patient, script_calls,
};

const CHECKS: u64 = 600;

/// How often a server read from its sockets.
fn reads(node: &Redis) -> u64 {
    node.info("stats")["total_reads_processed"].parse().expect("a number")
}

#[tokio::test]
async fn checks_of_different_slots_of_one_server_share_round_trips() {
    let cluster = RedisCluster::start(3, 0);
    let store = connect(&cluster_url(&cluster), patient()).await;
    let limit = limit(Algorithm::Gcra, 5, LONG);
    // The first round sends the script to every server.
    for _ in 0..2 {
        cluster.nodes().iter().for_each(forget_commands);
        let mut checks = JoinSet::new();
        for number in 0..CHECKS {
            let store = store.clone();
            checks.spawn(async move {
                let subject = format!("subject {number}");
                store.settle(&[one(key("rule", &subject), &limit)], NO_TIME).await
            });
        }
        while let Some(settled) = checks.join_next().await {
            assert!(settled.expect("a task that ends").expect("an answer").passed);
        }
    }
    let calls: u64 = cluster.nodes().iter().map(script_calls).sum();
    let reads: u64 = cluster.nodes().iter().map(reads).sum();
    assert!(calls > CHECKS * 9 / 10, "{calls} calls for {CHECKS} checks: they were of one slot");
    assert!(reads < calls / 4, "{reads} reads for {calls} calls");
}
