//! All entry points respond as they did: random requests, and a record of what an earlier version responded.
//!
//! `UPDATE_REPLAY=1 cargo test --test replay` records anew; read scripts/replay/replay.py before you keep it.

use std::env;
use std::path::Path;
use std::process::Command;

use tollgate_e2e::program::root;
use tollgate_e2e::server::binary;

/// Requests for every entry point. The default of `scripts/replay/run` is 10,000.
const REQUESTS: &str = "150";

#[test]
fn responses_are_those_of_the_record() {
    let record = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/replay/record.gz");
    let mut replay = Command::new(root().join("scripts/replay/run"));
    if env::var_os("UPDATE_REPLAY").is_some() {
        replay.arg("record").arg(binary()).arg(&record).args(["--requests", REQUESTS]);
    } else {
        replay.arg("compare").arg(&record).arg(binary());
    }
    let done = replay.output().expect("scripts/replay/run runs");
    let (found, errors) =
        (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{found}{errors}");
}
