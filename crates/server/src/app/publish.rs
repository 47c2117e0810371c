//! Publishes the policy in Redis for nodes without the catalog: at once after a write of this node, and a few seconds
//! after changes of others, which the node that made them has published by then.

use std::time::Duration;

use aws_lc_rs::rand;
use tokio::time::sleep;
use tollgate::Stopwatch;
use tollgate_catalog::View;

use crate::app::state::Shared;
use crate::policy::source::PolicySource;

/// How often the header of the copy is checked, plus up to as much at random: all nodes check.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// Every how many of these checks the whole copy is read.
const FULL_CHECK_EVERY: u32 = 60;
/// The shortest time between two publications.
const MIN_REST: Duration = Duration::from_secs(1);
/// A node rests this many times as long as a publication took: a large policy takes a small share of its time.
const REST_FACTOR: u32 = 10;
/// The longest rest after a publication.
const MAX_REST: Duration = Duration::from_secs(30);

impl Shared {
    /// Puts the copy of the policy in Redis into force, if the catalog is unavailable and the copy is newer.
    pub(crate) async fn follow_policy_copy(&self) {
        let PolicySource::Catalog(catalog_sync) = &self.policy_source else { return };
        if let Some(secret) = self.fleet.secret() {
            let install = |before: &View, view: &View| self.install(before, view);
            catalog_sync.follow_policy_copy(secret, self.now(), install).await;
        }
    }

    /// Keeps the copy of the policy in Redis up to date, until it is dropped.
    pub(crate) async fn publish_policy(&self) {
        let PolicySource::Catalog(catalog_sync) = &self.policy_source else { return };
        if !catalog_sync.policy_copy.is_used() {
            return;
        }
        // The first check reads the whole copy.
        let mut checks = 0;
        loop {
            let began = Stopwatch::start();
            if let (Some(secret), true) = (self.fleet.secret(), self.fleet.owns_store()) {
                let is_thorough = checks % FULL_CHECK_EVERY == 0;
                checks = checks.wrapping_add(1);
                catalog_sync.publish_policy_copy(secret, self.now(), is_thorough).await;
            }
            sleep((began.elapsed() * REST_FACTOR).clamp(MIN_REST, MAX_REST)).await;
            tokio::select! {
                () = catalog_sync.written.notified() => {}
                () = sleep(CHECK_INTERVAL + at_random(CHECK_INTERVAL)) => {}
            }
        }
    }
}

/// A part of a time, so that nodes that start together do not stay together.
fn at_random(time: Duration) -> Duration {
    let mut byte = [0];
    // Without random numbers all nodes check at once, which is harmless.
    let _ = rand::fill(&mut byte);
    time * u32::from(byte[0]) / 256
}
