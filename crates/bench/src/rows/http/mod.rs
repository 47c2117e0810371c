//! A server under load, over HTTP: what a check costs its processor, and how long it takes.
//!
//! Servers are separate processes on one processor, their clients are on the other. Ours and its peers
//! take turns.

pub(crate) mod bare;
mod bodies;
pub(crate) mod dashboard;
pub(crate) mod latency;
pub(crate) mod pace;
mod wrk;

use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;

use crate::Fallible;
use crate::row::{Bar, Row};
use crate::rows::load::{checks_per_second, in_turns, times_the_cost};
use crate::rows::server::{Protocol, Server};
use crate::scale::Scale;
use wrk::Wrk;

const CHECK_PATH: &str = "/api/v1/rate-limit/check";
const BATCH_PATH: &str = "/api/v1/rate-limit/check/batch";
const THROTTLE_PATH: &str = "/throttle";

/// Clients and what they send.
pub(super) struct HttpStage {
    directory: TempDir,
    wrk: Wrk,
    keys: u64,
    rounds: usize,
    /// How often and how long contestants have their turns where wrk takes no part.
    turns: usize,
    turn: Duration,
}

impl HttpStage {
    pub(super) fn new(scale: &Scale) -> Fallible<Self> {
        let directory = tempfile::tempdir()?;
        // wrk counts in whole seconds.
        let seconds = (scale.of(4_000) / 1_000).max(1);
        let wrk = Wrk::new(directory.path(), seconds)?;
        let (keys, rounds) = (scale.of(100_000), scale.rounds.min(5));
        Ok(Self { directory, wrk, keys, rounds, turns: scale.rounds, turn: scale.turn })
    }

    /// Tollgate, with more options.
    pub(super) fn ours(&self, options: &[&OsStr]) -> Fallible<Server> {
        Server::ours_with(self.directory.path(), Protocol::Http, options)
    }

    fn file(&self, name: &str, contents: impl Iterator<Item = String>) -> Fallible<PathBuf> {
        let path = self.directory.path().join(name);
        bodies::write(&path, contents)?;
        Ok(path)
    }
}

/// What a single check costs, against a handler that checks nothing.
pub(crate) fn check(scale: &Scale) -> Fallible<Vec<Row>> {
    let stage = HttpStage::new(scale)?;
    let checks = stage.file("checks", bodies::checks(stage.keys))?;
    let (ours, bare) = (stage.ours(&[])?, Server::bare(Protocol::Http)?);
    let count = stage.wrk.unhurried(&ours, CHECK_PATH, &checks)?;
    let drive = |server| stage.wrk.drive(server, CHECK_PATH, &checks, count);
    let [ours, bare] = in_turns(stage.rounds, [&|| drive(&ours), &|| drive(&bare)])?;
    Ok(vec![times_the_cost("http/check", &ours, &bare).held_to(Bar::AtMost(1.15))])
}

/// HTTP checks against throttlecrab's server.
pub(crate) fn check_against_throttlecrab(scale: &Scale) -> Fallible<Vec<Row>> {
    let stage = HttpStage::new(scale)?;
    let Some(throttlecrab) = Server::throttlecrab(stage.keys)? else {
        eprintln!("left out: scripts/bench-peers brings throttlecrab-server");
        return Ok(Vec::new());
    };
    let ours = stage.ours(&[])?;
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

/// What it costs to keep recent requests for previews and recommendations.
pub(crate) fn recent_traffic(scale: &Scale) -> Fallible<Vec<Row>> {
    let stage = HttpStage::new(scale)?;
    let checks = stage.file("checks", bodies::checks(stage.keys))?;
    let with = stage.ours(&[])?;
    let directory = stage.directory.path();
    let without = Server::ours_set(directory, Protocol::Http, &[], "recent_traffic: 0\n")?;
    let count = stage.wrk.unhurried(&with, CHECK_PATH, &checks)?;
    let drive = |server| stage.wrk.drive(server, CHECK_PATH, &checks, count);
    let [with, without] = in_turns(stage.rounds, [&|| drive(&with), &|| drive(&without)])?;
    Ok(vec![times_the_cost("http/recent_traffic", &with, &without).held_to(Bar::AtMost(1.03))])
}

/// How many checks in batches a second of the processor is good for.
pub(crate) fn batch(scale: &Scale) -> Fallible<Vec<Row>> {
    let stage = HttpStage::new(scale)?;
    let batches = stage.file("batches", bodies::batches(stage.keys))?;
    let ours = stage.ours(&[])?;
    let count = stage.wrk.unhurried(&ours, BATCH_PATH, &batches)?;
    let [loads] =
        in_turns(stage.rounds, [&|| stage.wrk.drive(&ours, BATCH_PATH, &batches, count)])?;
    Ok(vec![checks_per_second("http/batch_100", &loads).held_to(Bar::AtLeast(1.0))])
}
