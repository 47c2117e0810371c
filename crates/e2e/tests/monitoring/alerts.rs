//! Every alert has a test in which it fires, a section of the runbook, and a line of the documents.

use std::fs;

use crate::kit::{alerts, text};
use tollgate_e2e::program::root;

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn every_alert_fires_in_a_test_and_is_documented() {
    let states = ["traffic", "store", "policy", "memory"]
        .map(|name| read(&format!("crates/e2e/tests/monitoring/{name}_states.rs")))
        .concat();
    let (table, runbook) = (read("docs/monitoring.md"), read("docs/runbook.md"));
    let alerts = alerts();
    assert!(alerts.len() > 10, "{alerts:?}");
    for alert in &alerts {
        assert!(states.contains(&format!("\"{alert}\"")), "no test fires {alert}");
        let link = format!("| [`{alert}`](runbook.md#{}) |", alert.to_lowercase());
        assert!(table.contains(&link), "docs/monitoring.md does not list {alert}");
    }
    let sections: Vec<&str> = runbook
        .lines()
        .filter_map(|line| line.strip_prefix("## "))
        .filter(|title| title.starts_with("Tollgate"))
        .collect();
    assert_eq!(sections, alerts, "left: docs/runbook.md, right: tollgate-rules.yml, in order");
}

/// A matcher with a name that no alert has would inhibit nothing.
#[test]
fn alertmanager_names_alerts_that_exist() {
    let config = text("alertmanager.yml");
    let is_part = |letter: char| letter.is_ascii_alphanumeric();
    let named: Vec<&str> = config
        .split(|letter| !is_part(letter))
        .filter(|word| word.strip_prefix("Tollgate").is_some_and(|rest| !rest.is_empty()))
        .collect();
    assert!(named.len() > 5, "{named:?}");
    let alerts = alerts();
    for name in named {
        assert!(alerts.iter().any(|alert| alert == name), "no alert is named {name}");
    }
}
