//! Counts instructions instead of time: of operations in process, of requests over the wire, and of Redis.

use std::env;
use std::io::Write;
use std::path::Path;
use std::process::{Command, ExitCode};

use crate::Fallible;
use crate::rows::redis;
use crate::rows::server::{WORKSPACE, built};

/// Prints all counts. Only those of operations in process are compared with earlier ones: the others depend on what
/// arrives together.
pub(crate) fn report(is_written: bool, out: &mut impl Write) -> Fallible<ExitCode> {
    let is_within = count_in_process(is_written)?;
    let replay = Path::new(WORKSPACE).join("scripts/replay/run");
    let counted = Command::new(replay).args(["instructions", "--plain"]).arg(built()?).status()?;
    if !counted.success() {
        return Err("the instructions of requests cannot be counted".into());
    }
    for (name, instructions) in redis::instructions()? {
        writeln!(out, "{name}: {instructions} instructions of Redis a check")?;
    }
    Ok(if is_within { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A small program, which is built with optimisations wherever this one comes from: its counts are those of one build.
fn count_in_process(is_written: bool) -> Fallible<bool> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut count = Command::new(cargo);
    count.current_dir(WORKSPACE).args(["run", "--quiet", "--release"]);
    count.args(["--package", "tollgate-instructions", "--"]);
    Ok(count.args(is_written.then_some("--write")).status()?.success())
}
