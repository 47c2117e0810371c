//! Constraints of the databases themselves, tested by statements that no catalog makes.

use crate::desk::TestCatalog;
use crate::place::{Place, everywhere};

/// A row that can be kept, as its columns and their values.
type Row = &'static [(&'static str, &'static str)];

const STORED: Row =
    &[("body", "'{}'"), ("version", "1"), ("created_at", "1"), ("created_by", "'ada'")];
const DIGEST: &str = "'aaaaaaaaaaaaaaaabbbbbbbbbbbbbbbbccccccccccccccccdddddddddddddddd'";
const OTHER_DIGEST: &str = "'eeeeeeeeeeeeeeeebbbbbbbbbbbbbbbbccccccccccccccccdddddddddddddddd'";

const RULE: Row = &[("entry", "'api'"), ("enabled", "1")];
const TIER: Row = &[("entry", "'free'"), ("is_default", "1")];
const CLIENT: Row = &[
    ("entry", "'c'"),
    ("identifier_type", "'user_id'"),
    ("identifier", "'u1'"),
    ("tier", "'free'"),
];
const OVERRIDE: Row = &[
    ("entry", "'o'"),
    ("rule_id", "'there'"),
    ("identifier_type", "'user_id'"),
    ("identifier", "'u1'"),
];
const LISTED: Row = &[("entry", "'l'"), ("identifier_type", "'user_id'"), ("identifier", "'u1'")];
const API_KEY: Row = &[("entry", "'k'"), ("digest", DIGEST)];
const TOKEN: Row = &[("entry", "'t'"), ("digest", DIGEST), ("role", "'admin'")];
const BAN: Row =
    &[("entry", "'b'"), ("rule_id", "'api'"), ("identifier", "'u1'"), ("expires_at", "1")];

fn insert(table: &str, row: &[(&str, &str)]) -> String {
    let (columns, values): (Vec<&str>, Vec<&str>) = row.iter().copied().unzip();
    format!("INSERT INTO {table} ({}) VALUES ({})", columns.join(", "), values.join(", "))
}

/// A row with other values in some columns.
fn with<'a>(row: &[(&'a str, &'a str)], others: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let is_other = |column: &str| others.iter().any(|(other, _)| *other == column);
    let kept = row.iter().filter(|(column, _)| !is_other(column));
    kept.chain(others).copied().collect()
}

