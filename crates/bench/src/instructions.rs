//! Counts instructions instead of time: of operations in process, of requests over the wire, and of Redis.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use crate::Fallible;
use crate::rows::redis;
use crate::rows::server::{WORKSPACE, built};

/// The counts over the wire and of Redis, of the last time that they were written.
const WIRE_COUNTS: &str = "crates/instructions/wire-counts.txt";
const HEADING: &str = "\
# Instructions of a request over the wire, and of Redis: see docs/performance.md. They depend on what arrives together,
# so they are reported, and no test compares them.
# `cargo run -p tollgate-bench --profile dist -- --instructions --write` writes this file.
";

/// Prints all counts, and writes them into the repository if that is asked for. Only those of operations in process are
/// compared with earlier ones.
pub(crate) fn report(is_written: bool, out: &mut impl Write) -> Fallible<ExitCode> {
    let is_within = count_in_process(is_written)?;
    let replay = Path::new(WORKSPACE).join("scripts/replay/run");
    let mut count = Command::new(replay);
    count.args(["instructions", "--plain", "--bare"]).arg(env::current_exe()?).arg(built()?);
    let mut counting = count.stdout(Stdio::piped()).spawn()?;
    let mut lines = HEADING.to_owned();
    let mut report = |line: &str| -> Fallible<()> {
        writeln!(out, "{line}")?;
        lines.extend([line, "\n"]);
        Ok(())
    };
    for line in BufReader::new(counting.stdout.take().ok_or("no output")?).lines() {
        report(&line?)?;
    }
    if !counting.wait()?.success() {
        return Err("the instructions of requests cannot be counted".into());
    }
    for (name, instructions) in redis::instructions()? {
        report(&format!("{name}: {instructions} instructions of Redis a check"))?;
    }
    if is_written {
        fs::write(Path::new(WORKSPACE).join(WIRE_COUNTS), lines)?;
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
