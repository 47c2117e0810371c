//! Metrics that name values of requests, where a file asks for them.

use serde_json::json;

use super::{ask, start};
use tollgate_e2e::grpc::{CHECK_BATCH, Client, SHOULD_RATE_LIMIT, descriptor};

const FILE: &str = "
domain: test
descriptors:
  - {key: plain, rate_limit: {unit: year, requests_per_unit: 2}}
  - {key: detailed, detailed_metric: true, rate_limit: {unit: year, requests_per_unit: 2}}
  - key: tenant
    value_to_metric: true
    descriptors:
      - {key: path, rate_limit: {unit: year, requests_per_unit: 5}}
";

#[test]
fn values_are_named_where_a_file_asks_for_it() {
    let server = start(FILE);
    let mut client = Client::of(&server);
    for _ in 0..3 {
        ask(&mut client, &[&["detailed=x"]]);
        ask(&mut client, &[&["plain=secret"]]);
        ask(&mut client, &[&["tenant=acme", "path=/secret"]]);
    }
    let check = |rule: &str, value: &str, outcome: &str, expected: f64| {
        let labels = format!("rule_id=\"{rule}\",value=\"{value}\",outcome=\"{outcome}\"");
        let found = server.figure(&format!("tollgate_envoy_values_total{{{labels}}}"));
        assert!((found - expected).abs() < 0.1, "{labels}: {found}");
    };
    check("test.detailed", "detailed_x", "within", 2.0);
    check("test.detailed", "detailed_x", "over", 1.0);
    check("test.tenant.path", "tenant_acme.path", "within", 3.0);
    assert!(!server.get("/metrics").text().contains("secret"), "not named in the file");
}

#[test]
fn clients_cannot_fill_the_metrics() {
    const VALUES: usize = 12_000;
    let server = start(FILE);
    let mut client = Client::of(&server);
    let long = "x".repeat(1_000);
    for start in (0..VALUES).step_by(500) {
        let value = |number: usize| descriptor(&[&format!("detailed={number}\"\n{long}")]);
        let descriptors: Vec<_> = (start..start + 500).map(value).collect();
        client.call(SHOULD_RATE_LIMIT, &json!({"domain": "test", "descriptors": descriptors}));
    }
    let text = server.get("/metrics").text();
    let named = text.lines().filter(|line| line.starts_with("tollgate_envoy_values_total{"));
    let named: Vec<_> = named.filter(|line| line.contains("\"within\"")).collect();
    assert!(named.len() <= 10_001, "{} values", named.len());
    assert!(named.iter().all(|line| line.len() < 500), "long values are cut");
    let others = named.iter().find(|line| line.contains("(others)")).expect("the rest");
    let count: f64 =
        others.rsplit(' ').next().and_then(|count| count.parse().ok()).expect("a count");
    assert!((count - (VALUES - named.len() + 1) as f64).abs() < 0.1, "{others}");
    let failure = client.fail(CHECK_BATCH, &json!({}));
    assert_eq!(failure.code, "INVALID_ARGUMENT", "it still answers");
}
