//! What is published is read, whole and unchanged, wherever Redis is and however much it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tollgate_store::{PublishedRules, RuleCacheError};
use tollgate_testbed::{Redis, RedisCluster, Reply, Sentinels, Stopwatch};

use crate::stand::{
    RULES_KEY, cluster_url, connect, heard, listening, publish, publish_eventually,
    published_rules, read, story,
};

/// More rules than any real policy has, each of 300 bytes.
fn many(number: u64) -> PublishedRules {
    let text = number.to_string().repeat(300);
    let rule = |place: u64| (format!("rule.{place:05}"), text[..300].to_owned());
    PublishedRules { rules: (0..10_000).map(rule).collect(), ..published_rules(1, number) }
}

async fn check(url: &str) {
    let (writer, reader) = (connect(url), connect(url));
    publish_eventually(&writer, &published_rules(1, 1)).await;
    assert_eq!(read(&reader).await, Some(published_rules(1, 1)), "{url}");
    // Removed rules are not read any more.
    let few = PublishedRules { rules: Vec::new(), tiers: String::new(), ..published_rules(1, 2) };
    publish(&writer, &few).await;
    assert_eq!(read(&reader).await, Some(few), "{url}");
}

#[tokio::test(flavor = "multi_thread")]
async fn published_rules_are_read_on_every_topology() {
    let redis = Redis::builder().password("secret").tls().start();
    assert_eq!(read(&connect(&redis.url())).await, None);
    check(&redis.url()).await;
    check(&format!("{}1?prefix=mine:", redis.url())).await;
    check(&format!("{}2?ca={}", redis.tls_url(), redis.authority().display())).await;
    check(&cluster_url(&RedisCluster::start(3, 0))).await;
    check(&Sentinels::start(3, "mymaster", 1).url()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_are_kept_in_a_hash_that_other_programs_can_read() {
    let redis = Redis::start();
    publish(&connect(&redis.url()), &published_rules(3, 14)).await;
    publish(&connect(&format!("{}?prefix=mine:", redis.url())), &published_rules(2, 7)).await;
    let check = |key: &str, field: &str, expected: &str| {
        assert_eq!(redis.command(&["HGET", key, field]).text(), expected, "{key} {field}");
    };
    check(RULES_KEY, "#revision", "3-14");
    check(RULES_KEY, "#tiers", r#"["tier of 3-14"]"#);
    check(RULES_KEY, "login", r#"{"id":"login","epoch":3,"n":14}"#);
    check(&format!("mine:{RULES_KEY}"), "#revision", "2-7");
    assert_eq!(redis.command(&["HLEN", RULES_KEY]), Reply::Integer(5));
    assert_eq!(redis.command(&["DBSIZE"]), Reply::Integer(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_node_is_notified_at_once() {
    let redis = Redis::start();
    let speaker = connect(&redis.url());
    let (listener, mut changes) = listening(&redis.url()).await;
    for number in 1..=5 {
        publish(&speaker, &published_rules(1, number)).await;
        heard(&mut changes).await;
        assert_eq!(read(&listener).await, Some(published_rules(1, number)));
    }
    assert_eq!(*changes.borrow(), 6, "once with the subscription, and once with each message");
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_rules_are_replaced_atomically() {
    let redis = Redis::start();
    let (writer, reader) = (connect(&redis.url()), connect(&redis.url()));
    publish(&writer, &many(0)).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let watching = tokio::spawn({
        let is_over = Arc::clone(&is_over);
        async move {
            let mut seen = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                let found = read(&reader).await.expect("rules, at every moment");
                assert_eq!(found, many(found.number), "half of one and half of another");
                seen.push(found.number);
            }
            seen
        }
    });
    let began = Stopwatch::start();
    for number in 1..=10 {
        publish(&writer, &many(number)).await;
    }
    println!("10,000 rules of 300 bytes were published in {:?}", began.elapsed() / 10);
    is_over.store(true, Ordering::Relaxed);
    let seen = watching.await.expect("whole revisions only");
    assert!(seen.is_sorted() && !seen.is_empty(), "{seen:?}");
}

/// Rules are small, and needed most when something is wrong.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_server_takes_new_rules_all_the_same() {
    let redis = Redis::start();
    let rule_cache = connect(&redis.url());
    redis.command(&["CONFIG", "SET", "maxmemory", "1"]);
    assert!(matches!(redis.command(&["SET", "x", "y"]), Reply::Error(_)), "it is not full");
    for number in 1..=2 {
        publish(&rule_cache, &published_rules(1, number)).await;
        assert_eq!(read(&rule_cache).await, Some(published_rules(1, number)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_rules_are_refused() {
    let redis = Redis::start();
    let rule_cache = connect(&redis.url());
    for id in ["", "#revision", "Upper", "with space"] {
        let rules = vec![(id.to_owned(), "{}".to_owned())];
        let refused = rule_cache.publish(&PublishedRules { rules, ..published_rules(1, 1) }).await;
        let error = refused.expect_err(id);
        assert!(matches!(error, RuleCacheError::Invalid(_)), "{error:?}");
        assert!(story(&error).contains("is not a rule id"), "{}", story(&error));
    }
    assert_eq!(read(&rule_cache).await, None);
}
