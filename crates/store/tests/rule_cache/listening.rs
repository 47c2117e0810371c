//! Whatever happens to a server or the network, a change is noticed once they are back, and no call
//! exceeds its deadline.

use std::time::Duration;

use tollgate_store::{RedisRuleCache, RuleCacheError, StoreErrorKind};
use tollgate_testbed::{Fault, FaultProxy, Redis, Stopwatch};

use crate::stand::{
    CALL_WITHIN, check_heard, connect, eventually, heard, listening, publish, published_rules,
    read, story,
};

/// The time in which a dead connection has to be noticed, and what a busy machine may add to it.
const NOTICED_WITHIN: Duration = Duration::from_millis(3_000 + 3_000);

/// A call without a response ends in time.
async fn check_bounded(rule_cache: &RedisRuleCache, expected: StoreErrorKind) {
    let began = Stopwatch::start();
    let reading = rule_cache.read().await.map(drop);
    let publishing = rule_cache.publish(&published_rules(0, 1)).await;
    let time = began.elapsed();
    for error in [reading, publishing].map(|answer| answer.expect_err("no server")) {
        let RuleCacheError::Redis(cause) = &error else { panic!("{error:?}") };
        assert_eq!(cause.kind(), expected, "{}", story(&error));
    }
    assert!(time < CALL_WITHIN * 2, "{time:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_comes_later_is_found() {
    let redis = Redis::start();
    redis.kill();
    let rule_cache = connect(&redis.url());
    check_bounded(&rule_cache, StoreErrorKind::Unavailable).await;
    let mut changes = rule_cache.changes();
    assert!(!changes.has_changed().expect("a rule_cache"));
    redis.restart();
    heard(&mut changes).await;
    check_heard(&rule_cache, &rule_cache, &mut changes, &published_rules(1, 1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_was_killed_is_found_again() {
    let redis = Redis::start();
    let speaker = connect(&redis.url());
    let (rule_cache, mut changes) = listening(&redis.url()).await;
    for number in 1..=3 {
        redis.kill();
        check_bounded(&rule_cache, StoreErrorKind::Unavailable).await;
        redis.restart();
        // Messages sent meanwhile were missed.
        heard(&mut changes).await;
        check_heard(&speaker, &rule_cache, &mut changes, &published_rules(1, number)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_that_ends_is_made_anew_at_once() {
    let redis = Redis::start();
    let (_board, mut changes) = listening(&redis.url()).await;
    redis.command(&["CLIENT", "KILL", "TYPE", "PUBSUB"]);
    let time = heard(&mut changes).await;
    // Attempts that fail are up to five seconds apart.
    assert!(time < Duration::from_secs(4), "only after {time:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stood_still_is_heard_again() {
    let redis = Redis::start();
    let speaker = connect(&redis.url());
    let (rule_cache, mut changes) = listening(&redis.url()).await;
    publish(&speaker, &published_rules(1, 1)).await;
    heard(&mut changes).await;
    redis.pause();
    check_bounded(&rule_cache, StoreErrorKind::Timeout).await;
    redis.resume();
    check_heard(&speaker, &rule_cache, &mut changes, &published_rules(1, 2)).await;
}

/// Breaks the network of a rule cache, and repairs it.
async fn check_network(fault: Fault) {
    let redis = Redis::start();
    let proxy = FaultProxy::start(redis.address());
    let speaker = connect(&redis.url());
    let (rule_cache, mut changes) = listening(&format!("redis://{}", proxy.address())).await;
    publish(&speaker, &published_rules(1, 1)).await;
    heard(&mut changes).await;
    let before = *changes.borrow();
    proxy.set(fault);
    let began = Stopwatch::start();
    eventually("a connection that is given up", || async {
        (proxy.connections() == 0).then_some(())
    })
    .await;
    let time = began.elapsed();
    println!("{fault:?}: given up after {time:?}");
    assert!(time < NOTICED_WITHIN, "{fault:?}: {time:?}");
    publish(&speaker, &published_rules(1, 2)).await;
    assert_eq!(*changes.borrow(), before, "{fault:?}: heard of it all the same");
    proxy.set(Fault::Pass);
    // The message was missed, but a reconnect counts as a change.
    heard(&mut changes).await;
    assert_eq!(read(&rule_cache).await, Some(published_rules(1, 2)), "{fault:?}");
    check_heard(&speaker, &rule_cache, &mut changes, &published_rules(1, 3)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_network_is_noticed() {
    check_network(Fault::Silence).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_was_reset_is_made_anew() {
    check_network(Fault::Refuse).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_through_a_silent_network_end_in_time_and_work_again_after_it() {
    let redis = Redis::start();
    let proxy = FaultProxy::start(redis.address());
    let rule_cache = connect(&format!("redis://{}", proxy.address()));
    publish(&rule_cache, &published_rules(1, 1)).await;
    proxy.set(Fault::Silence);
    check_bounded(&rule_cache, StoreErrorKind::Timeout).await;
    // When the network is back, a connection that got no response is not used again.
    eventually("the end of all connections", || async { (proxy.connections() == 0).then_some(()) })
        .await;
    proxy.set(Fault::Pass);
    assert_eq!(read(&rule_cache).await, Some(published_rules(1, 1)));
}
