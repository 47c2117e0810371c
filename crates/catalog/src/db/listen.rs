//! Notifications that another node has changed the catalog.

use std::time::Duration;

use futures_core::future::BoxFuture;
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::catalog::Catalog;
use crate::db::connections::CALL_TIMEOUT;
use crate::db::url::CatalogUrl;

/// The delay before a lost listener connects again.
const RECONNECT_DELAY: Duration = Duration::from_secs(1);

impl Catalog {
    /// Wakes `woken` whenever PostgreSQL notifies that a node has changed the catalog. Notifications can
    /// be lost, so callers must poll too. Never returns for PostgreSQL; returns at once for a file, which
    /// has no notifications.
    pub fn listen<'a>(&'a self, woken: &'a Notify) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let CatalogUrl::Postgres(options) = self.url() else { return };
            loop {
                if let Ok(mut listener) = listener(options).await {
                    // Changes before it listened were not notified.
                    woken.notify_one();
                    // `None` and errors mean a lost connection: notifications were missed meanwhile.
                    while let Ok(Some(_)) = listener.try_recv().await {
                        woken.notify_one();
                    }
                }
                sleep(RECONNECT_DELAY).await;
            }
        })
    }
}

async fn listener(options: &PgConnectOptions) -> Result<PgListener, sqlx::Error> {
    let one = PgPoolOptions::new().max_connections(1).acquire_timeout(CALL_TIMEOUT);
    let mut listener = PgListener::connect_with(&one.connect_lazy_with(options.clone())).await?;
    listener.listen("tollgate_catalog").await?;
    Ok(listener)
}
