//! Results of edits: of each kind, under every condition, alone and together, as dry runs and for real.

use serde_json::{Value as Json, json};
use tollgate_catalog::{Author, Edit, Entry, Expect, Intent, Kind, Seed, Token};
use tollgate_rules::Source;

use crate::desk::{
    NOW, TestCatalog, apply, contents, entry, later, only, patch, put, put_if, remove, rule, tell,
};
use crate::place::everywhere;

/// An entry of each kind, fields to change, and what others it needs.
fn specimens() -> Vec<(Kind, Json, Json)> {
    let client = json!({"identifier_type": "user_id", "identifier": "u1"});
    let with = |more: Json| {
        let mut body = client.clone();
        body.as_object_mut().expect("an object").extend(more.as_object().expect("more").clone());
        body
    };
    let digest = |digit: &str| digit.repeat(64);
    let end = "2030-01-01T00:00:00Z";
    vec![
        (Kind::Tier, json!({"tier": "gold"}), json!({"default": true})),
        (Kind::Rule, rule("api", &json!({"burst": 20, "algorithm": "gcra"})), json!({"limit": 30})),
        (Kind::Client, with(json!({"tier": "basic"})), json!({"tier": "better"})),
        (
            Kind::Override,
            with(json!({"rule_id": "base", "limit": 5})),
            json!({"limit": null, "multiplier": 2.5, "expires_at": end}),
        ),
        (Kind::Whitelist, with(json!({"reason": "a friend"})), json!({"reason": null})),
        (Kind::Blacklist, with(json!({})), json!({"reason": "abuse", "expires_at": end})),
        (
            Kind::ApiKey,
            json!({"key_id": "k1", "digest": digest("a"), "owner": "u1"}),
            json!({"tier": "basic", "name": "a key"}),
        ),
        (
            Kind::Token,
            json!({"token_id": "t1", "digest": digest("b"), "role": "viewer"}),
            json!({"role": "tenant-admin", "tenant": "acme", "expires_at": end}),
        ),
        (
            Kind::Ban,
            json!({"rule_id": "base", "identifier": ["u1"], "expires_at": end}),
            json!({"expires_at": "2031-01-01T00:00:00Z"}),
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_of_each_kind_come_change_and_go() {
    everywhere(async |place| {
        let desk = TestCatalog::open(place).await;
        let base = "
            rules: [{rule_id: base, limit: 1, window: 1s, identifier_type: user_id}]
            tiers: [{tier: basic}, {tier: better}]";
        desk.check(apply(base, &[]), "+tier basic, +tier better, +rule base").await;
        for (kind, body, fields) in specimens() {
            check_life(&desk, kind, &body, fields).await;
        }
        assert_eq!(contents(&desk.catalog).await.len(), 3, "what was there before");
    })
    .await;
}

/// Creates, changes and removes one entry, with the refusals on the way.
async fn check_life(desk: &TestCatalog, kind: Kind, body: &Json, fields: Json) {
    let put = |expect: Expect| only(put_if(expect, kind, body));
    let name = entry(kind, body).name().expect("a name");
    let patch = |expect: Expect, fields: &Json| {
        let (name, fields) = (name.clone(), fields.clone());
        only(Edit::Patch { kind, name, fields, expect })
    };
    let remove = |expect: Expect| only(Edit::Remove { kind, name: name.clone(), expect });
    let number = async || desk.version().await.revision.number;
    let missing = format!("missing: there is no {kind} {name}");
    let changed = format!("~{kind} {name}");
    let stale = |version: u64| {
        format!("changed: the {kind} {name} was changed meanwhile: it is at version {version}")
    };

    for expect in [Expect::Present, Expect::Version(1)] {
        desk.check(put(expect), &missing).await;
        desk.check(remove(expect), &missing).await;
    }
    for expect in [Expect::Anything, Expect::Absent, Expect::Present, Expect::Version(1)] {
        desk.check(patch(expect, &fields), &missing).await;
    }
    desk.check(remove(Expect::Anything), "nothing").await;

    desk.check(put(Expect::Absent), &format!("+{kind} {name}")).await;
    let first = number().await;
    for expect in [Expect::Anything, Expect::Present, Expect::Version(first)] {
        desk.check(put(expect), "nothing").await;
        desk.check(patch(expect, &json!({})), "nothing").await;
    }
    desk.check(put(Expect::Absent), &format!("exists: there is a {kind} {name} already")).await;

    desk.check(patch(Expect::Version(first), &fields), &changed).await;
    let second = number().await;
    desk.check(put(Expect::Version(first)), &stale(second)).await;
    desk.check(patch(Expect::Version(first), &fields), &stale(second)).await;
    desk.check(remove(Expect::Version(first)), &stale(second)).await;
    let found = desk.catalog.find(kind, &name).await.expect("an answer").expect("the entry");
    let found: Json = serde_json::from_str(&found.body).expect("JSON");
    for (field, value) in fields.as_object().expect("fields") {
        assert_eq!(found.get(field), (!value.is_null()).then_some(value), "{field} of {found}");
    }

    desk.check(put(Expect::Version(second)), &changed).await;
    desk.check(patch(Expect::Present, &fields), &changed).await;
    let last = number().await;
    desk.check(remove(Expect::Version(last)), &format!("-{kind} {name}")).await;
    assert!(desk.catalog.find(kind, &name).await.expect("an answer").is_none());
    desk.check(put(Expect::Anything), &format!("+{kind} {name}")).await;
    desk.check(remove(Expect::Present), &format!("-{kind} {name}")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn patches_that_make_no_entry() {
    everywhere(async |place| {
        let desk = TestCatalog::open(place).await;
        desk.write(vec![put(Kind::Rule, &rule("api", &json!({})))]).await;
        let check = async |fields: Json, expected: &str| {
            desk.check(only(patch(Kind::Rule, "api", fields)), expected).await;
        };
        check(json!({"rule_id": "other"}), "invalid: what an entry is called cannot be changed..")
            .await;
        check(json!({"limit": null}), "invalid: ..").await;
        check(json!({"limit": "many"}), "invalid: ..").await;
        check(json!({"speed": 1}), "invalid: ..").await;
        check(json!("text"), "invalid: ..").await;
        check(json!({"applies_to": {"methods": ["GET"]}}), "~rule api").await;
        check(json!({"applies_to": {"endpoints": ["/a"]}}), "~rule api").await;
        check(json!({"applies_to": {"methods": ["GET"], "endpoints": ["/a"]}}), "nothing").await;
        check(json!({"applies_to": {"methods": null}}), "~rule api").await;
        check(json!({"applies_to": null}), "~rule api").await;
        check(rule("api", &json!({})), "nothing").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_bad_edit_among_fifty_spoils_all() {
    everywhere(async |place| {
        let desk = TestCatalog::open(place).await;
        desk.write(vec![
            put(Kind::Rule, &rule("there", &json!({}))),
            put(Kind::Tier, &json!({"tier": "basic"})),
        ])
        .await;
        let bad = [
            (remove_present("gone"), "missing: .."),
            (put_if(Expect::Absent, Kind::Rule, &rule("there", &json!({}))), "exists: .."),
            (put_if(Expect::Version(7), Kind::Rule, &rule("there", &json!({}))), "changed: .."),
            (put(Kind::Rule, &rule("Capital", &json!({}))), "invalid: .."),
            (put(Kind::Rule, &rule("r7", &json!({}))), "invalid: the rule r7 is there twice"),
            (
                put(
                    Kind::Client,
                    &json!({"identifier_type": "ip", "identifier": "192.0.2.7", "tier": "none"}),
                ),
                "invalid: tier: there is no tier `none`..",
            ),
        ];
        for (bad, expected) in bad {
            for at in [0, 25, 50] {
                let mut edits: Vec<Edit> = (0..50)
                    .map(|number| put(Kind::Rule, &rule(&format!("r{number}"), &json!({}))))
                    .collect();
                edits.insert(at, bad.clone());
                desk.check(Intent::Edits(edits), expected).await;
            }
        }
        let good = (0..50).map(|number| put(Kind::Rule, &rule(&format!("r{number}"), &json!({}))));
        assert_eq!(desk.write(good.collect()).await.changes.len(), 50);
    })
    .await;
}

fn remove_present(name: &str) -> Edit {
    Edit::Remove { kind: Kind::Rule, name: name.to_owned(), expect: Expect::Present }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_made_an_entry_stays() {
    everywhere(async |place| {
        let desk = TestCatalog::open(place).await;
        desk.write(vec![put(Kind::Rule, &rule("api", &json!({})))]).await;
        let other = TestCatalog::of(place, Author::program("a part"));
        other.write_at(vec![patch(Kind::Rule, "api", json!({"limit": 1}))], later(5)).await;
        let kept = desk.catalog.find(Kind::Rule, "api").await.expect("an answer").expect("a rule");
        assert_eq!((kept.version, kept.created_by.as_str()), (2, "ada"));
        assert_eq!(kept.created_at, NOW.as_micros());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_are_applied_as_a_whole() {
    const ALL: [Kind; 3] = [Kind::Rule, Kind::Tier, Kind::Override];
    everywhere(async |place| {
        let desk = TestCatalog::open(place).await;
        let first = "
            rules:
              - {rule_id: a, limit: 1, window: 1s, identifier_type: user_id, replaces: [b]}
              - {rule_id: b, limit: 1, window: 1s, identifier_type: user_id}
            tiers: [{tier: free, default: true}]
            overrides: [{rule_id: b, identifier_type: user_id, identifier: u1, limit: 2}]";
        let made = r#"+tier free, +rule a, +rule b, +override ["b","user_id","u1"]"#;
        desk.check(apply(first, &ALL), made).await;
        desk.check(apply(first, &ALL), "nothing").await;
        desk.check(apply("rules: []", &[]), "nothing").await;
        let second = "
            rules:
              - {rule_id: a, limit: 1, window: 1s, identifier_type: user_id}
              - {rule_id: c, limit: 1, window: 1s, identifier_type: user_id}";
        // What remains still needs b.
        desk.check(apply(second, &[Kind::Rule]), "in use: an override is an exception from..")
            .await;
        let pruned = r#"-override ["b","user_id","u1"], -rule b, ~rule a, +rule c"#;
        desk.check(apply(second, &[Kind::Rule, Kind::Override]), pruned).await;
        let made_again = r#"~rule a, +rule b, +override ["b","user_id","u1"]"#;
        desk.check(apply(first, &[]), made_again).await;
        desk.check(apply("rules: []", &ALL), "-override [..").await;
        assert_eq!(contents(&desk.catalog).await.len(), 0);
        let twice = "
            tiers: [{tier: free}]
            whitelist:
              - {identifier_type: ip, identifier: '2001:db8::/32'}
              - {identifier_type: ip, identifier: '2001:0DB8::/32'}";
        desk.check(apply(twice, &[]), "invalid: the whitelist ..").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_for_another_revision_is_not_applied() {
    everywhere(async |place| {
        let desk = TestCatalog::open(place).await;
        let at = |number: u64| {
            let text = "rules: [{rule_id: a, limit: 1, window: 1s, identifier_type: user_id}]";
            let Intent::Apply { document, prune, .. } = apply(text, &[]) else {
                panic!("a document")
            };
            Intent::Apply { document, prune, revision: Some(number) }
        };
        let moved = |number: u64| {
            format!("moved: the catalog was changed meanwhile: it is at revision {number}")
        };
        desk.check(at(1), &moved(0)).await;
        desk.check(at(0), "+rule a").await;
        // A write that would change nothing is refused too.
        desk.check(at(0), &moved(1)).await;
        desk.check(at(1), "nothing").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_default_tier_moves_in_one_write() {
    everywhere(async |place| {
        let desk = TestCatalog::open(place).await;
        let tiers = |default: &str| {
            let tier =
                |name: &str| put(Kind::Tier, &json!({"tier": name, "default": name == default}));
            ["a", "b", "c"].map(tier).to_vec()
        };
        desk.check(Intent::Edits(tiers("a")), "+tier b, +tier c, +tier a").await;
        desk.check(Intent::Edits(tiers("c")), "~tier a, ~tier c").await;
        desk.check(Intent::Edits(tiers("a")), "~tier c, ~tier a").await;
        let second = only(put(Kind::Tier, &json!({"tier": "b", "default": true})));
        desk.check(second.clone(), "invalid: default: a is the default already; clients ..").await;
        let swap =
            vec![put(Kind::Tier, &json!({"tier": "b", "default": true})), remove(Kind::Tier, "a")];
        desk.check(Intent::Edits(swap), "-tier a, ~tier b").await;
        desk.check(second, "nothing").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_catalog_begins_once() {
    everywhere(async |place| {
        let text = "rules: [{rule_id: first, limit: 1, window: 1s, identifier_type: user_id}]";
        let beginning = || Seed { document: Source::parse(text).document };
        let catalog = place.catalog();
        assert!(catalog.open(beginning(), NOW, false).await.expect("a catalog"));
        let head = catalog.version().await.expect("a version");
        assert_eq!((head.revision.epoch, head.revision.number), (NOW.as_micros(), 1));
        assert_eq!(contents(&catalog).await.len(), 1);
        // A catalog that was changed since does not begin again.
        let desk = TestCatalog { catalog, author: crate::desk::admin() };
        desk.check(Intent::Edits(vec![remove(Kind::Rule, "first")]), "-rule first").await;
        let again = place.catalog();
        assert!(!again.open(beginning(), later(9), false).await.expect("a catalog"));
        assert_eq!(contents(&again).await.len(), 0);
        assert_eq!(again.version().await.expect("a version").revision.number, 2);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_admin_is_added_unless_there_is_a_valid_one() {
    everywhere(async |place| {
        let catalog = place.catalog();
        catalog.open(Seed::default(), NOW, false).await.expect("a catalog");
        let token = |id: &str, role: &str, expires_at: Option<&str>| {
            let (digit, id) = (id.bytes().map(u64::from).sum::<u64>(), id);
            let digest = format!("{digit:064x}");
            let fields = json!({
                "token_id": id, "digest": digest, "role": role, "expires_at": expires_at
            });
            let Entry::Token(token) = entry(Kind::Token, &fields) else { panic!("a token") };
            token
        };
        let add =
            async |token: Token, at| catalog.add_first_admin(token, at).await.expect("an answer");
        let viewer = Edit::Put {
            entry: Entry::Token(token("viewer", "viewer", None)),
            expect: Expect::Absent,
        };
        catalog.write(&crate::desk::admin(), only(viewer), NOW, false).await.expect("written");
        let (soon, after) = (later(3_600), later(7_200));
        let end = tollgate_rules::format_time(soon);
        // The token of a viewer does not count.
        assert!(add(token("first", "admin", Some(&end)), NOW).await);
        assert!(!add(token("second", "admin", None), NOW).await, "there is one");
        // An expired token does not count.
        assert!(add(token("third", "admin", None), after).await);
        assert!(!add(token("fourth", "admin", None), after).await, "there is one again");
        assert_eq!(contents(&catalog).await.len(), 3);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_to_a_catalog_that_was_not_opened_fails() {
    everywhere(async |place| {
        let catalog = place.catalog();
        let intent = only(put(Kind::Rule, &rule("api", &json!({}))));
        let early = catalog.write(&crate::desk::admin(), intent.clone(), NOW, false).await;
        assert!(early.is_err());
        catalog.migrate(NOW).await.expect("tables");
        let early = catalog.write(&crate::desk::admin(), intent, NOW, false).await;
        assert_eq!(tell(&early), format!("unusable: the catalog {} is empty", place.url()));
    })
    .await;
}
