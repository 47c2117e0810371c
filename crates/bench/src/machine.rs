//! What the figures were measured on: they mean nothing without it.

use std::fs;
use std::thread;

/// The versions of everything that takes part are those of the lock file.
const LOCK: &str = include_str!("../../../Cargo.lock");
const PEERS: [&str; 3] = ["governor", "throttlecrab", "limitador"];

pub(crate) fn facts() -> String {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let peers = PEERS.map(|peer| format!("{peer} {}", locked_version(peer).unwrap_or("unknown")));
    format!(
        "{cores} cores, {}; {}; {}",
        processor().unwrap_or_else(|| "unknown processor".into()),
        env!("TOLLGATE_BENCH_RUSTC"),
        peers.join(", "),
    )
}

fn processor() -> Option<String> {
    let info = fs::read_to_string("/proc/cpuinfo").ok()?;
    let model = info.lines().find(|line| line.starts_with("model name"))?;
    Some(model.split_once(':')?.1.trim().to_owned())
}

fn locked_version(package: &str) -> Option<&'static str> {
    let name = format!("name = \"{package}\"\nversion = \"");
    let (_, after) = LOCK.split_once(&name)?;
    Some(after.split_once('"')?.0)
}
