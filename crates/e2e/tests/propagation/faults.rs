//! Requests and writes while the catalog fails.

use std::time::Duration;

use tollgate::Stopwatch;
use tollgate_testbed::{Fault, FaultProxy, Postgres, Redis};

use crate::fleet::{Fleet, SLACK, SOON, limit_at, pair, put};
use tollgate_e2e::server::{Server, tollgate};
use tollgate_e2e::until;

/// The longest that a write may take to fail.
const WRITE_TIMEOUT: Duration = Duration::from_secs(25);

#[test]
fn a_database_that_is_killed_fails_writes_and_nothing_else() {
    let (postgres, redis) = (Postgres::start(), Redis::start());
    let fleet = Fleet::start(2, &postgres.url(), &redis.url());
    fleet.under_load(|| {
        postgres.kill();
        for node in 0..2 {
            let stopwatch = Stopwatch::start();
            let answer = fleet.write(node, 5).0;
            assert_eq!((answer.status, answer.code().as_str()), (503, "catalog_unavailable"));
            assert!(!answer.text().contains("postgres@"), "{}", answer.text());
            assert!(stopwatch.elapsed() < WRITE_TIMEOUT);
            assert_eq!(limit_at(&fleet.nodes[node]), 1_000_000);
        }
        until("the age of the last sync", || {
            let ready = fleet.nodes[1].get("/health/ready");
            assert_eq!(ready.status, 200, "{ready:?}");
            ready.json()["catalog_silence_seconds"].as_f64().filter(|silence| *silence > 0.5)
        });
        postgres.restart();
        until("a write", || (fleet.write(1, 1_000_007).0.status == 200).then_some(()));
        fleet.until_all_have(1_000_007);
    });
    for node in &fleet.nodes {
        until("word that it is back", || {
            node.process.errors().contains("the catalog is available again").then_some(())
        });
        let errors = node.process.errors();
        let told = errors.matches("the last good rules stay in force").count();
        assert_eq!(told, 1, "once for each outage: {errors}");
    }
}

#[test]
fn a_database_that_hangs_fails_writes_in_time() {
    let (postgres, redis) = (Postgres::start(), Redis::start());
    let fleet = Fleet::start(1, &postgres.url(), &redis.url());
    fleet.under_load(|| {
        postgres.pause();
        let stopwatch = Stopwatch::start();
        let answer = fleet.write(0, 5).0;
        assert!([503, 504].contains(&answer.status), "{answer:?}");
        assert!(stopwatch.elapsed() < WRITE_TIMEOUT, "{:?}", stopwatch.elapsed());
        postgres.resume();
        until("a write", || (fleet.write(0, 1_000_008).0.status == 200).then_some(()));
        fleet.until_all_have(1_000_008);
    });
}

#[test]
fn a_slow_link_slows_writes_and_nothing_else() {
    let (postgres, redis) = (Postgres::start(), Redis::start());
    let proxy = FaultProxy::start(([127, 0, 0, 1], postgres.port()).into());
    let catalog =
        postgres.url().replace(&postgres.port().to_string(), &proxy.address().port().to_string());
    let fleet = Fleet::start(2, &catalog, &redis.url());
    let slow = Duration::from_millis(25);
    proxy.set(Fault::Latency { to_server: slow, to_client: slow });
    fleet.under_load(|| {
        for limit in 1_000_010..1_000_013 {
            fleet.write(0, limit).expect_ok();
            fleet.until_all_have(limit);
        }
    });
}

/// The database is restored to a state some changes ago: the same revisions are used again, for other
/// changes.
#[test]
fn a_database_restored_from_a_backup_is_noticed() {
    let (postgres, redis) = (Postgres::start(), Redis::start());
    postgres.query("CREATE DATABASE rules");
    let catalog = format!("{}rules", postgres.url().trim_end_matches("postgres"));
    let fleet = Fleet::start(2, &catalog, &redis.url());
    fleet.write(0, 1_000_020).expect_ok();
    fleet.until_all_have(1_000_020);
    alone(&postgres, "CREATE DATABASE saved TEMPLATE rules");
    for limit in [1_000_021, 1_000_022] {
        until("a write", || (fleet.write(0, limit).0.status == 200).then_some(()));
        fleet.until_all_have(limit);
    }
    fleet.under_load(|| {
        alone(&postgres, "DROP DATABASE rules WITH (FORCE)");
        postgres.query("ALTER DATABASE saved RENAME TO rules");
        fleet.until_all_have(1_000_020);
        for (round, limit) in (1_000_030..1_000_036).enumerate() {
            until("a write", || (fleet.write(round % 2, limit).0.status == 200).then_some(()));
            let took = fleet.until_all_have(limit);
            assert!(took < SOON + SLACK, "{took:?}");
        }
    });
    let has_noticed = |node: &Server| node.process.errors().contains("another history");
    assert!(fleet.nodes.iter().any(has_noticed));
}

/// A command of docs/backup.md, for this database and file.
fn documented(command: &str, catalog: &str, file: &str) -> String {
    let text = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/backup.md");
    let text = std::fs::read_to_string(text).expect("the document");
    let (_, rest) = text.split_once(&format!("\n{command} ")).expect(command);
    let rest = rest.split("```").next().unwrap_or_default();
    let line = format!("{command} {rest}");
    assert!(line.contains("postgres://tollgate@db.example/rules"), "{line}");
    line.replace("postgres://tollgate@db.example/rules", catalog).replace("tollgate.dump", file)
}

