//! Clients that disconnect while the store is called.

use std::convert::Infallible;
use std::future::Future;
use std::net::Ipv4Addr;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use http::{Request, Response};
use tollgate::store::RemoteSettings;
use tollgate::store::redis::RedisStore;
use tollgate::tower::RateLimitLayer;
use tollgate::{DecisionReason, IdempotencyKey, Limiter, Micros, Peek, Request as Subject};
use tollgate_testbed::{Redis, WAIT_TIMEOUT, eventually};
use tower::{Layer as _, Service as _, service_fn};

use crate::tower::scene::parse;

/// A store that waits for Redis for as long as a test stops it.
fn store(redis: &Redis) -> RedisStore {
    let settings = RemoteSettings { deadline: WAIT_TIMEOUT, ..RemoteSettings::default() };
    RedisStore::connect(&redis.url(), settings).expect("a URL")
}

async fn hello(_: Request<String>) -> Result<Response<&'static str>, Infallible> {
    Ok(Response::new("hello"))
}

/// Polls a future once, and drops it: its caller has left.
fn leave(future: impl Future) {
    let mut context = Context::from_waker(Waker::noop());
    assert!(pin!(future).poll(&mut context).is_pending(), "the store does not respond yet");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_leaves_early_is_refused_all_the_same() {
    const LEFT: u64 = 5;
    let redis = Redis::start();
    let policy = "rules: [{rule_id: all, limit: 1, window: 1h, identifier_type: ip}]";
    let limiter = Limiter::builder().policy(parse(policy)).store(store(&redis)).build();
    let limiter = Arc::new(limiter);
    let service = RateLimitLayer::new(Arc::clone(&limiter))
        .client_address(|_| Some(Ipv4Addr::LOCALHOST.into()))
        .layer(service_fn(hello));
    let call = || service.clone().call(Request::new(String::new()));
    assert_eq!(call().await.expect("a response").status(), 200);
    redis.pause();
    for _ in 0..LEFT {
        leave(call());
    }
    redis.resume();
    eventually("all refusals to be counted", async || {
        (limiter.stats().first()?.1.refused == LEFT).then_some(())
    })
    .await;
}

/// Once only the layer finished such checks, not a server whose callers check for others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_whose_caller_leaves_bans_all_the_same() {
    let policy = "
rules:
  - rule_id: all
    limit: 1
    window: 1h
    identifier_type: ip
    penalty: {after: 3, within_seconds: 3600, ban_seconds: 3600}
";
    let client = Subject::new().ip("192.0.2.1");
    let key =
        IdempotencyKey { call: [1; 16], body: [1; 16], note: "n", lifetime: Micros::from_secs(60) };
    for how in ["one by one", "in a batch", "with a key"] {
        let redis = Redis::start();
        let limiter = Limiter::builder().policy(parse(policy)).store(store(&redis)).build_shared();
        assert!(limiter.check(&client).await.is_allowed(), "{how}");
        redis.pause();
        for _ in 0..3 {
            match how {
                "one by one" => leave(limiter.check(&client).into_future()),
                "in a batch" => leave(limiter.check_batch(&[&client]).into_future()),
                _ => leave(limiter.check_idempotent((&client).into(), &key).into_future()),
            }
        }
        redis.resume();
        eventually("a ban", async || {
            let decision = limiter.check(&Peek(&client)).await;
            matches!(decision.reason(), DecisionReason::Banned { .. }).then_some(())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_leaves_early_does_not_use_up_what_others_share() {
    let redis = Redis::start();
    let policy = "
rules:
  - {rule_id: per_address, limit: 1, window: 1h, identifier_type: ip}
  - {rule_id: all, limit: 100, window: 1h, identifier_type: global, consistency: local}
";
    let limiter = Limiter::builder().policy(parse(policy)).store(store(&redis)).build();
    let client = Subject::new().ip("192.0.2.1");
    assert!(limiter.check(&client).await.is_allowed());
    redis.pause();
    for _ in 0..10 {
        leave(limiter.check(&client).into_future());
    }
    redis.resume();
    let other = Subject::new().ip("192.0.2.2");
    let left = limiter.check(&Peek(&other)).await;
    let all = left.outcomes().find(|outcome| &*outcome.rule.id == "all").expect("an outcome");
    assert_eq!(all.outcome.report.remaining, 99);
}
