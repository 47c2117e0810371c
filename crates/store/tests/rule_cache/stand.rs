//! Fixtures: rule caches, published rules, and waiting for a change.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;
use tollgate_store::{PublishedRules, RedisRuleCache, RemoteSettings, RuleCacheError};
use tollgate_testbed::{RedisCluster, Stopwatch, WAIT_TIMEOUT};

pub(crate) use tollgate_testbed::eventually;

pub(crate) const RULES_KEY: &str = "ratelimit:rules:active";
pub(crate) const CHANNEL: &str = "ratelimit:rules:changed";
/// How long any call may take, and what a busy machine may add to that.
pub(crate) const CALL_WITHIN: Duration = Duration::from_millis(2_000 + 3_000);

pub(crate) fn connect(url: &str) -> RedisRuleCache {
    RedisRuleCache::connect(url, &RemoteSettings::default()).expect("a valid URL")
}

/// A rule cache that is subscribed, and the changes from now on.
pub(crate) async fn listening(url: &str) -> (RedisRuleCache, watch::Receiver<u64>) {
    let rule_cache = connect(url);
    let mut changes = rule_cache.changes();
    heard(&mut changes).await;
    (rule_cache, changes)
}

/// Waits until there may be something new. Says how long that took.
pub(crate) async fn heard(changes: &mut watch::Receiver<u64>) -> Duration {
    let began = Stopwatch::start();
    let change =
        timeout(WAIT_TIMEOUT, changes.changed()).await.expect("waited in vain for a change");
    change.expect("a rule_cache that listens");
    began.elapsed()
}

/// Rules of a revision, which contain its number.
pub(crate) fn published_rules(epoch: u64, number: u64) -> PublishedRules {
    let rule =
        |id: &str| (id.to_owned(), format!(r#"{{"id":"{id}","epoch":{epoch},"n":{number}}}"#));
    let rules = ["api.reads", "api.writes", "login"].map(rule).to_vec();
    PublishedRules { epoch, number, rules, tiers: format!(r#"["tier of {epoch}-{number}"]"#) }
}

pub(crate) async fn publish(rule_cache: &RedisRuleCache, published_rules: &PublishedRules) {
    rule_cache.publish(published_rules).await.unwrap_or_else(|error| panic!("{}", story(&error)));
}

pub(crate) async fn read(rule_cache: &RedisRuleCache) -> Option<PublishedRules> {
    rule_cache.read().await.unwrap_or_else(|error| panic!("{}", story(&error)))
}

/// Waits until a publication succeeds.
pub(crate) async fn publish_eventually(
    rule_cache: &RedisRuleCache,
    published_rules: &PublishedRules,
) {
    eventually("a publication", || async { rule_cache.publish(published_rules).await.ok() }).await;
}

/// A listener notices published rules, and reads them.
pub(crate) async fn check_heard(
    speaker: &RedisRuleCache,
    listener: &RedisRuleCache,
    changes: &mut watch::Receiver<u64>,
    news: &PublishedRules,
) {
    changes.mark_unchanged();
    publish_eventually(speaker, news).await;
    heard(changes).await;
    // The change may have been another one.
    while listener.read().await.ok().flatten().as_ref() != Some(news) {
        heard(changes).await;
    }
}

pub(crate) fn cluster_url(cluster: &RedisCluster) -> String {
    let nodes = cluster.nodes().iter().map(|node| node.address().to_string());
    format!("redis+cluster://{}", nodes.collect::<Vec<_>>().join(","))
}

/// An error and what caused it, as people read it.
pub(crate) fn story(error: &RuleCacheError) -> String {
    let source = std::error::Error::source(error).map(ToString::to_string);
    format!("{error}: {}", source.unwrap_or_default())
}
