//! What this server tells Prometheus. Labels are rule ids and fixed words; values that clients send only
//! where a file for Envoy asks for them, and only so many.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use tollgate::store::{BreakerState, RemoteStatus};
use tollgate::{BanCounts, RuleCounts};
use tollgate_gateway::Readings;

use super::RESPONSE_CLASSES;
use crate::audit_trail::Outcomes;
use crate::histogram::Snapshot;
use crate::rls::values::Hits;

/// Everything that is told, at one moment.
#[derive(Debug)]
pub(crate) struct Reading {
    /// Those of the policy; the figures below are also of Envoy's limits.
    pub(crate) rules_in_force: usize,
    pub(crate) rules: Vec<(Arc<str>, RuleCounts)>,
    pub(crate) bans: BanCounts,
    /// Refusals that were not counted towards a ban.
    pub(crate) lost_refusals: u64,
    pub(crate) checks: Snapshot,
    pub(crate) store: Snapshot,
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

/// How a server that counts is doing, as a number.
type Figure = (&'static str, &'static str, MetricType, fn(&RemoteStatus) -> Option<f64>);

const FIGURES: [Figure; 5] = [
    ("store_up", "Whether a server that counts is asked.", MetricType::Gauge, |server| {
        Some(f64::from(u8::from(server.breaker == BreakerState::Closed)))
    }),
    (
        "store_clock_drift_seconds",
        "How far the clock of a server that counts is ahead.",
        MetricType::Gauge,
        |server| server.drift_seconds,
    ),
    ("store_calls", "Calls to a server that counts.", MetricType::Counter, |server| {
        Some(server.calls as f64)
    }),
    (
        "store_failures",
        "Requests that a server that counts did not answer.",
        MetricType::Counter,
        |server| Some(server.failures as f64),
    ),
    (
        "store_openings",
        "How often a server that counts was left alone.",
        MetricType::Counter,
        |server| Some(server.openings as f64),
    ),
];

impl Reading {
    fn by_server(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        for (name, help, kind, figure) in FIGURES {
            let is_counter = matches!(kind, MetricType::Counter);
            let mut metric = encoder.encode_descriptor(name, help, None, kind)?;
            for server in &self.servers {
                let Some(value) = figure(server) else { continue };
                let labels = [("server", &*server.server)];
                let mut metric = metric.encode_family(&labels)?;
                if is_counter {
                    write_counter(metric, value as u64)?;
                } else {
                    metric.encode_gauge(&value)?;
                }
            }
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
        let help = "Requests judged without the shared store.";
        self.by_rule(encoder, "fallbacks", help, |counts| counts.degraded)?;

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
        self.by_server(encoder)?;
        let help = "Requests refused without asking the store, for it had just refused.";
        counter(encoder, "remembered_refusals", help, self.remembered_refusals)?;
        counter(encoder, "bans_made", "Clients that this node banned.", self.bans.made)?;
        let help = "Clients that were not banned, for there were too many bans.";
        counter(encoder, "bans_not_made", help, self.bans.not_made)?;
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

fn by_outcome(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    outcomes: &[(&'static str, u64)],
) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (outcome, count) in outcomes {
        write_counter(metric.encode_family(&[("outcome", *outcome)])?, *count)?;
    }
    Ok(())
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

    use http::StatusCode;
    use tollgate::identity::{TokenProblem, TokenVerdict};
    use tollgate_gateway::Counts;

    use crate::histogram::Histogram;
    use crate::metrics::Metrics;

    #[test]
    fn everything_is_told() {
        let metrics = Metrics::default();
        metrics.checks.observe(Duration::from_micros(3));
        for status in [200, 204, 404, 429, 429, 503] {
            metrics.count_response(StatusCode::from_u16(status).expect("a status"));
        }
        for verdict in [
            TokenVerdict::Absent,
            TokenVerdict::Verified,
            TokenVerdict::Rejected(TokenProblem::Ambiguous),
            TokenVerdict::Rejected(TokenProblem::Audience),
            TokenVerdict::Rejected(TokenProblem::Audience),
        ] {
            metrics.count_token(verdict);
        }
        let counts =
            RuleCounts { admitted: 7, refused: 2, banned: 9, warned: 1, ..RuleCounts::default() };
        let text = Reading {
            rules_in_force: 1,
            rules: vec![("per_ip".into(), counts)],
            bans: BanCounts { in_force: 4, made: 6, not_made: 1 },
            lost_refusals: 2,
            checks: metrics.checks.read(),
            store: Histogram::default().read(),
            responses: metrics.responses(),
            calls: vec![("OK", 9)],
            gateway: Counts::default().read(),
            tokens: metrics.tokens(),
            skew_seconds: -0.25,
            values: vec![(("shop.user".into(), "user_7".into()), Hits { within: 3, over: 1 })],
            servers: vec![RemoteStatus {
                server: "10.0.0.1:6379".to_owned(),
                breaker: BreakerState::Open,
                openings: 2,
                failures: 10,
                calls: 99,
                drift_seconds: Some(-0.5),
            }],
            remembered_refusals: 4,
            counters: 5,
            memory_bytes: 4096,
            evictions: 0,
            policy_revision: 3,
            policy_age_seconds: 1.5,
            catalog_silence_seconds: Some(0.25),
            config_errors: 1,
            idempotency_keys: 0,
            audit: [("written", 8), ("lost", 3), ("failed", 0)],
            resets: [("written", 0), ("lost", 0), ("failed", 1)],
            ready: true,
        }
        .render();
        for line in [
            "tollgate_decisions_total{rule_id=\"per_ip\",outcome=\"allowed\"} 7",
            "tollgate_decisions_total{rule_id=\"per_ip\",outcome=\"refused\"} 2",
            "tollgate_decisions_total{rule_id=\"per_ip\",outcome=\"banned\"} 9",
            "tollgate_near_limit_total{rule_id=\"per_ip\"} 1",
            "tollgate_envoy_values_total{rule_id=\"shop.user\",value=\"user_7\",outcome=\"over\"} 1",
            "tollgate_http_responses_total{status=\"2xx\"} 2",
            "tollgate_http_responses_total{status=\"429\"} 2",
            "tollgate_check_duration_seconds_bucket{le=\"0.000005\"} 1",
            "tollgate_check_duration_seconds_bucket{le=\"+Inf\"} 1",
            "tollgate_check_duration_seconds_count 1",
            "tollgate_counters 5.0",
            "tollgate_store_up{server=\"10.0.0.1:6379\"} 0.0",
            "tollgate_store_clock_drift_seconds{server=\"10.0.0.1:6379\"} -0.5",
            "tollgate_store_calls_total{server=\"10.0.0.1:6379\"} 99",
            "tollgate_store_failures_total{server=\"10.0.0.1:6379\"} 10",
            "tollgate_store_openings_total{server=\"10.0.0.1:6379\"} 2",
            "tollgate_remembered_refusals_total 4",
            "tollgate_grpc_responses_total{code=\"OK\"} 9",
            "tollgate_tokens_total{outcome=\"verified\"} 1",
            "tollgate_tokens_total{outcome=\"ambiguous\"} 1",
            "tollgate_tokens_total{outcome=\"audience\"} 2",
            "tollgate_tokens_total{outcome=\"user\"} 0",
            "tollgate_caller_skew_seconds -0.25",
            "tollgate_gateway_responses_total{status=\"429\"} 0",
            "tollgate_gateway_failures_total{kind=\"upstream_timeout\"} 0",
            "tollgate_gateway_retries_total 0",
            "tollgate_gateway_upgrades 0.0",
            "tollgate_config_errors_total 1",
            "tollgate_policy_age_seconds 1.5",
            "tollgate_catalog_silence_seconds 0.25",
            "tollgate_audit_decisions_total{outcome=\"lost\"} 3",
            "tollgate_audit_resets_total{outcome=\"failed\"} 1",
            "tollgate_bans 4.0",
            "tollgate_bans_made_total 6",
            "tollgate_bans_not_made_total 1",
            "tollgate_penalty_refusals_lost_total 2",
            "tollgate_ready 1.0",
            "# EOF",
        ] {
            assert!(text.lines().any(|candidate| candidate == line), "{line} is not in\n{text}");
        }
    }
}
