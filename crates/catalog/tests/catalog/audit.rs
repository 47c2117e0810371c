//! Who changed what: all of it, in order, page by page, by every filter, and forgotten in time.

use serde_json::json;
use tollgate_catalog::{AuditFilter, AuditRecord, Author, Kind, Since};
use tollgate_core::Micros;

use crate::desk::{Desk, NOW, later, patch, put, remove, rule, tenant_admin};
use crate::place::{Place, everywhere};

/// Six revisions by three authors, five seconds apart.
async fn told(place: &Place) -> Desk {
    let desk = Desk::open(place).await;
    let of_acme = Desk::of(place, tenant_admin("acme"));
    let program = Desk::of(place, Author::program("penalties"));
    let own = json!({"tenant": "acme"});
    desk.write(vec![put(Kind::Rule, &rule("a", &own)), put(Kind::Rule, &rule("b", &json!({})))])
        .await;
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
    format!("{}.{} {} {}", record.revision, record.place, record.change.kind, record.change.entry)
}

#[tokio::test(flavor = "multi_thread")]
async fn records_are_found_by_every_filter() {
    everywhere(async |place| {
        let desk = told(place).await;
        let check = async |filter: AuditFilter, expected: &[&str]| {
            let log = desk.catalog.audit(&filter, None, 100).await.expect("a log");
            let found: Vec<String> = log.iter().map(short).collect();
            assert_eq!(found, expected, "{filter:?}");
            // Page by page it is the same.
            for limit in 1..=3 {
                let (mut paged, mut before) = (Vec::new(), None);
                loop {
                    let page = desk.catalog.audit(&filter, before, limit).await.expect("a log");
                    let Some(last) = page.last() else { break };
                    before = Some((last.revision, last.place));
                    paged.extend(page.iter().map(short));
                }
                assert_eq!(paged, expected, "{limit} at a time, {filter:?}");
            }
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
            AuditFilter { kind: Some(Kind::Rule), ..tenant },
            &["5.0 rule a", "2.0 rule a", "1.0 rule a"],
        )
        .await;
        check(
            AuditFilter { actor: Some("ada".to_owned()), ..any() },
            &[all[0], all[3], all[5], all[6]],
        )
        .await;
        check(AuditFilter { actor: Some("penalties".to_owned()), ..any() }, &[ban]).await;
        check(AuditFilter { kind: Some(Kind::Tier), ..any() }, &["3.0 tier a"]).await;
        let entry = AuditFilter { entry: Some("a".to_owned()), ..any() };
        check(entry.clone(), &["5.0 rule a", "3.0 tier a", "2.0 rule a", "1.0 rule a"]).await;
        check(AuditFilter { kind: Some(Kind::Tier), ..entry }, &["3.0 tier a"]).await;
        check(AuditFilter { since: Some(later(20)), ..any() }, &all[..2]).await;
        check(AuditFilter { until: Some(later(10)), ..any() }, &all[4..]).await;
        check(AuditFilter { since: Some(later(5)), until: Some(later(15)), ..any() }, &all[3..5])
            .await;
        check(AuditFilter { actor: Some("nobody".to_owned()), ..any() }, &[]).await;
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
        let head = desk.head().await;
        assert_eq!(forget(25, 25).await, 0);
        assert_eq!(forget(25, 20).await, 1);
        assert_eq!(left().await, 5);
        assert_eq!(forget(1_000, 0).await, 4);
        assert_eq!(left().await, 1);
        assert_eq!(forget(1_000, 0).await, 0);
        assert_eq!(desk.head().await, head);
        assert!(matches!(desk.catalog.since(head).await, Ok(Since::Nothing)));
        desk.write_at(vec![put(Kind::Rule, &rule("c", &json!({})))], later(2_000)).await;
        assert!(matches!(desk.catalog.since(head).await, Ok(Since::Changes(..))));
    })
    .await;
}

/// A clock that was set back makes a later revision look older. It must not leave a gap, which would
/// be a change that nodes never hear of.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_forgotten_leaves_no_gap() {
    everywhere(async |place| {
        let desk = Desk::open(place).await;
        let beginning = desk.head().await;
        let write = async |id: &str, seconds: u64| {
            desk.write_at(vec![put(Kind::Rule, &rule(id, &json!({})))], later(seconds)).await.head
        };
        let first = write("a", 100).await;
        write("b", 0).await;
        write("c", 200).await;
        desk.catalog.forget_audit(later(50), Micros::from_secs(0)).await.expect("done");
        let since = desk.catalog.since(first).await.expect("an answer");
        let Since::Changes(changes, _) = since else { panic!("{since:?}") };
        let names: Vec<&str> = changes.iter().map(|change| change.entry.as_str()).collect();
        assert_eq!(names, ["b", "c"]);
        // Whoever knows the beginning alone has missed what was forgotten.
        desk.catalog.forget_audit(later(150), Micros::from_secs(0)).await.expect("done");
        let since = desk.catalog.since(beginning).await.expect("an answer");
        assert!(matches!(since, Since::TooLong), "{since:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn digests_are_not_told() {
    everywhere(async |place| {
        let desk = Desk::open(place).await;
        let key = |owner: &str| json!({"key_id": "k", "digest": "d".repeat(64), "owner": owner});
        desk.write(vec![put(Kind::ApiKey, &key("u1"))]).await;
        desk.write(vec![put(Kind::ApiKey, &key("u2"))]).await;
        let log = desk.catalog.audit(&AuditFilter::default(), None, 1).await.expect("a log");
        let (was, becomes) = log[0].change.told();
        assert_eq!(was, Some(json!({"key_id": "k", "owner": "u1"})));
        assert_eq!(becomes, Some(json!({"key_id": "k", "owner": "u2"})));
        assert_eq!(log[0].at, NOW);
    })
    .await;
}
