//! Entries page by page, by what they are and whose they are.

use serde_json::json;
use tollgate_catalog::{Filter, Kind};

use crate::desk::{NOW, TestCatalog, apply, put};
use crate::place::everywhere;

#[tokio::test(flavor = "multi_thread")]
async fn pages_follow_each_other_without_gaps() {
    everywhere(async |place| {
        let desk = TestCatalog::open(place).await;
        let names: Vec<String> = (0..25).map(|number| format!("u{number:02}")).collect();
        let listed = names.iter().map(|name| {
            put(Kind::Blacklist, &json!({"identifier_type": "user_id", "identifier": name}))
        });
        desk.write(listed.collect()).await;
        for limit in [1, 7, 24, 25, 26, usize::MAX] {
            let (mut found, mut after) = (Vec::new(), None);
            loop {
                let (all, after_that) = (Filter::default(), after.as_deref());
                let page = desk.catalog.page(Kind::Blacklist, &all, after_that, limit).await;
                let page = page.expect("a page");
                assert!(page.entries.len() <= limit);
                found.extend(page.entries.into_iter().map(|stored| stored.name));
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
            let expected: Vec<String> =
                names.iter().map(|name| format!(r#"["user_id","{name}"]"#)).collect();
            assert_eq!(found, expected, "{limit} at a time");
        }
        let none =
            desk.catalog.page(Kind::Blacklist, &Filter::default(), None, 0).await.expect("a page");
        assert!(none.entries.is_empty());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_find_what_they_name() {
    const CONTENTS: &str = "
        rules:
          - {rule_id: a, limit: 1, window: 1s, identifier_type: user_id, tenant: acme}
          - {rule_id: b, limit: 1, window: 1s, identifier_type: user_id, tenant: acme, enabled: false}
          - {rule_id: c, limit: 1, window: 1s, identifier_type: [user_id, ip]}
        clients:
          - {identifier_type: user_id, identifier: u1, tier: free}
          - {identifier_type: user_id, identifier: u2, tier: pro}
          - {identifier_type: [user_id, tenant], identifier: [u1, acme], tier: pro}
        overrides:
          - {rule_id: a, identifier_type: user_id, identifier: u1, limit: 1}
          - {rule_id: c, identifier_type: user_id, identifier: u1, limit: 1}
          - {rule_id: c, identifier_type: ip, identifier: 192.0.2.1, limit: 1}";
    everywhere(async |place| {
        let desk = TestCatalog::open(place).await;
        desk.check(apply(CONTENTS, &[]), "+rule a, ..").await;
        let check = async |kind: Kind, filter: Filter, expected: &[&str]| {
            let page = desk.catalog.page(kind, &filter, None, 10).await.expect("a page");
            let found: Vec<String> = page.entries.into_iter().map(|stored| stored.name).collect();
            assert_eq!(found, expected, "{kind} by {filter:?}");
        };
        let all = Filter::default();
        let tenant = |name: &str| Filter { tenant: Some(name.to_owned()), ..Filter::default() };
        let rule = |name: &str| Filter { rule_id: Some(name.to_owned()), ..Filter::default() };
        let tier = |name: &str| Filter { tier: Some(name.to_owned()), ..Filter::default() };
        let enabled = |yes: bool| Filter { enabled: Some(yes), ..Filter::default() };
        let client = |kind: &str, value: &str| Filter {
            identifier_type: Some(kind.to_owned()),
            identifier: Some(value.to_owned()),
            ..Filter::default()
        };
        check(Kind::Rule, all.clone(), &["a", "b", "c"]).await;
        check(Kind::Rule, tenant("acme"), &["a", "b"]).await;
        check(Kind::Rule, tenant("none"), &[]).await;
        check(Kind::Rule, enabled(false), &["b"]).await;
        check(Kind::Rule, Filter { enabled: Some(true), ..tenant("acme") }, &["a"]).await;
        check(Kind::Client, tier("free"), &[r#"["user_id","u1"]"#]).await;
        check(Kind::Client, client("user_id", "u2"), &[r#"["user_id","u2"]"#]).await;
        let pair = r#"["user_id","u1","tenant","acme"]"#;
        check(Kind::Client, client(r#"["user_id","tenant"]"#, r#"["u1","acme"]"#), &[pair]).await;
        let (of_a, of_c) = (r#"["a","user_id","u1"]"#, r#"["c","user_id","u1"]"#);
        check(Kind::Override, client("user_id", "u1"), &[of_a, of_c]).await;
        check(Kind::Override, rule("a"), &[of_a]).await;
        check(Kind::Override, tenant("acme"), &[of_a]).await;
        check(Kind::Override, Filter { rule_id: Some("c".to_owned()), ..tenant("acme") }, &[])
            .await;
        // What a kind knows nothing of finds nothing, rather than everything.
        check(Kind::Rule, tier("free"), &[]).await;
        check(Kind::Tier, tenant("acme"), &[]).await;
        check(Kind::Client, enabled(true), &[]).await;
    })
    .await;
}

/// What expires is kept as a time that databases can compare.
#[tokio::test(flavor = "multi_thread")]
async fn ends_are_kept_as_times() {
    everywhere(async |place| {
        let desk = TestCatalog::open(place).await;
        let body = json!({
            "identifier_type": "user_id", "identifier": "u1", "expires_at": "2027-01-15T09:00:00+01:00",
        });
        desk.write(vec![put(Kind::Whitelist, &body)]).await;
        let sql = "SELECT CAST(expires_at AS TEXT) FROM tollgate_whitelist";
        assert_eq!(place.raw().await.texts(sql).await, [NOW.as_micros().to_string()]);
    })
    .await;
}
