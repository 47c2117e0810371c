//! Changes of bans in the log: clients cause them, so their number is bounded, and nodes still miss nothing.

use serde_json::json;
use tollgate_catalog::{AuditFilter, BanEntry, ChangesSince, Kind, View};
use tollgate_rules::format_time;

use crate::desk::{NOW, TestCatalog, later, put, remove, rule};
use crate::place::{Place, everywhere};

fn ban(user: usize) -> BanEntry {
    BanEntry {
        rule_id: "r".to_owned(),
        identifier: vec![format!("u{user}")],
        tenant: None,
        expires_at: format_time(later(600)),
        lifted: None,
    }
}

async fn open(place: &Place) -> TestCatalog {
    let desk = TestCatalog::open(place).await;
    let penalty = json!({"penalty": {"after": 3, "within_seconds": 60, "ban_seconds": 600}});
    desk.write(vec![put(Kind::Rule, &rule("r", &penalty))]).await;
    desk
}

/// Bans these users, one revision each.
async fn ban_all(desk: &TestCatalog, users: std::ops::Range<usize>) {
    for user in users {
        let skipped = desk.catalog.keep_bans(&[ban(user)], NOW).await.expect("an answer");
        assert!(skipped.is_empty(), "{skipped:?}");
    }
}

/// Clients that were banned again and again once made the log grow for 90 days.
#[tokio::test(flavor = "multi_thread")]
async fn the_log_of_bans_is_bounded_and_nodes_that_follow_it_miss_nothing() {
    everywhere(async |place| {
        let desk = open(place).await;
        let behind = desk.version().await;
        let listed = |user: &str| json!({"identifier_type": "user_id", "identifier": user});
        desk.write(vec![put(Kind::Blacklist, &listed("first"))]).await;
        ban_all(&desk, 0..40).await;
        desk.write(vec![put(Kind::Blacklist, &listed("second"))]).await;
        // A record of what a person did stays.
        desk.write(vec![remove(Kind::Ban, r#"["r","u0"]"#)]).await;
        ban_all(&desk, 40..50).await;
        let near = desk.catalog.view().await.expect("a view");
        ban_all(&desk, 50..59).await;

        let trim = async |max: u64| desk.catalog.trim_ban_log(max).await.expect("done");
        assert_eq!(trim(60).await, 0, "there are no more");
        assert_eq!([trim(10).await, trim(10).await, trim(10).await], [20, 20, 9]);
        assert_eq!(trim(10).await, 0);
        let log = desk.catalog.audit(&AuditFilter::default(), None, 1_000).await.expect("a log");
        let by = |actor: &str| log.iter().filter(|record| record.actor == actor).count();
        assert_eq!((by("penalty"), by("ada")), (10, 4));

        // A node that would have to follow what was removed reads everything.
        let since = desk.catalog.since(behind).await.expect("an answer");
        assert!(matches!(since, ChangesSince::TooLong), "{since:?}");
        let since = desk.catalog.since(near.version()).await.expect("an answer");
        let ChangesSince::Changes(update) = since else { panic!("{since:?}") };
        assert_eq!(update.changes.len(), 9);
        let followed = near.apply(&update).expect("a view");
        let whole = desk.catalog.view().await.expect("a view");
        assert_eq!(followed.version(), whole.version());
        let bans = |view: &View| view.policy().directory().bans();
        assert_eq!((bans(&followed), bans(&whole)), (58, 58));
    })
    .await;
}

/// Removed changes may leave a gap between others. A node once took the gap for no change.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_notice_changes_that_were_removed_between_others() {
    everywhere(async |place| {
        let desk = open(place).await;
        let behind = desk.version().await;
        let lifted = |user: usize| remove(Kind::Ban, &format!(r#"["r","u{user}"]"#));
        let tier = |name: &str| vec![put(Kind::Tier, &json!({"tier": name}))];
        desk.write(tier("a")).await;
        ban_all(&desk, 0..2).await;
        let after = desk.write(vec![lifted(0)]).await.version;
        assert!(matches!(desk.catalog.since(behind).await, Ok(ChangesSince::Changes(..))));
        assert_eq!(desk.catalog.trim_ban_log(1).await.expect("done"), 2);
        let since = desk.catalog.since(behind).await.expect("an answer");
        assert!(matches!(since, ChangesSince::TooLong), "{since:?}");
        assert!(matches!(desk.catalog.since(after).await, Ok(ChangesSince::Nothing)));
        desk.write(tier("b")).await;
        assert!(matches!(desk.catalog.since(after).await, Ok(ChangesSince::Changes(..))));
    })
    .await;
}
