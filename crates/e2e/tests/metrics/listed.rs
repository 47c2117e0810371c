//! The list of metrics: `/metrics` shows those that docs/serve.md lists and that a test sees change.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::process::Stdio;

use serde_json::json;

use tollgate_e2e::program::{promtool, root};
use tollgate_e2e::server::{JSON, Server, Setup};

/// For every metric the file, below `crates`, with a test in which it changes.
const TESTS: &[(&str, &[&str])] = &[
    ("e2e/tests/fleet/figures.rs", &["tollgate_envoy_config_info", "tollgate_rules_file_info"]),
    (
        "e2e/tests/metrics/counters.rs",
        &[
            "tollgate_audit_decisions_total",
            "tollgate_audit_resets_total",
            "tollgate_bans",
            "tollgate_bans_made_total",
            "tollgate_bans_not_kept_total",
            "tollgate_bans_not_made_total",
            "tollgate_build_info",
            "tollgate_catalog_last_sync_age_seconds",
            "tollgate_check_duration_seconds",
            "tollgate_config_errors_total",
            "tollgate_counters",
            "tollgate_candidate_decisions_total",
            "tollgate_decisions_total",
            "tollgate_evictions_total",
            "tollgate_evictions_exhausted_total",
            "tollgate_hot_key_ratio",
            "tollgate_hot_key_requests_per_second",
            "tollgate_http_responses_total",
            "tollgate_idempotency_keys",
            "tollgate_memory_bytes",
            "tollgate_memory_max_bytes",
            "tollgate_soft_limit_warnings_total",
            "tollgate_policy_age_seconds",
            "tollgate_policy_revision",
            "tollgate_policy_rules",
            "tollgate_ready",
            "tollgate_rules_file_last_reload_success_timestamp_seconds",
            "tollgate_rules_file_last_reload_successful",
            "tollgate_throttled_total",
            "tollgate_top_client_refused",
        ],
    ),
    ("e2e/tests/metrics/requests.rs", &["tollgate_requests_total"]),
    (
        "e2e/tests/metrics/servers.rs",
        &[
            "tollgate_deny_cache_hits_total",
            "tollgate_requests_degraded_total",
            "tollgate_store_calls_total",
            "tollgate_store_clock_drift_seconds",
            "tollgate_store_duration_seconds",
            "tollgate_store_errors_total",
            "tollgate_store_fallbacks_total",
            "tollgate_store_breaker_opened_total",
            "tollgate_store_request_seconds",
            "tollgate_store_up",
        ],
    ),
    (
        "e2e/tests/gateway/gateway.rs",
        &[
            "tollgate_gateway_failures_total",
            "tollgate_gateway_responses_total",
            "tollgate_gateway_upgrades",
        ],
    ),
    ("e2e/tests/gateway/seen.rs", &["tollgate_tokens_total"]),
    ("e2e/tests/gateway/stale.rs", &["tollgate_gateway_retries_total"]),
    (
        "e2e/tests/service/figures/preview.rs",
        &[
            "tollgate_recent_traffic_bytes",
            "tollgate_recent_traffic_lost_total",
            "tollgate_recent_traffic_one_in",
            "tollgate_recent_traffic_requests",
            "tollgate_recent_traffic_span_seconds",
        ],
    ),
    ("e2e/tests/service/grpc/hostile.rs", &["tollgate_grpc_responses_total"]),
    ("e2e/tests/service/grpc/rate_limiter.rs", &["tollgate_caller_skew_seconds"]),
    ("e2e/tests/service/rls/metrics.rs", &["tollgate_envoy_values_total"]),
    (
        "e2e/tests/service/rls/listed.rs",
        &[
            "tollgate_envoy_config_last_reload_success_timestamp_seconds",
            "tollgate_envoy_config_last_reload_successful",
        ],
    ),
    (
        "e2e/tests/propagation/policy_copy.rs",
        &[
            "tollgate_policy_copy_bytes",
            "tollgate_policy_copy_errors_total",
            "tollgate_policy_copy_refused_total",
        ],
    ),
    ("server/src/policy/bans.rs", &["tollgate_penalty_refusals_lost_total"]),
];

/// Name and type of each metric in the text format.
fn shown(text: &str) -> BTreeSet<(String, String)> {
    let families = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    families.map(|(name, kind)| (name.to_owned(), kind.to_owned())).collect()
}

/// Name and type of each metric in the table of the documents.
fn documented() -> BTreeSet<(String, String)> {
    let page = fs::read_to_string(root().join("docs/serve.md")).expect("the page");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `tollgate_"));
    rows.map(|row| {
        let mut cells = row.split('|').map(str::trim);
        let name = cells.next().expect("a name");
        let end = name.find(['{', '`']).expect("the end of the name");
        (format!("tollgate_{}", &name[..end]), cells.next().expect("a type").to_owned())
    })
    .collect()
}