/// The tables could not be dropped, since the views need them, and had every row twice then.
#[test]
fn a_dump_is_restored_as_documented() {
    let (postgres, redis) = (Postgres::start(), Redis::start());
    postgres.query("CREATE DATABASE rules");
    let catalog = format!("{}rules", postgres.url().trim_end_matches("postgres"));
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).display().to_string();
    let run = |line: &str| {
        let output = postgres.shell(line);
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let fleet = Fleet::start(2, &catalog, &redis.url());
    fleet.write(0, 1_000_020).expect_ok();
    fleet.until_all_have(1_000_020);
    let dump = documented("pg_dump", &catalog, &file("all.dump"));
    let restore = documented("pg_restore", &catalog, &file("all.dump"));
    assert_eq!(run(&dump), (true, String::new()));
    fleet.write(0, 1_000_021).expect_ok();
    fleet.until_all_have(1_000_021);
    assert_eq!(run(&restore), (true, String::new()));
    fleet.until_all_have(1_000_020);
    until("a write", || (fleet.write(1, 1_000_022).0.status == 200).then_some(()));
    fleet.until_all_have(1_000_022);

    // A dump of the tables alone, as it was documented before: it changes nothing until the views are dropped.
    let tables = "pg_dump --format=custom --table='tollgate_*'";
    assert!(run(&format!("{tables} --file={} {catalog}", file("tables.dump"))).0);
    let restore = documented("pg_restore", &catalog, &file("tables.dump"));
    assert!(!run(&restore).0);
    fleet.write(0, 1_000_023).expect_ok();
    let sql = |sql: &str| {
        let output = postgres.shell(&format!("psql --no-psqlrc -qAtc '{sql}' {catalog}"));
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    };
    let views = "rate_limit_rules, user_tiers, client_tiers, rate_limit_whitelist, rate_limit_blacklist, \
                 rate_limit_audit_log";
    sql(&format!("DROP VIEW {views}"));
    assert_eq!(run(&restore), (true, String::new()));
    fleet.until_all_have(1_000_022);
    assert_eq!(sql("SELECT count(*) FROM rate_limit_rules"), "", "there is no such view");
    let migrated = tollgate().args(["migrate", "--catalog", &catalog]).output().expect("it runs");
    assert!(migrated.status.success(), "{migrated:?}");
    assert_ne!(sql("SELECT count(*) FROM rate_limit_rules"), "0");
}

/// Runs SQL while there is no connection to the database of the rules.
fn alone(postgres: &Postgres, sql: &str) {
    postgres.query("ALTER DATABASE rules WITH ALLOW_CONNECTIONS false");
    postgres.query(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = 'rules'",
    );
    until("no connections", || {
        let others = "SELECT count(*) FROM pg_stat_activity WHERE datname = 'rules'";
        (postgres.query(others) == "0").then_some(())
    });
    postgres.query(sql);
    if !sql.starts_with("DROP") {
        postgres.query("ALTER DATABASE rules WITH ALLOW_CONNECTIONS true");
        postgres.query("ALTER DATABASE saved WITH ALLOW_CONNECTIONS true");
    }
}

/// Files of the database cannot grow: a write is refused as a whole.
#[test]
fn a_full_database_refuses_writes_whole() {
    const MAX_FILE_BYTES: u64 = 18 << 20;
    let (postgres, redis) = (Postgres::start(), Redis::start());
    let fleet = Fleet::start(1, &postgres.url(), &redis.url());
    postgres.limit_files(Some(MAX_FILE_BYTES));
    fleet.under_load(|| {
        let refused = (0..64).find_map(|round| {
            let answer = put(&fleet.nodes[0], "/api/v1/policy?prune=rules", &bulky(round));
            (answer.status != 200).then_some((round, answer))
        });
        let (round, answer) = refused.expect("the files are full at some time");
        assert_eq!((answer.status, answer.code().as_str()), (503, "catalog_unavailable"));
        let missing = fleet.nodes[0].get_as_admin(&format!("/api/v1/rules/bulky_{round}_0"));
        assert_eq!(missing.status, 404, "nothing of it is there");
        assert_eq!(limit_at(&fleet.nodes[0]), 1_000_000);
        postgres.limit_files(None);
        let small = r#"{"limit":7,"window":"1h","identifier_type":"tenant"}"#;
        until("a write", || {
            (put(&fleet.nodes[0], "/api/v1/rules/small", small).status < 300).then_some(())
        });
    });
    put(&fleet.nodes[0], "/api/v1/policy", &pair(1_000_040));
    fleet.until_all_have(1_000_040);
}

/// A document of about half a megabyte that does not compress.
fn bulky(round: u64) -> String {
    let mut state = round + 1;
    let mut noise = || {
        let letter = |state: &mut u64| {
            *state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            char::from(b'a' + (*state >> 33) as u8 % 26)
        };
        (0..60_000).map(|_| letter(&mut state)).collect::<String>()
    };
    let rule = |number: u64, text: String| {
        serde_json::json!({
            "rule_id": format!("bulky_{round}_{number}"), "description": text, "limit": 1_000_000,
            "window": "1h", "identifier_type": "tenant",
        })
    };
    let mut document: serde_json::Value = serde_json::from_str(&pair(1_000_000)).expect("JSON");
    let rules = document["rules"].as_array_mut().expect("rules");
    // Each below `limits.rule_bytes`.
    rules.extend((0..8).map(|number| rule(number, noise())));
    document.to_string()
}
