//! As much load as a server can bear, by wrk.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::pace::probe;
use super::server::{CLIENT_CORE, Server, pinned};
use crate::Fallible;

/// How many connections are kept busy.
pub(super) const CONNECTIONS: usize = 64;

/// Drives servers as hard as it can.
#[derive(Debug)]
pub(super) struct Wrk {
    script: PathBuf,
    seconds: u64,
}

/// What a server did under load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) requests_per_second: f64,
    /// Microseconds of the server's processor that a request took.
    pub(super) micros_per_request: f64,
}

impl Wrk {
    /// Drives for so many seconds at a time.
    pub(super) fn new(directory: &Path, seconds: u64) -> Fallible<Self> {
        for tool in ["wrk", "taskset"] {
            let tried = Command::new(tool).stdout(Stdio::null()).stderr(Stdio::null()).status();
            if tried.is_err_and(|error| error.kind() == ErrorKind::NotFound) {
                let packages = "on Debian: apt-get install wrk util-linux";
                return Err(format!("{tool} is missing, which the load needs ({packages})").into());
            }
        }
        let script = directory.join("post.lua");
        fs::write(&script, include_str!("post.lua"))?;
        Ok(Self { script, seconds })
    }

    /// Posts bodies to a path, as many as possible.
    pub(super) fn drive(&self, server: &Server, path: &str, bodies: &Path) -> Fallible<Load> {
        let mut wrk = pinned(CLIENT_CORE, "wrk");
        wrk.args(["--threads", "1", "--connections", &CONNECTIONS.to_string()]);
        wrk.args(["--duration", &format!("{}s", self.seconds)]).arg("--script").arg(&self.script);
        wrk.arg(format!("http://{}{path}", server.address)).arg("--").arg(bodies);
        probe(server.address, path, bodies)?;
        let before = server.processor_seconds()?;
        let output = wrk.stderr(Stdio::inherit()).output()?;
        let used = server.processor_seconds()? - before;
        let said = String::from_utf8_lossy(&output.stdout);
        match sums(&said)[..] {
            [requests, micros, 0.0] if requests > 0.0 => Ok(Load {
                requests_per_second: requests / micros * 1e6,
                micros_per_request: used / requests * 1e6,
            }),
            _ => Err(format!("the load on {path} failed: {said}").into()),
        }
    }
}

/// What the script has to say: requests, microseconds, failures.
fn sums(said: &str) -> Vec<f64> {
    let line = said.lines().find_map(|line| line.strip_prefix("sum:")).unwrap_or_default();
    line.split_whitespace().filter_map(|number| number.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_stand_behind_whatever_else_is_said() {
        let check = |said: &str, expected: &[f64]| assert_eq!(sums(said), expected, "{said}");
        check("Requests/sec: 3\nsum:\t8\t4000000\t0\n", &[8.0, 4e6, 0.0]);
        check("unable to connect", &[]);
    }
}
