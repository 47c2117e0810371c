//! How long a check takes beyond what it takes elsewhere, at half of the highest load.

use std::env;
use std::path::Path;
use std::time::Duration;

use super::pace::Delays;
use super::{CHECK_PATH, HttpStage, bodies};
use crate::Fallible;
use crate::process::ask;
use crate::row::{Bar, Row};
use crate::rows::load::{in_turns, median_of, spread};
use crate::rows::server::{CLIENT_CORE, Protocol, Server, pinned};
use crate::scale::Scale;

/// How many responses may differ: so few that the 99th percentile is not one of them.
const TOLERATED: f64 = 0.002;

/// Against a handler that checks nothing.
pub(crate) fn latency(scale: &Scale) -> Fallible<Vec<Row>> {
    let stage = HttpStage::new(scale)?;
    let (ours, bare) = (stage.ours(&[])?, Server::bare(Protocol::Http)?);
    let row = added("http/latency", &stage, &ours, &bare, 0.0)?;
    Ok(vec![row.held_to(Bar::Below(1.0))])
}

/// Milliseconds that we add to the 99th percentile of a peer, both at half of the load that we can
/// bear, if the share of our answers is as expected that a shared store had no part in. Many short turns: a percentile of a turn in which the machine was busy says nothing, and the
/// median leaves it out.
pub(in crate::rows) fn added(
    name: &str,
    stage: &HttpStage,
    ours: &Server,
    peer: &Server,
    degraded: f64,
) -> Fallible<Row> {
    let checks = stage.file("checks", bodies::checks(stage.keys))?;
    let rate = stage.wrk.drive(ours, CHECK_PATH, &checks, 0)?.requests_per_second / 2.0;
    let (turn, rounds) = (stage.turn * 3, 2 * stage.turns + 1);
    let pace = |server| pace(server, &checks, rate, turn);
    let [ours, peer] = in_turns(rounds, [&|| pace(ours), &|| pace(peer)])?;
    if let Some(strange) = ours.iter().find(|it| (it.degraded - degraded).abs() > TOLERATED) {
        return Err(format!("{name}: not what was to be measured: {strange:?}").into());
    }
    let millis_added = |(ours, peer): (&Delays, &Delays)| (ours.p99 - peer.p99) / 1e3;
    let [ours_p99, peer_p99] = [&ours, &peer].map(|delays| median_of(delays, |delay| delay.p99));
    let row = Row::figure(name, (ours_p99 - peer_p99) / 1e3, " ms");
    Ok(Row { spread: spread(ours.iter().zip(&peer).map(millis_added)), ..row }
        .with("per_second", rate)
        .with("ours_p50_us", median_of(&ours, |delay| delay.p50))
        .with("peer_p50_us", median_of(&peer, |delay| delay.p50))
        .with("ours_p99_us", ours_p99)
        .with("peer_p99_us", peer_p99)
        .with("ours_p999_us", median_of(&ours, |delay| delay.p999))
        .with("peer_p999_us", median_of(&peer, |delay| delay.p999)))
}

/// Sends checks on schedule and measures how long each takes.
fn pace(server: &Server, bodies: &Path, per_second: f64, turn: Duration) -> Fallible<Delays> {
    let mut client = pinned(CLIENT_CORE, env::current_exe()?);
    client.arg("pace").arg(server.address.to_string()).arg(CHECK_PATH).arg(bodies);
    client.arg(per_second.to_string()).arg(turn.as_secs_f64().to_string());
    match ask(&mut client)?[..] {
        [p50, p99, p999, degraded] => Ok(Delays { p50, p99, p999, degraded }),
        _ => Err("a client that keeps a pace prints four numbers".into()),
    }
}
