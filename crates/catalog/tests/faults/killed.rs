//! A PostgreSQL that is killed in the middle of writes, and comes back.

use std::sync::Arc;

use tollgate_catalog::Intent;
use tollgate_testbed::Postgres;

use crate::writer::Writer;
use crate::{NOW, author, opened, rule};

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_survives() {
    let server = Postgres::start();
    let catalog = Arc::new(opened(&server).await);
    let writer = Writer::start(Arc::clone(&catalog));
    for _ in 0..3 {
        writer.keeps(10).await;
        server.kill();
        writer.fails().await;
        server.restart();
    }
    writer.keeps(10).await;
    writer.check(&catalog).await;
}

/// A restart of the server between two calls fails no call.
#[tokio::test(flavor = "multi_thread")]
async fn a_restart_between_two_calls_goes_unnoticed() {
    let server = Postgres::start();
    let catalog = opened(&server).await;
    for number in 0..2 {
        let intent = Intent::Edits(vec![rule(&format!("r{number}"))]);
        catalog.write(&author(), intent, NOW, false).await.expect("a write");
        server.restart();
        assert_eq!(catalog.view().await.expect("a view").rules().len(), number + 1);
    }
}