#[test]
fn every_metric_is_documented_and_has_a_test() {
    let server = Server::with_rules("rules: []");
    let shown = shown(&server.get("/metrics").text());
    assert_eq!(shown, documented(), "left: /metrics, right: docs/serve.md");
    let names: BTreeSet<&str> = shown.iter().map(|(name, _)| name.as_str()).collect();
    let tested: BTreeSet<&str> = TESTS.iter().flat_map(|(_, names)| *names).copied().collect();
    assert_eq!(names, tested, "left: /metrics, right: those with a test");
    for (file, names) in TESTS {
        let text = fs::read_to_string(root().join("crates").join(file)).expect("a test");
        for name in *names {
            assert!(text.contains(name), "{file} has no test of {name}");
        }
    }
}

/// A server whose metrics have labels of all kinds, also some that a client chose.
fn busy_server() -> Server {
    let folder = tempfile::tempdir().expect("a folder");
    let limits = folder.path().join("ratelimit");
    fs::create_dir(&limits).expect("a directory");
    let file = "{domain: test, descriptors: [{key: user, detailed_metric: true, \
                rate_limit: {unit: year, requests_per_unit: 9}}]}";
    fs::write(limits.join("test.yaml"), file).expect("written");
    let arguments = ["--envoy-config", limits.to_str().expect("a readable path")];
    let rules = "rules: [{rule_id: per_user, limit: 1, window: 1h, identifier_type: user_id}]";
    let setup = Setup { rules: Some(rules), arguments: &arguments, ..Setup::default() };
    let server = Server::start_in(folder, &setup);
    for value in ["plain", "quoted \" and \\ and \n", "# EOF", "\u{e9}\u{fffd}"] {
        let body = json!({"domain": "test", "descriptors": [{"entries": [{"key": "user", "value": value}]}]});
        assert_eq!(server.post("/json", &body.to_string()).status, 200, "{value:?}");
        server.check(r#"{"identifiers":{"user_id":"ann"}}"#);
    }
    server
}

/// Runs promtool, and returns its complaints.
fn complaints(arguments: &[&str], input: &str) -> Result<(), String> {
    let mut tool = promtool()
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool runs");
    tool.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("written");
    let ran = tool.wait_with_output().expect("promtool ends");
    let said = String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned();
    if ran.status.success() { Ok(()) } else { Err(said) }
}

#[test]
fn promtool_finds_nothing_wrong() {
    let text = busy_server().get("/metrics").text();
    assert_eq!(complaints(&["check", "metrics"], &text), Ok(()), "{text}");
}

#[test]
fn open_metrics_is_sent_only_if_it_is_asked_for() {
    const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
    const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    let server = busy_server();
    let check = |accept: Option<&str>, expected: &str| {
        let fields: Vec<_> = accept.map(|accept| ("Accept", accept)).into_iter().collect();
        let answer = server.ask("GET", "/metrics", &fields, "");
        assert_eq!(answer.header("content-type"), Some(expected), "{accept:?}");
        let ends_as_open_metrics = answer.text().ends_with("# EOF\n");
        assert_eq!(ends_as_open_metrics, expected == OPEN_METRICS, "{accept:?}");
    };
    check(None, TEXT);
    check(Some("*/*"), TEXT);
    check(Some("text/plain"), TEXT);
    check(Some("application/openmetrics-text; version=1.0.0"), OPEN_METRICS);
    // What Prometheus sends.
    let prometheus = "application/openmetrics-text;version=1.0.0,\
        application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
    check(Some(prometheus), OPEN_METRICS);
}

/// This rule is in no policy, so it is shown only once it was used.
#[test]
fn the_rule_for_limits_of_requests_is_not_shown_until_it_is_used() {
    let server = busy_server();
    let is_shown = || {
        let stats = server.get_as_admin("/api/v1/stats");
        assert_eq!(stats.status, 200, "{stats:?}");
        let in_stats = stats.text().contains("carried-limit");
        assert_eq!(in_stats, server.get("/metrics").text().contains("carried-limit"));
        in_stats
    };
    assert!(!is_shown());
    let limit = json!({"requestsPerUnit": 1, "unit": "YEAR"});
    let descriptor = json!({"entries": [{"key": "new", "value": "x"}], "limit": limit});
    let body = json!({"domain": "test", "descriptors": [descriptor]}).to_string();
    assert_eq!(server.ask("POST", "/json", &[JSON], &body).status, 200);
    assert!(is_shown());
}
