//! Being told that somebody else has changed the catalog.

use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::catalog::Catalog;
use crate::db::connections::PATIENCE;
use crate::db::url::CatalogUrl;

/// How long to leave a database alone that does not listen.
const PAUSE: Duration = Duration::from_secs(1);

impl Catalog {
    /// Wakes `woken` whenever some node has changed the catalog, as far as the database tells. It may
    /// fail to: whoever has to know asks now and then too. Never ends for PostgreSQL; for a file, which
    /// tells nobody, it ends at once.
    pub async fn listen(&self, woken: &Notify) {
        let CatalogUrl::Postgres(options) = self.url() else { return };
        loop {
            if let Ok(mut listener) = listener(options).await {
                // What happened before it listened was told to nobody here.
                woken.notify_one();
                // Until it loses its connection: what it does not hear meanwhile is not told either.
                while let Ok(Some(_)) = listener.try_recv().await {
                    woken.notify_one();
                }
            }
            sleep(PAUSE).await;
        }
    }
}

async fn listener(options: &PgConnectOptions) -> Result<PgListener, sqlx::Error> {
    let one = PgPoolOptions::new().max_connections(1).acquire_timeout(PATIENCE);
    let mut listener = PgListener::connect_with(&one.connect_lazy_with(options.clone())).await?;
    listener.listen("tollgate_catalog").await?;
    Ok(listener)
}
