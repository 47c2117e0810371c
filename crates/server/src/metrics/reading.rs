//! What this server tells Prometheus. Labels are rule ids and fixed words; values that clients send only
//! where a file for Envoy asks for them, and only so many.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use tollgate::store::{HistogramSnapshot, RemoteStatus};
use tollgate::{BanCounts, RuleCounts};
use tollgate_gateway::Readings;

use super::encode::{by_outcome, counter, histogram, write_counter};
use super::{Format, RESPONSE_CLASSES, RequestCounts, servers};
use crate::audit_trail::Outcomes;
use crate::rls::values::Hits;

/// Everything that is told, at one moment.
#[derive(Debug)]
pub(crate) struct Reading {
    /// How requests ended.
    pub(crate) requests: RequestCounts,
    /// Those of the policy; the figures below are also of Envoy's limits.
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
    /// How often values met a limit whose file wants them named.
    pub(crate) values: Vec<((Arc<str>, String), Hits)>,
    /// The servers that counters are on.
    pub(crate) servers: Vec<RemoteStatus>,
    /// Requests refused without asking them.
    pub(crate) remembered_refusals: u64,
    pub(crate) counters: usize,
    pub(crate) memory_bytes: usize,
    pub(crate) evictions: u64,
    pub(crate) policy_revision: u64,
    pub(crate) policy_age_seconds: f64,
    /// How long the catalog has not been heard of, where there is one.
    pub(crate) catalog_silence_seconds: Option<f64>,
    pub(crate) config_errors: u64,
    pub(crate) idempotency_keys: usize,
    /// What became of decisions that were to be logged.
    pub(crate) audit: Outcomes,
    /// Resets of counters that were to be logged.
    pub(crate) resets: Outcomes,
    pub(crate) ready: bool,
}

impl Reading {
    /// The text that Prometheus reads.
    pub(crate) fn render(self, format: Format) -> String {
        let mut registry = Registry::with_prefix("tollgate");
        registry.register_collector(Box::new(self));
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &registry);
        format.of_open_metrics(text)
    }

    fn by_rule(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        name: &str,
        help: &str,
        count: impl Fn(&RuleCounts) -> u64,
    ) -> fmt::Result {
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (rule, counts) in &self.rules {
            let labels = [("rule_id", &**rule)];
            write_counter(metric.encode_family(&labels)?, count(counts))?;
        }
        Ok(())
    }
}

impl Collector for Reading {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let info = [("version", env!("CARGO_PKG_VERSION"))];
        let mut metric =
            encoder.encode_descriptor("build", "The program.", None, MetricType::Info)?;
        metric.encode_info(&info)?;

