//! The permissions that a rule cache needs, and errors that omit the password.

use tollgate_store::{
    PublishedRules, RedisRuleCache, RemoteSettings, RuleCacheError, StoreErrorKind,
};
use tollgate_testbed::Redis;

use crate::stand::{
    CHANNEL, RULES_KEY, check_heard, connect, listening, publish, published_rules, read, story,
};

/// All that a rule cache asks of a server, for a user that may do nothing else.
const RIGHTS: &str = "+eval +exists +hdel +hget +hgetall +hkeys +hset +publish +subscribe";

/// A URL that does not work, why, and that the password stays out of it.
async fn check_refused(url: &str, expected: StoreErrorKind, why: &str) {
    let rule_cache = connect(url);
    let publishing = rule_cache.publish(&published_rules(1, 2)).await;
    let error = publishing.expect_err(url);
    let told = format!("{}, {error:?}, {rule_cache:?}", story(&error));
    let RuleCacheError::Redis(cause) = &error else { panic!("{told}") };
    assert_eq!(cause.kind(), expected, "{told}");
    assert!(told.contains(why), "{told}");
    assert!(!told.contains("secret") && !told.contains("guess"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_needs_no_more_rights_than_these() {
    let redis = Redis::builder()
        .user("node", &format!("on >secret ~{RULES_KEY} &{CHANNEL} {RIGHTS}"))
        .user("stranger", &format!("on >secret ~other:* &{CHANNEL} {RIGHTS}"))
        .user("mute", &format!("on >secret ~{RULES_KEY} &other {RIGHTS}"))
        .start();
    let url = |who: &str| format!("redis://{who}@{}", redis.address());
    let (rule_cache, mut changes) = listening(&url("node:secret")).await;
    check_heard(&rule_cache, &rule_cache, &mut changes, &published_rules(1, 1)).await;
    let (refused, away) = (StoreErrorKind::Refused, StoreErrorKind::Unavailable);
    check_refused(&url("stranger:secret"), refused, "NOPERM").await;
    check_refused(&url("mute:secret"), refused, "can't publish").await;
    check_refused(&url("node:guess"), away, "authentication failed").await;
    check_refused(&url(":guess"), away, "authentication failed").await;
    assert_eq!(read(&rule_cache).await, Some(published_rules(1, 1)));
}

/// Without any one of these rights, rules are refused, and those that are there stay whole.
#[tokio::test(flavor = "multi_thread")]
async fn a_missing_permission_changes_nothing() {
    let redis = Redis::start();
    let rule_cache = connect(&redis.url());
    publish(&rule_cache, &published_rules(1, 1)).await;
    for right in ["eval", "hdel", "hget", "hkeys", "hset", "publish"] {
        let grant = format!("~{RULES_KEY} &{CHANNEL} on >secret {RIGHTS} -{right}");
        let words: Vec<&str> =
            ["ACL", "SETUSER", right].into_iter().chain(grant.split(' ')).collect();
        assert_eq!(redis.command(&words).text(), "OK", "{words:?}");
        let other = PublishedRules { rules: Vec::new(), ..published_rules(1, 2) };
        let poor = connect(&format!("redis://{right}:secret@{}", redis.address()));
        let error = poor.publish(&other).await.expect_err(right);
        let RuleCacheError::Redis(cause) = &error else { panic!("without {right}: {error:?}") };
        assert_eq!(cause.kind(), StoreErrorKind::Refused, "without {right}: {}", story(&error));
        assert_eq!(read(&rule_cache).await, Some(published_rules(1, 1)), "without {right}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_about_a_url_omit_its_password() {
    for url in ["http://:secret@host", "redis://:secret@", "redis+sentinel://:secret@host", ""] {
        let problem = RedisRuleCache::connect(url, &RemoteSettings::default()).expect_err(url);
        assert!(!problem.is_empty() && !problem.contains("secret"), "{problem}");
    }
}
