//! PostgreSQL.

use std::thread;

use tollgate_testbed::{Postgres, until};

use crate::{is_gone, is_stopped};

#[test]
fn it_answers_is_killed_and_comes_back_with_what_it_had() {
    let postgres = Postgres::start();
    assert_eq!(
        postgres.url(),
        format!("postgres://postgres@127.0.0.1:{}/postgres", postgres.port())
    );
    postgres.query("CREATE TABLE words (id int, word text)");
    postgres.query("INSERT INTO words VALUES (1, 'one'), (2, 'two')");

    let ids = postgres.process_ids();
    assert!(ids.len() > 1, "{ids:?}");
    postgres.kill();
    assert!(ids.into_iter().all(is_gone));
    assert!(postgres.process_ids().is_empty());

    postgres.restart();
    assert_eq!(postgres.query("SELECT * FROM words ORDER BY id"), "1|one\n2|two");

    postgres.restart();
    assert_eq!(postgres.query("SELECT count(*) FROM words"), "2");

    let ids = postgres.process_ids();
    drop(postgres);
    assert!(ids.into_iter().all(is_gone));
}

#[test]
fn a_paused_server_responds_after_it_is_resumed() {
    let postgres = Postgres::start();
    postgres.pause();
    postgres.pause();
    thread::scope(|scope| {
        let ids = postgres.process_ids();
        until("stopped processes", || ids.iter().all(|id| is_stopped(*id)).then_some(()));
        let answer = scope.spawn(|| postgres.query("SELECT 1"));
        postgres.resume();
        assert_eq!(answer.join().expect("an answer"), "1");
    });
}

#[test]
fn a_paused_server_can_be_killed_and_dropped() {
    let postgres = Postgres::start();
    postgres.pause();
    let ids = postgres.process_ids();
    postgres.kill();
    assert!(ids.into_iter().all(is_gone));
    postgres.restart();
    postgres.pause();
    let ids = postgres.process_ids();
    drop(postgres);
    assert!(ids.into_iter().all(is_gone));
}

#[test]
#[should_panic(expected = "syntax error")]
fn an_invalid_query_is_reported() {
    Postgres::start().query("SELEC");
}