        let help = "Requests by entry and outcome, each counted once.";
        let mut metric = encoder.encode_descriptor("requests", help, None, MetricType::Counter)?;
        for (entry, outcome, count) in self.requests.iter() {
            let labels = [("entry", entry), ("outcome", outcome)];
            write_counter(metric.encode_family(&labels)?, count)?;
        }
        let help = "Requests that rules judged, by rule and outcome.";
        let mut metric = encoder.encode_descriptor("decisions", help, None, MetricType::Counter)?;
        for (rule, counts) in &self.rules {
            for (outcome, count) in [
                ("allowed", counts.admitted),
                ("refused", counts.refused),
                ("banned", counts.banned),
                ("would_refuse", counts.would_refuse),
            ] {
                let labels = [("rule_id", &**rule), ("outcome", outcome)];
                write_counter(metric.encode_family(&labels)?, count)?;
            }
        }
        let encoder = &mut encoder;
        let help = "Requests above the warning share of a limit.";
        self.by_rule(encoder, "near_limit", help, |counts| counts.warned)?;
        let help = "Requests that were told to wait.";
        self.by_rule(encoder, "throttled", help, |counts| counts.delayed)?;
        let help = "Requests judged without the shared store, by rule and on_store_failure.";
        let mut metric =
            encoder.encode_descriptor("store_fallbacks", help, None, MetricType::Counter)?;
        for (rule, counts) in &self.rules {
            for (mode, count) in [
                ("local", counts.fallback_local),
                ("open", counts.fallback_open),
                ("closed", counts.fallback_closed),
            ] {
                let labels = [("rule_id", &**rule), ("mode", mode)];
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
        let help = "Answers by class of status.";
        let mut metric =
            encoder.encode_descriptor("http_responses", help, None, MetricType::Counter)?;
        for (class, count) in RESPONSE_CLASSES.into_iter().zip(self.responses) {
            write_counter(metric.encode_family(&[("status", class)])?, count)?;
        }
        let help = "Answers to gRPC calls by code.";
        let mut metric =
            encoder.encode_descriptor("grpc_responses", help, None, MetricType::Counter)?;
        for (code, count) in &self.calls {
            write_counter(metric.encode_family(&[("code", *code)])?, *count)?;
        }
        forwarded(encoder, &self.gateway)?;
        let help = "Tokens of clients that were verified, or why they were not believed.";
        by_outcome(encoder, "tokens", help, &self.tokens)?;
        let help = "Decisions that were to be logged, by what became of that.";
        by_outcome(encoder, "audit_decisions", help, &self.audit)?;
        let help = "Resets of counters that were to be logged, by what became of that.";
        by_outcome(encoder, "audit_resets", help, &self.resets)?;
        let help = "How long judging a check takes, in seconds.";
        histogram(encoder, "check_duration_seconds", help, &self.checks)?;
        let help = "How long the store takes to settle, in seconds.";
        histogram(encoder, "store_duration_seconds", help, &self.store)?;
        servers::encode(encoder, &self.servers)?;
        let help = "Requests refused without asking the store, for it had just refused.";
        counter(encoder, "remembered_refusals", help, self.remembered_refusals)?;
        counter(encoder, "bans_made", "Clients that this node banned.", self.bans.made)?;
        let help =
            "Clients that were not banned: all places were taken, or those of the rule or tenant.";
        counter(encoder, "bans_not_made", help, self.bans.not_made)?;
        let help = "Bans that the catalog cannot keep, and that hold on this node only.";
        counter(encoder, "bans_not_kept", help, self.bans_not_kept)?;
        let help = "Refusals not counted towards a ban, for too many were waiting.";
        counter(encoder, "penalty_refusals_lost", help, self.lost_refusals)?;
        counter(encoder, "evictions", "Counters forgotten before their time.", self.evictions)?;
        let help = "Rules files that could not be put in force.";
        counter(encoder, "config_errors", help, self.config_errors)?;
        for (name, help, value) in [
            ("bans", "Bans in force.", self.bans.in_force as f64),
            ("counters", "Counters held in memory.", self.counters as f64),
            ("memory_bytes", "Memory taken by counters.", self.memory_bytes as f64),
            ("policy_rules", "Rules in force.", self.rules_in_force as f64),
            ("policy_revision", "The revision in force.", self.policy_revision as f64),
            ("policy_age_seconds", "Seconds since it was loaded.", self.policy_age_seconds),
            (
                "catalog_silence_seconds",
                "Seconds since the catalog was heard of.",
                self.catalog_silence_seconds.unwrap_or(0.0),
            ),
            ("idempotency_keys", "Idempotency keys remembered.", self.idempotency_keys as f64),
            ("caller_skew_seconds", "How far the clock of a caller was ahead.", self.skew_seconds),
            ("ready", "Whether the server takes traffic.", f64::from(u8::from(self.ready))),
        ] {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            metric.encode_gauge(&value)?;
        }
        Ok(())
    }
}

/// What a gateway counts.
fn forwarded(encoder: &mut DescriptorEncoder<'_>, gateway: &Readings) -> fmt::Result {
    let help = "Answers of the gateway by class of status.";
    let mut metric =
        encoder.encode_descriptor("gateway_responses", help, None, MetricType::Counter)?;
    for (class, count) in &gateway.responses {
        write_counter(metric.encode_family(&[("status", *class)])?, *count)?;
    }
    let help = "Requests that were not forwarded, and answers not passed on, by kind.";
    let mut metric =
        encoder.encode_descriptor("gateway_failures", help, None, MetricType::Counter)?;
    for (kind, count) in &gateway.failures {
        write_counter(metric.encode_family(&[("kind", *kind)])?, *count)?;
    }
    let help = "Requests sent to an upstream once more.";
    counter(encoder, "gateway_retries", help, gateway.retries)?;
    let help = "Upgraded connections that are open.";
    let mut metric =
        encoder.encode_descriptor("gateway_upgrades", help, None, MetricType::Gauge)?;
    metric.encode_gauge(&(gateway.upgrades as f64))
}

#[cfg(test)]
mod tests;
