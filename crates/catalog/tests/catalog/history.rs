//! What nodes read about changes of a catalog: all changes since their version, that there are too many,
//! or that the history is another one.

use serde_json::json;
use tollgate_catalog::{AuditFilter, Catalog, ChangesSince, Edit, Kind, Version, View};
use tollgate_core::Micros;
use tollgate_testbed::Postgres;

use crate::desk::{NOW, TestCatalog, contents, later, patch, put, remove, rule};
use crate::place::{Place, everywhere};

fn limit(limit: u64) -> Vec<Edit> {
    vec![put(Kind::Rule, &rule("api", &json!({"limit": limit})))]
}

async fn since(catalog: &Catalog, known: Version) -> String {
    match catalog.since(known).await.expect("an answer") {
        ChangesSince::Nothing => "nothing".to_owned(),
        ChangesSince::Changes(update) => {
            format!("{} changes, to {}", update.changes.len(), update.version.revision.number)
        }
        ChangesSince::TooLong => "too long".to_owned(),
        ChangesSince::Restored => "restored".to_owned(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_found_since_any_version() {
    everywhere(async |place| {
        let desk = TestCatalog::open(place).await;
        let mut heads = vec![desk.version().await];
        for number in 1..=5 {
            heads.push(desk.write(limit(number)).await.version);
        }
        let node = place.catalog();
        for (at, head) in heads.iter().enumerate() {
            let expected = match 5 - at {
                0 => "nothing".to_owned(),
                missed => format!("{missed} changes, to 5"),
            };
            assert_eq!(since(&node, *head).await, expected);
        }
        // A node that has never read the catalog, or knows another one.
        assert_eq!(since(&node, Version::default()).await, "too long");
        desk.catalog.forget_audit(later(9), Micros::from_secs(0)).await.expect("done");
        for head in &heads[..5] {
            assert_eq!(since(&node, *head).await, "too long", "{head:?}");
        }
        assert_eq!(since(&node, heads[5]).await, "nothing");
    })
    .await;
}

/// Between two reads, entries are created, changed and removed that do not fit the final state.
#[tokio::test(flavor = "multi_thread")]
async fn entries_that_came_and_went_between_two_reads_are_followed() {
    everywhere(async |place| {
        let desk = TestCatalog::open(place).await;
        let bucket = json!({"algorithm": "token_bucket"});
        desk.write(vec![put(Kind::Rule, &rule("stays", &bucket))]).await;
        let node = place.catalog();
        let before = node.view().await.expect("a view");
        let exception = |rule_id: &str, more: &str| {
            let mut body =
                json!({"rule_id": rule_id, "identifier_type": "user_id", "identifier": "u1"});
            body[more] = json!(5);
            put(Kind::Override, &body)
        };
        let client = json!({"identifier_type": "user_id", "identifier": "u1", "tier": "short"});
        desk.write(vec![put(Kind::Rule, &rule("goes", &json!({})))]).await;
        desk.write(vec![put(Kind::Tier, &json!({"tier": "short"})), put(Kind::Client, &client)])
            .await;
        desk.write(vec![exception("goes", "limit"), exception("stays", "burst")]).await;
        desk.write(vec![
            remove(Kind::Override, r#"["goes","user_id","u1"]"#),
            remove(Kind::Rule, "goes"),
        ])
        .await;
        desk.write(vec![
            exception("stays", "limit"),
            patch(Kind::Rule, "stays", json!({"algorithm": "fixed_window"})),
        ])
        .await;
        let gone = r#"["user_id","u1"]"#;
        desk.write(vec![remove(Kind::Client, gone), remove(Kind::Tier, "short")]).await;
        let answer = node.since(before.version()).await.expect("an answer");
        let ChangesSince::Changes(update) = answer else { panic!("{answer:?}") };
        let after = before.apply(&update).expect("a view");
        let fresh = node.view().await.expect("a view");
        assert_eq!(shape(&after), shape(&fresh));

        // A copy that hears of it all at once is the same too.
        let copy = Place::file();
        let copy = TestCatalog::open(&copy).await.catalog;
        copy.copy_from(&node).await.expect("a copy");
        desk.write(vec![put(Kind::Tier, &json!({"tier": "short"}))]).await;
        desk.write(vec![remove(Kind::Tier, "short")]).await;
        let answer = node.since(fresh.version()).await.expect("an answer");
        let ChangesSince::Changes(update) = answer else { panic!("{answer:?}") };
        copy.follow(&update).await.expect("a copy");
        assert_eq!(bodies(&copy).await, bodies(&node).await);
    })
    .await;
}

fn shape(view: &View) -> String {
    let rules: Vec<_> = view.rules().keys().collect();
    let tiers: Vec<_> = view.tiers().keys().collect();
    format!("{:?} {rules:?} {tiers:?} {:?}", view.version(), view.policy().directory())
}

async fn bodies(catalog: &Catalog) -> Vec<(Kind, String, String)> {
    let contents = contents(catalog).await;
    contents.into_iter().map(|((kind, name), kept)| (kind, name, kept.body)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn after_too_many_changes_everything_is_read() {
    everywhere(async |place| {
        let desk = TestCatalog::open(place).await;
        let known = desk.write(limit(1)).await.version;
        let head = desk.write(limit(2)).await.version;
        // As after very many changes.
        let more = "INSERT INTO tollgate_changes (revision, place, kind, entry, becomes) \
                    WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < COUNT) \
                    SELECT 2, n, 'ban', 'b' || n, 'BAN' FROM n";
        let ban = r#"{"rule_id":"r","identifier":["u"],"expires_at":"2030-01-01T00:00:00Z"}"#;
        let (mut raw, node) = (place.raw().await, place.catalog());
        raw.run(&more.replace("COUNT", "19999").replace("BAN", ban)).await;
        assert_eq!(since(&node, known).await, "20000 changes, to 2");
        let one_more = "INSERT INTO tollgate_changes (revision, place, kind, entry, becomes) \
                        VALUES (2, 20000, 'ban', 'b', 'BAN')";
        raw.run(&one_more.replace("BAN", ban)).await;
        assert_eq!(since(&node, known).await, "too long");
        assert_eq!(since(&node, head).await, "nothing");
    })
    .await;
}

/// After a change of an unknown kind, by a newer version, everything is read and nothing fails.
#[tokio::test(flavor = "multi_thread")]
async fn unknown_kinds_of_a_newer_version_do_no_harm() {
    everywhere(async |place| {
        let desk = TestCatalog::open(place).await;
        let known = desk.write(limit(1)).await.version;
        desk.write(limit(2)).await;
        let mut raw = place.raw().await;
        raw.run("UPDATE tollgate_changes SET kind = 'lease' WHERE revision = 2").await;
        assert_eq!(since(&place.catalog(), known).await, "too long");
        let log = desk.catalog.audit(&AuditFilter::default(), None, 9).await.expect("a log");
        assert_eq!(log.len(), 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_that_was_restored_is_noticed() {
    everywhere(async |place| {
        let desk = TestCatalog::open(place).await;
        let first = desk.write(limit(1)).await.version;
        let second = desk.write(limit(2)).await.version;
        let backup = Backup::take(place, desk).await;
        let desk = TestCatalog::of(place, crate::desk::admin());
        let third = desk.write(limit(3)).await.version;
        let fourth = desk.write(limit(4)).await.version;
        assert_eq!(since(&desk.catalog, second).await, "2 changes, to 4");
        backup.restore(place, desk).await;

        let desk = TestCatalog::of(place, crate::desk::admin());
        let check = async |known: Version, expected: &str| {
            assert_eq!(since(&desk.catalog, known).await, expected, "from {known:?}");
        };
        // Its number is lower.
        check(third, "restored").await;
        check(fourth, "restored").await;
        check(second, "nothing").await;
        check(first, "1 changes, to 2").await;
        // The same number again, but by another write.
        let other_third = desk.write(limit(30)).await.version;
        assert_eq!(other_third.revision, third.revision);
        check(third, "restored").await;
        check(fourth, "restored").await;
        check(second, "1 changes, to 3").await;
        // A higher one.
        desk.write(limit(40)).await;
        let fifth = desk.write(limit(50)).await.version;
        check(third, "restored").await;
        check(fourth, "restored").await;
        check(other_third, "2 changes, to 5").await;

        // A node that notices begins an epoch: once, however many notice.
        desk.catalog.begin_epoch(fourth, later(1)).await.expect("an epoch");
        desk.catalog.begin_epoch(third, later(2)).await.expect("an epoch");
        let head = desk.version().await;
        assert_eq!(head.revision.epoch, later(1).as_micros());
        assert_eq!((head.revision.number, head.stamp), (5, fifth.stamp));
        for known in [first, second, third, fourth, other_third, fifth] {
            check(known, "too long").await;
        }
        check(head, "nothing").await;
        desk.write(limit(60)).await;
        check(head, "1 changes, to 6").await;
        // A clock that is behind does not begin the epoch of the past again.
        desk.catalog.begin_epoch(head, NOW).await.expect("an epoch");
        assert_eq!(desk.version().await.revision.epoch, later(1).as_micros() + 1);
    })
    .await;
}

/// The second restore of a backup brought back its epoch, which is older than the one in force. It was taken for the
/// epoch of another node, so nodes neither logged it nor published their rules any more.
#[tokio::test(flavor = "multi_thread")]
async fn a_backup_that_is_restored_twice_is_noticed_twice() {
    everywhere(async |place| {
        let desk = TestCatalog::open(place).await;
        desk.write(limit(1)).await;
        let backup = Backup::take(place, desk).await;
        let mut known = TestCatalog::of(place, crate::desk::admin()).write(limit(2)).await.version;
        for round in 1..=3 {
            let desk = TestCatalog::of(place, crate::desk::admin());
            backup.restore(place, desk).await;
            let desk = TestCatalog::of(place, crate::desk::admin());
            assert_eq!(since(&desk.catalog, known).await, "restored", "round {round}");
            desk.catalog.begin_epoch(known, later(round)).await.expect("an epoch");
            let version = desk.version().await;
            assert!(version.revision.epoch > known.revision.epoch, "round {round}");
            known = desk.write(limit(2)).await.version;
        }
    })
    .await;
}

/// Everything as it was at some moment, elsewhere.
enum Backup {
    File(tempfile::TempDir),
    Database(String),
}

impl Backup {
    /// The catalog must not be used meanwhile.
    async fn take(place: &Place, desk: TestCatalog) -> Self {
        drop(desk);
        match place {
            Place::File { folder } => {
                let copy = tempfile::TempDir::new().expect("a folder");
                settle_file(place).await;
                let file = |folder: &tempfile::TempDir| folder.path().join("catalog.db");
                std::fs::copy(file(folder), file(&copy)).expect("a copy");
                Self::File(copy)
            }
            Place::Database { server, name } => {
                let backup = format!("{name}_backup");
                clone_database(server, name, &backup);
                Self::Database(backup)
            }
        }
    }

    async fn restore(&self, place: &Place, desk: TestCatalog) {
        drop(desk);
        match (self, place) {
            (Self::File(copy), Place::File { folder }) => {
                settle_file(place).await;
                let file = |folder: &tempfile::TempDir| folder.path().join("catalog.db");
                std::fs::copy(file(copy), file(folder)).expect("a copy");
            }
            (Self::Database(backup), Place::Database { server, name }) => {
                server.query(&format!("DROP DATABASE {name} WITH (FORCE)"));
                clone_database(server, backup, name);
            }
            _ => panic!("a backup of another place"),
        }
    }
}

fn clone_database(server: &Postgres, from: &str, to: &str) {
    server.query(&format!(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{from}'"
    ));
    server.query(&format!("CREATE DATABASE {to} TEMPLATE {from}"));
}

/// Takes everything into the file itself, which others must have closed by then.
async fn settle_file(place: &Place) {
    let mut raw = place.raw().await;
    raw.run("PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode = DELETE").await;
}
