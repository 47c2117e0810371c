//! API keys that name clients are kept as digests, and found by either.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value as Json, json};
use tollgate_catalog::{AuditFilter, Catalog, Filter, Kind, Seed};
use tollgate_rules::{Admission, Attribute, Attributes};

use crate::desk::{NOW, TestCatalog, admin, apply, contents, only, put, rule};
use crate::place::{Place, everywhere};

const KEY: &str = "sk_live_PLAINTEXT_0001";

fn digest() -> String {
    format!("sha256:{}", tollgate_catalog::digest_of(KEY))
}

fn body(kind: Kind, types: &Json, values: &Json) -> Json {
    let mut body = json!({"identifier_type": types, "identifier": values});
    match kind {
        Kind::Client => body["tier"] = json!("gold"),
        Kind::Override => {
            body["rule_id"] = json!("api");
            body["limit"] = json!(7);
        }
        _ => {}
    }
    body
}

/// Nothing that the catalog returns contains the key.
async fn check_hidden(catalog: &Catalog) {
    let told = format!("{:?}", contents(catalog).await);
    let log = catalog.audit(&AuditFilter::default(), None, 1_000).await.expect("a log");
    let told = format!("{told} {log:?}");
    assert!(!told.contains(KEY), "{told}");
    assert!(told.contains(&digest()), "{told}");
}

struct Holder;

impl Attributes for Holder {
    fn get(&self, attribute: Attribute<'_>) -> Option<&str> {
        match attribute {
            Attribute::ApiKey => Some(KEY),
            Attribute::UserId => Some("u1"),
            _ => None,
        }
    }
}

async fn is_denied(catalog: &Catalog) -> bool {
    let view = catalog.view().await.expect("a view");
    let hasher = std::hash::RandomState::new();
    let plan = view.policy().plan(&[&Holder], NOW, &hasher);
    matches!(plan.admission, Admission::Denied { .. })
}

