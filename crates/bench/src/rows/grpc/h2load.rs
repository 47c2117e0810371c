//! Load by h2load, at a rate that servers can bear.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use super::call::Call;
use crate::Fallible;
use crate::rows::load::{Load, need};
use crate::rows::server::{CLIENT_CORE, Running, Server, pinned};

/// How much of a processor a server is to use: so much that it has something to wait for, or as much as `wrk` makes it
/// use over HTTP.
pub(super) const UNHURRIED: f64 = 0.5;
pub(super) const BUSY: f64 = 0.8;
/// How much it has to use before that says what a request costs.
const NOTICEABLE: f64 = 0.1;
/// Requests per second that the search for a rate begins with.
const FIRST_RATE: f64 = 100.0;
/// More than any server can bear: if it is idle then, the client is at its limit.
const MAX_RATE: f64 = 100_000.0;
/// How short responses may be, compared with the one that was read.
const MIN_LENGTH_RATIO: f64 = 0.95;

/// Drives servers with one kind of call.
#[derive(Debug)]
pub(super) struct H2load {
    call: Call,
    connections: u32,
    streams: u32,
    posted: PathBuf,
    /// Puts other users into the file that is posted.
    _turn: Running,
}

impl H2load {
    /// So many connections with so many streams each, for so many users.
    pub(super) fn new(
        directory: &Path,
        call: Call,
        [connections, streams]: [u32; 2],
        keys: u64,
    ) -> Fallible<Self> {
        need("h2load", "nghttp2-client")?;
        let (all, posted) = (directory.join("bodies"), directory.join("body"));
        let bodies = call.bodies(keys);
        let first = bodies.first().ok_or("there is nothing to send")?;
        fs::write(&all, bodies.concat())?;
        fs::write(&posted, first)?;
        let mut turn = pinned(CLIENT_CORE, "chrt");
        turn.args(["--idle", "0"]).arg(env::current_exe()?).arg("turn");
        turn.arg(all).arg(first.len().to_string()).arg(&posted);
        Ok(Self { call, connections, streams, posted, _turn: Running::start(&mut turn)? })
    }

    /// Requests per second with which a server uses about this share of its processor.
    ///
    /// h2load has no pause between requests, only a rate. Without one it asks as fast as it gets
    /// answers, and the slower server is asked less. At the same rate, and one that both can bear, both
    /// do the same work in the same time. h2load still sleeps now and then while it waits, and servers
    /// pay for waking it, the slower one a little more often.
    pub(super) fn rate(&self, server: &Server, share: f64) -> Fallible<f64> {
        let mut rate = FIRST_RATE;
        loop {
            let load = self.drive(server, rate, 1)?;
            if load.used() > NOTICEABLE || rate > MAX_RATE {
                // A server that is nearly idle pays more for each request than a busy one.
                let near = share / load.micros_per_request * 1e6;
                return Ok(share / self.drive(server, near, 1)?.micros_per_request * 1e6);
            }
            rate *= 4.0;
        }
    }

    /// Calls for so many seconds.
    pub(super) fn drive(&self, server: &Server, rate: f64, seconds: u64) -> Fallible<Load> {
        let each_second = (rate / f64::from(self.connections)).max(1.0);
        let requests = (each_second * f64::from(self.connections)) as u64 * seconds;
        let mut h2load = pinned(CLIENT_CORE, "h2load");
        h2load.args(["--threads", "1", "--clients", &self.connections.to_string()]);
        h2load.args(["--max-concurrent-streams", &self.streams.to_string()]);
        // Connections look every 10 ms whether it is time for requests. So they are not opened all at
        // once, or they would all send at once, too.
        h2load.args(["--rate", "1", "--rate-period", "1ms"]);
        h2load.args(["--rps", &each_second.to_string(), "--requests", &requests.to_string()]);
        h2load.args(["--header", "content-type: application/grpc", "--header", "te: trailers"]);
        h2load.arg("--data").arg(&self.posted);
        h2load.arg(format!("http://{}{}", server.address, self.call.path()));
        let length = self.call.probe(server.address)?;
        let before = server.processor_seconds()?;
        let output = h2load.output()?;
        let used = server.processor_seconds()? - before;
        let said = String::from_utf8_lossy(&output.stdout);
        match sums(&said) {
            // gRPC reports failures in responses without a body, which are fine for HTTP.
            Some(sums)
                if sums.succeeded == requests
                    && sums.bytes >= requests as f64 * length as f64 * MIN_LENGTH_RATIO =>
            {
                Ok(Load {
                    requests_per_second: sums.requests_per_second,
                    micros_per_request: used / requests as f64 * 1e6,
                })
            }
            _ => Err(format!("the load on {} failed: {said}", self.call.path()).into()),
        }
    }
}

/// What h2load counted.
#[derive(Debug, PartialEq)]
struct Sums {
    requests_per_second: f64,
    succeeded: u64,
    /// In the bodies of responses.
    bytes: f64,
}

fn sums(said: &str) -> Option<Sums> {
    let line = |name: &str| said.lines().find_map(|line| line.strip_prefix(name));
    // The word before this one.
    let before = |line: &str, word: &str| {
        let words = line.split_once(word)?.0;
        words.split_whitespace().next_back()?.parse::<f64>().ok()
    };
    let (_, data) = line("traffic:")?.rsplit_once('(')?;
    Some(Sums {
        requests_per_second: before(line("finished in ")?, "req/s")?,
        succeeded: before(line("requests:")?, "succeeded")? as u64,
        bytes: data.split_once(')')?.0.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_found_in_what_is_said() {
        let said = "Application protocol: h2c\n\n\
            finished in 3.00s, 1822.50 req/s, 167.68KB/s\n\
            requests: 5466 total, 5530 started, 5467 done, 5465 succeeded, 1 failed, 0 errored\n\
            status codes: 5466 2xx, 0 3xx, 0 4xx, 0 5xx\n\
            traffic: 503.03KB (515106) total, 22.76KB (23310) headers (space savings 93.99%), \
            326.68KB (334524) data\n";
        let expected = Sums { requests_per_second: 1822.5, succeeded: 5465, bytes: 334_524.0 };
        assert_eq!(sums(said), Some(expected));
        assert_eq!(sums("connection refused"), None);
    }
}
