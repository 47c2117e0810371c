//! Who may use a board, and that nobody learns a password from it.

use tollgate_store::{Announcement, BoardError, RedisBoard, RemoteSettings, StoreErrorKind};
use tollgate_testbed::Redis;

use crate::stand::{
    BOARD, CHANNEL, announcement, check_heard, connect, listening, publish, read, story,
};

/// All that a board asks of a server, for a user that may do nothing else.
const RIGHTS: &str = "+eval +exists +hdel +hget +hgetall +hkeys +hset +publish +subscribe";

/// A URL that does not work, why, and that the password stays out of it.
async fn check_refused(url: &str, expected: StoreErrorKind, why: &str) {
    let board = connect(url);
    let publishing = board.publish(&announcement(1, 2)).await;
    let error = publishing.expect_err(url);
    let told = format!("{}, {error:?}, {board:?}", story(&error));
    let BoardError::Redis(cause) = &error else { panic!("{told}") };
    assert_eq!(cause.kind(), expected, "{told}");
    assert!(told.contains(why), "{told}");
    assert!(!told.contains("secret") && !told.contains("guess"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_needs_no_more_rights_than_these() {
    let redis = Redis::builder()
        .user("node", &format!("on >secret ~{BOARD} &{CHANNEL} {RIGHTS}"))
        .user("stranger", &format!("on >secret ~other:* &{CHANNEL} {RIGHTS}"))
        .user("mute", &format!("on >secret ~{BOARD} &other {RIGHTS}"))
        .start();
    let url = |who: &str| format!("redis://{who}@{}", redis.address());
    let (board, mut changes) = listening(&url("node:secret")).await;
    check_heard(&board, &board, &mut changes, &announcement(1, 1)).await;
    let (refused, away) = (StoreErrorKind::Refused, StoreErrorKind::Unavailable);
    check_refused(&url("stranger:secret"), refused, "NOPERM").await;
    check_refused(&url("mute:secret"), refused, "can't publish").await;
    check_refused(&url("node:guess"), away, "authentication failed").await;
    check_refused(&url(":guess"), away, "authentication failed").await;
    assert_eq!(read(&board).await, Some(announcement(1, 1)));
}

/// Without any one of these rights, rules are refused, and those that are there stay whole.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_lacks_a_right_changes_nothing() {
    let redis = Redis::start();
    let board = connect(&redis.url());
    publish(&board, &announcement(1, 1)).await;
    for right in ["eval", "hdel", "hget", "hkeys", "hset", "publish"] {
        let grant = format!("~{BOARD} &{CHANNEL} on >secret {RIGHTS} -{right}");
        let words: Vec<&str> =
            ["ACL", "SETUSER", right].into_iter().chain(grant.split(' ')).collect();
        assert_eq!(redis.command(&words).text(), "OK", "{words:?}");
        let other = Announcement { rules: Vec::new(), ..announcement(1, 2) };
        let poor = connect(&format!("redis://{right}:secret@{}", redis.address()));
        let error = poor.publish(&other).await.expect_err(right);
        let BoardError::Redis(cause) = &error else { panic!("without {right}: {error:?}") };
        assert_eq!(cause.kind(), StoreErrorKind::Refused, "without {right}: {}", story(&error));
        assert_eq!(read(&board).await, Some(announcement(1, 1)), "without {right}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_url_that_is_wrong_is_told_without_its_password() {
    for url in ["http://:secret@host", "redis://:secret@", "redis+sentinel://:secret@host", ""] {
        let problem = RedisBoard::connect(url, &RemoteSettings::default()).expect_err(url);
        assert!(!problem.is_empty() && !problem.contains("secret"), "{problem}");
    }
}
