//! Copies that reach the server in one call.

use std::sync::Arc;

use tollgate_core::Algorithm;
use tollgate_store::redis::RedisStore;
use tollgate_store::{OpOutcome, Store as _};
use tollgate_testbed::Redis;

use crate::{NO_TIME, call, first, key, left, limit, one, patient, redis, settle};
use tollgate_testbed::eventually;

#[tokio::test(flavor = "multi_thread")]
async fn copies_in_one_call_find_each_other() {
    let server = Redis::start();
    Box::pin(check(&server, Arc::new(redis(&server.url(), patient()).await))).await;
}

/// Keeps the server busy until several copies wait for it.
pub(crate) async fn check(server: &Redis, store: Arc<RedisStore>) {
    let ten = limit(Algorithm::FixedWindow, 10);
    let charges = [one(key("together", "client"), &ten)];
    store.settle(&charges, NO_TIME).await.expect("an answer");
    let calls = || store.status()[0].calls;

    server.pause();
    // As many calls as there may be at a time.
    for number in 0..4 {
        let (before, store) = (calls(), Arc::clone(&store));
        tokio::spawn(async move {
            let client = format!("other {number}");
            store.settle(&[one(key("together", &client), &ten)], NO_TIME).await
        });
        eventually("a call", || async { (calls() > before).then_some(()) }).await;
    }
    let before = calls();
    let ask = async |body, note| settle(&*store, &charges, &call("together", body, note)).await;
    let (a, b, c, d, ()) =
        tokio::join!(ask(1, "a"), ask(1, "b"), ask(2, "c"), ask(1, "d"), async { server.resume() });
    assert_eq!(calls(), before + 1, "they did not go together");
    let settlement = first(a);
    assert!(settlement.passed);
    let again = OpOutcome::Replayed { settlement, note: "a".to_owned() };
    assert_eq!([b, c, d], [again.clone(), OpOutcome::KeyReused, again]);
    assert_eq!(left(&*store, &charges).await, [8]);
}
