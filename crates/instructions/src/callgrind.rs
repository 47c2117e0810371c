//! Runs this program under callgrind, and reads how many instructions each operation took.

use std::env;
use std::error::Error;
use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;

use crate::operations::{self, COUNTED};

/// The first argument of the process that is counted.
pub(crate) const COUNTED_PROCESS: &str = "counted-process";
/// [`collected`] as callgrind names it.
const COLLECTED_FUNCTION: &str = "*callgrind::collected";

/// Callgrind counts only within this function.
#[inline(never)]
fn collected(run: &mut dyn FnMut(u32) -> u32) -> u32 {
    // Not the last call of this function, which would become a jump.
    black_box(run(black_box(COUNTED)))
}

/// Runs one operation, in the process that is counted.
pub(crate) fn run_counted(name: &str) -> Result<(), Box<dyn Error>> {
    let mut run = operations::set_up(name)?;
    // Warms up.
    run(COUNTED);
    match collected(&mut run) {
        0 => Err(format!("{name} refused every request").into()),
        _ => Ok(()),
    }
}

/// The instructions of every operation, by its name, in order.
pub(crate) fn count(directory: &Path) -> Result<Vec<(String, u64)>, Box<dyn Error>> {
    let count = |name: String| {
        let instructions = count_one(&name, &directory.join("dump"))?;
        Ok((name, instructions))
    };
    operations::names().into_iter().map(count).collect()
}

fn count_one(name: &str, dump: &Path) -> Result<u64, Box<dyn Error>> {
    let output = Command::new("valgrind")
        .args(["--quiet", "--tool=callgrind"])
        .arg(format!("--toggle-collect={COLLECTED_FUNCTION}"))
        .arg(format!("--callgrind-out-file={}", dump.display()))
        .arg(env::current_exe()?)
        .args([COUNTED_PROCESS, name])
        .output()
        .map_err(|error| format!("valgrind cannot be run: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    let total = total(&fs::read_to_string(dump)?).filter(|total| *total > 0);
    Ok(total.ok_or("callgrind counted nothing")? / u64::from(COUNTED))
}

/// The instructions of a dump.
fn total(dump: &str) -> Option<u64> {
    let total = |line: &str| line.strip_prefix("totals: ")?.trim().parse().ok();
    dump.lines().find_map(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_of_a_dump_is_read() {
        let dump = "version: 1\nevents: Ir\nsummary: 9\n\nfn=(1) main\n7 42\n\ntotals: 1234\n";
        assert_eq!(total(dump), Some(1234));
        assert_eq!(total("events: Ir\n"), None);
    }
}
