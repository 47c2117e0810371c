//! A server under load, over HTTP: what a check costs its processor, and how long it takes.
//!
//! Servers are processes of their own on one processor, their clients are on the other. Ours and its
//! peers take turns.

pub(crate) mod bare;
mod bodies;
pub(crate) mod pace;
mod wrk;

use std::env;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::Fallible;
use crate::process::ask;
use crate::row::{Bar, Row};
use crate::rows::load::{checks_per_second, in_turns, median_of, spread, times_the_cost};
use crate::rows::server::{CLIENT_CORE, Protocol, Server, pinned};
use crate::scale::Scale;
use pace::Delays;
use wrk::Wrk;

const CHECK_PATH: &str = "/api/v1/rate-limit/check";
const BATCH_PATH: &str = "/api/v1/rate-limit/check/batch";
const THROTTLE_PATH: &str = "/throttle";

/// Clients and what they send.
struct Stage {
    directory: TempDir,
    wrk: Wrk,
    keys: u64,
    rounds: usize,
    seconds: u64,
}

impl Stage {
    fn new(scale: &Scale) -> Fallible<Self> {
        let directory = tempfile::tempdir()?;
        // wrk counts in whole seconds.
        let seconds = (scale.of(4_000) / 1_000).max(1);
        let wrk = Wrk::new(directory.path(), seconds)?;
        let (keys, rounds) = (scale.of(100_000), scale.rounds.min(5));
        Ok(Self { directory, wrk, keys, rounds, seconds })
    }

    fn ours(&self) -> Fallible<Server> {
        Server::ours(self.directory.path(), Protocol::Http)
    }

    fn file(&self, name: &str, contents: impl Iterator<Item = String>) -> Fallible<PathBuf> {
        let path = self.directory.path().join(name);
        bodies::write(&path, contents)?;
        Ok(path)
    }

    /// Sends checks on schedule and measures how long each takes.
    fn pace(&self, server: &Server, bodies: &Path, per_second: f64) -> Fallible<Delays> {
        let mut client = pinned(CLIENT_CORE, env::current_exe()?);
        client.arg("pace").arg(server.address.to_string()).arg(CHECK_PATH).arg(bodies);
        client.arg(per_second.to_string()).arg(self.seconds.to_string());
        match ask(&mut client)?[..] {
            [p50, p99, p999] => Ok(Delays { p50, p99, p999 }),
            _ => Err("a client that keeps a pace prints three numbers".into()),
        }
    }
}

/// What a single check costs, against a handler that checks nothing.
pub(crate) fn check(scale: &Scale) -> Fallible<Vec<Row>> {
    let stage = Stage::new(scale)?;
    let checks = stage.file("checks", bodies::checks(stage.keys))?;
    let (ours, bare) = (stage.ours()?, Server::bare(Protocol::Http)?);
    let count = stage.wrk.unhurried(&ours, CHECK_PATH, &checks)?;
    let drive = |server| stage.wrk.drive(server, CHECK_PATH, &checks, count);
    let [ours, bare] = in_turns(stage.rounds, [&|| drive(&ours), &|| drive(&bare)])?;
    Ok(vec![times_the_cost("http/check", &ours, &bare).held_to(Bar::AtMost(1.15))])
}

/// The same against throttlecrab's server.
pub(crate) fn check_against_throttlecrab(scale: &Scale) -> Fallible<Vec<Row>> {
    let stage = Stage::new(scale)?;
    let Some(throttlecrab) = Server::throttlecrab(stage.keys)? else {
        eprintln!("left out: scripts/bench-peers brings throttlecrab-server");
        return Ok(Vec::new());
    };
    let ours = stage.ours()?;
    let checks = stage.file("checks", bodies::checks(stage.keys))?;
    let throttles = stage.file("throttles", bodies::throttles(stage.keys))?;
    let count = stage.wrk.unhurried(&ours, CHECK_PATH, &checks)?;
    let [ours, throttlecrab] = in_turns(
        stage.rounds,
        [&|| stage.wrk.drive(&ours, CHECK_PATH, &checks, count), &|| {
            stage.wrk.drive(&throttlecrab, THROTTLE_PATH, &throttles, count)
        }],
    )?;
    Ok(vec![times_the_cost("http/throttlecrab", &ours, &throttlecrab).held_to(Bar::Below(1.0))])
}

/// How many checks in batches a second of the processor is good for.
pub(crate) fn batch(scale: &Scale) -> Fallible<Vec<Row>> {
    let stage = Stage::new(scale)?;
    let batches = stage.file("batches", bodies::batches(stage.keys))?;
    let ours = stage.ours()?;
    let count = stage.wrk.unhurried(&ours, BATCH_PATH, &batches)?;
    let [loads] =
        in_turns(stage.rounds, [&|| stage.wrk.drive(&ours, BATCH_PATH, &batches, count)])?;
    Ok(vec![checks_per_second("http/batch_100", &loads).held_to(Bar::AtLeast(1.0))])
}

/// How long a check takes at half of the highest load, beyond what a handler takes that checks
/// nothing.
pub(crate) fn latency(scale: &Scale) -> Fallible<Vec<Row>> {
    let stage = Stage::new(scale)?;
    let checks = stage.file("checks", bodies::checks(stage.keys))?;
    let (ours, bare) = (stage.ours()?, Server::bare(Protocol::Http)?);
    let rate = stage.wrk.drive(&ours, CHECK_PATH, &checks, 0)?.requests_per_second / 2.0;
    let [ours, bare] = in_turns(
        stage.rounds,
        [&|| stage.pace(&ours, &checks, rate), &|| stage.pace(&bare, &checks, rate)],
    )?;
    let millis_added = |(ours, bare): (&Delays, &Delays)| (ours.p99 - bare.p99) / 1e3;
    let [ours_p99, bare_p99] = [&ours, &bare].map(|delays| median_of(delays, |delay| delay.p99));
    let row = Row::figure("http/latency", (ours_p99 - bare_p99) / 1e3, " ms");
    let row = Row { spread: spread(ours.iter().zip(&bare).map(millis_added)), ..row }
        .with("per_second", rate)
        .with("ours_p50_us", median_of(&ours, |delay| delay.p50))
        .with("bare_p50_us", median_of(&bare, |delay| delay.p50))
        .with("ours_p99_us", ours_p99)
        .with("bare_p99_us", bare_p99)
        .with("ours_p999_us", median_of(&ours, |delay| delay.p999))
        .with("bare_p999_us", median_of(&bare, |delay| delay.p999));
    Ok(vec![row.held_to(Bar::Below(1.0))])
}
