//! Requests that are charged once, in the oldest Redis: its Lua and its commands are not those of the newest.

use tollgate_testbed::Redis;

use crate::{hostile, patient, promises, redis, refunds};

fn oldest() -> Redis {
    let server = Redis::builder().oldest().start();
    assert!(server.info("server")["redis_version"].starts_with("6.2."));
    server
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_are_charged_once_in_the_oldest_redis() {
    let server = oldest();
    let node = async || redis(&server.url(), patient()).await;
    promises::all([node().await, node().await], true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refund_is_made_once_in_the_oldest_redis() {
    let server = oldest();
    let node = async || redis(&server.url(), patient()).await;
    refunds::all([node().await, node().await]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_record_in_the_oldest_redis_is_no_failure() {
    let server = oldest();
    hostile::check_unreadable(&server).await;
    hostile::check_invalid_results(&server).await;
}
