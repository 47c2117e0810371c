//! Views for reports: their columns, what they show of each entry, and the queries of the documentation.

use serde_json::{Value as Json, json};
use tollgate_catalog::{ApiKey, Entry, Expect, Kind, NEWEST_SCHEMA, Role, Seed, Token};

use crate::desk::{
    NOW, TestCatalog, admin, apply, later, patch, put, remove, reset, rule, tenant_admin,
};
use crate::place::{Place, Raw, everywhere};

const COLUMNS: [(&str, &[&str]); 6] = [
    (
        "rate_limit_rules",
        &[
            "rule_id",
            "name",
            "limit_count",
            "window_seconds",
            "algorithm",
            "identifier_type",
            "endpoint_pattern",
            "http_methods",
            "user_tiers",
            "action",
            "priority",
            "is_active",
            "created_at",
            "updated_at",
        ],
    ),
    (
        "user_tiers",
        &["tier", "is_default", "clients", "created_at", "created_by", "updated_at", "updated_by"],
    ),
    (
        "client_tiers",
        &[
            "identifier_type",
            "identifier",
            "tier",
            "created_at",
            "created_by",
            "updated_at",
            "updated_by",
        ],
    ),
    ("rate_limit_whitelist", LIST),
    ("rate_limit_blacklist", LIST),
    (
        "rate_limit_audit_log",
        &[
            "revision",
            "changed_at",
            "actor",
            "role",
            "address",
            "kind",
            "entry",
            "tenant",
            "action",
            "old_value",
            "new_value",
        ],
    ),
];
const LIST: &[&str] = &[
    "identifier_type",
    "identifier",
    "tenant",
    "reason",
    "expires_at",
    "created_at",
    "created_by",
    "updated_at",
    "updated_by",
];

async fn columns(place: &Place, raw: &mut Raw, view: &str) -> Vec<String> {
    let sql = if place.is_shared() {
        format!(
            "SELECT CAST(column_name AS TEXT) FROM information_schema.columns \
             WHERE table_name = '{view}' ORDER BY ordinal_position"
        )
    } else {
        format!("SELECT name FROM pragma_table_info('{view}') ORDER BY cid")
    };
    raw.texts(&sql).await
}

/// Exactly one row of a view has these properties.
async fn one(raw: &mut Raw, view: &str, condition: &str) {
    let sql = format!("SELECT CAST(count(*) AS TEXT) FROM {view} WHERE {condition}");
    assert_eq!(raw.texts(&sql).await, ["1"], "{sql}");
}

