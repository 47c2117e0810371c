//! Who changed and reset what: all of it, in order, page by page, by every filter, and forgotten in time.

use serde_json::json;
use tollgate_catalog::{AuditFilter, AuditKind, AuditRecord, Author, ChangesSince, Kind};
use tollgate_core::Micros;

use crate::desk::{
    NOW, TestCatalog, admin, later, patch, put, remove, reset, reset_of, rule, subject_of,
    tenant_admin,
};
use crate::place::{Place, everywhere};

/// Six revisions by three authors, five seconds apart.
async fn told(place: &Place) -> TestCatalog {
    let desk = TestCatalog::open(place).await;
    let of_acme = TestCatalog::of(place, tenant_admin("acme"));
    let program = TestCatalog::of(place, Author::program("penalties"));
    let own = json!({"tenant": "acme"});
    desk.write(vec![put(Kind::Rule, &rule("a", &own)), put(Kind::Rule, &rule("b", &json!({})))])
        .await;
    // As in a catalog from before ids of tenants' rules had a prefix.
    let sql = "UPDATE tollgate_rules SET author_tenant = tenant";
    place.raw().await.run(sql).await;
    of_acme.write_at(vec![patch(Kind::Rule, "a", json!({"limit": 2}))], later(5)).await;
    desk.write_at(vec![put(Kind::Tier, &json!({"tier": "a"}))], later(10)).await;
    let ban = json!({
        "rule_id": "a", "tenant": "acme", "identifier": ["u"], "expires_at": "2030-01-01T00:00:00Z",
    });
    program.write_at(vec![put(Kind::Ban, &ban)], later(15)).await;
    of_acme.write_at(vec![patch(Kind::Rule, "a", json!({"limit": 3}))], later(20)).await;
    desk.write_at(vec![remove(Kind::Rule, "b")], later(25)).await;
    desk
}

fn short(record: &AuditRecord) -> String {
    // Resets stand behind all changes of their revision.
    let place = record
        .place
        .checked_sub(1 << 32)
        .map_or_else(|| record.place.to_string(), |number| format!("reset {number}"));
    format!("{}.{place} {}", record.revision, subject_of(record))
}

