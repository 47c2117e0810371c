//! Load by wrk: as much as a server can bear, or a little less.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use super::pace::probe;
use crate::Fallible;
use crate::rows::load::{Load, need};
use crate::rows::server::{CLIENT_CORE, Server, pinned};

/// How many connections are kept busy.
pub(super) const CONNECTIONS: usize = 64;

/// How much of a processor a server may use if the client is to set the pace.
const UNHURRIED: f64 = 0.85;
/// What wrk counts to before each request when it is first slowed down: a few microseconds.
const FIRST_COUNT: u64 = 500;

/// Drives servers.
#[derive(Debug)]
pub(super) struct Wrk {
    script: PathBuf,
    seconds: u64,
}

impl Wrk {
    /// Drives for so many seconds at a time.
    pub(super) fn new(directory: &Path, seconds: u64) -> Fallible<Self> {
        need("wrk", "wrk")?;
        let script = directory.join("post.lua");
        fs::write(&script, include_str!("post.lua"))?;
        Ok(Self { script, seconds })
    }

    /// What wrk has to count to before each request so that it is busy all the time, and the server
    /// is not. Else it sleeps while it waits, and whichever server is slower pays for waking it.
    pub(super) fn unhurried(&self, server: &Server, path: &str, bodies: &Path) -> Fallible<u64> {
        let mut count = FIRST_COUNT;
        while self.drive(server, path, bodies, count)?.used() > UNHURRIED {
            count *= 2;
        }
        Ok(count)
    }

    /// Posts bodies to a path, as fast as responses arrive, and counts up to `count`.
    pub(super) fn drive(
        &self,
        server: &Server,
        path: &str,
        bodies: &Path,
        count: u64,
    ) -> Fallible<Load> {
        let mut wrk = pinned(CLIENT_CORE, "wrk");
        wrk.args(["--threads", "1", "--connections", &CONNECTIONS.to_string()]);
        wrk.args(["--duration", &format!("{}s", self.seconds)]).arg("--script").arg(&self.script);
        wrk.arg(format!("http://{}{path}", server.address)).arg("--").arg(bodies);
        wrk.arg(count.to_string());
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
