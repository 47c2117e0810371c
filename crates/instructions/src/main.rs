//! Counts the instructions of the operations that a check consists of, and fails when one has grown. Times scatter from
//! run to run; instructions of one build do not.
//!
//! `cargo run --release -p tollgate-instructions`; with `-- --write`, the counts are written down.

mod callgrind;
mod counts;
mod operations;

use std::env;
use std::error::Error;
use std::fs;
use std::process::ExitCode;

use crate::counts::Change;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/counts.txt");
const SHOWN_FILE: &str = "crates/instructions/counts.txt";

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [callgrind::COUNTED_PROCESS, name] => {
            callgrind::run_counted(name).map(|()| ExitCode::SUCCESS)
        }
        [] => check(),
        ["--write"] => {
            fs::write(FILE, counts::to_text(&count()?))?;
            println!("{SHOWN_FILE} is written");
            Ok(ExitCode::SUCCESS)
        }
        _ => Err("the only option is --write".into()),
    }
}

/// Compares the counts with those in the repository.
fn check() -> Result<ExitCode, Box<dyn Error>> {
    let known = counts::parse(&fs::read_to_string(FILE)?).ok_or("the counts cannot be read")?;
    let counted = count()?;
    let compared = counts::compare(&known, &counted);
    for line in &compared {
        let show = |count: Option<u64>| count.map_or("-".into(), |count| count.to_string());
        let (before, after) = (show(line.before), show(line.after));
        println!("{:32} {before:>6} -> {after:>6}  {}", line.name, line.change);
    }
    if compared.iter().all(|line| line.change == Change::Within) {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!(
        "If the change is meant, commit the new counts with it: \
         cargo run --release -p tollgate-instructions -- --write"
    );
    Ok(ExitCode::FAILURE)
}

/// Counts into files beside this program, which are removed afterwards.
fn count() -> Result<counts::Counts, Box<dyn Error>> {
    let directory = env::current_exe()?.with_extension("dumps");
    fs::create_dir_all(&directory)?;
    let counts = callgrind::count(&directory);
    fs::remove_dir_all(&directory)?;
    counts
}
