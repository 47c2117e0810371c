//! A PostgreSQL that is paused: connections stay open, and no call gets a response.

use std::sync::Arc;
use std::time::Duration;

use tollgate_catalog::{AuditFilter, Catalog, CatalogError, Filter, Intent, Kind, Version};
use tollgate_testbed::{Postgres, Stopwatch};

use crate::writer::{Writer, check_words};
use crate::{NOW, author, opened, rule};
use tollgate_testbed::eventually;

/// How long any call may take, and what a busy machine may add to that.
const WITHIN: Duration = Duration::from_millis(12_000 + 1_500);

#[tokio::test(flavor = "multi_thread")]
async fn calls_to_a_paused_database_fail_in_time() {
    let server = Postgres::start();
    let catalog = Arc::new(opened(&server).await);
    let other = opened(&server).await;
    let writer = Writer::start(Arc::clone(&catalog));
    writer.keeps(5).await;
    server.pause();
    let before = Stopwatch::start();
    tokio::join!(
        // One is in the middle of a write.
        writer.fails(),
        // One has connections that worked until now.
        told(async { catalog.view().await.err() }),
        told(async { catalog.since(Version::default()).await.err() }),
        told(async { catalog.audit(&AuditFilter::default(), None, 1).await.err() }),
        told(async { catalog.page(Kind::Rule, &Filter::default(), None, 1).await.err() }),
        told(async { write(&other, "first").await.err() }),
        told(async { other.version().await.err() }),
        told(async { other.schema_version().await.err() }),
    );
    assert!(before.elapsed() < WITHIN, "{:?}", before.elapsed());
    server.resume();
    // Both catalogs work again.
    eventually("a view", || async { other.view().await.ok() }).await;
    writer.keeps(5).await;
    writer.check(&catalog).await;
}

/// The call fails in time, and says that the catalog is away.
async fn told(asking: impl Future<Output = Option<CatalogError>>) {
    let before = Stopwatch::start();
    let error = Box::pin(asking).await.expect("an error");
    assert!(before.elapsed() < WITHIN, "{:?}", before.elapsed());
    assert!(matches!(error, CatalogError::Away(_)), "{error:?}");
    check_words(&error);
}

async fn write(catalog: &Catalog, rule_id: &str) -> Result<(), CatalogError> {
    let intent = Intent::Edits(vec![rule(rule_id)]);
    catalog.write(&author(), intent, NOW, false).await.map(drop)
}
