//! Access to a server: passwords, users, TLS, databases and prefixes.

use tollgate_core::{Algorithm, Limit};
use tollgate_store::redis::RedisStore;
use tollgate_store::{Refund, Store as _, StoreErrorKind};
use tollgate_testbed::{Redis, Reply};

use crate::redis::stand::{LONG, NO_TIME, connect, key, limit, patient, story, take};

/// All that the store asks of a server, for a user that may do nothing else.
const RIGHTS: &str = "+eval +evalsha +time +mget +getrange +set +setrange +unlink +pexpire +lindex +llen \
                      +lpush +lrange +lrem +lset +ltrim +rpush";

fn ten() -> Limit {
    limit(Algorithm::Gcra, 10, LONG)
}

/// A URL that does not work, why, and that the password stays out of it.
async fn check_refused(url: &str, expected: StoreErrorKind, why: &str) {
    let store = connect(url, patient()).await;
    let error = take(&store, key("a", "x"), &ten()).await.expect_err(url);
    let told = format!("{}, {error:?}, {store:?}", story(&error));
    assert_eq!(error.kind(), expected, "{told}");
    assert!(told.contains(why), "{told}");
    assert!(!told.contains("secret") && !told.contains("guess"), "{told}");
}

async fn check_accepted(url: &str) {
    let store = connect(url, patient()).await;
    let settled = take(&store, key("a", "x"), &ten()).await;
    settled.unwrap_or_else(|error| panic!("{url}: {}", story(&error)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_is_needed_where_one_is_asked_for() {
    let redis = Redis::builder().password("secret").start();
    let at = redis.address();
    check_accepted(&redis.url()).await;
    check_accepted(&format!("redis://default:secret@{at}")).await;
    let failed = "authentication failed";
    check_refused(&format!("redis://:guess@{at}"), StoreErrorKind::Unavailable, failed).await;
    check_refused(&format!("redis://me:secret@{at}"), StoreErrorKind::Unavailable, failed).await;
    check_refused(&format!("redis://{at}"), StoreErrorKind::Refused, "NOAUTH").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_needs_no_more_rights_than_are_documented() {
    let redis = Redis::builder()
        .user("counter", &format!("on >secret ~tg:* {RIGHTS}"))
        .user("stranger", &format!("on >secret ~other:* {RIGHTS}"))
        .user("reader", "on >secret ~tg:* +get")
        .start();
    let url = |user: &str| format!("redis://{user}:secret@{}", redis.address());
    let store: RedisStore = connect(&url("counter"), patient()).await;
    for algorithm in Algorithm::ALL {
        let (key, limit) = (key(algorithm.name(), "x"), limit(algorithm, 10, LONG));
        let refund = Refund { key, limit: &limit, units: 1, charged_at: None };
        for _ in 0..3 {
            take(&store, key, &limit).await.unwrap_or_else(|error| panic!("{}", story(&error)));
        }
        store.refund(&[refund], NO_TIME).await.expect("a refund");
        store.reset(&[key]).await.expect("a reset");
    }
    // The calls above were seen by the first.
    store.probe_idle().await;
    store.probe_idle().await;
    assert!(store.status()[0].failure.is_none());
    check_refused(&url("stranger"), StoreErrorKind::Refused, "NOPERM").await;
    check_refused(&url("reader"), StoreErrorKind::Refused, "NOPERM").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_believed_if_a_known_authority_vouches_for_it() {
    let (redis, other) = (Redis::builder().tls().start(), Redis::builder().tls().start());
    let url =
        |authority: &Redis| format!("{}?ca={}", redis.tls_url(), authority.authority().display());
    check_accepted(&url(&redis)).await;
    check_refused(&url(&other), StoreErrorKind::Unavailable, "certificate").await;
    check_refused(&redis.tls_url(), StoreErrorKind::Unavailable, "certificate").await;
    let missing = RedisStore::connect(&format!("{}?ca=/nowhere.pem", redis.tls_url()), patient());
    assert!(missing.is_err_and(|problem| problem.contains("/nowhere.pem")));
}

#[tokio::test(flavor = "multi_thread")]
async fn counters_are_where_the_url_says() {
    let redis = Redis::start();
    check_accepted(&format!("redis://{}/3?prefix=mine:", redis.address())).await;
    check_accepted(&format!("redis://{}?prefix=yours:", redis.address())).await;
    check_accepted(&format!("redis://{}", redis.address())).await;
    let spaces = redis.info("keyspace");
    let sizes = ["db0", "db3"].map(|name| spaces[name].split(',').next().map(str::to_owned));
    assert_eq!(sizes, [Some("keys=2".to_owned()), Some("keys=1".to_owned())]);
    let keys = redis.command(&["KEYS", "*"]);
    let mut keys: Vec<&str> = keys.list().iter().map(Reply::text).collect();
    keys.sort_unstable();
    assert!(keys[0].starts_with("tg:") && keys[1].starts_with("yours:"), "{keys:?}");
    let beyond = format!("redis://{}/99", redis.address());
    check_refused(&beyond, StoreErrorKind::Refused, "out of range").await;
}
