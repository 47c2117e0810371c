//! From every earlier schema to the newest: with what was in it, or not at all.

use serde_json::json;
use tollgate_catalog::{AuditFilter, DecisionFilter, Kind, NEWEST_SCHEMA, Seed};

use crate::desk::{NOW, TestCatalog, admin, contents, name_of, put, rule};
use crate::place::{Place, everywhere};

/// Rows in the tables of each version, as they were made then.
const ROWS: [&str; NEWEST_SCHEMA as usize] = [
    r#"
    INSERT INTO tollgate_catalog (only_row, epoch, revision, stamp) VALUES (1, 77, 1, 88);
    INSERT INTO tollgate_revisions (number, stamp, changed_at, actor, role)
        VALUES (1, 88, 5, 'eve', 'admin');
    INSERT INTO tollgate_changes (revision, place, kind, entry, becomes)
        VALUES (1, 0, 'rule', 'api', '{}');
    INSERT INTO tollgate_rules (version, created_at, created_by, entry, tenant, enabled, body)
        VALUES (1, 5, 'eve', 'api', 'acme', 1,
        '{"rule_id":"api","limit":1,"window_seconds":1,"identifier_type":"user_id","tenant":"acme"}');
    INSERT INTO tollgate_tiers (version, created_at, created_by, entry, is_default, body)
        VALUES (1, 5, 'eve', 'free', 1, '{"tier":"free","default":true}');
    INSERT INTO tollgate_clients
        (version, created_at, created_by, entry, identifier_type, identifier, tier, body)
        VALUES (1, 5, 'eve', '["user_id","u1"]', 'user_id', 'u1', 'free',
        '{"identifier_type":"user_id","identifier":"u1","tier":"free"}');
    INSERT INTO tollgate_overrides
        (version, created_at, created_by, entry, rule_id, identifier_type, identifier, tenant, body)
        VALUES (1, 5, 'eve', '["api","user_id","u1"]', 'api', 'user_id', 'u1', 'acme',
        '{"identifier_type":"user_id","identifier":"u1","rule_id":"api","limit":2}');
    INSERT INTO tollgate_whitelist
        (version, created_at, created_by, entry, identifier_type, identifier, body)
        VALUES (1, 5, 'eve', '["user_id","u2"]', 'user_id', 'u2',
        '{"identifier_type":"user_id","identifier":"u2"}');
    INSERT INTO tollgate_blacklist
        (version, created_at, created_by, entry, identifier_type, identifier, body)
        VALUES (1, 5, 'eve', '["user_id","u3"]', 'user_id', 'u3',
        '{"identifier_type":"user_id","identifier":"u3"}');
    "#,
    r#"
    INSERT INTO tollgate_api_keys (version, created_at, created_by, entry, digest, body)
        VALUES (1, 5, 'eve', 'k', '0000000000000000000000000000000000000000000000000000000000000001',
        '{"key_id":"k","digest":"0000000000000000000000000000000000000000000000000000000000000001"}');
    INSERT INTO tollgate_tokens (version, created_at, created_by, entry, role, digest, body)
        VALUES (1, 5, 'eve', 't', 'viewer',
        '0000000000000000000000000000000000000000000000000000000000000002',
        '{"token_id":"t","role":"viewer",
          "digest":"0000000000000000000000000000000000000000000000000000000000000002"}');
    "#,
    "
    INSERT INTO tollgate_decisions (decided_at, decision_id, action, client, body)
        VALUES (5, 'd', 'refused', 'u1', '{}');
    ",
    r#"
    INSERT INTO tollgate_bans
        (version, created_at, created_by, entry, rule_id, identifier, expires_at, body)
        VALUES (1, 5, 'eve', '["api","u1"]', 'api', '["u1"]', 9,
        '{"rule_id":"api","identifier":["u1"],"expires_at":"2030-01-01T00:00:00Z"}');
    "#,
    r#"
    INSERT INTO tollgate_resets
        (revision, place, changed_at, actor, role, entry, was, becomes)
        VALUES (1, 4294967296, 6, 'bob', 'operator', '["api","user_id","u1"]', '{}', '{}');
    "#,
    "UPDATE tollgate_rules SET author_tenant = tenant;",
    "",
    "",
    "INSERT INTO tollgate_fleet (only_row, secret) VALUES (1, '0123456789abcdef0123456789abcdef');",
    "",
    "",
    "",
];

macro_rules! table {
    ($name:literal) => {
        (concat!("CREATE TABLE ", $name, " (strange BIGINT)"), concat!("DROP TABLE ", $name), $name)
    };
}

