//! Metrics of the real binary: all of them are documented, valid for promtool, and change with what
//! they count.

mod counters;
mod listed;
mod requests;
mod servers;

use tollgate_e2e::server::Server;
use tollgate_e2e::until;

/// A sample of `/metrics`, 0 while there is none.
fn value(server: &Server, sample: &str) -> f64 {
    let text = server.get("/metrics").text();
    let found = text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    found.map_or(0.0, |value| value.parse().expect("a number"))
}

/// Acts, and waits until the sample has grown.
fn grows(server: &Server, sample: &str, act: impl FnOnce()) {
    let before = value(server, sample);
    act();
    until(sample, || (value(server, sample) > before).then_some(()));
}
