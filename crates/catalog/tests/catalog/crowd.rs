//! Several nodes at once: one begins the catalog, and whatever all of them write has an order.

use std::collections::BTreeSet;

use serde_json::json;
use tollgate_catalog::{Catalog, ChangesSince, Expect, Intent, Kind, Seed, Version};
use tollgate_rules::Source;

use crate::desk::{NOW, TestCatalog, admin, contents, only, put, rule};
use crate::place::{Place, everywhere};

const NODES: usize = 4;
const WRITES: usize = 25;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nodes_that_start_at_once() {
    let text = "rules: [{rule_id: first, limit: 1, window: 1s, identifier_type: user_id}]";
    everywhere(async |place| {
        // A race has many outcomes, and files are cheap.
        let rounds = if place.is_shared() { 3 } else { 20 };
        for _ in 0..rounds {
            let place = match place {
                Place::File { .. } => Place::file(),
                Place::Database { .. } => Place::database(),
            };
            let openings: Vec<_> = (0..NODES)
                .map(|_| {
                    let catalog = place.catalog();
                    let document = Source::parse(text).document;
                    tokio::spawn(async move {
                        let beginning = Seed { document };
                        catalog.open(beginning, NOW, false).await
                    })
                })
                .collect();
            let mut begun = 0;
            for opening in openings {
                let is_new = opening.await.expect("no panic");
                begun += usize::from(is_new.unwrap_or_else(|error| panic!("{error}")));
            }
            assert_eq!(begun, 1);
            let catalog = place.catalog();
            assert_eq!(contents(&catalog).await.len(), 1);
            assert_eq!(catalog.version().await.expect("a version").revision.number, 1);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nodes_that_write_at_once() {
    everywhere(async |place| {
        let desk = TestCatalog::open(place).await;
        let beginning = desk.version().await;
        let nodes: Vec<_> =
            (0..NODES).map(|node| tokio::spawn(write_many(place.catalog(), node))).collect();
        let mut heads = Vec::new();
        for node in nodes {
            heads.extend(node.await.expect("no panic"));
        }
        let numbers: BTreeSet<u64> = heads.iter().map(|head| head.revision.number).collect();
        assert_eq!(numbers, (1..=(NODES * WRITES) as u64).collect(), "without gaps");
        let stamps: BTreeSet<u64> = heads.iter().map(|head| head.stamp).collect();
        assert_eq!(stamps.len(), heads.len());
        // From each state, everything that was written later.
        heads.push(beginning);
        for head in heads {
            let missed = NODES * WRITES - usize::try_from(head.revision.number).expect("a number");
            match desk.catalog.since(head).await.expect("an answer") {
                ChangesSince::Nothing => assert_eq!(missed, 0),
                ChangesSince::Changes(update) => assert_eq!(update.changes.len(), missed),
                other => panic!("{other:?}"),
            }
        }
        let (own, shared) = (NODES * (WRITES - 5), 1);
        assert_eq!(contents(&desk.catalog).await.len(), own + shared);
    })
    .await;
}

/// Writes its own rules, and now and then one that all nodes write.
async fn write_many(catalog: Catalog, node: usize) -> Vec<Version> {
    let author = admin();
    let mut heads = Vec::new();
    for number in 0..WRITES {
        let intent = if number % 5 == 0 {
            let limit = 1 + node * WRITES + number;
            only(put(Kind::Rule, &rule("shared", &json!({"limit": limit}))))
        } else {
            only(put(Kind::Rule, &rule(&format!("r{node}.{number}"), &json!({}))))
        };
        let written = catalog.write(&author, intent, NOW, false).await;
        heads.push(written.unwrap_or_else(|error| panic!("{error}")).version);
    }
    heads
}

/// Of several nodes that change the entry they have read, one wins and the others get an error.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nodes_that_change_the_same() {
    everywhere(async |place| {
        let desk = TestCatalog::open(place).await;
        let version = desk.write(vec![put(Kind::Rule, &rule("api", &json!({})))]).await.version;
        let expect = Expect::Version(version.revision.number);
        let writers: Vec<_> = (0..NODES)
            .map(|node| {
                let catalog = place.catalog();
                let edit = crate::desk::put_if(
                    expect,
                    Kind::Rule,
                    &rule("api", &json!({"limit": 50 + node})),
                );
                tokio::spawn(async move {
                    catalog.write(&admin(), Intent::Edits(vec![edit]), NOW, false).await
                })
            })
            .collect();
        let mut told = Vec::new();
        for writer in writers {
            told.push(crate::desk::tell(&writer.await.expect("no panic")));
        }
        told.sort();
        let late = "changed: the rule api was changed meanwhile: it is at version 2";
        assert_eq!(told, [late, late, late, "~rule api"]);
    })
    .await;
}

/// Many concurrent callers of one catalog wait for each other, and all get a response.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_node_with_many_callers() {
    everywhere(async |place| {
        let desk = std::sync::Arc::new(TestCatalog::open(place).await);
        let callers: Vec<_> = (0..40)
            .map(|number| {
                let desk = std::sync::Arc::clone(&desk);
                tokio::spawn(async move {
                    if number % 4 == 0 {
                        let edit = put(Kind::Rule, &rule(&format!("r{number}"), &json!({})));
                        desk.write(vec![edit]).await;
                    }
                    desk.catalog.view().await.map(|view| view.rules().len())
                })
            })
            .collect();
        for caller in callers {
            caller.await.expect("no panic").expect("a view");
        }
        assert_eq!(contents(&desk.catalog).await.len(), 10);
    })
    .await;
}

/// Calls that each found another administrator used to remove all of them together.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_last_admin_token_stays_however_many_are_revoked_at_once() {
    everywhere(async |place| {
        let desk = TestCatalog::open(place).await;
        let token =
            |id: &str, role: &str| json!({"token_id": id, "digest": id.repeat(64), "role": role});
        let ids = ["1", "2", "3", "4"];
        let mut expired = token("5", "admin");
        expired["expires_at"] = json!("2020-01-01T00:00:00Z");
        desk.write(vec![put(Kind::Token, &token("6", "operator")), put(Kind::Token, &expired)])
            .await;
        for _ in 0..5 {
            desk.write(ids.map(|id| put(Kind::Token, &token(id, "admin"))).into()).await;
            let revoked = ids.map(|id| {
                let catalog = place.catalog();
                tokio::spawn(async move {
                    let (token_id, expect) = (id.to_owned(), Expect::Present);
                    let intent = Intent::RevokeToken { token_id, expect, now: NOW };
                    catalog.write(&admin(), intent, NOW, false).await
                })
            });
            let mut refusals = Vec::new();
            for revoked in revoked {
                if let Err(error) = revoked.await.expect("no panic") {
                    refusals.push(crate::desk::name_of(&error));
                }
            }
            assert_eq!(refusals, ["last admin"]);
        }
        let revoke = |id: &str| Intent::RevokeToken {
            token_id: id.to_owned(),
            expect: Expect::Present,
            now: NOW,
        };
        desk.check(revoke("6"), "-token 6").await;
        desk.check(revoke("7"), "missing..").await;
    })
    .await;
}