/// An obstacle to each version: something that it creates exists already. Also how to remove it, and what
/// the error names.
const OBSTACLES: [(&str, &str, &str); NEWEST_SCHEMA as usize] = [
    table!("tollgate_blacklist"),
    table!("tollgate_tokens"),
    table!("tollgate_decisions"),
    table!("tollgate_bans"),
    table!("tollgate_resets"),
    (
        "ALTER TABLE tollgate_blacklist ADD COLUMN author_tenant TEXT",
        "ALTER TABLE tollgate_blacklist DROP COLUMN author_tenant",
        "author_tenant",
    ),
    table!("tollgate_decision_total"),
    (
        "ALTER TABLE tollgate_bans ADD COLUMN updated_by TEXT",
        "ALTER TABLE tollgate_bans DROP COLUMN updated_by",
        "updated_by",
    ),
    table!("tollgate_fleet"),
    table!("tollgate_decision_log_by_id"),
    table!("tollgate_decision_log_by_ip"),
    table!("tollgate_decision_rules"),
];

/// How many entries there are with the rows of all versions up to this one.
const ENTRIES: [usize; NEWEST_SCHEMA as usize] = [6, 8, 8, 9, 9, 9, 9, 9, 9, 9, 9, 9];

/// A place like the given one, with the tables of that version.
async fn at_version(place: &Place, version: u64) -> Place {
    let place = if place.is_shared() { Place::database() } else { Place::file() };
    let catalog = place.catalog();
    assert_eq!(catalog.schema_version().await.expect("a version"), 0);
    assert_eq!(catalog.migrate_to(version, NOW).await.expect("tables"), 0);
    assert_eq!(catalog.schema_version().await.expect("a version"), version);
    place
}

