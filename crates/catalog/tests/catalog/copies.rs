//! Copies of a catalog, which nodes start from when the catalog is unreachable: same decisions, and as
//! cheap to keep up to date.

use serde_json::json;
use tollgate_catalog::{
    Catalog, Change, ChangesSince, Filter, Kind, PolicyBounds, PolicyExport, Update,
};

use crate::desk::{Contents, TestCatalog, apply, contents, entry, patch, put, remove, rule};
use crate::place::{Place, everywhere};

const CONTENTS: &str = "
    rules:
      - {rule_id: a, limit: 1, window: 1s, identifier_type: user_id, tenant: acme}
      - {rule_id: b, limit: 1, window: 1s, identifier_type: user_id}
    tiers: [{tier: free, default: true}, {tier: pro}]
    clients: [{identifier_type: user_id, identifier: u1, tier: pro}]
    overrides:
      - {rule_id: a, identifier_type: user_id, identifier: u1, limit: 1}
      - {rule_id: b, identifier_type: user_id, identifier: u1, limit: 1}
    whitelist: [{identifier_type: ip, identifier: 192.0.2.0/24}]
    blacklist: [{identifier_type: [tenant, user_id], identifier: [acme, u1]}]";

async fn filled(place: &Place) -> TestCatalog {
    let desk = TestCatalog::open(place).await;
    desk.check(apply(CONTENTS, &[]), "+tier pro, ..").await;
    let key = json!({"key_id": "k", "digest": "1".repeat(64), "tier": "pro", "tenant": "acme"});
    let token = json!({
        "token_id": "t", "digest": "2".repeat(64), "role": "tenant-admin", "tenant": "acme",
    });
    let ban = json!({
        "rule_id": "a", "tenant": "acme", "identifier": ["u1"], "expires_at": "2030-01-01T00:00:00Z",
    });
    desk.write(vec![put(Kind::ApiKey, &key), put(Kind::Token, &token), put(Kind::Ban, &ban)]).await;
    desk
}

/// The copy is the original: in its head, its entries, and whose they are.
async fn check_same(copy: &Catalog, original: &Catalog) {
    let head = original.version().await.expect("a version");
    assert_eq!(copy.version().await.expect("a version"), head);
    assert!(matches!(copy.since(head).await, Ok(ChangesSince::Nothing)));
    let of_acme = Filter { tenant: Some("acme".to_owned()), ..Filter::default() };
    for kind in Kind::ALL {
        let mut pages = Vec::new();
        for catalog in [copy, original] {
            let page = catalog.page(kind, &of_acme, None, 100).await.expect("a page");
            pages.push(page.entries.into_iter().map(|stored| stored.name).collect::<Vec<_>>());
        }
        assert_eq!(pages[0], pages[1], "{kind} of acme");
    }
    let (own, theirs) =
        (copy.view().await.expect("a view"), original.view().await.expect("a view"));
    assert_eq!(own.version(), theirs.version());
    assert_eq!(own.rules(), theirs.rules());
    assert_eq!(own.tiers(), theirs.tiers());
    assert_eq!(own.api_keys(), theirs.api_keys());
    assert_eq!(own.tokens(), theirs.tokens());
    let sizes = |view: &tollgate_catalog::View| view.policy().directory().sizes();
    assert_eq!(sizes(&own), sizes(&theirs));
}

