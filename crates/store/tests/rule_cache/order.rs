//! Older rules never replace newer ones, whichever node publishes last.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tollgate_store::RuleCacheError;
use tollgate_testbed::Redis;

use crate::stand::{RULES_KEY, connect, heard, listening, publish, published_rules, read, story};

type Revision = (u64, u64);

/// Revisions that are close to each other, or have one digit more, or are as large as can be real.
fn revisions() -> impl Strategy<Value = Revision> {
    let number = prop_oneof![0_u64..4, 8_u64..12, (1_u64 << 40) - 2..=1 << 40, 0..=1_u64 << 40,];
    (number.clone(), number)
}

#[tokio::test(flavor = "multi_thread")]
async fn revisions_have_an_order() {
    let redis = Redis::start();
    let rule_cache = connect(&redis.url());
    let check = async |older: Revision, newer: Revision| {
        for (first, second) in [(older, newer), (newer, older)] {
            redis.command(&["DEL", RULES_KEY]);
            publish(&rule_cache, &published_rules(first.0, first.1)).await;
            publish(&rule_cache, &published_rules(second.0, second.1)).await;
            let expected = published_rules(newer.0, newer.1);
            assert_eq!(read(&rule_cache).await, Some(expected), "{first:?}, {second:?}");
        }
    };
    check((0, 0), (0, 1)).await;
    check((1, 9), (1, 10)).await;
    check((1, 1_000), (2, 1)).await;
    check((9, 0), (10, 0)).await;
    check((1, (1 << 40) - 1), (1, 1 << 40)).await;
    check((1_700_000_000_000_000, 9), (1_700_000_000_000_001, 0)).await;
}

/// An impossible revision is not read, and does not keep real rules out.
#[tokio::test(flavor = "multi_thread")]
async fn a_revision_from_the_future_does_not_keep_real_rules_out() {
    let redis = Redis::start();
    let rule_cache = connect(&redis.url());
    let real = published_rules(1_700_000_000_000_000, 7);
    let max = u64::MAX;
    let forged = [
        format!("{max}-1"),
        // The year 2255, beyond what a double can tell apart.
        format!("{}-1", (1_u64 << 53) + 1),
        format!("1700000000000000-{max}"),
        format!("1700000000000000-{}", (1_u64 << 40) + 1),
        "99999999999999999999999999-1".to_owned(),
    ];
    for revision in forged {
        redis.command(&["DEL", RULES_KEY]);
        redis.command(&["HSET", RULES_KEY, "#revision", &revision, "#tiers", "[]", "login", "{}"]);
        let error = rule_cache.read().await.expect_err("rules from the future");
        let is_reported =
            matches!(error, RuleCacheError::Implausible(_) | RuleCacheError::Unreadable(_));
        assert!(is_reported && story(&error).contains(RULES_KEY), "{revision}: {error:?}");
        publish(&rule_cache, &real).await;
        assert_eq!(read(&rule_cache).await, Some(real.clone()), "{revision}");
    }
}

#[test]
fn the_newest_stays() {
    let (redis, runtime) = (Redis::start(), Runtime::new().expect("a runtime"));
    let rule_cache = runtime.block_on(async { connect(&redis.url()) });
    let traces = prop::collection::vec(revisions(), 1..8);
    let mut runner =
        TestRunner::new(Config { cases: 64, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&traces, |trace| {
        redis.command(&["DEL", RULES_KEY]);
        runtime.block_on(async {
            let mut newest: Option<Revision> = None;
            for (epoch, number) in trace {
                publish(&rule_cache, &published_rules(epoch, number)).await;
                newest = newest.max(Some((epoch, number)));
                let expected = newest.map(|(epoch, number)| published_rules(epoch, number));
                prop_assert_eq!(read(&rule_cache).await, expected);
            }
            Ok(())
        })
    });
    outcome.unwrap_or_else(|problem| panic!("{problem}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_newest_stays_when_all_publish_at_once() {
    let redis = Redis::start();
    let mut crowd = JoinSet::new();
    for node in 0..8 {
        let rule_cache = connect(&redis.url());
        crowd.spawn(async move {
            // Each in another order.
            for step in 0..50 {
                publish(&rule_cache, &published_rules(1, (step * 7 + node * 13) % 50)).await;
            }
        });
    }
    crowd.join_all().await;
    assert_eq!(read(&connect(&redis.url())).await, Some(published_rules(1, 49)));
}

#[tokio::test(flavor = "multi_thread")]
async fn older_rules_are_not_announced() {
    let redis = Redis::start();
    let (rule_cache, mut changes) = listening(&redis.url()).await;
    publish(&rule_cache, &published_rules(2, 5)).await;
    heard(&mut changes).await;
    for (epoch, number) in [(2, 5), (2, 4), (1, 9), (0, 0)] {
        publish(&rule_cache, &published_rules(epoch, number)).await;
    }
    // Messages keep their order: had one been sent, it would have been heard before this.
    publish(&rule_cache, &published_rules(3, 1)).await;
    heard(&mut changes).await;
    publish(&rule_cache, &published_rules(3, 2)).await;
    heard(&mut changes).await;
    assert_eq!(*changes.borrow(), 4);
}
