//! The history of a policy: what it was at each revision, what differs between two, and the way back.

use serde_json::json;
use tollgate_catalog::{Catalog, Change, Intent, Kind, RevisionRecord};
use tollgate_core::Micros;

use crate::desk::{
    TestCatalog, admin, apply, contents, later, patch, put, remove, rule, tell, tenant_admin,
};
use crate::place::everywhere;

fn rollback(to: u64) -> Intent {
    Intent::Rollback { only: None, to, revision: None }
}

/// The policy at a revision: the bodies of all entries.
async fn policy_at(catalog: &Catalog, tenant: Option<&str>, revision: u64) -> Vec<String> {
    let policy = catalog.policy_at(tenant, revision).await.expect("a policy");
    let bodies = policy
        .into_iter()
        .flat_map(|(kind, bodies)| bodies.into_iter().map(move |body| format!("{kind} {body}")));
    bodies.collect()
}

/// All entries of a policy that a catalog has now.
async fn policy_now(catalog: &Catalog) -> Vec<String> {
    let contents = contents(catalog).await;
    let bodies = Kind::POLICY.into_iter().flat_map(|kind| {
        let such = contents.iter().filter(move |((it, _), _)| *it == kind);
        such.map(move |(_, kept)| format!("{kind} {}", kept.body))
    });
    bodies.collect()
}

fn in_words(changes: &[Change]) -> String {
    let words = changes.iter().map(|it| {
        let sign = match (&it.before, &it.after) {
            (None, _) => '+',
            (_, None) => '-',
            _ => '~',
        };
        format!("{sign}{} {}", it.kind, it.name)
    });
    words.collect::<Vec<_>>().join(", ")
}

fn lines(records: &[RevisionRecord]) -> Vec<String> {
    let line = |it: &RevisionRecord| {
        let note = it.note.as_deref().map(|note| format!(" [{note}]")).unwrap_or_default();
        format!("{} {} {}: {}{note}", it.revision, it.actor, it.changes, it.summary)
    };
    records.iter().map(line).collect()
}

