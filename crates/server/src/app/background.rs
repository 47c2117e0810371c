//! What runs beside requests, for as long as the server does. Boxed, so that the command does not compile it again.

use futures_core::future::BoxFuture;

use crate::app::App;
use crate::edge::listen::Shutdown;
use crate::policy::bans;
use crate::policy::source::PolicySource;

impl App {
    /// Follows a catalog that others change too, until it is dropped.
    pub fn follow_catalog(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let PolicySource::Catalog(catalog_sync) = &self.state.policy_source else { return };
            let following = async {
                let mut looks = 0;
                loop {
                    let is_time_for_all = catalog_sync.wait(&mut looks).await;
                    let epoch = catalog_sync.epoch();
                    // `sync` logs a failure; the next round retries.
                    if self.state.sync().await.is_err() {
                        self.state.follow_policy_copy().await;
                    }
                    self.report_readiness();
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
            let publishing = self.state.publish_policy();
            tokio::join!(catalog_sync.listen(), following, noting, publishing);
        })
    }

    /// Keeps a shared store open while it belongs to the fleet, and its status current, until it is dropped.
    pub fn keep_store(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            tokio::join!(self.state.keep_store(), self.state.probe_store());
        })
    }

    /// Exchanges decisions and figures with other nodes, until it is dropped.
    pub fn exchange_journals(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            tokio::join!(self.state.exchange_journals(), self.state.exchange_figures());
        })
    }

    /// Keeps the figures of every second and the requests of the last minutes, until it is dropped.
    pub fn keep_figures(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            tokio::join!(self.state.keep_history(), self.state.keep_traffic());
        })
    }

    /// Writes the audit log until shutdown, then what is left of it, and removes old records.
    pub fn keep_records<'a>(&'a self, ending: &'a Shutdown) -> BoxFuture<'a, ()> {
        Box::pin(self.state.keep_records(ending))
    }

    /// Counts refusals and bans clients that are refused repeatedly, until it is dropped.
    pub fn punish(&self) -> BoxFuture<'_, ()> {
        Box::pin(bans::run(&self.state))
    }
}