/// A moment as a view shows it, `seconds` after all tests begin.
fn moment(place: &Place, column: &str, seconds: u64) -> String {
    let at = later(seconds).as_micros() / 1_000_000;
    if place.is_shared() {
        format!("{column} = to_timestamp({at})")
    } else {
        format!("{column} = strftime('%Y-%m-%dT%H:%M:%SZ', {at}, 'unixepoch')")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn views_have_exactly_these_columns() {
    everywhere(async |place| {
        drop(TestCatalog::open(place).await);
        let mut raw = place.raw().await;
        for (view, expected) in COLUMNS {
            assert_eq!(columns(place, &mut raw, view).await, expected, "{view}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_is_reported_with_its_defaults_and_lists() {
    everywhere(async |place| {
        let desk = TestCatalog::open(place).await;
        let full = json!({
            "rule_id": "full", "name": "All\u{0}fields", "limit": i64::MAX, "window": "1h30m",
            "algorithm": "gcra", "identifier_type": ["tenant", "user_id"], "action": "throttle",
            "throttle": {"max_delay_ms": 10}, "priority": -7, "enabled": false,
            "applies_to": {"endpoints": ["/a/*", "/b"], "methods": ["GET", "POST"],
                           "user_tiers": ["free", "pro"]},
        });
        desk.write(vec![
            put(Kind::Tier, &json!({"tier": "free"})),
            put(Kind::Tier, &json!({"tier": "pro", "default": true})),
            put(Kind::Rule, &full),
            put(Kind::Rule, &rule("plain", &json!({"window_seconds": 0.5}))),
            put(Kind::Rule, &json!({
                "rule_id": "monthly", "limit": 5, "window": "1 month", "time_zone": "Europe/Berlin",
                "algorithm": "fixed_window", "identifier_type": "user_id",
            })),
        ])
        .await;
        desk.write_at(vec![patch(Kind::Rule, "plain", json!({"limit": 11}))], later(60)).await;
        let mut raw = place.raw().await;
        let view = "rate_limit_rules";
        one(
            &mut raw,
            view,
            "rule_id = 'full' AND name LIKE 'All%' AND limit_count = 9223372036854775807 \
             AND window_seconds = 5400 AND algorithm = 'gcra' AND identifier_type = 'tenant,user_id' \
             AND endpoint_pattern = '/a/*,/b' AND http_methods = 'GET,POST' AND user_tiers = 'free,pro' \
             AND action = 'throttle' AND priority = -7 AND NOT is_active",
        )
        .await;
        // Months have no length of their own.
        one(&mut raw, view, "rule_id = 'monthly' AND limit_count = 5 AND window_seconds IS NULL").await;
        let changed = moment(place, "updated_at", 60);
        let made = moment(place, "created_at", 0);
        one(
            &mut raw,
            view,
            &format!(
                "rule_id = 'plain' AND name IS NULL AND limit_count = 11 AND window_seconds = 0.5 \
                 AND algorithm = 'sliding_window_counter' AND identifier_type = 'user_id' \
                 AND endpoint_pattern IS NULL AND http_methods IS NULL AND user_tiers IS NULL \
                 AND action = 'reject' AND priority = 0 AND is_active AND {made} AND {changed}"
            ),
        )
        .await;
        let tier = "tier = 'pro' AND is_default AND clients = 0 AND updated_by = 'ada'";
        one(&mut raw, "user_tiers", tier).await;
    })
    .await;
}

/// Writes one entry of every kind, some of them with secrets.
async fn fill(place: &Place) -> TestCatalog {
    let desk = TestCatalog::open(place).await;
    let named = |identifier_type: Json, identifier: Json, more: Json| {
        let mut body = json!({"identifier_type": identifier_type, "identifier": identifier});
        body.as_object_mut().expect("an object").extend(more.as_object().expect("fields").clone());
        body
    };
    let secret = || json!("a key of a client");
    let (token, _) = Token::create(Role::Viewer).expect("random numbers");
    let (key, _) = ApiKey::create().expect("random numbers");
    let digests = [token.digest.clone(), key.digest.clone()];
    assert_ne!(digests[0], digests[1]);
    desk.write(vec![
        put(Kind::Tier, &json!({"tier": "pro"})),
        put(
            Kind::Rule,
            &rule("api", &json!({"tenant": "acme", "identifier_type": ["user_id", "api_key"]})),
        ),
        put(Kind::Client, &named(json!("user_id"), json!("u1"), json!({"tier": "pro"}))),
        put(Kind::Client, &named(json!("api_key"), secret(), json!({"tier": "pro"}))),
        put(
            Kind::Override,
            &named(json!("api_key"), secret(), json!({"rule_id": "api", "limit": 5})),
        ),
        put(Kind::Whitelist, &named(json!("ip"), json!("10.0.0.0/8"), json!({"reason": "ours"}))),
        put(
            Kind::Whitelist,
            &named(json!(["tenant", "api_key"]), json!(["acme", secret()]), json!({})),
        ),
        put(
            Kind::Blacklist,
            &named(json!("user_id"), json!("m"), json!({"expires_at": "2030-12-01T00:00:00Z"})),
        ),
        put(Kind::Blacklist, &named(json!("api_key"), secret(), json!({}))),
        tollgate_catalog::Edit::Put { entry: Entry::Token(token), expect: Expect::Anything },
        tollgate_catalog::Edit::Put { entry: Entry::ApiKey(key), expect: Expect::Anything },
    ])
    .await;
    desk.write_at(vec![remove(Kind::Blacklist, r#"["user_id","m"]"#)], later(1)).await;
    desk.catalog
        .log_resets(&[reset(&tenant_admin("acme"), "api", "u1", later(2))])
        .await
        .expect("a log");
    desk
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_tiers_and_the_audit_log_are_reported_without_digests() {
    everywhere(async |place| {
        let _desk = fill(place).await;
        let mut raw = place.raw().await;
        one(&mut raw, "user_tiers", "tier = 'pro' AND NOT is_default AND clients = 2").await;
        one(&mut raw, "client_tiers", "identifier_type = 'user_id' AND identifier = 'u1' AND tier = 'pro'").await;
        one(&mut raw, "client_tiers", "identifier_type = 'api_key' AND identifier = 'redacted'").await;
        one(&mut raw, "rate_limit_whitelist", "identifier = '10.0.0.0/8' AND reason = 'ours' AND tenant IS NULL").await;
        one(&mut raw, "rate_limit_whitelist", "identifier = 'redacted' AND tenant = 'acme' AND expires_at IS NULL").await;
        one(&mut raw, "rate_limit_blacklist", "identifier = 'redacted' AND created_by = 'ada'").await;
        let log = "rate_limit_audit_log";
        one(&mut raw, log, "kind = 'rule' AND entry = 'api' AND action = 'create' AND tenant = 'acme' \
            AND role = 'admin' AND address = '192.0.2.1' AND old_value IS NULL AND new_value LIKE '{%'").await;
        let deleted = moment(place, "changed_at", 1);
        one(&mut raw, log, &format!("kind = 'blacklist' AND action = 'delete' AND revision = 2 AND {deleted}")).await;
        one(&mut raw, log, "kind = 'counters' AND action = 'reset' AND actor = 'admin of acme'").await;
        one(&mut raw, log, "kind = 'token' AND new_value IS NULL").await;
        for (view, names) in COLUMNS {
            let texts: Vec<String> =
                names.iter().map(|name| format!("coalesce(CAST({name} AS TEXT), '')")).collect();
            let rows = raw.texts(&format!("SELECT {} FROM {view}", texts.join(" || '|' || "))).await;
            assert!(!rows.is_empty(), "{view}");
            for row in rows {
                let run = row.split(|it: char| !it.is_ascii_hexdigit()).map(str::len).max();
                assert!(run < Some(60) && !row.contains("digest"), "{view}: {row}");
            }
        }
    })
    .await;
}

/// The columns of a report may be nested in other queries, and the documented ones work in both databases.
#[tokio::test(flavor = "multi_thread")]
async fn the_queries_of_the_documentation_run() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reports.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let queries: Vec<&str> = page
        .split("```sql\n")
        .skip(1)
        .map(|rest| rest.split_once("```").expect("an end").0.trim().trim_end_matches(';'))
        .collect();
    assert!(queries.len() >= 3, "{queries:?}");
    for (view, names) in COLUMNS {
        assert!(page.contains(&format!("`{view}`")), "{view} is not documented");
        for name in names {
            assert!(page.contains(&format!("`{name}`")), "{view}.{name} is not documented");
        }
    }
    everywhere(async |place| {
        let _desk = fill(place).await;
        let mut raw = place.raw().await;
        for query in &queries {
            let found =
                raw.texts(&format!("SELECT CAST(count(*) AS TEXT) FROM ({query}) AS report")).await;
            assert_ne!(found, ["0"], "{query}");
        }
    })
    .await;
}

/// Other programs may keep tables in the same database.
#[tokio::test(flavor = "multi_thread")]
async fn a_table_of_the_same_name_stays_and_its_view_is_left_out() {
    everywhere(async |place| {
        let mut raw = place.raw_new().await;
        raw.run("CREATE TABLE user_tiers (theirs TEXT)").await;
        raw.run("INSERT INTO user_tiers (theirs) VALUES ('kept')").await;
        let catalog = place.catalog();
        catalog.open(Seed::default(), NOW, true).await.expect("a catalog");
        assert_eq!(catalog.schema_version().await.expect("a version"), NEWEST_SCHEMA);
        assert_eq!(raw.texts("SELECT theirs FROM user_tiers").await, ["kept"]);
        let desk = TestCatalog { catalog, author: admin() };
        desk.check(apply("tiers: [{tier: pro}]", &[]), "+tier pro").await;
        assert_eq!(columns(place, &mut raw, "client_tiers").await.len(), 7);
    })
    .await;
}

/// Entries from before schema 8: their last writer is taken from the audit log, as far as that goes back.
#[tokio::test(flavor = "multi_thread")]
async fn last_writers_and_windows_of_older_entries_are_filled_in() {
    const ROWS: &str = r#"
    INSERT INTO tollgate_catalog (only_row, epoch, revision, stamp) VALUES (1, 77, 4, 88);
    INSERT INTO tollgate_revisions (number, stamp, changed_at, actor, role) VALUES
        (3, 3, 5000000, 'bob', 'operator'), (4, 88, 6000000, 'eve', 'admin');
    INSERT INTO tollgate_rules (version, created_at, created_by, entry, enabled, body) VALUES
        (2, 1, 'ada', 'old', 1, '{"rule_id":"old","limit":1,"window":"1d","identifier_type":"ip"}'),
        (3, 2, 'ada', 'new', 1, '{"rule_id":"new","limit":1,"window_seconds":0.25,"identifier_type":"ip"}');
    INSERT INTO tollgate_tiers (version, created_at, created_by, entry, is_default, body)
        VALUES (4, 3, 'ada', 'free', 0, '{"tier":"free"}');
    "#;
    everywhere(async |place| {
        let catalog = place.catalog();
        catalog.migrate_to(7, NOW).await.expect("tables");
        let mut raw = place.raw().await;
        raw.run(ROWS).await;
        catalog.migrate(NOW).await.expect("tables");
        for (kind, name, expected) in [
            (Kind::Rule, "old", (None, None)),
            (Kind::Rule, "new", (Some(5_000_000), Some("bob"))),
            (Kind::Tier, "free", (Some(6_000_000), Some("eve"))),
        ] {
            let stored = catalog.find(kind, name).await.expect("an answer").expect("an entry");
            assert_eq!((stored.updated_at, stored.updated_by.as_deref()), expected, "{name}");
        }
        one(
            &mut raw,
            "rate_limit_rules",
            "rule_id = 'old' AND window_seconds = 86400 AND updated_at IS NULL",
        )
        .await;
        one(&mut raw, "rate_limit_rules", "rule_id = 'new' AND window_seconds = 0.25").await;
    })
    .await;
}