/// Some revisions of all kinds, with the policy after each.
async fn fill(desk: &TestCatalog) -> Vec<Vec<String>> {
    let user = |more: serde_json::Value| {
        let mut body = json!({"identifier_type": "user_id", "identifier": "u1"});
        body.as_object_mut().expect("fields").extend(more.as_object().expect("fields").clone());
        body
    };
    let steps = [
        vec![put(Kind::Rule, &rule("api", &json!({}))), put(Kind::Tier, &json!({"tier": "pro"}))],
        vec![patch(Kind::Rule, "api", json!({"limit": 20, "burst": null}))],
        vec![
            put(Kind::Override, &user(json!({"rule_id": "api", "limit": 5}))),
            put(Kind::Client, &user(json!({"tier": "pro"}))),
            put(Kind::Whitelist, &user(json!({}))),
            put(Kind::Blacklist, &user(json!({}))),
        ],
        vec![
            patch(Kind::Rule, "api", json!({"limit": 30})),
            put(Kind::Rule, &rule("new", &json!({}))),
        ],
        vec![
            remove(Kind::Override, r#"["api","user_id","u1"]"#),
            remove(Kind::Rule, "api"),
            remove(Kind::Whitelist, r#"["user_id","u1"]"#),
        ],
        vec![put(Kind::Rule, &rule("api", &json!({"limit": 40})))],
    ];
    let mut policies = Vec::new();
    for (at, step) in (0..).zip(steps) {
        desk.write_at(step, later(at)).await;
        policies.push(policy_now(&desk.catalog).await);
    }
    policies
}

#[tokio::test(flavor = "multi_thread")]
async fn the_policy_of_every_revision_is_known() {
    everywhere(async |place| {
        let desk = TestCatalog::open(place).await;
        let policies = fill(&desk).await;
        for (revision, expected) in (1..).zip(&policies) {
            assert_eq!(policy_at(&desk.catalog, None, revision).await, *expected, "{revision}");
        }
        let check = async |from: u64, to: u64, expected: &str| {
            let changes = desk.catalog.changes_between(None, from, to).await.expect("changes");
            assert_eq!(in_words(&changes), expected, "{from} to {to}");
        };
        check(1, 1, "").await;
        check(1, 2, "~rule api").await;
        check(4, 5, "-rule api, -override [\"api\",\"user_id\",\"u1\"], -whitelist [\"user_id\",\"u1\"]").await;
        check(5, 4, "+rule api, +override [\"api\",\"user_id\",\"u1\"], +whitelist [\"user_id\",\"u1\"]").await;
        check(4, 6, "~rule api, -override [\"api\",\"user_id\",\"u1\"], -whitelist [\"user_id\",\"u1\"]").await;
        let (history, has_more) = desk.catalog.revisions(None, None, 99).await.expect("a list");
        assert!(!has_more);
        assert_eq!(
            lines(&history),
            [
                "6 ada 1: rule api created",
                "5 ada 3: whitelist user_id u1 deleted, override api user_id u1 deleted, rule api deleted",
                "4 ada 2: rule api updated (limit 20 -> 30), rule new created",
                "3 ada 4: client user_id u1 created, override api user_id u1 created, whitelist user_id u1 \
                 created and 1 more",
                "2 ada 1: rule api updated (limit 10 -> 20)",
                "1 ada 2: tier pro created, rule api created",
            ]
        );
        let (page, has_more) = desk.catalog.revisions(None, Some(5), 2).await.expect("a list");
        assert_eq!((page[0].revision, page[1].revision, page.len(), has_more), (4, 3, 2, true));
        assert_eq!(page[0].at, later(3));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_restores_every_revision_and_can_itself_be_undone() {
    everywhere(async |place| {
        let desk = TestCatalog::open(place).await;
        let policies = fill(&desk).await;
        let last = policies.len() as u64;
        for (to, expected) in (1..).zip(&policies) {
            let done = desk.catalog.write(&admin(), rollback(to), later(9), false).await;
            done.unwrap_or_else(|error| panic!("{to}: {error}"));
            assert_eq!(policy_now(&desk.catalog).await, *expected, "{to}");
            desk.catalog
                .write(&admin(), rollback(last), later(9), false)
                .await
                .expect("the way back");
            assert_eq!(policy_now(&desk.catalog).await, policies[policies.len() - 1]);
        }
        let newest = desk.version().await.revision.number;
        desk.check(rollback(newest), "nothing").await;
        desk.check(
            rollback(2),
            "-blacklist [\"user_id\",\"u1\"], -client [\"user_id\",\"u1\"], -rule new, ~rule api",
        )
        .await;
        let (history, _) = desk.catalog.revisions(None, None, 1).await.expect("a list");
        assert_eq!(history[0].note.as_deref(), Some("rollback to revision 2"));
        let moved = Intent::Rollback { only: None, to: 1, revision: Some(newest) };
        desk.check(
            moved,
            &format!("moved: the catalog was changed meanwhile: it is at revision {}", newest + 1),
        )
        .await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_that_would_be_invalid_changes_nothing() {
    everywhere(async |place| {
        let desk = TestCatalog::open(place).await;
        desk.write(vec![put(Kind::Tier, &json!({"tier": "free"}))]).await;
        desk.write(vec![put(Kind::Tier, &json!({"tier": "pro"}))]).await;
        let key = json!({"key_id": "k", "digest": "a".repeat(64), "tier": "pro"});
        desk.write(vec![put(Kind::ApiKey, &key)]).await;
        // The API key is not part of the policy and stays, so its tier has to stay too.
        desk.check(rollback(1), "in use: ..").await;
        let (history, _) = desk.catalog.revisions(None, None, 9).await.expect("a list");
        assert_eq!(history.iter().map(|it| it.revision).collect::<Vec<_>>(), [2, 1]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn revisions_that_are_not_kept_are_named() {
    everywhere(async |place| {
        let desk = TestCatalog::open(place).await;
        fill(&desk).await;
        desk.check(rollback(0), "no revision: there is no revision 0: there are 1 to 6").await;
        desk.check(rollback(7), "no revision: there is no revision 7: there are 1 to 6").await;
        desk.catalog.forget_audit(later(9), Micros::from_secs(6)).await.expect("done");
        let expected = "no revision: the policy of revision 3 is not known any more: the audit log goes back to \
                        revision 4 (the newest is 6)";
        desk.check(rollback(3), expected).await;
        let diff = desk.catalog.changes_between(None, 6, 3).await;
        assert!(diff.is_err_and(|error| expected.ends_with(&error.to_string())));
        assert!(desk.catalog.policy_at(None, 3).await.is_err());
        desk.check(rollback(4), "~rule api, +override..").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_sees_and_rolls_back_only_what_its_administrators_wrote() {
    everywhere(async |place| {
        let desk = TestCatalog::open(place).await;
        let acme = TestCatalog::of(place, tenant_admin("acme"));
        let own = |limit: u64| {
            put(Kind::Rule, &rule("acme.own", &json!({"tenant": "acme", "limit": limit})))
        };
        let operators = |limit: u64| {
            vec![
                put(Kind::Rule, &rule("given", &json!({"tenant": "acme", "limit": limit}))),
                put(Kind::Rule, &rule("other", &json!({"tenant": "umbrella", "limit": limit}))),
                put(Kind::Rule, &rule("all", &json!({"limit": limit}))),
            ]
        };
        desk.write(operators(1)).await;
        acme.write(vec![own(1)]).await;
        desk.write(operators(2)).await;
        acme.write(vec![own(2)]).await;
        acme.write(vec![remove(Kind::Rule, "acme.own")]).await;
        desk.write(vec![put(Kind::Rule, &rule("secret", &json!({})))]).await;

        let (history, _) = acme.catalog.revisions(Some("acme"), None, 9).await.expect("a list");
        assert_eq!(
            lines(&history),
            [
                "5 admin of acme 1: rule acme.own deleted",
                "4 admin of acme 1: rule acme.own updated (limit 1 -> 2)",
                "3 ada 1: rule given updated (limit 1 -> 2)",
                "2 admin of acme 1: rule acme.own created",
                "1 ada 1: rule given created",
            ]
        );
        let shown = policy_at(&acme.catalog, Some("acme"), 2).await.join("\n");
        assert!(shown.contains("acme.own") && shown.contains("given"), "{shown}");
        assert!(!shown.contains("umbrella") && !shown.contains("\"all\""), "{shown}");
        let changes = acme.catalog.changes_between(Some("acme"), 1, 6).await.expect("changes");
        assert_eq!(in_words(&changes), "~rule given");
        // The change by operators stays.
        acme.check(rollback(2), "+rule acme.own").await;
        acme.check(rollback(4), "~rule acme.own").await;
        acme.check(rollback(1), "-rule acme.own").await;
        let undone = desk.catalog.write(&admin(), rollback(2), later(1), true).await;
        assert_eq!(
            tell(&undone),
            "-rule secret, +rule acme.own, ~rule all, ~rule given, ~rule other"
        );
        // What operators removed is not the tenant's to restore.
        acme.write(vec![own(3)]).await;
        let with_rule = desk.version().await.revision.number;
        desk.write(vec![remove(Kind::Rule, "acme.own")]).await;
        acme.check(rollback(with_rule), "nothing").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_changes_are_refused_with_advice() {
    everywhere(async |place| {
        let desk = TestCatalog::open(place).await;
        desk.check(apply("tiers: [{tier: a}]", &[]), "+tier a").await;
        desk.check(apply("tiers: [{tier: b}]", &[]), "+tier b").await;
        let more = "INSERT INTO tollgate_changes (revision, place, kind, entry, becomes) \
                    WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 20000) \
                    SELECT 2, n, 'tier', 'b' || n, '{\"tier\":\"b\"}' FROM n";
        place.raw().await.run(more).await;
        let expected = "too many changes: more than 20000 entries have changed since revision 1: choose a later \
                        revision";
        desk.check(rollback(1), expected).await;
        assert!(desk.catalog.policy_at(None, 1).await.is_err());
        assert!(desk.catalog.policy_at(None, 2).await.is_ok());
    })
    .await;
}
