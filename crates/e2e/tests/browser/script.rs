//! Scripts that drive Chromium, each with a folder for whatever the browser writes.

use std::fs;

use serde_json::{Value, json};
use tollgate_e2e::process::Process;
use tollgate_e2e::program::{chromium, python, root};
use tollgate_e2e::server::{ADMIN_TOKEN, Server};
use tollgate_e2e::until;

/// Runs a script of this folder against a server until it has found nothing wrong. No process of it is left.
pub(crate) fn run(script: &str, server: &Server, facts: &Value) {
    run_in(script, server, facts, &[]);
}

/// Runs a script like [`run`], with more variables.
pub(crate) fn run_in(script: &str, server: &Server, facts: &Value, variables: &[(&str, &str)]) {
    let mut all = json!({"base": server.url(""), "admin": ADMIN_TOKEN});
    let facts = facts.as_object().expect("an object").clone();
    all.as_object_mut().expect("an object").extend(facts);
    start(script, &all, variables);
}

/// Runs a script that needs no server.
pub(crate) fn run_alone(script: &str, facts: &Value) {
    start(script, facts, &[]);
}

fn start(script: &str, facts: &Value, variables: &[(&str, &str)]) {
    // A missing browser is a panic that says what to do.
    drop(chromium());
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = python();
    command
        .arg(root().join("crates/e2e/tests/browser").join(script))
        .arg(facts.to_string())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        // The profile of the browser, its caches and settings.
        .envs(["TMPDIR", "HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"].map(|it| (it, folder.path())))
        .envs(variables.iter().copied());
    let mut process = Process::start(&mut command);
    let mut seen = 0;
    loop {
        let said = process.until("a further step of the script", |process| {
            Some(process.output()).filter(|said| said.lines().count() > seen)
        });
        if said.lines().last() == Some("done") {
            break;
        }
        seen = said.lines().count();
    }
    let ended = process.end();
    assert!(ended.success(), "{script}: {ended}: {}", process.errors());
    let place = folder.path().to_string_lossy().into_owned();
    until("the end of all processes of the browser", || {
        processes_in(&place).is_empty().then_some(())
    });
}

/// The processes whose environment names a folder.
fn processes_in(folder: &str) -> Vec<u32> {
    let entries = fs::read_dir("/proc").expect("/proc can be read").flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_inside = |id: &u32| {
        let environment = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
        String::from_utf8_lossy(&environment).contains(folder)
    };
    ids.filter(is_inside).collect()
}
