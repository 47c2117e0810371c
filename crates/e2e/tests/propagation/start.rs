//! How nodes start: at once on an empty database, and without one.

use std::thread;

use tollgate_testbed::{Postgres, Redis};

use crate::fleet::{limit_at, node, pair, put};
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
    // It used to be the age of the catalog: this node never heard of it.
    let age = "\ntollgate_catalog_last_sync_age_seconds ";
    assert!(!second.get("/metrics").text().contains(age));
    assert!(ready.json().get("catalog_silence_seconds").is_none(), "{ready:?}");
    let stale = second.get_as_admin("/api/v1/rules");
    assert!(stale.header("x-tollgate-stale-since").is_some_and(|it| it > "2020"), "{stale:?}");
    postgres.restart();
    tollgate_e2e::until("a write", || {
        (put(&second, "/api/v1/policy", &pair(78)).status == 200).then_some(())
    });
    assert_eq!(limit_at(&second), 78);
    assert!(second.figure("tollgate_catalog_last_sync_age_seconds") < 10.0);
}
