//! A real Prometheus scrapes real servers: all queries of the dashboard have data, all rules are evaluated.

use std::collections::BTreeSet;
use std::fs;

use serde_json::{Value, json};
use tempfile::TempDir;
use tollgate_testbed::{Redis, free_port};

use crate::dashboard::shipped_queries;
use crate::families::families;
use crate::kit::{alerts, text};
use crate::{check, clients};
use tollgate_e2e::process::Process;
use tollgate_e2e::program::{curl, prometheus, root, try_curl};
use tollgate_e2e::server::{Server, Setup};
use tollgate_e2e::until;

const RULES: &str = "rules: [{rule_id: per_user, limit: 100000, window: 300d, identifier_type: user_id, candidate: {limit: 1}}]";
/// A limit whose values are in metrics.
const LIMITS: &str = "{domain: test, descriptors: [{key: user, detailed_metric: true, \
                      rate_limit: {unit: year, requests_per_unit: 9}}]}";

/// A Prometheus with the files of the kit. It ends when this is dropped.
struct Prometheus {
    url: String,
    process: Process,
    _folder: TempDir,
}

impl Prometheus {
    /// Scrapes these servers, often.
    fn start(servers: &[&Server]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let targets: Vec<String> =
            servers.iter().map(|server| format!("\"{}\"", server.address)).collect();
        let config = text("prometheus.yml")
            .replace("\"127.0.0.1:8080\"", &targets.join(", "))
            .replace("_interval: 15s", "_interval: 200ms");
        let file = folder.path().join("prometheus.yml");
        fs::write(&file, config).expect("written");
        fs::write(folder.path().join("tollgate-rules.yml"), text("tollgate-rules.yml"))
            .expect("written");
        let address = format!("127.0.0.1:{}", free_port());
        let mut command = prometheus();
        command
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .current_dir(folder.path());
        let mut process = Process::start(&mut command);
        let url = format!("http://{address}");
        process.until("a Prometheus that is ready", |_| {
            try_curl(&["--fail", &format!("{url}/-/ready")]).ok()
        });
        Self { url, process, _folder: folder }
    }

    /// Calls the API. Errors are a panic, with what was asked.
    fn get(&self, path: &str, parameter: &str) -> Value {
        let url = format!("{}/api/v1/{path}", self.url);
        let said = curl(&["--globoff", "--get", "--data-urlencode", parameter, &url]);
        let answer: Value = serde_json::from_str(&said).unwrap_or_else(|_| panic!("{said}"));
        assert_eq!(answer["status"], "success", "{parameter}: {said} {}", self.process.errors());
        answer["data"].clone()
    }

    /// The series that a query returns.
    fn query(&self, query: &str) -> Vec<Value> {
        let data = self.get("query", &format!("query={query}"));
        data["result"].as_array().unwrap_or_else(|| panic!("{query}: {data}")).clone()
    }
}

/// A node with rules from a file, counters in Redis and files for Envoy.
fn node_with_files(redis: &Redis) -> Server {
    let folder = tempfile::tempdir().expect("a folder");
    let limits = folder.path().join("ratelimit");
    fs::create_dir(&limits).expect("a directory");
    fs::write(limits.join("test.yaml"), LIMITS).expect("written");
    let (url, limits) = (redis.url(), limits.to_string_lossy().into_owned());
    let arguments = ["--store", &url, "--envoy-config", &limits];
    let setup = Setup { rules: Some(RULES), arguments: &arguments, ..Setup::default() };
    let server = Server::start_in(folder, &setup);
    check(&server, "user_id", clients("user", 3));
    let entry = json!({"key": "user", "value": "ann"});
    let body = json!({"domain": "test", "descriptors": [{"entries": [entry]}]});
    assert_eq!(server.post("/json", &body.to_string()).status, 200);
    server
}

/// A node with a catalog and counters in memory.
fn node_with_catalog() -> Server {
    let server = Server::start(&Setup::default());
    check(&server, "user_id", clients("user", 3));
    server
}

