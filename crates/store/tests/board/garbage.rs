//! What others wrote where the board should be is told of, and left as it is.

use tollgate_store::BoardError;
use tollgate_testbed::{Redis, Reply};

use crate::stand::{BOARD, announcement, connect, heard, listening, publish, read, story};

/// What others wrote, and why it can neither be read nor replaced.
async fn check(redis: &Redis, commands: &[&[&str]], why: &str) {
    redis.command(&["DEL", BOARD]);
    for command in commands {
        let answer = redis.command(command);
        assert!(!matches!(answer, Reply::Error(_)), "{command:?}: {answer:?}");
    }
    let dump = || redis.command(&["DUMP", BOARD]);
    let before = dump();
    let board = connect(&redis.url());
    let errors = [
        board.read().await.expect_err("garbage that was read"),
        board.publish(&announcement(9, 9)).await.expect_err("garbage that was replaced"),
    ];
    for error in errors {
        assert!(matches!(error, BoardError::Unreadable(_)), "{error:?}");
        let story = story(&error);
        assert!(story.contains(why) && story.contains(BOARD), "{commands:?}: {story}");
    }
    assert_eq!(dump(), before, "{commands:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_ours_is_left_alone() {
    let redis = Redis::start();
    check(&redis, &[&["SET", BOARD, "x"]], "not a hash").await;
    check(&redis, &[&["RPUSH", BOARD, "x"]], "not a hash").await;
    check(&redis, &[&["HSET", BOARD, "login", "{}", "#tiers", "[]"]], "#revision").await;
    for revision in ["", "7", "1-", "x-1", "-1-1", "1-1 ", "1-1-1"] {
        check(&redis, &[&["HSET", BOARD, "#revision", revision, "#tiers", "[]"]], "#revision")
            .await;
    }
    redis.command(&["DEL", BOARD]);
    let board = connect(&redis.url());
    publish(&board, &announcement(1, 1)).await;
    assert_eq!(read(&board).await, Some(announcement(1, 1)));
}

/// What somebody did to rules that were there.
async fn check_mended(redis: &Redis, command: &[&str], why: &str) {
    redis.command(&["DEL", BOARD]);
    let board = connect(&redis.url());
    publish(&board, &announcement(1, 1)).await;
    redis.command(command);
    let error = board.read().await.expect_err("garbage that was read");
    assert!(matches!(error, BoardError::Unreadable(_)), "{error:?}");
    assert!(story(&error).contains(why), "{command:?}: {}", story(&error));
    // The next change mends it.
    publish(&board, &announcement(1, 2)).await;
    assert_eq!(read(&board).await, Some(announcement(1, 2)), "{command:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_ours_is_mended_by_the_next_change() {
    let redis = Redis::start();
    check_mended(&redis, &["HDEL", BOARD, "#tiers"], "#tiers is missing").await;
    check_mended(&redis, &["HSET", BOARD, "Not An Id", "{}"], "is not a rule id").await;
    let longer_than_any = "a".repeat(1 << 20);
    check_mended(&redis, &["HSET", BOARD, &longer_than_any, "{}"], "is not a rule id").await;
    let not_text = r"return redis.call('HSET', KEYS[1], 'login', '\255\254')";
    check_mended(&redis, &["EVAL", not_text, "1", BOARD], "a field or value is not text").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_on_the_channel_is_a_reason_to_look_and_no_more() {
    let redis = Redis::start();
    let (board, mut changes) = listening(&redis.url()).await;
    redis.command(&["SET", BOARD, "x"]);
    for message in ["", "x", "1-1", "\0\u{1}"] {
        redis.command(&["PUBLISH", crate::stand::CHANNEL, message]);
        heard(&mut changes).await;
    }
    assert!(board.read().await.is_err());
    redis.command(&["DEL", BOARD]);
    publish(&board, &announcement(1, 1)).await;
    heard(&mut changes).await;
}
