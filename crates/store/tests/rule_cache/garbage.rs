//! A key that another program wrote is reported, and not overwritten.

use tollgate_store::RuleCacheError;
use tollgate_testbed::{Redis, Reply};

use crate::stand::{RULES_KEY, connect, heard, listening, publish, published_rules, read, story};

/// What others wrote, and why it can neither be read nor replaced.
async fn check(redis: &Redis, commands: &[&[&str]], why: &str) {
    redis.command(&["DEL", RULES_KEY]);
    for command in commands {
        let answer = redis.command(command);
        assert!(!matches!(answer, Reply::Error(_)), "{command:?}: {answer:?}");
    }
    let dump = || redis.command(&["DUMP", RULES_KEY]);
    let before = dump();
    let rule_cache = connect(&redis.url());
    let errors = [
        rule_cache.read().await.expect_err("garbage that was read"),
        rule_cache.publish(&published_rules(9, 9)).await.expect_err("garbage that was replaced"),
    ];
    for error in errors {
        assert!(matches!(error, RuleCacheError::Unreadable(_)), "{error:?}");
        let story = story(&error);
        assert!(story.contains(why) && story.contains(RULES_KEY), "{commands:?}: {story}");
    }
    assert_eq!(dump(), before, "{commands:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_another_program_is_not_overwritten() {
    let redis = Redis::start();
    check(&redis, &[&["SET", RULES_KEY, "x"]], "not a hash").await;
    check(&redis, &[&["RPUSH", RULES_KEY, "x"]], "not a hash").await;
    check(&redis, &[&["HSET", RULES_KEY, "login", "{}", "#tiers", "[]"]], "#revision").await;
    for revision in ["", "7", "1-", "x-1", "-1-1", "1-1 ", "1-1-1"] {
        check(&redis, &[&["HSET", RULES_KEY, "#revision", revision, "#tiers", "[]"]], "#revision")
            .await;
    }
    redis.command(&["DEL", RULES_KEY]);
    let rule_cache = connect(&redis.url());
    publish(&rule_cache, &published_rules(1, 1)).await;
    assert_eq!(read(&rule_cache).await, Some(published_rules(1, 1)));
}

/// How published rules were damaged.
async fn check_mended(redis: &Redis, command: &[&str], why: &str) {
    redis.command(&["DEL", RULES_KEY]);
    let rule_cache = connect(&redis.url());
    publish(&rule_cache, &published_rules(1, 1)).await;
    redis.command(command);
    let error = rule_cache.read().await.expect_err("garbage that was read");
    assert!(matches!(error, RuleCacheError::Unreadable(_)), "{error:?}");
    assert!(story(&error).contains(why), "{command:?}: {}", story(&error));
    // The next publish repairs it.
    publish(&rule_cache, &published_rules(1, 2)).await;
    assert_eq!(read(&rule_cache).await, Some(published_rules(1, 2)), "{command:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_rules_of_ours_are_replaced_by_the_next_publish() {
    let redis = Redis::start();
    check_mended(&redis, &["HDEL", RULES_KEY, "#tiers"], "#tiers is missing").await;
    check_mended(&redis, &["HSET", RULES_KEY, "Not An Id", "{}"], "is not a rule id").await;
    let longer_than_any = "a".repeat(1 << 20);
    check_mended(&redis, &["HSET", RULES_KEY, &longer_than_any, "{}"], "is not a rule id").await;
    let not_text = r"return redis.call('HSET', KEYS[1], 'login', '\255\254')";
    check_mended(&redis, &["EVAL", not_text, "1", RULES_KEY], "a field or value is not text").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_on_the_channel_causes_a_read() {
    let redis = Redis::start();
    let (rule_cache, mut changes) = listening(&redis.url()).await;
    redis.command(&["SET", RULES_KEY, "x"]);
    for message in ["", "x", "1-1", "\0\u{1}"] {
        redis.command(&["PUBLISH", crate::stand::CHANNEL, message]);
        heard(&mut changes).await;
    }
    assert!(rule_cache.read().await.is_err());
    redis.command(&["DEL", RULES_KEY]);
    publish(&rule_cache, &published_rules(1, 1)).await;
    heard(&mut changes).await;
}
