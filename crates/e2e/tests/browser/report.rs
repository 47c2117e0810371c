//! The report that `tollgate simulate --report` writes, in a browser: of a log that would run there, and of an ordinary one.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::json;
use tollgate_e2e::program::root;
use tollgate_e2e::server::binary;

use crate::hostile::HOSTILE;
use crate::script::run_alone;

/// Writes the report of a log under a policy.
fn report(rules: &Path, log: &Path, to: &Path) {
    let mut command = Command::new(binary());
    command.arg("simulate").arg("--rules").arg(rules).arg("--report").arg(to).arg(log);
    let ran = command.output().expect("the binary runs");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

#[test]
fn a_report_fits_every_width_and_theme_and_its_texts_do_not_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = |name: &str| folder.path().join(name);
    let escapes = format!("\u{1b}[31m\u{7}{HOSTILE}");
    let rules = json!({"rules": [{"rule_id": "r", "name": escapes, "description": escapes, "limit": 10, "window": "1m",
        "identifier_type": "user_id"}]});
    fs::write(place("rules.json"), rules.to_string()).expect("written");
    let line = |second: u64, client: &str| {
        let line = json!({"t_ms": second * 1_000, "key": client, "user_id": client, "endpoint": format!("/{escapes}")});
        format!("{line}\n")
    };
    let mut log: String = (0..60).map(|second| line(second, &escapes)).collect();
    log += &line(60, "ann");
    log += "<script>pwned()</script> is no line\n";
    let name = "<img src=x onerror=pwned()>.jsonl";
    fs::write(place(name), log).expect("written");
    report(&place("rules.json"), &place(name), &place("hostile.html"));
    let examples = root().join("examples");
    let access = examples.join("access.log");
    report(&examples.join("policy.yaml"), &access, &place("ordinary.html"));
    run_alone("report.py", &json!({"folder": folder.path()}));
}
