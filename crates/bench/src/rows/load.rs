//! What a server does under load: contestants in turns, and what a request costs each of them.

use std::io::ErrorKind;
use std::process::{Command, Stdio};

use crate::Fallible;
use crate::contest::median;
use crate::row::Row;

/// How many checks a batch holds.
pub(super) const BATCH: u64 = 100;

/// What a server did under load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) requests_per_second: f64,
    /// Microseconds of the server's processor that a request took.
    pub(super) micros_per_request: f64,
}

impl Load {
    /// How much of its processor the server used.
    pub(super) fn used(&self) -> f64 {
        self.requests_per_second * self.micros_per_request / 1e6
    }
}

/// Makes sure that a tool is here which the load needs, and the one that pins it to a processor.
pub(super) fn need(tool: &str, package: &str) -> Fallible<()> {
    for (tool, package) in [(tool, package), ("taskset", "util-linux")] {
        // Without an argument, some would begin to serve.
        let mut trial = Command::new(tool);
        trial.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
        let tried = trial.status();
        if tried.is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            return Err(format!("{tool} is missing (on Debian: apt-get install {package})").into());
        }
    }
    Ok(())
}

/// Runs all contestants in turns. The first round warms up and is not counted.
pub(super) fn in_turns<T, const N: usize>(
    rounds: usize,
    contestants: [&dyn Fn() -> Fallible<T>; N],
) -> Fallible<[Vec<T>; N]> {
    let mut samples = [const { Vec::new() }; N];
    for round in 0..=rounds {
        for (contestant, samples) in contestants.iter().zip(&mut samples) {
            let sample = contestant()?;
            if round > 0 {
                samples.push(sample);
            }
        }
    }
    Ok(samples)
}

/// How many times the processor time of a peer we take.
pub(super) fn times_the_cost(name: &str, ours: &[Load], peer: &[Load]) -> Row {
    let [ours_micros, peer_micros] =
        [ours, peer].map(|loads| median_of(loads, |load| load.micros_per_request));
    let ratios = ours.iter().zip(peer).map(|(o, p)| o.micros_per_request / p.micros_per_request);
    Row { spread: spread(ratios), ..Row::figure(name, ours_micros / peer_micros, "x") }
        .with("ours_us", ours_micros)
        .with("peer_us", peer_micros)
        .with("ours_per_second", median_of(ours, |load| load.requests_per_second))
        .with("peer_per_second", median_of(peer, |load| load.requests_per_second))
}

/// How many million checks in batches a second of the processor is good for.
pub(super) fn checks_per_second(name: &str, batches: &[Load]) -> Row {
    let millions = |load: &Load| BATCH as f64 / load.micros_per_request;
    let row = Row::figure(name, median_of(batches, millions), " M/s");
    Row { spread: spread(batches.iter().map(millions)), ..row }
}

pub(super) fn median_of<T>(samples: &[T], figure: impl Fn(&T) -> f64) -> f64 {
    median(&samples.iter().map(figure).collect::<Vec<_>>())
}

/// The least and the largest.
pub(super) fn spread(figures: impl Iterator<Item = f64> + Clone) -> Option<(f64, f64)> {
    Some((figures.clone().reduce(f64::min)?, figures.reduce(f64::max)?))
}
