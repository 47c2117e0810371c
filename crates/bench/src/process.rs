//! Memory of this process, and fresh processes to measure it in.

use std::env;
use std::fs;
use std::process::Command;

use crate::Fallible;

/// What pages of memory are counted in, on every machine this runs on.
const PAGE: u64 = 4096;

/// Bytes of memory this process takes now.
pub(crate) fn resident_bytes() -> Fallible<u64> {
    let statm = fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = statm.split(' ').nth(1).ok_or("statm has no second field")?.parse()?;
    Ok(pages * PAGE)
}

/// Runs this program again with other arguments and reads the numbers it prints.
pub(crate) fn ask_fresh_process(arguments: &[&str]) -> Fallible<Vec<f64>> {
    ask(Command::new(env::current_exe()?).args(arguments))
}

/// Runs a program and reads the numbers it prints.
pub(crate) fn ask(program: &mut Command) -> Fallible<Vec<f64>> {
    let output = program.output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    let answer = String::from_utf8(output.stdout)?;
    Ok(answer.split_whitespace().map(str::parse).collect::<Result<_, _>>()?)
}
