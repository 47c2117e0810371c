//! Servers end with the process that started them, even if that is killed.

use std::env;
use std::fs::Permissions;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::thread;

use tollgate_testbed::{Postgres, Redis, Sentinels, until};

use crate::is_gone;

/// Set for the process that will be killed: whether its servers are paused by then.
const VICTIM: &str = "TESTBED_VICTIM";

/// How the line begins that names the processes of the servers.
const SERVERS: &str = "servers:";

/// Starts servers, names their processes, and waits for the end.
fn be_killed(servers_are_paused: bool) {
    let redis = thread::spawn(Redis::start).join().expect("a Redis");
    let sentinels = Sentinels::start(1, "mymaster", 0);
    let postgres = Postgres::start();
    if servers_are_paused {
        redis.pause();
        postgres.pause();
    }
    let mut ids = [sentinels.process_ids(), postgres.process_ids()].concat();
    ids.extend(redis.process_id());
    ids.extend(sentinels.servers().iter().filter_map(Redis::process_id));
    let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
    println!("\n{SERVERS} {}", ids.join(" "));
    // Ends if the process that should kill us ends first.
    let _ = io::stdin().read_to_end(&mut Vec::new());
}

/// Runs this very program again, with only the test that has a name, and kills it.
fn check(test: &str, state: &str) {
    if let Ok(state) = env::var(VICTIM) {
        be_killed(state == "paused");
        return;
    }
    // Removes the files that a killed process leaves.
    let permissions = Permissions::from_mode(0o755);
    let folder = tempfile::Builder::new().permissions(permissions).tempdir().expect("a folder");
    let mut victim = Command::new(env::current_exe().expect("this program"))
        .args([test, "--exact", "--nocapture"])
        .env(VICTIM, state)
        .env("TMPDIR", folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program, again");
    let mut lines = BufReader::new(victim.stdout.take().expect("a pipe")).lines();
    let ids = lines.find_map(|line| {
        let line = line.expect("a line");
        let ids = line.strip_prefix(SERVERS)?.split_whitespace();
        Some(ids.map(|id| id.parse().expect("an id")).collect::<Vec<u32>>())
    });
    let ids = ids.expect("servers");
    // Some of those that PostgreSQL starts end soon.
    assert!(ids.iter().filter(|id| !is_gone(**id)).count() > 4, "{ids:?}");

    victim.kill().expect("a process that runs");
    victim.wait().expect("its end");
    until("the end of all servers", || ids.iter().all(|id| is_gone(*id)).then_some(()));
}

#[test]
fn running_servers_end_with_a_process_that_is_killed() {
    check("left_behind::running_servers_end_with_a_process_that_is_killed", "running");
}

#[test]
fn paused_servers_end_with_a_process_that_is_killed() {
    check("left_behind::paused_servers_end_with_a_process_that_is_killed", "paused");
}
