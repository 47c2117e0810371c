//! Probes of servers that no request calls: what is known about them would become old.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::RedisStore;
use crate::remote::breaker::{Admitted, Proof};

/// A key that is never written, without its prefix.
const PROBE_NAME: &str = "probe";

impl RedisStore {
    /// Probes each server that had no call since this was last called, or whose circuit breaker is open. Returns whether
    /// some of them fail, but not often enough yet to open their circuit breakers.
    pub async fn probe_idle(&self) -> bool {
        let slot_table = self.router.slot_table.load_full();
        let mut probes = JoinSet::new();
        for route in slot_table.routes().iter().filter(|route| route.node.breaker.is_idle()) {
            let (node, router) = (Arc::clone(&route.node), Arc::clone(&self.router));
            let Ok(admitted) = Admitted::new(Arc::clone(&node.breaker)) else { continue };
            probes.spawn(async move {
                let result = node.probe(&format!("{}{PROBE_NAME}", router.url.prefix)).await;
                if result.is_err() {
                    // An unreachable server may have been replaced.
                    router.poll_soon();
                }
                admitted.record_probe(&result, result.as_ref().map_or(Proof::Read, |proof| *proof));
            });
        }
        while probes.join_next().await.is_some() {}
        slot_table.routes().iter().any(|route| route.node.breaker.is_doubtful())
    }
}
