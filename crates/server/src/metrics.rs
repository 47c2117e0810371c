//! What this server tells Prometheus. Labels are rule ids and fixed words, never what a client sent.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::StatusCode;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use tollgate::RuleCounts;

use crate::histogram::{Histogram, Snapshot};

/// What is counted while serving.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    /// How long it takes to judge a check.
    pub(crate) checks: Histogram,
    /// Answers by class: 2xx, 4xx other than 429, 429, 5xx.
    responses: [AtomicU64; RESPONSE_CLASSES.len()],
}

const RESPONSE_CLASSES: [&str; 4] = ["2xx", "4xx", "429", "5xx"];

impl Metrics {
    #[inline]
    pub(crate) fn count_response(&self, status: StatusCode) {
        let class = match status.as_u16() {
            429 => 2,
            400..=499 => 1,
            500.. => 3,
            _ => 0,
        };
        self.responses[class].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn responses(&self) -> [u64; RESPONSE_CLASSES.len()] {
        std::array::from_fn(|class| self.responses[class].load(Ordering::Relaxed))
    }
}

/// Everything that is told, at one moment.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) rules: Vec<(Arc<str>, RuleCounts)>,
    pub(crate) checks: Snapshot,
    pub(crate) store: Snapshot,
    pub(crate) responses: [u64; RESPONSE_CLASSES.len()],
    pub(crate) counters: usize,
    pub(crate) memory_bytes: usize,
    pub(crate) evictions: u64,
    pub(crate) policy_revision: u64,
    pub(crate) policy_age_seconds: f64,
    pub(crate) config_errors: u64,
    pub(crate) idempotency_keys: usize,
    pub(crate) ready: bool,
}

impl Reading {
    /// The text that Prometheus reads.
    pub(crate) fn render(self) -> String {
        let mut registry = Registry::with_prefix("tollgate");
        registry.register_collector(Box::new(self));
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &registry);
        text
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

        let help = "Requests that rules judged, by rule and outcome.";
        let mut metric = encoder.encode_descriptor("decisions", help, None, MetricType::Counter)?;
        for (rule, counts) in &self.rules {
            for (outcome, count) in [
                ("allowed", counts.admitted),
                ("refused", counts.refused),
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
        let help = "Requests judged without the shared store.";
        self.by_rule(encoder, "fallbacks", help, |counts| counts.degraded)?;

        let help = "Answers by class of status.";
        let mut metric =
            encoder.encode_descriptor("http_responses", help, None, MetricType::Counter)?;
        for (class, count) in RESPONSE_CLASSES.into_iter().zip(self.responses) {
            write_counter(metric.encode_family(&[("status", class)])?, count)?;
        }
        let help = "How long judging a check takes, in seconds.";
        histogram(encoder, "check_duration_seconds", help, &self.checks)?;
        let help = "How long the store takes to settle, in seconds.";
        histogram(encoder, "store_duration_seconds", help, &self.store)?;
        counter(encoder, "evictions", "Counters forgotten before their time.", self.evictions)?;
        let help = "Rules files that could not be put in force.";
        counter(encoder, "config_errors", help, self.config_errors)?;
        for (name, help, value) in [
            ("counters", "Counters held in memory.", self.counters as f64),
            ("memory_bytes", "Memory taken by counters.", self.memory_bytes as f64),
            ("policy_rules", "Rules in force.", self.rules.len() as f64),
            ("policy_revision", "The revision in force.", self.policy_revision as f64),
            ("policy_age_seconds", "Seconds since it was loaded.", self.policy_age_seconds),
            ("idempotency_keys", "Idempotency keys remembered.", self.idempotency_keys as f64),
            ("ready", "Whether the server takes traffic.", f64::from(u8::from(self.ready))),
        ] {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            metric.encode_gauge(&value)?;
        }
        Ok(())
    }
}

fn counter(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, count: u64) -> fmt::Result {
    write_counter(encoder.encode_descriptor(name, help, None, MetricType::Counter)?, count)
}

fn write_counter(mut metric: MetricEncoder<'_>, count: u64) -> fmt::Result {
    metric.encode_counter::<NoLabelSet, _, u64>(&count, None)
}

fn histogram(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    reading: &Snapshot,
) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
    metric.encode_histogram::<NoLabelSet>(reading.sum, reading.count, &reading.buckets, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn everything_is_told() {
        let metrics = Metrics::default();
        metrics.checks.observe(Duration::from_micros(3));
        for status in [200, 204, 404, 429, 429, 503] {
            metrics.count_response(StatusCode::from_u16(status).expect("a status"));
        }
        let counts = RuleCounts { admitted: 7, refused: 2, warned: 1, ..RuleCounts::default() };
        let text = Reading {
            rules: vec![("per_ip".into(), counts)],
            checks: metrics.checks.read(),
            store: Histogram::default().read(),
            responses: metrics.responses(),
            counters: 5,
            memory_bytes: 4096,
            evictions: 0,
            policy_revision: 3,
            policy_age_seconds: 1.5,
            config_errors: 1,
            idempotency_keys: 0,
            ready: true,
        }
        .render();
        for line in [
            "tollgate_decisions_total{rule_id=\"per_ip\",outcome=\"allowed\"} 7",
            "tollgate_decisions_total{rule_id=\"per_ip\",outcome=\"refused\"} 2",
            "tollgate_near_limit_total{rule_id=\"per_ip\"} 1",
            "tollgate_http_responses_total{status=\"2xx\"} 2",
            "tollgate_http_responses_total{status=\"429\"} 2",
            "tollgate_check_duration_seconds_bucket{le=\"0.000005\"} 1",
            "tollgate_check_duration_seconds_bucket{le=\"+Inf\"} 1",
            "tollgate_check_duration_seconds_count 1",
            "tollgate_counters 5.0",
            "tollgate_config_errors_total 1",
            "tollgate_policy_age_seconds 1.5",
            "tollgate_ready 1.0",
            "# EOF",
        ] {
            assert!(text.lines().any(|candidate| candidate == line), "{line} is not in\n{text}");
        }
    }
}
