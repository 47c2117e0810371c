//! The dashboard for Grafana: a few panels that are written here, and one for each metric, whose query, unit and legend
//! follow from its type, name and labels. A new metric has a panel as soon as the file is written anew.

use std::env;
use std::fs;

use serde_json::{Value, json};

use crate::families::{Family, families};
use crate::kit::{file, text};

const FILE: &str = "tollgate-dashboard.json";

/// Panels in a line, and their size in the grid of 24 columns.
const PANELS_PER_LINE: usize = 3;
const WIDTH: usize = 8;
const HEIGHT: usize = 8;

/// The rows, each with the beginnings of the names of its metrics, without `tollgate_`. The first match counts.
const ROWS: [(&str, &[&str]); 8] = [
    (
        "Traffic",
        &[
            "requests",
            "busiest_",
            "http_",
            "grpc_",
            "envoy_values",
            "tokens",
            "caller_",
            "ready",
            "build_",
        ],
    ),
    (
        "Refusals by rule",
        &["decisions", "soft_", "throttled", "top_client", "deny_cache", "bans", "penalty_"],
    ),
    ("Latency", &["check_duration", "store_duration", "store_request"]),
    ("Store and circuit breaker", &["store_up", "store_breaker", "store_fallbacks", "store_"]),
    (
        "Catalog and policy",
        &["policy_", "catalog_", "rules_file_", "envoy_config_", "config_", "audit_"],
    ),
    ("Memory", &["memory", "counters", "evictions", "idempotency_", "recent_traffic"]),
    ("Gateway", &["gateway_"]),
    ("Other", &[""]),
];

/// The first panels of rows: what one looks at first.
const HEADLINES: [(&str, Headline); 4] = [
    (
        "Traffic",
        Headline {
            title: "Requests by outcome",
            help: "All requests of these nodes, each counted once.",
            unit: "reqps",
            expr: "sum by (outcome) (rate(tollgate_requests_total{instance=~\"$instance\"}[$__rate_interval]))",
            legend: "{{outcome}}",
        },
    ),
    (
        "Refusals by rule",
        Headline {
            title: "Share of requests that are refused",
            help: "Refused and denied requests, of all.",
            unit: "percentunit",
            expr: "sum(rate(tollgate_requests_total{instance=~\"$instance\",outcome=~\"refused|denied\"}[$__rate_interval])) / (sum(rate(tollgate_requests_total{instance=~\"$instance\"}[$__rate_interval])) > 0)",
            legend: "refused",
        },
    ),
    (
        "Refusals by rule",
        Headline {
            title: "Rules that refuse most",
            help: "The ten rules with most refusals.",
            unit: "reqps",
            expr: "topk(10, sum by (rule_id) (rate(tollgate_decisions_total{instance=~\"$instance\",outcome=~\"refused|banned\"}[$__rate_interval])))",
            legend: "{{rule_id}}",
        },
    ),
    (
        "Memory",
        Headline {
            title: "Memory of counters, of its cap",
            help: "Counters in memory; nothing with a shared store.",
            unit: "percentunit",
            expr: "tollgate_memory_bytes{instance=~\"$instance\"} / (tollgate_memory_max_bytes{instance=~\"$instance\"} > 0)",
            legend: "{{instance}}",
        },
    ),
];

/// A panel that is written here.
struct Headline {
    title: &'static str,
    help: &'static str,
    unit: &'static str,
    expr: &'static str,
    legend: &'static str,
}

/// The row of a metric.
fn row_of(name: &str) -> &'static str {
    let name = name.strip_prefix("tollgate_").unwrap_or(name);
    let row = ROWS.iter().find(|(_, beginnings)| beginnings.iter().any(|it| name.starts_with(*it)));
    row.map_or("Other", |(row, _)| row)
}

/// The name of a metric in words, without its unit.
fn title(name: &str) -> String {
    let name = name.strip_prefix("tollgate_").unwrap_or(name);
    let units = ["_total", "_timestamp_seconds", "_seconds", "_info"];
    let name = units.iter().find_map(|unit| name.strip_suffix(unit)).unwrap_or(name);
    let mut words = name.replace('_', " ");
    words[..1].make_ascii_uppercase();
    words.replace("Http", "HTTP").replace("Grpc", "gRPC")
}

fn unit(family: &Family, row: &str) -> &'static str {
    let ends = |ending: &str| family.name.ends_with(ending);
    match family.kind.as_str() {
        "counter" if matches!(row, "Traffic" | "Refusals by rule" | "Gateway") => "reqps",
        "counter" => "cps",
        _ if ends("_timestamp_seconds") => "dateTimeFromNow",
        _ if ends("_seconds") => "s",
        _ if ends("_bytes") => "bytes",
        _ if ends("_ratio") => "percentunit",
        _ if ends("_per_second") => "reqps",
        _ if ends("_up") || ends("_ready") || ends("_successful") => "bool_yes_no",
        _ => "short",
    }
}