#[tokio::test(flavor = "multi_thread")]
async fn every_version_becomes_the_newest_with_all_it_has() {
    everywhere(async |place| {
        for (version, entries) in (1..).zip(ENTRIES) {
            let place = at_version(place, version).await;
            let mut raw = place.raw().await;
            for rows in ROWS.iter().take(usize::try_from(version).expect("a version")) {
                raw.run(rows).await;
            }
            let catalog = place.catalog();
            let is_new = catalog.open(Seed::default(), NOW, true).await.expect("a catalog");
            assert!(!is_new, "it was there");
            assert_eq!(catalog.schema_version().await.expect("a version"), NEWEST_SCHEMA);
            let head = catalog.version().await.expect("a version");
            assert_eq!((head.revision.epoch, head.revision.number, head.stamp), (77, 1, 88));
            let kept = contents(&catalog).await;
            assert_eq!(kept.len(), entries, "from version {version}");
            assert!(kept.values().all(|it| it.created_by == "eve" && it.version == 1));
            let view = catalog.view().await.expect("a view");
            assert_eq!((view.rules().len(), view.policy().directory().sizes()), (1, (1, 1, 2)));
            if version >= 3 {
                let found = catalog.decisions(&DecisionFilter::default(), None, 9).await;
                let found = found.expect("a page");
                assert_eq!((found.len(), found[0].decision_id.as_str()), (1, "d"));
            }
            let desk = TestCatalog { catalog, author: admin() };
            desk.check(crate::desk::only(put(Kind::Rule, &rule("new", &json!({})))), "+rule new")
                .await;
            let log = desk.catalog.audit(&AuditFilter::default(), None, 9).await.expect("a log");
            let actors: Vec<&str> = log.iter().map(|it| it.actor.as_str()).collect();
            let expected: &[_] =
                if version >= 5 { &["ada", "bob", "eve"] } else { &["ada", "eve"] };
            assert_eq!(actors, expected);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_migrate() {
    everywhere(async |place| {
        for version in 1..NEWEST_SCHEMA {
            let place = at_version(place, version).await;
            let opened = place.catalog().open(Seed::default(), NOW, false).await;
            if place.is_shared() {
                let expected = format!(
                    "the catalog {} has schema {version}, and this program needs {NEWEST_SCHEMA}: \
                     run `tollgate migrate` first",
                    place.url()
                );
                assert_eq!(opened.expect_err("an error").to_string(), expected);
                assert_eq!(place.catalog().schema_version().await.expect("a version"), version);
                assert_eq!(place.catalog().migrate(NOW).await.expect("tables"), version);
                place.catalog().open(Seed::default(), NOW, false).await.expect("a catalog");
            } else {
                assert!(opened.expect("a catalog"));
            }
            assert_eq!(place.catalog().schema_version().await.expect("a version"), NEWEST_SCHEMA);
            assert_eq!(place.catalog().migrate(NOW).await.expect("tables"), NEWEST_SCHEMA);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_schema_is_not_changed() {
    everywhere(async |place| {
        drop(TestCatalog::open(place).await);
        let newer = NEWEST_SCHEMA + 1;
        let sql =
            format!("INSERT INTO tollgate_migrations (version, applied_at) VALUES ({newer}, 1)");
        place.raw().await.run(&sql).await;
        for may_migrate in [false, true] {
            let refused = place.catalog().open(Seed::default(), NOW, may_migrate).await;
            let expected = format!(
                "the catalog {} has schema {newer}, and this program knows {NEWEST_SCHEMA}: use a \
                 newer one",
                place.url()
            );
            assert_eq!(refused.expect_err("an error").to_string(), expected);
        }
        assert_eq!(place.catalog().schema_version().await.expect("a version"), newer);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_migration_that_fails_leaves_everything_as_it_was() {
    everywhere(async |place| {
        for (version, (obstruct, clear, named)) in (0..).zip(OBSTACLES) {
            // In SQLite the decision log is a separate file.
            if !place.is_shared() && named.starts_with("tollgate_decision_") {
                continue;
            }
            let place = at_version(place, version).await;
            let mut raw = place.raw().await;
            raw.run(obstruct).await;
            let before = raw.texts(structure(&place)).await;
            for _ in 0..2 {
                let error = place.catalog().migrate(NOW).await.expect_err("an error");
                assert_eq!(name_of(&error), "unusable", "{error}");
                assert!(error.to_string().contains(named), "{error}");
                assert_eq!(raw.texts(structure(&place)).await, before);
                assert_eq!(place.catalog().schema_version().await.expect("a version"), version);
            }
            raw.run(clear).await;
            assert_eq!(place.catalog().migrate(NOW).await.expect("tables"), version);
        }
    })
    .await;
}

/// Entries from before authors were kept: those that administrators of a tenant wrote last are theirs, as far as the log
/// tells, and all others are the operators'.
#[tokio::test(flavor = "multi_thread")]
async fn entries_belong_to_operators_unless_the_log_names_a_tenant_admin() {
    const ROWS: &str = r#"
    INSERT INTO tollgate_catalog (only_row, epoch, revision, stamp) VALUES (1, 77, 4, 88);
    INSERT INTO tollgate_revisions (number, stamp, changed_at, actor, role) VALUES
        (2, 2, 5, 'tina', 'tenant-admin'), (3, 3, 5, 'oscar', 'operator'), (4, 88, 5, 'tina', 'tenant-admin');
    INSERT INTO tollgate_changes (revision, place, kind, entry, tenant, becomes) VALUES
        (2, 0, 'rule', 'own', 'acme', '{}'), (2, 1, 'rule', 'taken', 'acme', '{}'),
        (2, 2, 'override', '["own","user_id","u1"]', 'acme', '{}'),
        (2, 3, 'override', '["taken","user_id","u1"]', 'acme', '{}'),
        (3, 0, 'rule', 'taken', 'acme', '{}'), (3, 1, 'rule', 'moved', 'acme', '{}'),
        (4, 0, 'blacklist', '["tenant","acme"]', 'acme', '{}'),
        (4, 1, 'rule', 'lost', 'umbrella', '{}');
    INSERT INTO tollgate_rules (version, created_at, created_by, entry, tenant, enabled, body) VALUES
        (2, 5, 'x', 'own', 'acme', 1, '{}'), (3, 5, 'x', 'taken', 'acme', 1, '{}'),
        (3, 5, 'x', 'moved', 'acme', 1, '{}'), (1, 5, 'x', 'forgotten', 'acme', 1, '{}'),
        (4, 5, 'x', 'lost', 'acme', 1, '{}'), (2, 5, 'x', 'everyone', NULL, 1, '{}');
    INSERT INTO tollgate_overrides
        (version, created_at, created_by, entry, rule_id, identifier_type, identifier, tenant, body) VALUES
        (2, 5, 'x', '["own","user_id","u1"]', 'own', 'user_id', 'u1', 'acme', '{}'),
        (2, 5, 'x', '["taken","user_id","u1"]', 'taken', 'user_id', 'u1', 'acme', '{}'),
        (3, 5, 'x', '["own","user_id","u2"]', 'own', 'user_id', 'u2', 'acme', '{}');
    INSERT INTO tollgate_blacklist
        (version, created_at, created_by, entry, identifier_type, identifier, tenant, body) VALUES
        (4, 5, 'x', '["tenant","acme"]', 'tenant', 'acme', 'acme', '{}'),
        (2, 5, 'x', '["user_id","u3"]', 'user_id', 'u3', NULL, '{}');
    "#;
    everywhere(async |place| {
        let place = at_version(place, 5).await;
        let mut raw = place.raw().await;
        raw.run(ROWS).await;
        assert_eq!(place.catalog().migrate_to(6, NOW).await.expect("tables"), 5);
        for (table, expected) in [
            ("tollgate_rules", &["own"][..]),
            ("tollgate_overrides", &[r#"["own","user_id","u1"]"#]),
            ("tollgate_blacklist", &[r#"["tenant","acme"]"#]),
        ] {
            let sql = format!("SELECT entry FROM {table} WHERE author_tenant = 'acme' ORDER BY entry");
            assert_eq!(raw.texts(&sql).await, expected, "{table}");
        }
        let sql = "SELECT entry FROM tollgate_changes WHERE author_tenant = tenant ORDER BY revision, place";
        assert_eq!(raw.texts(sql).await.len(), 6);
    })
    .await;
}

/// The names of all tables and indexes.
fn structure(place: &Place) -> &'static str {
    if place.is_shared() {
        "SELECT CAST(relname AS TEXT) FROM pg_class \
         WHERE relnamespace = 'public'::regnamespace ORDER BY 1"
    } else {
        "SELECT name FROM sqlite_master ORDER BY 1"
    }
}