#[tokio::test(flavor = "multi_thread")]
async fn api_keys_of_clients_are_kept_as_digests() {
    everywhere(async |place| {
        let desk = TestCatalog::open(place).await;
        let api = rule("api", &json!({"identifier_type": ["api_key", "user_id"]}));
        desk.write(vec![put(Kind::Rule, &api)]).await;
        for kind in [Kind::Client, Kind::Override, Kind::Whitelist, Kind::Blacklist] {
            let first = if kind == Kind::Override { r#""api","# } else { "" };
            let alone = (json!("api_key"), json!(KEY), json!(digest()));
            let pair = (json!(["api_key", "user_id"]), json!([KEY, "u1"]), json!([digest(), "u1"]));
            let names = [
                format!(r#"[{first}"api_key","{}"]"#, digest()),
                format!(r#"[{first}"user_id","u1","api_key","{}"]"#, digest()),
            ];
            for ((types, plain, digest), name) in [alone, pair].into_iter().zip(names) {
                let (plain, digest) = (body(kind, &types, &plain), body(kind, &types, &digest));
                desk.check(only(put(kind, &plain)), &format!("+{kind} {name}")).await;
                desk.check(only(put(kind, &digest)), "nothing").await;
                desk.check(only(put(kind, &plain)), "nothing").await;
            }
            for identifier in [KEY.to_owned(), digest()] {
                let filter = Filter { identifier: Some(identifier), ..Filter::default() };
                let page = desk.catalog.page(kind, &filter, None, 9).await.expect("a page");
                assert_eq!(page.entries.len(), 1, "{kind}");
            }
        }
        check_hidden(&desk.catalog).await;
        assert!(is_denied(&desk.catalog).await);
        // A document with the key itself is what is there.
        let same = format!("blacklist: [{{identifier_type: api_key, identifier: {KEY}}}]");
        desk.check(apply(&same, &[]), "nothing").await;
        desk.check(apply(&same, &[Kind::Blacklist]), "-blacklist ..").await;
    })
    .await;
}

/// Entries and log of a catalog from before, in which keys were kept as they are.
const ROWS: &str = r#"
    INSERT INTO tollgate_catalog (only_row, epoch, revision, stamp) VALUES (1, 77, 2, 88);
    INSERT INTO tollgate_revisions (number, stamp, changed_at, actor, role) VALUES
        (1, 87, 5, 'eve', 'admin'), (2, 88, 5, 'eve', 'admin');
    INSERT INTO tollgate_rules (version, created_at, created_by, entry, enabled, body) VALUES (1, 5, 'eve', 'api', 1,
        '{"rule_id":"api","limit":1,"window_seconds":1,"identifier_type":"api_key"}');
    INSERT INTO tollgate_overrides
        (version, created_at, created_by, entry, rule_id, identifier_type, identifier, body) VALUES
        (1, 5, 'eve', '["api","api_key","KEY"]', 'api', 'api_key', 'KEY',
        '{"identifier_type":"api_key","identifier":"KEY","rule_id":"api","limit":2}');
    INSERT INTO tollgate_clients
        (version, created_at, created_by, entry, identifier_type, identifier, tier, body) VALUES
        (1, 5, 'eve', '["user_id","u1","api_key","KEY"]', '["user_id","api_key"]', '["u1","KEY"]', 'free',
        '{"identifier_type":["user_id","api_key"],"identifier":["u1","KEY"],"tier":"free"}'),
        (1, 5, 'eve', '["user_id","u2"]', 'user_id', 'u2', 'free',
        '{"identifier_type":"user_id","identifier":"u2","tier":"free"}');
    INSERT INTO tollgate_blacklist
        (version, created_at, created_by, entry, identifier_type, identifier, body) VALUES
        (2, 5, 'eve', '["api_key","KEY"]', 'api_key', 'KEY', '{"identifier_type":"api_key","identifier":"KEY"}'),
        (2, 5, 'eve', '["api_key","DIGEST"]', 'api_key', 'DIGEST',
        '{"identifier_type":"api_key","identifier":"DIGEST"}');
    INSERT INTO tollgate_changes (revision, place, kind, entry, was, becomes) VALUES
        (1, 0, 'override', '["api","api_key","KEY"]', NULL,
        '{"identifier_type":"api_key","identifier":"KEY","rule_id":"api","limit":2}'),
        (1, 1, 'whitelist', '["api_key","KEY"]', NULL, '{"identifier_type":"api_key","identifier":"KEY"}'),
        (2, 0, 'whitelist', '["api_key","KEY"]', '{"identifier_type":"api_key","identifier":"KEY"}', NULL),
        (2, 1, 'blacklist', '["api_key","KEY"]', 'unreadable KEY', '{"identifier_type":"api_key","identifier":"KEY"}');
    "#;

#[tokio::test(flavor = "multi_thread")]
async fn a_migration_replaces_api_keys_by_digests_also_in_the_log() {
    everywhere(async |place| {
        let catalog = place.catalog();
        catalog.migrate_to(5, NOW).await.expect("tables");
        place.raw().await.run(&ROWS.replace("KEY", KEY).replace("DIGEST", &digest())).await;
        assert!(!catalog.open(Seed::default(), NOW, true).await.expect("a catalog"));
        check_hidden(&catalog).await;
        assert!(is_denied(&catalog).await);
        let names: Vec<String> =
            contents(&catalog).await.into_keys().map(|(_, name)| name).collect();
        let digest = digest();
        let expected = [
            "api".to_owned(),
            format!(r#"["user_id","u1","api_key","{digest}"]"#),
            r#"["user_id","u2"]"#.to_owned(),
            format!(r#"["api","api_key","{digest}"]"#),
            format!(r#"["api_key","{digest}"]"#),
        ];
        assert_eq!(names, expected);
        // As this version would have written it: what is applied again changes nothing.
        let same = format!(
            "clients: [{{identifier_type: [user_id, api_key], identifier: [u1, {KEY}], tier: free}}]
overrides: [{{identifier_type: api_key, identifier: {KEY}, rule_id: api, limit: 2}}]
blacklist: [{{identifier_type: api_key, identifier: {KEY}}}]"
        );
        let desk = TestCatalog { catalog, author: admin() };
        desk.check(apply(&same, &[Kind::Override, Kind::Blacklist]), "nothing").await;
        // Nothing is left between the rows of a file either.
        if let Some(file) = place.url().file() {
            for name in ["", "-wal"] {
                let path = format!("{}{name}", file.display());
                let bytes = fs::read(&path).unwrap_or_default();
                let is_there = bytes.windows(KEY.len()).any(|bytes| bytes == KEY.as_bytes());
                assert!(!is_there, "{path} has the key");
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_a_catalog_are_for_their_owner_only() {
    let place = Place::file();
    let desk = TestCatalog::open(&place).await;
    desk.write(vec![put(Kind::Rule, &rule("api", &json!({})))]).await;
    let url = place.url();
    let file = url.file().expect("a file").to_owned();
    for name in ["", "-wal", "-shm"] {
        let path = format!("{}{name}", file.display());
        let mode = fs::metadata(&path).expect(&path).permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{path}");
    }
    assert_eq!(url.exposed_mode(), None);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("permissions");
    assert_eq!(url.exposed_mode(), Some(0o644));
}
