//! Evaluates the rules of the kit on series, with promtool: as Prometheus scrapes a node by its address, and as in
//! Kubernetes, where targets have further labels.

use std::fs;

use serde_json::{Value, json};

use crate::kit::{file, run_promtool};

/// The interval between scrapes, as in `prometheus.yml`.
pub(crate) const SCRAPE_SECONDS: usize = 15;
/// The labels that Prometheus adds.
pub(crate) const TARGET: &str = "job=\"tollgate\",instance=\"node:8080\"";
/// Those that it adds in Kubernetes, too.
const KUBERNETES: &str =
    "cluster=\"east\",namespace=\"edge\",pod=\"tollgate-0\",container=\"tollgate\"";

/// Series have values in the notation of promtool: `_` is a scrape without one. At the last of so many scrapes, exactly
/// these alerts fire.
#[track_caller]
pub(crate) fn evaluate(series: &[(String, String)], expected: &[(usize, Vec<&str>)]) {
    let firing: Vec<Value> =
        expected.iter().map(|(steps, alerts)| firing_after(*steps, alerts)).collect();
    let in_kubernetes = format!("{TARGET},{KUBERNETES}");
    let mut tests = Vec::new();
    for target in [TARGET, in_kubernetes.as_str()] {
        let mut input = Vec::new();
        for (name, values) in series {
            input.push(json!({"series": name.replace(TARGET, target), "values": values}));
        }
        tests.push(json!({
            "interval": format!("{SCRAPE_SECONDS}s"),
            "input_series": input,
            "promql_expr_test": firing,
        }));
    }
    let test = json!({
        "rule_files": [file("tollgate-rules.yml")],
        "evaluation_interval": format!("{SCRAPE_SECONDS}s"),
        "tests": tests,
    });
    // JSON is YAML, too.
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("test.yml");
    fs::write(&path, test.to_string()).expect("written");
    run_promtool(&["test", "rules", &path.to_string_lossy()]);
}

/// The alerts that have to fire at the last of so many scrapes.
fn firing_after(steps: usize, alerts: &[&str]) -> Value {
    let samples: Vec<Value> = alerts
        .iter()
        .map(|alert| json!({"labels": format!("{{alertname=\"{alert}\"}}"), "value": 1}))
        .collect();
    json!({
        "expr": "group by (alertname) (ALERTS{alertstate=\"firing\"})",
        "eval_time": format!("{}s", (steps - 1) * SCRAPE_SECONDS),
        "exp_samples": samples,
    })
}
