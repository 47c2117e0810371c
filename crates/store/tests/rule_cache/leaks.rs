//! A dropped rule cache leaves no task and no connection, also after outages.

use std::slice;

use tokio::runtime::Handle;
use tokio::time::timeout;
use tollgate_testbed::{Redis, RedisCluster, Sentinels, WAIT_TIMEOUT};

use crate::stand::{
    cluster_url, connect, eventually, heard, listening, publish_eventually, published_rules, read,
};

fn tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

/// Connections of clients that send commands, without our own, and of those that subscribe.
fn connections(redis: &Redis) -> (usize, usize) {
    let count =
        |kind: &str| redis.command(&["CLIENT", "LIST", "TYPE", kind]).text().lines().count();
    (count("NORMAL") - 1, count("PUBSUB"))
}

/// These servers have no other clients.
async fn check_dropped(url: &str, servers: &[Redis]) {
    let counts = || -> Vec<(usize, usize)> { servers.iter().map(connections).collect() };
    let is_alone = || counts().iter().all(|count| *count == (0, 0));
    // The fixture may still be connected.
    eventually("servers without clients", || async { is_alone().then_some(()) }).await;
    let tasks_before = tasks();
    let (rule_cache, mut changes) = listening(url).await;
    publish_eventually(&rule_cache, &published_rules(1, 1)).await;
    heard(&mut changes).await;
    assert!(tasks() > tasks_before, "{url}");
    assert!(counts().iter().map(|(_, listening)| listening).sum::<usize>() == 1, "{url}");
    drop(rule_cache);
    assert!(timeout(WAIT_TIMEOUT, changes.changed()).await.expect("an end").is_err(), "{url}");
    eventually("the end of all tasks and connections", || async {
        (tasks() == tasks_before && is_alone()).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_rule_cache_ends_its_tasks_and_connections() {
    let redis = Redis::start();
    check_dropped(&redis.url(), slice::from_ref(&redis)).await;
    let cluster = RedisCluster::start(3, 0);
    check_dropped(&cluster_url(&cluster), cluster.nodes()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_rule_cache_disconnects_from_sentinels() {
    let sentinels = Sentinels::start(3, "mymaster", 0);
    // Sentinels are clients themselves, and come and go.
    let listeners = || connections(sentinels.master()).1;
    let (tasks_before, listeners_before) = (tasks(), listeners());
    let (rule_cache, _changes) = listening(&sentinels.url()).await;
    assert_eq!(listeners(), listeners_before + 1);
    drop(rule_cache);
    eventually("the end of all tasks and of the one that listens", || async {
        (tasks() == tasks_before && listeners() == listeners_before).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn outages_leave_nothing_behind() {
    let redis = Redis::start();
    let (rule_cache, mut changes) = listening(&redis.url()).await;
    for number in 1..=5 {
        redis.restart();
        heard(&mut changes).await;
        publish_eventually(&rule_cache, &published_rules(1, number)).await;
        assert_eq!(read(&rule_cache).await, Some(published_rules(1, number)));
        eventually("two connections, their tasks and that of the listener", || async {
            (connections(&redis) == (1, 1) && tasks() == 3).then_some(())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_cache_dropped_without_a_server_ends_its_tasks() {
    let redis = Redis::start();
    redis.pause();
    let before = tasks();
    let rule_cache = connect(&redis.url());
    assert!(rule_cache.read().await.is_err(), "no server");
    drop(rule_cache);
    eventually("the end of all tasks", || async { (tasks() == before).then_some(()) }).await;
    redis.resume();
}
