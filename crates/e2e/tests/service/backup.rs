//! `tollgate backup` of a server that keeps writing.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;

use crate::start_and_stop::{ask, run, start};
use tollgate_e2e::beside;
use tollgate_e2e::server::Server;

/// The numbers of the rules that a server has: `rule_0`, `rule_1` and so on.
fn numbers(server: &Server, token: &str) -> Vec<u64> {
    let rules = ask(server, "GET", "/api/v1/rules?limit=1000", token, "").json();
    let rules = rules["rules"].as_array().expect("rules").iter();
    let ids = rules.filter_map(|rule| rule["rule_id"].as_str()?.strip_prefix("rule_"));
    let mut numbers: Vec<u64> = ids.map(|id| id.parse().expect("a number")).collect();
    numbers.sort_unstable();
    numbers
}

#[test]
fn a_backup_of_a_running_server_is_whole_and_takes_its_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("tollgate.yaml");
    fs::write(&config, "limits: {admin_writes_per_minute: 100000}\n").expect("written");
    let server = start(folder.path(), &["--config", "tollgate.yaml"]);
    let token = server.token().expect("a token");
    let written = AtomicU64::new(0);
    let write = |is_over: &std::sync::atomic::AtomicBool| {
        while !is_over.load(Ordering::Relaxed) {
            let number = written.load(Ordering::Relaxed);
            let rule = format!(
                r#"{{"rule_id":"rule_{number}","limit":1,"window":"1m","identifier_type":"ip"}}"#
            );
            let made = ask(&server, "POST", "/api/v1/rules", token, &rule);
            assert_eq!(made.status, 201, "{made:?}");
            written.fetch_add(1, Ordering::Relaxed);
        }
    };
    beside(1, write, || {
        for round in 0..5 {
            tollgate_e2e::until("another rule", || {
                (written.load(Ordering::Relaxed) > round * 3).then_some(())
            });
            let before = written.load(Ordering::Relaxed);
            let name = format!("backup-{round}.db");
            let backup = run(folder.path(), &["backup", &name, "--json"]);
            assert!(backup.status.success(), "{backup:?}");
            let told: Value = serde_json::from_slice(&backup.stdout).expect("JSON");
            let file = folder.path().join(&name);
            assert_eq!(fs::metadata(&file).expect("a file").permissions().mode() & 0o777, 0o600);
            assert_eq!(told["bytes"], fs::metadata(&file).expect("a file").len());

            // In another folder, under the name that a server looks for.
            let restored = tempfile::tempdir().expect("a folder");
            fs::copy(&file, restored.path().join("tollgate.db")).expect("copied");
            let other = start(restored.path(), &[]);
            let numbers = numbers(&other, token);
            let expected: Vec<u64> = (0..numbers.len() as u64).collect();
            assert_eq!(numbers, expected, "one state, without gaps");
            assert!(numbers.len() as u64 >= before, "what was acknowledged is in it");
        }
    });
    let names = fs::read_dir(folder.path()).expect("a folder").flatten();
    let left: Vec<String> =
        names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    assert!(left.iter().all(|name| !name.contains("unfinished")), "{left:?}");
    assert!(left.iter().all(|name| !name.starts_with("backup-0.db-")), "{left:?}");
}

#[test]
fn a_backup_that_cannot_be_made_says_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let check = |arguments: &[&str], expected: &str| {
        let output = run(folder.path(), arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(expected), "{arguments:?}: {said}");
    };
    check(&["backup", "copy.db"], "there is no catalog sqlite:tollgate.db");
    start(folder.path(), &[]).stop();
    fs::write(folder.path().join("taken.db"), "mine").expect("written");
    check(&["backup", "taken.db"], "exists already");
    check(&["backup", "missing/copy.db"], "cannot write the backup missing/copy.db");
    check(&["backup", "--catalog", "postgres://db.example/rules", "copy.db"], "pg_dump");
    check(&["backup"], "<FILE>");
    assert_eq!(fs::read(folder.path().join("taken.db")).expect("a file"), b"mine");
    assert!(!folder.path().join("copy.db").exists());
}
