//! What runs beside requests, for as long as the server does.

use crate::app::App;
use crate::edge::listen::Shutdown;
use crate::policy::bans;
use crate::policy::source::PolicySource;

impl App {
    /// Follows a catalog that others change too, until it is dropped.
    pub async fn follow_catalog(&self) {
        let PolicySource::Catalog(catalog_sync) = &self.state.policy_source else { return };
        let following = async {
            let mut looks = 0;
            loop {
                let is_time_for_all = catalog_sync.wait(&mut looks).await;
                let epoch = catalog_sync.epoch();
                // `sync` logs a failure; the next round retries.
                let _ = self.state.sync().await;
                if is_time_for_all {
                    let _ = self.state.sync_all().await;
                }
                // No write announces the rules of a restored catalog.
                if is_time_for_all || catalog_sync.epoch() != epoch {
                    catalog_sync.announce().await;
                }
            }
        };
        let noting = self.state.note_used_tokens(&catalog_sync.catalog);
        tokio::join!(catalog_sync.listen(), following, noting);
    }

    /// Writes the audit log until shutdown, then what is left of it, and removes old records.
    pub async fn keep_records(&self, ending: &Shutdown) {
        self.state.keep_records(ending).await;
    }

    /// Counts refusals and bans clients that are refused repeatedly, until it is dropped.
    pub async fn punish(&self) {
        bans::run(&self.state).await;
    }

    /// Keeps a shared store open while it belongs to the fleet, until it is dropped.
    pub async fn keep_store(&self) {
        self.state.keep_store().await;
    }
}
