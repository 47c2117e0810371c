//! One Redis.

use std::process::Command;
use std::thread;

use tollgate_testbed::{Redis, Reply, until};

use crate::{is_gone, is_stopped, text};

#[test]
fn it_answers_is_killed_and_comes_back_empty() {
    let redis = Redis::start();
    assert_eq!(redis.url(), format!("redis://127.0.0.1:{}/", redis.port()));
    assert_eq!(redis.command(&["SET", "name", "two words\r\n"]), text("OK"));
    assert_eq!(redis.command(&["GET", "name"]), text("two words\r\n"));

    let id = redis.process_id().expect("a process");
    redis.kill();
    assert!(is_gone(id));
    assert_eq!(redis.process_id(), None);
    assert!(redis.try_command(&["PING"]).is_err());

    redis.restart();
    assert_eq!(redis.command(&["GET", "name"]), Reply::Nothing);
}

#[test]
fn it_outlives_the_thread_that_started_it() {
    let redis = thread::spawn(Redis::start).join().expect("a Redis");
    assert_eq!(redis.command(&["PING"]), text("PONG"));
}

#[test]
fn it_ends_when_it_is_dropped() {
    let redis = Redis::start();
    let id = redis.process_id().expect("a process");
    redis.pause();
    drop(redis);
    assert!(is_gone(id));
}

#[test]
fn a_paused_server_responds_after_it_is_resumed() {
    let redis = Redis::start();
    redis.pause();
    thread::scope(|scope| {
        let id = redis.process_id().expect("a process");
        until("a stopped process", || is_stopped(id).then_some(()));
        let answer = scope.spawn(|| redis.command(&["PING"]));
        redis.resume();
        assert_eq!(answer.join().expect("an answer"), text("PONG"));
    });
}

#[test]
fn info_reports_its_commands() {
    let redis = Redis::start();
    redis.command(&["CONFIG", "RESETSTAT"]);
    for _ in 0..3 {
        redis.command(&["INCR", "counter"]);
    }
    let done = redis.info("commandstats");
    assert!(done["cmdstat_incr"].starts_with("calls=3,"), "{done:?}");
    assert_eq!(redis.command(&["DEBUG", "SLEEP", "0"]), text("OK"));
    assert_eq!(redis.command(&["INCR", "counter"]).integer(), 4);
    assert!(matches!(redis.command(&["NONSENSE"]), Reply::Error(_)));
}

#[test]
fn settings_are_obeyed() {
    let redis = Redis::builder().setting("maxmemory", "2mb").start();
    let limit = redis.command(&["CONFIG", "GET", "maxmemory"]);
    assert_eq!(limit.list(), [text("maxmemory"), text("2097152")]);
}

#[test]
fn permissions_are_checked() {
    let redis = Redis::builder().password("secret").user("reader", "on >quiet ~* +get").start();
    assert_eq!(redis.url(), format!("redis://:secret@127.0.0.1:{}/", redis.port()));
    assert_eq!(redis.command(&["SET", "name", "value"]), text("OK"));

    let ask = |user: &str, password: &str, command: &[&str]| {
        let port = redis.port().to_string();
        let place = ["-p", &port, "--no-auth-warning", "--user", user, "--pass", password];
        let output = Command::new("redis-cli").args(place).args(command).output();
        String::from_utf8(output.expect("redis-cli").stdout).expect("a text")
    };
    assert_eq!(ask("reader", "quiet", &["GET", "name"]), "value\n");
    assert!(ask("reader", "quiet", &["DEL", "name"]).starts_with("NOPERM"));
    assert!(ask("reader", "loud", &["GET", "name"]).contains("NOAUTH"));
}

#[test]
fn it_speaks_tls() {
    let redis = Redis::builder().tls().start();
    let ask = |trust: &[&str]| {
        let url = redis.tls_url();
        let mut command = Command::new("redis-cli");
        command.arg("--tls").args(trust).args(["-u", &url, "PING"]);
        let output = command.output().expect("redis-cli");
        (output.stdout, String::from_utf8(output.stderr).expect("a text"))
    };
    let authority = redis.authority().to_str().expect("a path");
    assert_eq!(ask(&["--cacert", authority]), (b"PONG\n".to_vec(), String::new()));
    let (answer, error) = ask(&[]);
    assert!(answer.is_empty() && error.contains("certificate verify failed"), "{error}");
}

#[test]
#[should_panic(expected = "Bad directive")]
fn a_server_that_does_not_start_says_why() {
    Redis::builder().setting("nonsense", "1").start();
}
