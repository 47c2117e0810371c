//! How nodes start: at once on an empty database, and without one.

use std::thread;

use tollgate_testbed::{Postgres, Redis};

use crate::fleet::{Fleet, limit_at, node, pair, put};
use tollgate_e2e::process::Process;
use tollgate_e2e::server::{Setup, command};

#[test]
fn four_nodes_start_at_once_on_an_empty_database() {
    let postgres = Postgres::start();
    let catalog = postgres.url();
    let said: Vec<String> = thread::scope(|scope| {
        let starting: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let folder = tempfile::tempdir().expect("a folder");
                    let arguments = ["--catalog", &catalog];
                    let setup = Setup { arguments: &arguments, ..Setup::default() };
                    let mut command = command(&setup, folder.path());
                    let mut process = Process::start(command.env_remove("TOLLGATE_ADMIN_TOKEN"));
                    process.until("word that it serves", |process| {
                        Some(process.output()).filter(|said| said.contains("-d '"))
                    })
                })
            })
            .collect();
        starting.into_iter().map(|node| node.join().expect("it starts")).collect()
    });
    let tokens = said.iter().filter(|said| said.contains("\ntoken     tg_")).count();
    assert_eq!(tokens, 1, "{said:#?}");
    assert!(said.iter().all(|said| said.contains("4 rules in postgres://")), "{said:#?}");
    assert_eq!(
        postgres.query("SELECT count(*) FROM tollgate_revisions"),
        "2",
        "the rules, and the token"
    );
}

#[test]
fn a_node_starts_from_its_copy_when_the_database_is_away() {
    let (postgres, redis) = (Postgres::start(), Redis::start());
    let folder = tempfile::tempdir().expect("a folder");
    let first = node(&postgres.url(), &redis.url(), &folder);
    assert_eq!(put(&first, "/api/v1/policy", &pair(77)).status, 200);
    assert_eq!(limit_at(&first), 77);
    drop(first);
    postgres.kill();
    let second = node(&postgres.url(), &redis.url(), &folder);
    assert_eq!(limit_at(&second), 77);
    assert_eq!(put(&second, "/api/v1/policy", &pair(78)).status, 503);
    let ready = second.get("/health/ready");
    assert_eq!(ready.status, 200);
    assert!(second.figure("tollgate_catalog_last_sync_age_seconds") > 0.0);
    postgres.restart();
    tollgate_e2e::until("a write", || {
        (put(&second, "/api/v1/policy", &pair(78)).status == 200).then_some(())
    });
    assert_eq!(limit_at(&second), 78);
}

#[test]
fn a_node_without_a_copy_starts_from_what_others_announced() {
    let (postgres, redis) = (Postgres::start(), Redis::start());
    let fleet = Fleet::start(1, &postgres.url(), &redis.url());
    fleet.write(0, 88).expect_ok();
    tollgate_e2e::until("the announcement", || {
        let rule = redis.command(&["HGET", "ratelimit:rules:active", "pair_one"]);
        format!("{rule:?}").contains("88").then_some(())
    });
    postgres.kill();
    let folder = tempfile::tempdir().expect("a folder");
    let late = node(&postgres.url(), &redis.url(), &folder);
    assert_eq!(limit_at(&late), 88);
    assert!(late.process.errors().contains("announced in Redis"), "{}", late.process.errors());
    // Without either, the built-in rules apply.
    redis.command(&["DEL", "ratelimit:rules:active"]);
    let folder = tempfile::tempdir().expect("a folder");
    let last = node(&postgres.url(), &redis.url(), &folder);
    assert_eq!(last.check(r#"{"identifiers":{"user_id":"x"}}"#)["rule_id"], "default_per_user");
    postgres.restart();
    tollgate_e2e::until("the catalog", || (limit_at(&last) == 88).then_some(()));
}
