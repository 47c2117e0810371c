//! Notifications that another node has changed the catalog, also after the connection was lost.

use std::sync::Arc;

use tokio::sync::Notify;
use tokio::time::timeout;
use tollgate_catalog::{Catalog, Intent, PolicyBounds, Seed};
use tollgate_testbed::{Postgres, WAIT_TIMEOUT};

use crate::{NOW, author, node, opened, rule};
use tollgate_testbed::eventually;

async fn write(catalog: &Catalog, rule_id: &str) {
    let written = eventually("a write", || async {
        let intent = Intent::Edits(vec![rule(rule_id)]);
        catalog.write(&author(), intent, NOW, false).await.ok()
    });
    assert_eq!(written.await.changes.len(), 1);
}

async fn wakes(woken: &Notify) {
    timeout(WAIT_TIMEOUT, woken.notified()).await.expect("waited in vain to be woken");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_wakes_when_another_writes() {
    let server = Postgres::start();
    let writer = opened(&server).await;
    let woken = Arc::new(Notify::new());
    let listening = tokio::spawn({
        let (listener, woken) = (node(&server), Arc::clone(&woken));
        async move { listener.listen(&woken).await }
    });
    // It has begun to listen, and may have missed something before.
    wakes(&woken).await;
    write(&writer, "one").await;
    wakes(&woken).await;
    for (end, rule_id) in [(Postgres::restart as fn(&Postgres), "two"), (kill_and_start, "three")] {
        end(&server);
        // It listens again, and may have missed something meanwhile.
        wakes(&woken).await;
        write(&writer, rule_id).await;
        wakes(&woken).await;
    }
    assert!(!listening.is_finished());
    listening.abort();
}

fn kill_and_start(server: &Postgres) {
    server.kill();
    server.restart();
}

/// A dry run, or a write that changes nothing, notifies no task.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_notifies_only_its_own_process() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("sqlite:{}", folder.path().join("catalog.db").display());
    let catalog = Catalog::new(url.parse().expect("a valid URL"), PolicyBounds::default());
    catalog.open(Seed::default(), NOW, false).await.expect("a catalog");
    timeout(WAIT_TIMEOUT, catalog.changed()).await.expect("woken by the beginning");
    // It ends at once.
    timeout(WAIT_TIMEOUT, catalog.listen(&Notify::new())).await.expect("an end");
    let intent = || Intent::Edits(vec![rule("one")]);
    catalog.write(&author(), intent(), NOW, true).await.expect("a trial");
    catalog.write(&author(), Intent::Edits(Vec::new()), NOW, false).await.expect("nothing");
    let is_woken = is_changed(&catalog).await;
    assert!(!is_woken);
    catalog.write(&author(), intent(), NOW, false).await.expect("a write");
    assert!(is_changed(&catalog).await);
}

/// Whether a task that waits for a change would continue at once.
async fn is_changed(catalog: &Catalog) -> bool {
    tokio::select! {
        biased;
        () = catalog.changed() => true,
        () = std::future::ready(()) => false,
    }
}
