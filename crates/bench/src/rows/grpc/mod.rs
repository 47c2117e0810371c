//! A server under load, over gRPC: what a check costs its processor.

pub(crate) mod bare;
mod call;
mod definitions;
mod h2load;
pub(crate) mod turn;

use std::fs;

use crate::Fallible;
use crate::peers::LIMIT;
use crate::row::{Bar, Row};
use crate::rows::load::{checks_per_second, in_turns, times_the_cost};
use crate::rows::server::{Protocol, Server};
use crate::scale::Scale;
use call::{Call, DOMAIN, ENTRY};
use h2load::{BUSY, H2load, UNHURRIED};

/// Many clients that wait for each response.
const EACH_WAITS: [u32; 2] = [64, 1];
/// A few clients with much to do at once.
const FEW_WITH_MANY: [u32; 2] = [4, 64];

/// How long, how often and for how many users servers are driven.
struct GrpcExtent {
    keys: u64,
    rounds: usize,
    seconds: u64,
}

impl GrpcExtent {
    fn of(scale: &Scale) -> Self {
        // h2load counts in whole seconds.
        let seconds = (scale.of(4_000) / 1_000).max(1);
        Self { keys: scale.of(100_000), rounds: scale.rounds.min(5), seconds }
    }
}

/// What a single check costs, against a handler that checks nothing.
pub(crate) fn check(scale: &Scale) -> Fallible<Vec<Row>> {
    against_bare("grpc/check", Call::Check, EACH_WAITS, scale)
}

/// Checks over a few connections, each of which carries many at once.
pub(crate) fn check_over_few_connections(scale: &Scale) -> Fallible<Vec<Row>> {
    against_bare("grpc/check_4x64", Call::Check, FEW_WITH_MANY, scale)
}

/// What a question of Envoy's costs, against a handler that checks nothing.
pub(crate) fn envoy(scale: &Scale) -> Fallible<Vec<Row>> {
    against_bare("grpc/envoy", Call::Envoy, EACH_WAITS, scale)
}

fn against_bare(name: &str, call: Call, clients: [u32; 2], scale: &Scale) -> Fallible<Vec<Row>> {
    let directory = tempfile::tempdir()?;
    let ours = match call {
        Call::Check | Call::Batch => Server::ours(directory.path(), Protocol::Grpc)?,
        Call::Envoy => {
            let limits = directory.path().join("limits");
            fs::create_dir(&limits)?;
            let limit = format!(
                "{{domain: {DOMAIN}, descriptors: [{{key: {ENTRY}, \
                 rate_limit: {{unit: day, requests_per_unit: {LIMIT}}}}}]}}"
            );
            fs::write(limits.join("bench.yaml"), limit)?;
            let options = ["--envoy-config".as_ref(), limits.as_os_str()];
            Server::ours_with(directory.path(), Protocol::Grpc, &options)?
        }
    };
    let bare = Server::bare(Protocol::Grpc)?;
    let GrpcExtent { keys, rounds, seconds } = GrpcExtent::of(scale);
    let h2load = H2load::new(directory.path(), call, clients, keys)?;
    let rate = h2load.rate(&ours, UNHURRIED)?;
    let drive = |server| h2load.drive(server, rate, seconds);
    let [ours, bare] = in_turns(rounds, [&|| drive(&ours), &|| drive(&bare)])?;
    Ok(vec![times_the_cost(name, &ours, &bare).held_to(Bar::AtMost(1.12))])
}

/// How many checks in batches a second of the processor is good for.
pub(crate) fn batch(scale: &Scale) -> Fallible<Vec<Row>> {
    let directory = tempfile::tempdir()?;
    let ours = Server::ours(directory.path(), Protocol::Grpc)?;
    let GrpcExtent { keys, rounds, seconds } = GrpcExtent::of(scale);
    let h2load = H2load::new(directory.path(), Call::Batch, EACH_WAITS, keys)?;
    let rate = h2load.rate(&ours, BUSY)?;
    let [loads] = in_turns(rounds, [&|| h2load.drive(&ours, rate, seconds)])?;
    Ok(vec![checks_per_second("grpc/batch_100", &loads).held_to(Bar::AtLeast(1.0))])
}
