//! Keeps the copy of the policy in Redis up to date, and follows it while the catalog is unavailable.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use tollgate::Timestamp;
use tollgate_catalog::{ChangesSince, Version, View};

use crate::app::fleet_secret::FleetSecret;
use crate::policy::catalog_sync::CatalogSync;
use crate::policy::policy_copy::OpenedPolicy;

impl CatalogSync {
    /// Puts the policy in Redis into force if it is newer, while the catalog is unavailable: other nodes may reach it.
    pub(crate) async fn follow_policy_copy(
        &self,
        secret: &Arc<FleetSecret>,
        now: Timestamp,
        install: impl Fn(&View, &View),
    ) {
        if !self.is_away.load(Relaxed) {
            return;
        }
        let _turn = self.turn.lock().await;
        let before = self.view.load_full();
        let loaded = self.policy_copy.load(secret, before.version().revision).await;
        let Some(OpenedPolicy { view, export, heard_at }) = loaded else { return };
        let revision = view.version().revision.number;
        self.install(&before, view, now, install);
        self.heard_at.fetch_max(heard_at.map_or(0, Timestamp::as_micros), Relaxed);
        tracing::info!(revision, "the policy that another node published in Redis is in force");
        if let Some(copy) = &self.copy
            && let Err(error) = copy.import(&export).await
        {
            self.tell_bad_copy(&error);
        }
    }

    /// Publishes the policy in force to nodes without the catalog, unless that was done.
    pub(crate) async fn publish_policy_copy(
        &self,
        secret: &Arc<FleetSecret>,
        now: Timestamp,
        is_thorough: bool,
    ) {
        if !self.has_policy() {
            return;
        }
        let version = self.view.load().version();
        self.replace_undone_copy(secret, version, now).await;
        // The copy on the disk, so that the database is not read again.
        let source = match &self.copy {
            Some(copy) if copy.version().await.is_ok_and(|it| it == version) => copy,
            _ => &self.catalog,
        };
        let (source, heard_at) = (Arc::clone(source), self.heard_at());
        let revision = version.revision;
        self.policy_copy.publish(secret, revision, is_thorough, source, heard_at).await;
    }

    /// Begins a new epoch if the copy in Redis has a history that the catalog does not have: it was restored while no node
    /// ran. The copy would come back into force when the catalog is unavailable, with everything that the restore undid.
    async fn replace_undone_copy(&self, secret: &FleetSecret, ours: Version, now: Timestamp) {
        if self.is_away.load(Relaxed) {
            return;
        }
        let Some(found) = self.policy_copy.other_version(secret, ours).await else { return };
        if let Ok(ChangesSince::Restored) = self.catalog.since(found).await {
            tracing::warn!(
                revision = found.revision.number,
                "the copy of the policy in Redis has another history than the catalog, which was restored; a new epoch begins"
            );
            if let Err(error) = self.catalog.begin_epoch(found, now).await {
                tracing::warn!("the new epoch has to wait: {error}");
            }
        }
    }
}
