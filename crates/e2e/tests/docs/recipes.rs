//! The recipes of the README, run as they are written: each in a network of its own, where the ports that
//! they name are free.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::process::Command;

use super::{blocks, folder_with_tollgate, root};

const POLICY: &str = "rules: [{rule_id: per_user, limit: 10, window: 1h, identifier_type: user_id, algorithm: gcra}]\n";

/// What follows a heading of the README, up to the next one.
fn section(heading: &str) -> String {
    let readme = fs::read_to_string(root().join("README.md")).expect("the README");
    let (_, rest) = readme.split_once(&format!("\n{heading}\n")).expect("the heading");
    rest.split_once("\n## ").map_or(rest, |(section, _)| section).to_owned()
}

/// Runs a script in a folder with a policy, and returns what it printed. All that it started ends with it.
fn run(script: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("policy.yaml"), POLICY).expect("written");
    let script = format!("exec 2>&1\nset -e\nip link set lo up\n{script}");
    let is_root = fs::metadata("/proc/self").expect("this process").uid() == 0;
    let mut command = Command::new("unshare");
    if !is_root {
        command.arg("--map-root-user");
    }
    let commands = format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", folder_with_tollgate().display());
    command.env_clear().env("PATH", commands).current_dir(folder.path());
    command.args(["--net", "--pid", "--fork", "--kill-child", "timeout", "60", "bash", "-c"]);
    let ran = command.arg(&script).output().expect("unshare runs");
    let printed = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(ran.status.success(), "{script}\n{printed}{}", String::from_utf8_lossy(&ran.stderr));
    printed
}

#[test]
fn recipes_of_the_readme_work() {
    let recipes = blocks(&section("## Recipes"), "sh");
    let [(_, one), (_, two)] = &recipes[..] else { panic!("other recipes: {recipes:?}") };
    let printed = run(one);
    assert!(printed.contains("1 file: 0 errors, 0 warnings\n"), "{printed}");
    assert!(printed.contains("allowed by per_user: 9 of 10 left"), "{printed}");
    let printed = run(two);
    for expected in ["allowed by per_user: 9 of 10 left", "allowed by per_user: 8 of 10 left"] {
        assert!(printed.contains(expected), "{printed}");
    }
}

#[test]
fn the_gateway_of_the_readme_works() {
    let section = section("## Put it in front: the gateway");
    let (_, start) = &blocks(&section, "sh")[0];
    let (_, session) = &blocks(&section, "text")[0];
    let (call, expected) = session.split_once('\n').expect("a call and what it prints");
    let call = call.strip_prefix("$ ").expect("a command");
    let script = format!(
        "{{\n{start}}} >log 2>&1 &\n\
         curl -s -o /dev/null --retry 60 --retry-delay 1 --retry-connrefused http://127.0.0.1:3000\n\
         tollgate health --wait 60 >/dev/null\n\
         {call}"
    );
    let printed = run(&script);
    let statuses: Vec<&str> = printed.lines().map(str::trim_end).collect();
    assert_eq!(statuses, expected.lines().collect::<Vec<_>>());
}