/// The queries of a metric, each with its legend.
fn queries(family: &Family) -> Vec<(String, String)> {
    let Family { name, kind, labels, .. } = family;
    let legend = |labels: &[String]| {
        let shown: Vec<String> = labels.iter().map(|label| format!("{{{{{label}}}}}")).collect();
        shown.join(" ")
    };
    let with_instance = [&["instance".to_owned()], labels.as_slice()].concat();
    let selected = "{instance=~\"$instance\"}";
    let rate = |name: &str| format!("rate({name}{selected}[$__rate_interval])");
    match kind.as_str() {
        "counter" => {
            // Without labels, each node has its line.
            let by = if labels.is_empty() { &with_instance } else { labels };
            let sum = format!("sum by ({}) ({})", by.join(", "), rate(name));
            // There may be a thousand rules.
            let is_long = labels.iter().any(|label| label == "rule_id");
            let expr = if is_long { format!("topk(10, {sum})") } else { sum };
            vec![(expr, legend(by))]
        }
        "histogram" => [("0.5", "p50"), ("0.99", "p99")]
            .map(|(quantile, shown)| {
                let by = [labels.as_slice(), &["le".to_owned()]].concat().join(", ");
                let sum = format!("sum by ({by}) ({})", rate(&format!("{name}_bucket")));
                let legend = format!("{shown} {}", legend(labels)).trim_end().to_owned();
                (format!("histogram_quantile({quantile}, {sum})"), legend)
            })
            .into(),
        _ if name.ends_with("_info") => {
            let by = labels.join(", ");
            vec![(format!("count by ({by}) ({name}{selected})"), legend(labels))]
        }
        // Grafana counts time in milliseconds.
        _ if name.ends_with("_timestamp_seconds") => {
            vec![(format!("1000 * {name}{selected}"), legend(&with_instance))]
        }
        _ => vec![(format!("{name}{selected}"), legend(&with_instance))],
    }
}

fn datasource() -> Value {
    json!({"type": "prometheus", "uid": "${datasource}"})
}

/// A panel without its place.
fn panel(title: &str, help: &str, unit: &str, queries: &[(String, String)]) -> Value {
    let targets: Vec<Value> = ["A", "B"]
        .into_iter()
        .zip(queries)
        .map(|(id, (expr, legend))| {
            json!({"refId": id, "datasource": datasource(), "expr": expr, "legendFormat": legend})
        })
        .collect();
    let is_moment = unit == "dateTimeFromNow";
    json!({
        "type": if is_moment { "stat" } else { "timeseries" },
        "title": title,
        "description": help,
        "datasource": datasource(),
        "targets": targets,
        "fieldConfig": {"defaults": {"unit": unit}, "overrides": []},
        "options": if is_moment {
            json!({"reduceOptions": {"calcs": ["lastNotNull"]}, "textMode": "value_and_name"})
        } else {
            json!({"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}})
        },
    })
}

/// The panels of a row: those that are written here, then its metrics in the order of `ROWS`.
fn panels_of(row: &str, beginnings: &[&str], families: &[Family]) -> Vec<Value> {
    let headlines = HEADLINES.iter().filter(|(of, _)| *of == row).map(|(_, headline)| {
        let query = (headline.expr.to_owned(), headline.legend.to_owned());
        panel(headline.title, headline.help, headline.unit, &[query])
    });
    let place = |family: &&Family| {
        let name = family.name.strip_prefix("tollgate_").unwrap_or(&family.name);
        beginnings.iter().position(|begins| name.starts_with(*begins))
    };
    let mut own: Vec<&Family> = families.iter().filter(|it| row_of(&it.name) == row).collect();
    own.sort_by_key(place);
    let of_metrics = own.into_iter().map(|family| {
        panel(&title(&family.name), &family.help, unit(family, row), &queries(family))
    });
    headlines.chain(of_metrics).collect()
}

/// The dashboard for these metrics.
fn generate(families: &[Family]) -> Value {
    let mut panels = Vec::new();
    let mut top = 0;
    for (row, beginnings) in ROWS {
        let own = panels_of(row, beginnings, families);
        if own.is_empty() {
            continue;
        }
        let place = json!({"x": 0, "y": top, "w": 24, "h": 1});
        panels.push(json!({"type": "row", "title": row, "collapsed": false, "panels": [], "gridPos": place}));
        top += 1;
        let lines = own.len().div_ceil(PANELS_PER_LINE);
        for (at, mut panel) in own.into_iter().enumerate() {
            let (x, y) = (at % PANELS_PER_LINE * WIDTH, top + at / PANELS_PER_LINE * HEIGHT);
            panel["gridPos"] = json!({"x": x, "y": y, "w": WIDTH, "h": HEIGHT});
            panels.push(panel);
        }
        top += lines * HEIGHT;
    }
    for (id, panel) in (1..).zip(&mut panels) {
        panel["id"] = json!(id);
    }
    let instances = "label_values(tollgate_build_info, instance)";
    json!({
        "uid": "tollgate",
        "title": "Tollgate",
        "description": "Generated from the metrics of Tollgate. docs/monitoring.md says how.",
        "tags": ["tollgate"],
        "schemaVersion": 38,
        "editable": true,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": [
            {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
            {
                "name": "instance", "label": "Instance", "type": "query", "datasource": datasource(),
                "definition": instances, "query": {"query": instances, "refId": "instances"},
                "refresh": 2, "sort": 1, "multi": true, "includeAll": true, "allValue": ".*",
                "current": {"text": "All", "value": "$__all"},
            },
        ]},
        "panels": panels,
    })
}

/// The queries of the file, each with the title of its panel.
pub(crate) fn shipped_queries() -> Vec<(String, String)> {
    let dashboard: Value = serde_json::from_str(&text(FILE)).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels").iter();
    panels
        .filter(|panel| panel["type"] != "row")
        .flat_map(|panel| {
            let targets = panel["targets"].as_array().expect("queries").iter();
            targets.map(|target| {
                (panel["title"].to_string(), target["expr"].as_str().expect("a query").to_owned())
            })
        })
        .collect()
}

#[test]
fn the_dashboard_is_generated_from_the_metrics() {
    let generated = format!("{:#}\n", generate(&families()));
    if env::var_os("UPDATE_MONITORING").is_some() {
        fs::write(file(FILE), &generated).expect("written");
    }
    let advice = "write it anew: UPDATE_MONITORING=1 cargo test --test monitoring dashboard";
    assert!(text(FILE) == generated, "{FILE} does not fit the metrics; {advice}");
}
