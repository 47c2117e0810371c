//! Reads all metrics of a server at one moment.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tollgate::{MemoryStore, RuleCounts};

use super::MetricsSnapshot;
use crate::app::state::Shared;
use crate::edge::envoy::source::CARRIED;
use crate::observe::recent_traffic::hot::CounterLoad;
use crate::observe::recent_traffic::top::{RankedBy, TopAsk};

/// The window of the ranking of clients, in seconds.
const TOP_WINDOW: u64 = 60;

/// What stands out in the traffic of the last minute. Only the page of metrics has it: other callers need none of it, and
/// call often.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TrafficPeaks {
    /// Requests that did not pass, of the client with most of them.
    pub(crate) top_client_refused: u64,
    /// The counter that most requests charge.
    pub(crate) busiest_counter: CounterLoad,
}

impl Shared {
    /// The counts of each rule and each limit of Envoy's files.
    pub(crate) fn rule_counts(&self) -> impl Iterator<Item = (Arc<str>, RuleCounts)> {
        let is_shown = |(rule_id, counts): &(Arc<str>, RuleCounts)| {
            **rule_id != *CARRIED || *counts != RuleCounts::default()
        };
        let of_envoy = self.envoy.limiter.stats().into_iter().filter(is_shown);
        self.limiter.stats().into_iter().chain(of_envoy)
    }

    /// The counts of each rule, and of the limits of Envoy's files that were used: a file may have thousands
    /// of them, each of which would be nine series.
    fn used_rule_counts(&self) -> Vec<(Arc<str>, RuleCounts)> {
        let of_envoy = self.envoy.limiter.stats().into_iter();
        let used = of_envoy.filter(|(_, counts)| *counts != RuleCounts::default());
        self.limiter.stats().into_iter().chain(used).collect()
    }

    /// How many requests of one client did not pass within the last minute: the highest count of all clients. The
    /// metric does not say which client it is; `GET /api/v1/top` does.
    fn top_client_refused(&self) -> u64 {
        let ask =
            TopAsk { by: RankedBy::Client, window_seconds: TOP_WINDOW, limit: 1, tenant: None };
        let refused = self.recent_traffic.top(&ask, self.now()).refused;
        refused.entries.first().map_or(0, |first| first.count)
    }

    /// All metrics at this moment, as their page has them.
    pub(crate) fn whole_reading(&self) -> MetricsSnapshot {
        let (top_client_refused, busiest_counter) =
            (self.top_client_refused(), self.busiest_counter());
        let peaks = TrafficPeaks { top_client_refused, busiest_counter };
        MetricsSnapshot { peaks, ..self.reading() }
    }

    /// All metrics at this moment, without peaks of the traffic.
    pub(crate) fn reading(&self) -> MetricsSnapshot {
        let store = self.limiter.store();
        let memory = store.memory();
        let in_force = self.policy_source.in_force();
        MetricsSnapshot {
            rules_in_force: self.limiter.policy().rules().len(),
            requests: self.metrics.requests.read(),
            rules: self.used_rule_counts(),
            calls: self.metrics.calls(),
            gateway: self.metrics.gateway.read(),
            tokens: self.metrics.tokens(),
            skew_seconds: self.metrics.skew_seconds(),
            values: self.envoy.source.loaded.load().values.read(),
            bans: self.limiter.ban_counts(),
            lost_refusals: self.bans.lost(),
            bans_not_kept: self.bans.not_kept(),
            checks: self.metrics.checks.read(),
            store: self.store_durations.read(),
            responses: self.metrics.responses(),
            servers: store.status(),
            deny_cache_hits: store.deny_cache_hits(),
            counters: memory.map_or(0, MemoryStore::len),
            memory_bytes: memory.map_or(0, MemoryStore::bytes),
            memory_max_bytes: memory.map_or(0, MemoryStore::max_bytes),
            peaks: TrafficPeaks::default(),
            evictions: memory.map_or(0, MemoryStore::evicted),
            exhausted_evictions: memory.map_or(0, MemoryStore::evicted_exhausted),
            policy_revision: in_force.revision.number,
            rules_file_digest: in_force.file_digest,
            envoy_config_digest: self.envoy.source.file_digest(),
            policy_age_seconds: self.now().since(in_force.since).get() as f64 / 1e6,
            catalog_silence_seconds: self
                .policy_source
                .silence(self.now())
                .map(|silence| silence.get() as f64 / 1e6),
            policy_copy: self.policy_source.policy_copy(),
            config_errors: self.policy_source.errors()
                + self.envoy.source.errors.load(Ordering::Relaxed),
            rules_load: self.policy_source.file_status(),
            envoy_load: self.envoy.source.status(),
            idempotency_keys: self.checker.idempotency.len(),
            audit: self.audit_log.outcomes(),
            resets: self.audit_log.resets.outcomes(),
            degraded: self.metrics.requests.degraded(),
            traffic: self.recent_traffic.size(),
            traffic_lost: self.recent_traffic.lost(),
            readiness: self.readiness(),
        }
    }
}