/// The first statements are fine; the last one violates a constraint of that kind.
async fn check(place: &Place, fine: &[String], wrong: &str, constraint: &str) {
    let mut raw = place.raw().await;
    raw.run("BEGIN").await;
    for sql in fine {
        raw.run(sql).await;
    }
    let refused = raw.try_run(wrong).await.expect_err(wrong).to_lowercase();
    let words = format!("{constraint} constraint");
    assert!(refused.replace("-", " ").contains(&words), "{wrong}: {refused}, not {words}");
    raw.run("ROLLBACK").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_make_no_sense() {
    everywhere(async |place| {
        TestCatalog::open(place).await;
        let mut raw = place.raw().await;
        let there = with(&[RULE, STORED].concat(), &[("entry", "'there'")]);
        raw.run(&insert("tollgate_rules", &there)).await;
        let wrong = async |table: &str, row: Row, other: (&str, &str)| {
            let row = [row, STORED].concat();
            let fine = insert(table, &row);
            let wrong = insert(table, &with(&row, &[other]));
            // The row is fine but for that.
            check(
                place,
                &[fine.clone(), format!("DELETE FROM {table} WHERE entry <> 'there'")],
                &wrong,
                "check",
            )
            .await;
        };
        wrong("tollgate_rules", RULE, ("enabled", "2")).await;
        wrong("tollgate_rules", RULE, ("entry", "''")).await;
        wrong("tollgate_tiers", TIER, ("is_default", "-1")).await;
        wrong("tollgate_tiers", TIER, ("entry", "''")).await;
        wrong("tollgate_clients", CLIENT, ("identifier_type", "''")).await;
        wrong("tollgate_clients", CLIENT, ("identifier", "''")).await;
        wrong("tollgate_clients", CLIENT, ("tier", "''")).await;
        wrong("tollgate_overrides", OVERRIDE, ("identifier", "''")).await;
        wrong("tollgate_whitelist", LISTED, ("identifier", "''")).await;
        wrong("tollgate_blacklist", LISTED, ("identifier_type", "''")).await;
        wrong("tollgate_api_keys", API_KEY, ("digest", "'abc'")).await;
        wrong("tollgate_tokens", TOKEN, ("digest", "'abc'")).await;
        wrong("tollgate_tokens", TOKEN, ("role", "'king'")).await;
        wrong("tollgate_tokens", TOKEN, ("role", "'tenant-admin'")).await;
        wrong("tollgate_tokens", TOKEN, ("tenant", "'acme'")).await;
        for (table, row) in tables() {
            wrong(table, row, ("version", "0")).await;
        }
    })
    .await;
}

fn tables() -> [(&'static str, Row); 9] {
    [
        ("tollgate_rules", RULE),
        ("tollgate_tiers", TIER),
        ("tollgate_clients", CLIENT),
        ("tollgate_overrides", OVERRIDE),
        ("tollgate_whitelist", LISTED),
        ("tollgate_blacklist", LISTED),
        ("tollgate_api_keys", API_KEY),
        ("tollgate_tokens", TOKEN),
        ("tollgate_bans", BAN),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_are_there_already() {
    everywhere(async |place| {
        TestCatalog::open(place).await;
        let mut raw = place.raw().await;
        let there = with(&[RULE, STORED].concat(), &[("entry", "'there'")]);
        raw.run(&insert("tollgate_rules", &there)).await;
        let twice = async |table: &str, row: Row, fine: &[(&str, &str)], wrong: &[(&str, &str)]| {
            let row = [row, STORED].concat();
            let fine = [insert(table, &row), insert(table, &with(&row, fine))];
            check(place, &fine, &insert(table, &with(&row, wrong)), "unique").await;
        };
        for (table, row) in tables() {
            let row = [row, STORED].concat();
            let once = insert(table, &row);
            check(place, std::slice::from_ref(&once), &once, "unique").await;
        }
        let entry = |name: &'static str| ("entry", name);
        twice("tollgate_tiers", TIER, &[entry("'pro'"), ("is_default", "0")], &[entry("'gold'")])
            .await;
        let other = ("identifier", "'u2'");
        twice("tollgate_clients", CLIENT, &[entry("'2'"), other], &[entry("'3'")]).await;
        twice("tollgate_overrides", OVERRIDE, &[entry("'2'"), other], &[entry("'3'")]).await;
        twice("tollgate_whitelist", LISTED, &[entry("'2'"), other], &[entry("'3'")]).await;
        twice("tollgate_blacklist", LISTED, &[entry("'2'"), other], &[entry("'3'")]).await;
        let other = ("digest", OTHER_DIGEST);
        twice("tollgate_api_keys", API_KEY, &[entry("'2'"), other], &[entry("'3'")]).await;
        twice("tollgate_tokens", TOKEN, &[entry("'2'"), other], &[entry("'3'")]).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_refer_to_nothing() {
    everywhere(async |place| {
        TestCatalog::open(place).await;
        let rule =
            insert("tollgate_rules", &with(&[RULE, STORED].concat(), &[("entry", "'there'")]));
        let row = [OVERRIDE, STORED].concat();
        let exception = insert("tollgate_overrides", &row);
        let lost = with(&row, &[("entry", "'lost'"), ("rule_id", "'nowhere'")]);
        let fine = [rule, exception];
        check(place, &fine, &insert("tollgate_overrides", &lost), "foreign key").await;
        check(place, &fine, "DELETE FROM tollgate_rules", "foreign key").await;
        let change = "INSERT INTO tollgate_changes (revision, place, kind, entry, becomes) \
                      VALUES (7, 0, 'rule', 'api', '{}')";
        check(place, &[], change, "foreign key").await;
        let revision = "INSERT INTO tollgate_revisions (number, stamp, changed_at, actor, role) \
                        VALUES (7, 1, 1, 'ada', 'admin')";
        let empty = "INSERT INTO tollgate_changes (revision, place, kind, entry) \
                     VALUES (7, 1, 'rule', 'api')";
        check(place, &[revision.to_owned(), change.to_owned()], empty, "check").await;
        let second = "INSERT INTO tollgate_catalog (only_row, epoch, revision, stamp) \
                      VALUES (2, 1, 1, 1)";
        check(place, &[], second, "check").await;
    })
    .await;
}