fn bodies(contents: Contents) -> Vec<((Kind, String), String)> {
    contents.into_iter().map(|(key, kept)| (key, kept.body)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_is_the_original_and_follows_it() {
    everywhere(async |place| {
        let desk = filled(place).await;
        // A file of a node, and one that was a catalog itself.
        let (node, other) = (Place::file(), Place::file());
        let fresh = node.catalog();
        fresh.migrate(crate::desk::NOW).await.expect("tables");
        let used = filled(&other).await;
        used.write(vec![put(Kind::Rule, &rule("own", &json!({})))]).await;
        for copy in [fresh, used.catalog] {
            let head = copy.copy_from(&desk.catalog).await.expect("a copy");
            assert_eq!(head, desk.version().await);
            check_same(&copy, &desk.catalog).await;
            assert_eq!(contents(&copy).await, contents(&desk.catalog).await);

            // Overrides change hands together with their rule.
            let name = r#"["a","user_id","u1"]"#;
            desk.write(vec![patch(Kind::Override, name, json!({"limit": 9}))]).await;
            desk.write(vec![patch(Kind::Rule, "a", json!({"tenant": "umbrella"}))]).await;
            desk.write(vec![remove(Kind::Token, "t"), put(Kind::Rule, &rule("c", &json!({})))])
                .await;
            desk.write(vec![
                put(Kind::Tier, &json!({"tier": "free"})),
                put(Kind::Tier, &json!({"tier": "pro", "default": true})),
            ])
            .await;
            let answer = desk.catalog.since(head).await.expect("an answer");
            let ChangesSince::Changes(update) = answer else { panic!("{answer:?}") };
            copy.follow(&update).await.expect("a copy");
            check_same(&copy, &desk.catalog).await;
            assert_eq!(bodies(contents(&copy).await), bodies(contents(&desk.catalog).await));
            desk.check(apply(CONTENTS, &[]), "~tier ..").await;
            let token = json!({"token_id": "t", "digest": "2".repeat(64), "role": "admin"});
            desk.write(vec![put(Kind::Token, &token), remove(Kind::Rule, "c")]).await;
            // A copy that becomes a catalog itself continues from that version.
            copy.copy_from(&desk.catalog).await.expect("a copy");
            let before = copy.version().await.expect("a version");
            let own = TestCatalog { catalog: copy, author: crate::desk::admin() };
            own.write(vec![put(Kind::Rule, &rule("own", &json!({})))]).await;
            // The node that wrote knows its write; others find no history.
            let other_node = Catalog::new(own.catalog.url().clone(), PolicyBounds::default());
            let answer = other_node.since(before).await.expect("an answer");
            assert!(matches!(&answer, ChangesSince::TooLong), "{answer:?}");
            let answer = own.catalog.since(before).await.expect("an answer");
            assert!(matches!(&answer, ChangesSince::Changes(_)), "{answer:?}");
        }
    })
    .await;
}

/// The same as a copy by way of text, as it is kept outside databases.
#[tokio::test(flavor = "multi_thread")]
async fn an_export_becomes_a_copy() {
    everywhere(async |place| {
        let desk = filled(place).await;
        let mut text = Vec::new();
        let version = desk.catalog.export(&mut text).await.expect("an export");
        assert_eq!(version, desk.version().await);
        let export = PolicyExport::read(text.as_slice()).expect("what was written");
        assert_eq!(export.version, version);
        assert_eq!(export.len(), contents(&desk.catalog).await.len());
        let node = Place::file();
        let used = filled(&node).await;
        used.write(vec![put(Kind::Rule, &rule("own", &json!({})))]).await;
        used.catalog.import(&export).await.expect("a copy");
        check_same(&used.catalog, &desk.catalog).await;
        assert_eq!(bodies(contents(&used.catalog).await), bodies(contents(&desk.catalog).await));
        // The view needs no database.
        let (own, theirs) = (export.view().expect("a view"), desk.catalog.view().await);
        let theirs = theirs.expect("a view");
        assert_eq!((own.version(), own.rules()), (theirs.version(), theirs.rules()));
        assert_eq!((own.tokens(), own.api_keys()), (theirs.tokens(), theirs.api_keys()));
        assert_eq!(own.policy().directory().sizes(), theirs.policy().directory().sizes());
        // Authors stay in the database.
        let text = String::from_utf8(text).expect("text");
        assert!(!text.contains("ada") && !text.contains("created"), "{text}");
    })
    .await;
}

#[test]
fn a_text_that_is_no_export_is_refused() {
    let head = r#"{"epoch":1,"number":2,"stamp":3}"#;
    let check = |text: &str, expected: &str| {
        let refused = PolicyExport::read(text.as_bytes()).expect_err(text);
        assert!(refused.to_string().contains(expected), "{text}: {refused}");
    };
    check("", "cannot be read");
    check("{}", "missing field `epoch`");
    check(&format!("{head}\n{{}}"), "missing field `kind`");
    check(&format!("{head}\nx"), "cannot be read");
    let line = r#"{"kind":"planet","name":"x","body":"{}","version":1}"#;
    check(&format!("{head}\n{line}"), "unknown kind \"planet\"");
    let line = r#"{"kind":"token","name":"x","body":"{}","version":1}"#;
    check(&format!("{head}\n{line}"), "missing field");
}

/// A copy that cannot be made leaves what was there.
#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_fails_changes_nothing() {
    everywhere(async |place| {
        let desk = filled(place).await;
        let node = Place::file();
        let copy = node.catalog();
        copy.migrate(crate::desk::NOW).await.expect("tables");
        copy.copy_from(&desk.catalog).await.expect("a copy");
        let (head, before) = (copy.version().await.expect("a version"), contents(&copy).await);
        desk.write(vec![put(Kind::Rule, &rule("c", &json!({})))]).await;
        let mut raw = place.raw().await;
        raw.run("UPDATE tollgate_tokens SET body = 'unreadable'").await;
        let failed = copy.copy_from(&desk.catalog).await.expect_err("an error");
        assert_eq!(crate::desk::name_of(&failed), "unusable", "{failed}");
        assert_eq!(contents(&copy).await, before);
        assert_eq!(copy.version().await.expect("a version"), head);
        // Neither does a change that does not fit.
        let exception = json!({
            "rule_id": "nowhere", "identifier_type": "user_id", "identifier": "u", "limit": 1,
        });
        let lost = Change::created(entry(Kind::Override, &exception)).expect("a name");
        copy.follow(&Update::new(desk.version().await, vec![lost])).await.expect_err("an error");
        assert_eq!(contents(&copy).await, before);
        assert_eq!(copy.version().await.expect("a version"), head);
    })
    .await;
}
