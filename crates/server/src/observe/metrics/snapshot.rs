//! The metrics for Prometheus. Labels are rule ids and fixed words. Values that clients send are labels
//! only where a file for Envoy asks for them, and their number is bounded.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use tollgate::rules::candidate_of;
use tollgate::store::{HistogramSnapshot, RemoteStatus};
use tollgate::{BanCounts, RuleCounts};
use tollgate_gateway::Readings;

use super::encode::{by_outcome, counter, histogram, write_counter};
use super::take::TrafficPeaks;
use super::{MetricsFormat, RESPONSE_CLASSES, RequestCounts, servers};
use crate::app::readiness::NodeReadiness;
use crate::edge::envoy::values::Hits;
use crate::observe::audit_log::AuditOutcomes;
use crate::observe::recent_traffic::TrafficSize;
use crate::policy::load_status::LoadStatus;
use crate::policy::policy_copy::PolicyCopyCounts;

/// All metrics at one moment.
#[derive(Debug)]
pub(crate) struct MetricsSnapshot {
    /// How requests ended.
    pub(crate) requests: RequestCounts,
    /// The rules of the policy; the counts of `rules` are also of candidates and of Envoy's limits.
    pub(crate) rules_in_force: usize,
    pub(crate) rules: Vec<(Arc<str>, RuleCounts)>,
    pub(crate) bans: BanCounts,
    /// Refusals that were not counted towards a ban.
    pub(crate) lost_refusals: u64,
    pub(crate) bans_not_kept: u64,
    pub(crate) checks: HistogramSnapshot,
    pub(crate) store: HistogramSnapshot,
    pub(crate) responses: [u64; RESPONSE_CLASSES.len()],
    pub(crate) calls: Vec<(&'static str, u64)>,
    pub(crate) gateway: Readings,
    pub(crate) tokens: Vec<(&'static str, u64)>,
    pub(crate) skew_seconds: f64,
    /// Requests by value, for limits whose file asks for it.
    pub(crate) values: Vec<((Arc<str>, String), Hits)>,
    /// The servers that store counters.
    pub(crate) servers: Vec<RemoteStatus>,
    /// Requests refused without a call to these servers.
    pub(crate) deny_cache_hits: u64,
    pub(crate) counters: usize,
    pub(crate) memory_bytes: usize,
    /// The cap of `memory_bytes`; 0 without counters in memory.
    pub(crate) memory_max_bytes: usize,
    pub(crate) peaks: TrafficPeaks,
    pub(crate) evictions: u64,
    pub(crate) exhausted_evictions: u64,
    pub(crate) policy_revision: u64,
    pub(crate) policy_age_seconds: f64,
    /// How long ago the catalog last responded, where there is one.
    pub(crate) catalog_silence_seconds: Option<f64>,
    /// The copy of the policy in Redis.
    pub(crate) policy_copy: PolicyCopyCounts,
    pub(crate) config_errors: u64,
    /// The beginning of the SHA-256 of the rules file, where there is one.
    pub(crate) rules_file_digest: Option<String>,
    /// The beginning of the digest of Envoy's files, where there are any.
    pub(crate) envoy_config_digest: Option<String>,
    /// How the last load of the rules file ended, where there is one.
    pub(crate) rules_load: Option<Arc<LoadStatus>>,
    /// How the last load of Envoy's files ended, where there are any.
    pub(crate) envoy_load: Option<Arc<LoadStatus>>,
    pub(crate) idempotency_keys: usize,
    /// Decisions for the log, by outcome.
    pub(crate) audit: AuditOutcomes,
    /// Resets for the log, by outcome.
    pub(crate) resets: AuditOutcomes,
    /// Requests decided without the shared store.
    pub(crate) degraded: u64,
    /// The requests that are kept for previews.
    pub(crate) traffic: TrafficSize,
    /// Requests that were neither ranked nor kept.
    pub(crate) traffic_lost: u64,
    pub(crate) readiness: NodeReadiness,
}

impl MetricsSnapshot {
    /// Renders the text that Prometheus reads.
    pub(crate) fn render(self, format: MetricsFormat) -> String {
        let mut registry = Registry::with_prefix("tollgate");
        registry.register_collector(Box::new(self));
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &registry);
        format.of_open_metrics(text)
    }

    /// Writes how the last loads of files ended, with the names that Prometheus has for its own.
    fn loads(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let loads = [
            ("rules_file", "the rules file", self.rules_load.as_deref()),
            ("envoy_config", "files of envoyproxy/ratelimit", self.envoy_load.as_deref()),
        ];
        for (name, files, load) in loads {
            let successful = load.map(|load| f64::from(u8::from(load.error.is_none())));
            let loaded_at = load.map(|load| load.loaded_at.as_micros() as f64 / 1e6);
            for (name, help, value) in [
                (
                    format!("{name}_last_reload_successful"),
                    format!("Whether the last load of {files} succeeded; absent without files."),
                    successful,
                ),
                (
                    format!("{name}_last_reload_success_timestamp_seconds"),
                    format!("When the last successful load of {files} was; absent without files."),
                    loaded_at,
                ),
            ] {
                let mut metric =
                    encoder.encode_descriptor(&name, &help, None, MetricType::Gauge)?;
                if let Some(value) = value {
                    metric.encode_gauge(&value)?;
                }
            }
        }
        Ok(())
    }

    /// The counts of rules, without those of candidates: sums over rules stay as they are without candidates.
    fn written_rules(&self) -> impl Iterator<Item = (&str, &RuleCounts)> {
        let written = self.rules.iter().filter(|(id, _)| candidate_of(id).is_none());
        written.map(|(id, counts)| (&**id, counts))
    }

    fn by_rule(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        name: &str,
        help: &str,
        count: impl Fn(&RuleCounts) -> u64,
    ) -> fmt::Result {
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (rule, counts) in self.written_rules() {
            let labels = [("rule_id", rule)];
            write_counter(metric.encode_family(&labels)?, count(counts))?;
        }
        Ok(())
    }
}

impl Collector for MetricsSnapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let info = [("version", env!("CARGO_PKG_VERSION"))];
        let mut metric = encoder.encode_descriptor(
            "build",
            "Version of the program.",
            None,
            MetricType::Info,
        )?;
        metric.encode_info(&info)?;
        let files = [
            (
                "rules_file",
                "The first digits of the SHA-256 of the rules file; absent without one.",
                &self.rules_file_digest,
            ),
            (
                "envoy_config",
                "The first digits of the SHA-256 over the files of --envoy-config; absent without any.",
                &self.envoy_config_digest,
            ),
        ];
        for (name, help, digest) in files {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Info)?;
            if let Some(digest) = digest {
                metric.encode_info(&[("sha256", digest.as_str())])?;
            }
        }

        let help = "Requests by entry and outcome, each counted once.";
        let mut metric = encoder.encode_descriptor("requests", help, None, MetricType::Counter)?;
        for (entry, outcome, count) in self.requests.iter() {
            let labels = [("entry", entry), ("outcome", outcome)];
            write_counter(metric.encode_family(&labels)?, count)?;
        }
        let help = "Checks by rule and outcome; a request counts for each of its rules.";
        let mut metric = encoder.encode_descriptor("decisions", help, None, MetricType::Counter)?;
        for (rule, counts) in self.written_rules() {
            for (outcome, count) in [
                ("allowed", counts.admitted),
                ("refused", counts.refused),
                ("banned", counts.banned),
                ("would_refuse", counts.would_refuse),
            ] {
                let labels = [("rule_id", rule), ("outcome", outcome)];
                write_counter(metric.encode_family(&labels)?, count)?;
            }
        }
        let help = "Requests that passed, by rule with a candidate, and what the candidate would have done.";
        let name = "candidate_decisions";
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (id, counts) in &self.rules {
            let Some(rule) = candidate_of(id) else { continue };
            for (outcome, count) in
                [("allowed", counts.admitted), ("would_refuse", counts.would_refuse)]
            {
                let labels = [("rule_id", rule), ("outcome", outcome)];
                write_counter(metric.encode_family(&labels)?, count)?;
            }
        }
        let encoder = &mut encoder;
        let help = "Requests that passed above the warning share of a limit.";
        self.by_rule(encoder, "soft_limit_warnings", help, |counts| counts.warned)?;
        let help = "Requests that were delayed.";
        self.by_rule(encoder, "throttled", help, |counts| counts.delayed)?;
        let help = "Requests checked without the shared store, by rule and on_store_failure.";
        let mut metric =
            encoder.encode_descriptor("store_fallbacks", help, None, MetricType::Counter)?;
        for (rule, counts) in self.written_rules() {
            for (mode, count) in [
                ("local", counts.fallback_local),
                ("open", counts.fallback_open),
                ("closed", counts.fallback_closed),
            ] {
                let labels = [("rule_id", rule), ("mode", mode)];
                write_counter(metric.encode_family(&labels)?, count)?;
            }
        }

        let help = "Requests of Envoy by limit, value and outcome, where a file asks for it.";
        let mut metric =
            encoder.encode_descriptor("envoy_values", help, None, MetricType::Counter)?;
        for ((rule, value), hits) in &self.values {
            for (outcome, count) in [("within", hits.within), ("over", hits.over)] {
                let labels = [("rule_id", &**rule), ("value", value), ("outcome", outcome)];
                write_counter(metric.encode_family(&labels)?, count)?;
            }
        }
        let help = "Responses by class of status.";
        let mut metric =
            encoder.encode_descriptor("http_responses", help, None, MetricType::Counter)?;
        for (class, count) in RESPONSE_CLASSES.into_iter().zip(self.responses) {
            write_counter(metric.encode_family(&[("status", class)])?, count)?;
        }
        let help = "Responses to gRPC calls by code.";
        let mut metric =
            encoder.encode_descriptor("grpc_responses", help, None, MetricType::Counter)?;
        for (code, count) in &self.calls {
            write_counter(metric.encode_family(&[("code", *code)])?, *count)?;
        }
        forwarded(encoder, &self.gateway)?;
        let help = "Tokens of clients by outcome: verified, or why they were rejected.";
        by_outcome(encoder, "tokens", help, &self.tokens)?;
        let help = "Decisions for the audit log: written, lost or failed.";
        by_outcome(encoder, "audit_decisions", help, &self.audit)?;
        let help = "Resets of counters for the audit log: written, lost or failed.";
        by_outcome(encoder, "audit_resets", help, &self.resets)?;
        let help = "Duration of checks in seconds.";
        histogram(encoder, "check_duration_seconds", help, &self.checks)?;
        let help = "Duration of settling in the store in seconds.";
        histogram(encoder, "store_duration_seconds", help, &self.store)?;
        servers::encode(encoder, &self.servers)?;
        let help = "Requests refused from the deny cache, without asking the store.";
        counter(encoder, "deny_cache_hits", help, self.deny_cache_hits)?;
        counter(encoder, "bans_made", "Clients that this node banned.", self.bans.made)?;
        let help =
            "Clients not banned because the table was full, or the share of the rule or tenant.";
        counter(encoder, "bans_not_made", help, self.bans.not_made)?;
        let help = "Bans that the catalog did not store, and that hold on this node only.";
        counter(encoder, "bans_not_kept", help, self.bans_not_kept)?;
        let help = "Refusals not counted towards a ban because the queue was full.";
        counter(encoder, "penalty_refusals_lost", help, self.lost_refusals)?;
        counter(
            encoder,
            "evictions",
            "Counters evicted before they expired, because memory was full.",
            self.evictions,
        )?;
        let help = "Counters of clients at their limit that were evicted, so that their limits started anew.";
        counter(encoder, "evictions_exhausted", help, self.exhausted_evictions)?;
        let help = "Requests decided without the shared store, each counted once.";
        counter(encoder, "requests_degraded", help, self.degraded)?;
        let help = "Requests that top lists and previews lack, because they came too fast.";
        counter(encoder, "recent_traffic_lost", help, self.traffic_lost)?;
        let help = "Configurations that could not be loaded.";
        counter(encoder, "config_errors", help, self.config_errors)?;
        for (name, help, value) in [
            ("bans", "Bans in force.", self.bans.in_force as f64),
            ("counters", "Counters held in memory.", self.counters as f64),
            ("memory_bytes", "Memory taken by counters.", self.memory_bytes as f64),
            (
                "memory_max_bytes",
                "The most memory that counters may take; 0 if they are in a shared store.",
                self.memory_max_bytes as f64,
            ),
            (
                "top_client_refused",
                "Requests of the last minute that did not pass, of the client with most of them.",
                self.peaks.top_client_refused as f64,
            ),
            (
                "hot_key_requests_per_second",
                "Requests per second that charge the counter with most of them, over the last minute; of those in the shared store, if there is one.",
                self.peaks.busiest_counter.per_second,
            ),
            (
                "hot_key_ratio",
                "Share of requests that charge the counter with most of them, over the last minute, from 0 to 1.",
                self.peaks.busiest_counter.share,
            ),
            ("policy_rules", "Rules in force.", self.rules_in_force as f64),
            ("policy_revision", "Revision of the policy in force.", self.policy_revision as f64),
            ("policy_age_seconds", "Seconds since the policy was loaded.", self.policy_age_seconds),
            (
                "policy_copy_bytes",
                "Size of the copy of the policy in Redis that this node published or loaded last.",
                self.policy_copy.bytes as f64,
            ),
            (
                "recent_traffic_bytes",
                "Size of the recent requests that are kept.",
                self.traffic.bytes as f64,
            ),
            (
                "recent_traffic_requests",
                "Recent requests that are kept.",
                self.traffic.requests as f64,
            ),
            (
                "recent_traffic_span_seconds",
                "Time from the first to the last of these requests.",
                self.traffic.span.get() as f64 / 1e6,
            ),
            (
                "recent_traffic_one_in",
                "One in so many clients is kept; 1 if all are.",
                self.traffic.one_in as f64,
            ),
            ("idempotency_keys", "Idempotency keys remembered.", self.idempotency_keys as f64),
            (
                "caller_skew_seconds",
                "How far the clock of the last caller that sent its time was ahead.",
                self.skew_seconds,
            ),
            (
                "ready",
                "Whether the server should get traffic.",
                f64::from(u8::from(self.readiness == NodeReadiness::Ready)),
            ),
        ] {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            metric.encode_gauge(&value)?;
        }
        let help =
            "Seconds since the last sync with the catalog; absent until the first one is known.";
        let name = "catalog_last_sync_age_seconds";
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        if let Some(age) = self.catalog_silence_seconds {
            metric.encode_gauge(&age)?;
        }
        self.loads(encoder)?;
        let help = "Copies of the policy in Redis that were refused: forged, cut or unreadable.";
        counter(encoder, "policy_copy_refused", help, self.policy_copy.refused)?;
        let help = "Times the copy of the policy could not be published in Redis.";
        counter(encoder, "policy_copy_errors", help, self.policy_copy.errors)?;
        Ok(())
    }
}

/// Writes the metrics of the gateway.
fn forwarded(encoder: &mut DescriptorEncoder<'_>, gateway: &Readings) -> fmt::Result {
    let help = "Responses of the gateway by class of status.";
    let mut metric =
        encoder.encode_descriptor("gateway_responses", help, None, MetricType::Counter)?;
    for (class, count) in &gateway.responses {
        write_counter(metric.encode_family(&[("status", *class)])?, *count)?;
    }
    let help = "Requests not forwarded, and responses not passed on, by kind.";
    let mut metric =
        encoder.encode_descriptor("gateway_failures", help, None, MetricType::Counter)?;
    for (kind, count) in &gateway.failures {
        write_counter(metric.encode_family(&[("kind", *kind)])?, *count)?;
    }
    let help = "Requests retried on an upstream.";
    counter(encoder, "gateway_retries", help, gateway.retries)?;
    let help = "Upgraded connections that are open.";
    let mut metric =
        encoder.encode_descriptor("gateway_upgrades", help, None, MetricType::Gauge)?;
    metric.encode_gauge(&(gateway.upgrades as f64))
}

#[cfg(test)]
mod tests;
