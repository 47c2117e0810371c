//! The files of the kit, and what Prometheus makes of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tollgate_e2e::program::{promtool, root};

/// A file of the kit.
pub(crate) fn file(name: &str) -> PathBuf {
    root().join("deploy/monitoring").join(name)
}

/// The text of a file of the kit.
pub(crate) fn text(name: &str) -> String {
    fs::read_to_string(file(name)).expect("a file of the kit")
}

/// The names of all alerts.
pub(crate) fn alerts() -> Vec<String> {
    let names = text("tollgate-rules.yml");
    names
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "))
        .map(str::to_owned)
        .collect()
}

/// Runs promtool; its complaints are a panic.
pub(crate) fn run_promtool(arguments: &[&str]) {
    let ran = promtool().args(arguments).output().expect("promtool runs");
    let said = String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned();
    assert!(ran.status.success(), "promtool {arguments:?}: {said}");
}

#[test]
fn promtool_finds_nothing_wrong() {
    run_promtool(&["check", "rules", &file("tollgate-rules.yml").to_string_lossy()]);
    run_promtool(&["check", "config", &file("prometheus.yml").to_string_lossy()]);
}

#[test]
fn amtool_finds_nothing_wrong() {
    let amtool = Path::new("/usr/bin/amtool");
    assert!(amtool.exists(), "{} is missing: scripts/test installs it", amtool.display());
    let ran = Command::new(amtool)
        .arg("check-config")
        .arg(file("alertmanager.yml"))
        .output()
        .expect("amtool runs");
    let said = String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned();
    assert!(ran.status.success(), "{said}");
}
