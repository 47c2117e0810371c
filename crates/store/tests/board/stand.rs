//! What the tests here start from: boards, announcements, and waiting to hear of one.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;
use tollgate_store::{Announcement, BoardError, RedisBoard, RemoteSettings};
use tollgate_testbed::{PATIENCE, RedisCluster, Stopwatch};

pub(crate) use tollgate_testbed::eventually;

pub(crate) const BOARD: &str = "ratelimit:rules:active";
pub(crate) const CHANNEL: &str = "ratelimit:rules:changed";
/// How long any call may take, and what a busy machine may add to that.
pub(crate) const CALL_WITHIN: Duration = Duration::from_millis(2_000 + 3_000);

pub(crate) fn connect(url: &str) -> RedisBoard {
    RedisBoard::connect(url, &RemoteSettings::default()).expect("a sound URL")
}

/// A board that listens, and whatever it hears from now on.
pub(crate) async fn listening(url: &str) -> (RedisBoard, watch::Receiver<u64>) {
    let board = connect(url);
    let mut changes = board.changes();
    heard(&mut changes).await;
    (board, changes)
}

/// Waits until there may be something new. Says how long that took.
pub(crate) async fn heard(changes: &mut watch::Receiver<u64>) -> Duration {
    let began = Stopwatch::start();
    let change = timeout(PATIENCE, changes.changed()).await.expect("waited in vain for a change");
    change.expect("a board that listens");
    began.elapsed()
}

/// Rules of a revision, which tell by themselves which it is.
pub(crate) fn announcement(epoch: u64, number: u64) -> Announcement {
    let rule =
        |id: &str| (id.to_owned(), format!(r#"{{"id":"{id}","epoch":{epoch},"n":{number}}}"#));
    let rules = ["api.reads", "api.writes", "login"].map(rule).to_vec();
    Announcement { epoch, number, rules, tiers: format!(r#"["tier of {epoch}-{number}"]"#) }
}

pub(crate) async fn publish(board: &RedisBoard, announcement: &Announcement) {
    board.publish(announcement).await.unwrap_or_else(|error| panic!("{}", story(&error)));
}

pub(crate) async fn read(board: &RedisBoard) -> Option<Announcement> {
    board.read().await.unwrap_or_else(|error| panic!("{}", story(&error)))
}

/// Waits until a publication succeeds.
pub(crate) async fn publish_eventually(board: &RedisBoard, announcement: &Announcement) {
    eventually("a publication", || async { board.publish(announcement).await.ok() }).await;
}

/// Everybody hears of a change that somebody publishes, and finds it.
pub(crate) async fn check_heard(
    speaker: &RedisBoard,
    listener: &RedisBoard,
    changes: &mut watch::Receiver<u64>,
    news: &Announcement,
) {
    changes.mark_unchanged();
    publish_eventually(speaker, news).await;
    heard(changes).await;
    // It may have been something else that was heard.
    while listener.read().await.ok().flatten().as_ref() != Some(news) {
        heard(changes).await;
    }
}

pub(crate) fn cluster_url(cluster: &RedisCluster) -> String {
    let nodes = cluster.nodes().iter().map(|node| node.address().to_string());
    format!("redis+cluster://{}", nodes.collect::<Vec<_>>().join(","))
}

/// An error and what caused it, as people read it.
pub(crate) fn story(error: &BoardError) -> String {
    let source = std::error::Error::source(error).map(ToString::to_string);
    format!("{error}: {}", source.unwrap_or_default())
}