/// A filter finds these, whether at once or page by page.
async fn check_found(desk: &TestCatalog, filter: &AuditFilter, expected: &[&str]) {
    let log = desk.catalog.audit(filter, None, 100).await.expect("a log");
    let found: Vec<String> = log.iter().map(short).collect();
    assert_eq!(found, expected, "{filter:?}");
    for limit in 1..=3 {
        let (mut paged, mut before) = (Vec::new(), None);
        loop {
            let page = desk.catalog.audit(filter, before, limit).await.expect("a log");
            let Some(last) = page.last() else { break };
            before = Some((last.revision, last.place));
            paged.extend(page.iter().map(short));
        }
        assert_eq!(paged, expected, "{limit} at a time, {filter:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn records_are_found_by_every_filter() {
    everywhere(async |place| {
        let desk = told(place).await;
        let check = async |filter: AuditFilter, expected: &[&str]| {
            check_found(&desk, &filter, expected).await;
        };
        let ban = r#"4.0 ban ["a","u"]"#;
        let all = [
            "6.0 rule b",
            "5.0 rule a",
            ban,
            "3.0 tier a",
            "2.0 rule a",
            "1.1 rule b",
            "1.0 rule a",
        ];
        let any = AuditFilter::default;
        check(any(), &all).await;
        let tenant = AuditFilter { tenant: Some("acme".to_owned()), ..any() };
        check(tenant.clone(), &["5.0 rule a", ban, "2.0 rule a", "1.0 rule a"]).await;
        check(
            AuditFilter { kind: Some(Kind::Rule.into()), ..tenant },
            &["5.0 rule a", "2.0 rule a", "1.0 rule a"],
        )
        .await;
        check(
            AuditFilter { actors: vec!["ada".to_owned()], ..any() },
            &[all[0], all[3], all[5], all[6]],
        )
        .await;
        check(AuditFilter { actors: vec!["penalties".to_owned()], ..any() }, &[ban]).await;
        check(AuditFilter { kind: Some(Kind::Tier.into()), ..any() }, &["3.0 tier a"]).await;
        let entry = AuditFilter { entry: Some("a".to_owned()), ..any() };
        check(entry.clone(), &["5.0 rule a", "3.0 tier a", "2.0 rule a", "1.0 rule a"]).await;
        check(AuditFilter { kind: Some(Kind::Tier.into()), ..entry }, &["3.0 tier a"]).await;
        check(AuditFilter { since: Some(later(20)), ..any() }, &all[..2]).await;
        check(AuditFilter { until: Some(later(10)), ..any() }, &all[4..]).await;
        check(AuditFilter { since: Some(later(5)), until: Some(later(15)), ..any() }, &all[3..5])
            .await;
        check(AuditFilter { actors: vec!["unknown".to_owned()], ..any() }, &[]).await;
    })
    .await;
}

/// Resets change nothing that nodes follow, and stand in the log where they happened.
#[tokio::test(flavor = "multi_thread")]
async fn resets_are_logged_among_changes_and_make_no_revision() {
    everywhere(async |place| {
        let desk = TestCatalog::open(place).await;
        let (ada, acme) = (admin(), tenant_admin("acme"));
        let log = async |records| desk.catalog.log_resets(records).await.expect("kept");
        let early = [reset(&ada, "a", "u1", later(1))];
        log(&early).await;
        let head =
            desk.write_at(vec![put(Kind::Rule, &rule("a", &json!({})))], later(2)).await.version;
        let two = [reset(&ada, "a", "u1", later(3)), reset(&acme, "a", "u2", later(3))];
        log(&two).await;
        // A node that does not know whether they were kept writes them again.
        log(&two).await;
        log(&early).await;
        assert_eq!(desk.version().await, head);
        assert!(matches!(desk.catalog.since(head).await, Ok(ChangesSince::Nothing)));
        desk.write_at(vec![remove(Kind::Rule, "a")], later(4)).await;
        log(&[reset(&ada, "b", "u1", later(5))]).await;

        let all = [
            r#"2.reset 0 counters ["b","user_id","u1"]"#,
            "2.0 rule a",
            r#"1.reset 1 counters ["a","user_id","u2"]"#,
            r#"1.reset 0 counters ["a","user_id","u1"]"#,
            "1.0 rule a",
            r#"0.reset 0 counters ["a","user_id","u1"]"#,
        ];
        let any = AuditFilter::default;
        check_found(&desk, &any(), &all).await;
        let counters = AuditFilter { kind: Some(AuditKind::Counters), ..any() };
        check_found(&desk, &counters, &[all[0], all[2], all[3], all[5]]).await;
        let rules = AuditFilter { kind: Some(Kind::Rule.into()), ..any() };
        check_found(&desk, &rules, &[all[1], all[4]]).await;
        let entry = AuditFilter { entry: Some(r#"["a","user_id","u1"]"#.to_owned()), ..any() };
        check_found(&desk, &entry, &[all[3], all[5]]).await;
        let tenant = AuditFilter { tenant: Some("acme".to_owned()), ..any() };
        check_found(&desk, &tenant, &[all[2]]).await;
        let actor = AuditFilter { actors: vec!["ada".to_owned()], ..counters };
        check_found(&desk, &actor, &[all[0], all[3], all[5]]).await;
        let between = AuditFilter { since: Some(later(2)), until: Some(later(4)), ..any() };
        check_found(&desk, &between, &all[2..5]).await;

        let found = desk.catalog.audit(&entry, None, 1).await.expect("a log").remove(0);
        assert_eq!(reset_of(&found), two[0].reset);
        assert_eq!((found.at, found.actor, found.role), (later(3), ada.actor, ada.role));
        assert_eq!(found.address, ada.address);

        // Old ones go, and changes with them, but never the last change.
        let forget = async |seconds: u64| {
            desk.catalog.forget_audit(later(seconds), Micros::ZERO).await.expect("done")
        };
        assert_eq!(forget(3).await, 2);
        check_found(&desk, &any(), &all[..4]).await;
        assert_eq!(forget(100).await, 3);
        check_found(&desk, &any(), &[all[1]]).await;
    })
    .await;
}

/// Names are indexed, and indexes bound their length.
#[tokio::test(flavor = "multi_thread")]
async fn long_names_of_counters_are_kept_in_part() {
    everywhere(async |place| {
        let desk = TestCatalog::open(place).await;
        let long = [reset(&admin(), "a", &"\u{e9}".repeat(5_000), NOW)];
        desk.catalog.log_resets(&long).await.expect("kept");
        desk.catalog.log_resets(&long).await.expect("kept");
        let log = desk.catalog.audit(&AuditFilter::default(), None, 9).await.expect("a log");
        let [AuditRecord { name, .. }] = &log[..] else { panic!("{log:?}") };
        assert!(name.len() >= 1_499 && long[0].reset.entry.starts_with(name));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn old_records_are_forgotten_but_never_the_last() {
    everywhere(async |place| {
        let desk = told(place).await;
        let left = async || {
            desk.catalog.audit(&AuditFilter::default(), None, 100).await.expect("a log").len()
        };
        let forget = async |seconds: u64, kept: u64| {
            desk.catalog.forget_audit(later(seconds), Micros::from_secs(kept)).await.expect("done")
        };
        let head = desk.version().await;
        assert_eq!(forget(25, 25).await, 0);
        assert_eq!(forget(25, 20).await, 1);
        assert_eq!(left().await, 5);
        assert_eq!(forget(1_000, 0).await, 4);
        assert_eq!(left().await, 1);
        assert_eq!(forget(1_000, 0).await, 0);
        assert_eq!(desk.version().await, head);
        assert!(matches!(desk.catalog.since(head).await, Ok(ChangesSince::Nothing)));
        desk.write_at(vec![put(Kind::Rule, &rule("c", &json!({})))], later(2_000)).await;
        assert!(matches!(desk.catalog.since(head).await, Ok(ChangesSince::Changes(..))));
    })
    .await;
}

/// A clock that was set back makes a later revision look older. It must not leave a gap, which would
/// be a change that nodes miss.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_forgotten_leaves_no_gap() {
    everywhere(async |place| {
        let desk = TestCatalog::open(place).await;
        let beginning = desk.version().await;
        let write = async |id: &str, seconds: u64| {
            desk.write_at(vec![put(Kind::Rule, &rule(id, &json!({})))], later(seconds))
                .await
                .version
        };
        let first = write("a", 100).await;
        write("b", 0).await;
        write("c", 200).await;
        desk.catalog.forget_audit(later(50), Micros::from_secs(0)).await.expect("done");
        let since = desk.catalog.since(first).await.expect("an answer");
        let ChangesSince::Changes(update) = since else { panic!("{since:?}") };
        let names: Vec<&str> = update.changes.iter().map(|change| change.name.as_str()).collect();
        assert_eq!(names, ["b", "c"]);
        // A node that knows only the first version has missed removed changes.
        desk.catalog.forget_audit(later(150), Micros::from_secs(0)).await.expect("done");
        let since = desk.catalog.since(beginning).await.expect("an answer");
        assert!(matches!(since, ChangesSince::TooLong), "{since:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn digests_are_not_in_the_audit_log() {
    everywhere(async |place| {
        let desk = TestCatalog::open(place).await;
        let key = |owner: &str| json!({"key_id": "k", "digest": "d".repeat(64), "owner": owner});
        desk.write(vec![put(Kind::ApiKey, &key("u1"))]).await;
        desk.write(vec![put(Kind::ApiKey, &key("u2"))]).await;
        let log = desk.catalog.audit(&AuditFilter::default(), None, 1).await.expect("a log");
        let (before, after) = log[0].redacted();
        assert_eq!(before, Some(json!({"key_id": "k", "owner": "u1"})));
        assert_eq!(after, Some(json!({"key_id": "k", "owner": "u2"})));
        assert_eq!(log[0].at, NOW);
    })
    .await;
}

/// Tokens were shown by their ids, which people do not know.
#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_named_also_when_they_are_revoked() {
    everywhere(async |place| {
        let desk = TestCatalog::open(place).await;
        let token = |id: &str, name: Option<&str>, digit: &str| {
            let mut body = json!({"token_id": id, "digest": digit.repeat(64), "role": "operator"});
            if let Some(name) = name {
                body["name"] = json!(name);
            }
            put(Kind::Token, &body)
        };
        let tokens = [
            token("t1", Some("deploy"), "1"),
            token("t2", None, "2"),
            token("t3", Some("old"), "3"),
        ];
        desk.write(tokens.to_vec()).await;
        let own = json!({"tenant": "acme"});
        for (at, actor) in (1_u32..).zip(["t1", "t2", "t3"]) {
            let author = Author { actor: actor.to_owned(), role: "operator".to_owned(), ..admin() };
            let body = rule(&format!("r{at}"), &own);
            TestCatalog::of(place, author).write(vec![put(Kind::Rule, &body)]).await;
        }
        desk.write(vec![remove(Kind::Token, "t3")]).await;
        let filter = AuditFilter { kind: Some(Kind::Rule.into()), ..AuditFilter::default() };
        let log = desk.catalog.audit(&filter, None, 100).await.expect("a log");
        let names: Vec<_> = log.iter().map(|it| (&*it.actor, it.actor_name.as_deref())).collect();
        assert_eq!(names, [("t3", Some("old")), ("t2", None), ("t1", Some("deploy"))]);
        let revisions = async |tenant: Option<&str>| {
            let (revisions, _) = desk.catalog.revisions(tenant, None, 3).await.expect("a history");
            revisions.into_iter().map(|it| it.actor_name).collect::<Vec<_>>()
        };
        let [old, deploy] = ["old", "deploy"].map(|name| Some(name.to_owned()));
        assert_eq!(revisions(None).await, [old, None, deploy]);
        // They are tokens of operators.
        assert_eq!(revisions(Some("acme")).await, [None, None, None]);
    })
    .await;
}
