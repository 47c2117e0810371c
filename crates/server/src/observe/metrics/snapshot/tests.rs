//! Every metric is in the text, with its name and labels.

use super::*;
use std::time::Duration;

use http::StatusCode;
use tollgate::Timestamp;
use tollgate::identity::{TokenProblem, TokenVerdict};
use tollgate::store::{BreakerState, Histogram};
use tollgate_gateway::GatewayCounts;

use crate::observe::metrics::{EntryPoint, Metrics, RequestOutcome};
use crate::observe::recent_traffic::hot::CounterLoad;

#[test]
fn every_metric_is_rendered() {
    let metrics = Metrics::default();
    metrics.checks.observe(Duration::from_micros(3));
    for status in [200, 204, 404, 429, 429, 503] {
        metrics.count_response(StatusCode::from_u16(status).expect("a status"));
    }
    metrics.requests.count(EntryPoint::Envoy, RequestOutcome::Refused);
    for verdict in [
        TokenVerdict::Absent,
        TokenVerdict::Verified,
        TokenVerdict::Rejected(TokenProblem::Ambiguous),
        TokenVerdict::Rejected(TokenProblem::Audience),
        TokenVerdict::Rejected(TokenProblem::Audience),
    ] {
        metrics.count_token(verdict);
    }
    let counts = RuleCounts {
        admitted: 7,
        refused: 2,
        banned: 9,
        warned: 1,
        fallback_open: 3,
        ..RuleCounts::default()
    };
    let text = MetricsSnapshot {
        requests: metrics.requests.read(),
        rules_in_force: 1,
        rules: vec![("per_ip".into(), counts)],
        bans: BanCounts { in_force: 4, made: 6, not_made: 1 },
        lost_refusals: 2,
        bans_not_kept: 1,
        checks: metrics.checks.read(),
        store: Histogram::default().read(),
        responses: metrics.responses(),
        calls: vec![("OK", 9)],
        gateway: GatewayCounts::default().read(),
        tokens: metrics.tokens(),
        skew_seconds: -0.25,
        values: vec![(("shop.user".into(), "user_7".into()), Hits { within: 3, over: 1 })],
        servers: vec![RemoteStatus {
            server: "10.0.0.1:6379".to_owned(),
            breaker: BreakerState::Open,
            failure: Some(tollgate::store::StoreErrorKind::Timeout),
            openings: 2,
            failures: 10,
            calls: 99,
            drift_seconds: Some(-0.5),
            latency: metrics.checks.read(),
            errors: [
                ("connection", 0),
                ("timeout", 10),
                ("corrupt", 0),
                ("refused", 0),
                ("other_fleet", 0),
            ],
        }],
        deny_cache_hits: 4,
        counters: 5,
        memory_bytes: 4096,
        memory_max_bytes: 8192,
        peaks: TrafficPeaks {
            top_client_refused: 17,
            busiest_counter: CounterLoad { per_second: 18.5, share: 0.25 },
        },
        evictions: 0,
        exhausted_evictions: 0,
        policy_revision: 3,
        policy_age_seconds: 1.5,
        catalog_silence_seconds: Some(0.25),
        policy_copy: PolicyCopyCounts { refused: 41, errors: 42, bytes: 43 },
        config_errors: 1,
        rules_load: Some(Arc::new(LoadStatus::loaded(Timestamp::from_millis(2_500)))),
        envoy_load: Some(Arc::new(LoadStatus {
            loaded_at: Timestamp::from_millis(1_500),
            tried_at: Timestamp::from_secs(2),
            error: Some("line 1".into()),
        })),
        idempotency_keys: 0,
        audit: [("written", 8), ("lost", 3), ("failed", 0)],
        resets: [("written", 0), ("lost", 0), ("failed", 1)],
        degraded: 61,
        traffic: TrafficSize {
            bytes: 62,
            requests: 63,
            span: tollgate::Micros::from_secs(64),
            one_in: 2,
        },
        traffic_lost: 65,
        rules_file_digest: None,
        envoy_config_digest: None,
        readiness: NodeReadiness::Ready,
    }
    .render(MetricsFormat::OpenMetrics);
    for line in [
        "tollgate_decisions_total{rule_id=\"per_ip\",outcome=\"allowed\"} 7",
        "tollgate_decisions_total{rule_id=\"per_ip\",outcome=\"refused\"} 2",
        "tollgate_decisions_total{rule_id=\"per_ip\",outcome=\"banned\"} 9",
        "tollgate_soft_limit_warnings_total{rule_id=\"per_ip\"} 1",
        "tollgate_envoy_values_total{rule_id=\"shop.user\",value=\"user_7\",outcome=\"over\"} 1",
        "tollgate_http_responses_total{status=\"2xx\"} 2",
        "tollgate_http_responses_total{status=\"429\"} 2",
        "tollgate_check_duration_seconds_bucket{le=\"0.000005\"} 1",
        "tollgate_check_duration_seconds_bucket{le=\"+Inf\"} 1",
        "tollgate_check_duration_seconds_count 1",
        "tollgate_counters 5.0",
        "tollgate_memory_max_bytes 8192.0",
        "tollgate_top_client_refused 17.0",
        "tollgate_hot_key_requests_per_second 18.5",
        "tollgate_hot_key_ratio 0.25",
        "tollgate_store_up{server=\"10.0.0.1:6379\"} 0.0",
        "tollgate_store_clock_drift_seconds{server=\"10.0.0.1:6379\"} -0.5",
        "tollgate_store_calls_total{server=\"10.0.0.1:6379\"} 99",
        "tollgate_store_errors_total{server=\"10.0.0.1:6379\",kind=\"timeout\"} 10",
        "tollgate_store_request_seconds_count{server=\"10.0.0.1:6379\"} 1",
        "tollgate_store_fallbacks_total{rule_id=\"per_ip\",mode=\"open\"} 3",
        "tollgate_requests_total{entry=\"envoy\",outcome=\"refused\"} 1",
        "tollgate_store_breaker_opened_total{server=\"10.0.0.1:6379\"} 2",
        "tollgate_deny_cache_hits_total 4",
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
        "tollgate_rules_file_last_reload_successful 1.0",
        "tollgate_rules_file_last_reload_success_timestamp_seconds 2.5",
        "tollgate_envoy_config_last_reload_successful 0.0",
        "tollgate_envoy_config_last_reload_success_timestamp_seconds 1.5",
        "tollgate_catalog_last_sync_age_seconds 0.25",
        "tollgate_policy_copy_refused_total 41",
        "tollgate_policy_copy_errors_total 42",
        "tollgate_policy_copy_bytes 43.0",
        "tollgate_audit_decisions_total{outcome=\"lost\"} 3",
        "tollgate_audit_resets_total{outcome=\"failed\"} 1",
        "tollgate_bans 4.0",
        "tollgate_bans_made_total 6",
        "tollgate_bans_not_made_total 1",
        "tollgate_bans_not_kept_total 1",
        "tollgate_penalty_refusals_lost_total 2",
        "tollgate_ready 1.0",
        "# EOF",
    ] {
        assert!(text.lines().any(|candidate| candidate == line), "{line} is not in\n{text}");
    }
}