#[test]
fn prometheus_has_data_for_every_panel_and_evaluates_every_rule() {
    let redis = Redis::start();
    let (files, catalog) = (node_with_files(&redis), node_with_catalog());
    let prometheus = Prometheus::start(&[&files, &catalog]);
    // Requests between scrapes, so that rates are above 0.
    let counted = "rate(tollgate_requests_total{entry=\"http\",outcome=\"allowed\"}[5m]) > 0";
    until("requests on both servers", || {
        check(&files, "user_id", clients("user", 1));
        check(&catalog, "user_id", clients("user", 1));
        (prometheus.query(counted).len() == 2).then_some(())
    });

    let queries = shipped_queries();
    assert!(queries.len() > 40, "{} queries were found", queries.len());
    for (title, query) in queries {
        let query = query.replace("$instance", ".*").replace("$__rate_interval", "5m");
        assert!(!prometheus.query(&query).is_empty(), "{title} has no data: {query}");
    }
    for query in queries_of_the_runbook() {
        // Some have data only when something is wrong; an invalid query is a panic.
        prometheus.query(&query);
    }
    labels_are_as_documented(&prometheus);
    rules_are_complete(&prometheus);
}

/// The lines of all blocks of queries in docs/runbook.md.
fn queries_of_the_runbook() -> Vec<String> {
    let page = fs::read_to_string(root().join("docs/runbook.md")).expect("the runbook");
    let blocks = page.split("```promql\n").skip(1).filter_map(|rest| rest.split("```").next());
    let queries: Vec<String> = blocks.flat_map(str::lines).map(str::to_owned).collect();
    assert!(queries.len() > 10, "{queries:?}");
    queries
}

/// The dashboard takes labels from the documents.
fn labels_are_as_documented(prometheus: &Prometheus) {
    for family in families() {
        let suffix = if family.kind == "histogram" { "_bucket" } else { "" };
        let series = prometheus.get("series", &format!("match[]={}{suffix}", family.name));
        let series = series.as_array().expect("series");
        assert!(!series.is_empty(), "{} has no series", family.name);
        for labels in series {
            let mut seen: BTreeSet<&str> =
                labels.as_object().expect("labels").keys().map(String::as_str).collect();
            for own in ["__name__", "instance", "job", "le"] {
                seen.remove(own);
            }
            let documented: BTreeSet<&str> = family.labels.iter().map(String::as_str).collect();
            assert_eq!(seen, documented, "{}: left: /metrics, right: docs/serve.md", family.name);
        }
    }
}

/// Every rule is evaluated without an error, and every alert says what it means and where to read on.
fn rules_are_complete(prometheus: &Prometheus) {
    let rules = || {
        let data = prometheus.get("rules", "type=");
        let groups = data["groups"].as_array().expect("groups").clone();
        let rules = groups.iter().flat_map(|group| group["rules"].as_array().expect("rules"));
        rules.cloned().collect::<Vec<Value>>()
    };
    let rules = until("an evaluation of all rules", || {
        Some(rules()).filter(|rules| rules.iter().all(|rule| rule["health"] != "unknown"))
    });
    let runbook = fs::read_to_string(root().join("docs/runbook.md")).expect("the runbook");
    let mut names = Vec::new();
    for rule in rules {
        assert_eq!(rule["health"], "ok", "{rule}");
        if rule["type"] != "alerting" {
            continue;
        }
        let name = rule["name"].as_str().expect("a name").to_owned();
        for text in ["summary", "description"] {
            let text = rule["annotations"][text].as_str().unwrap_or_default();
            assert!(text.len() > 20, "{rule}");
            // Prometheus writes 0.4381 as 438.1m, which reads like minutes; only this one is always above 1,000.
            let is_large = name == "TollgateHotKey";
            assert!(is_large || !text.contains("| humanize }}"), "{text}");
        }
        let severity = rule["labels"]["severity"].as_str();
        assert!(matches!(severity, Some("critical" | "warning")), "{rule}");
        let page = format!("docs/runbook.md#{}", name.to_lowercase());
        assert_eq!(rule["annotations"]["runbook_url"], page, "{name}");
        assert!(runbook.contains(&format!("\n## {name}\n")), "docs/runbook.md has no {name}");
        names.push(name);
    }
    // Prometheus sorts the groups.
    let mut expected = alerts();
    names.sort_unstable();
    expected.sort_unstable();
    assert_eq!(names, expected);
}
