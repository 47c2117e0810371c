//! Redis on one processor, its clients on the other.

use std::env;
use std::process::{Command, Stdio};
use std::slice;

use tollgate_testbed::{Redis, RedisCluster};

use super::client::Sample;
use super::plan::{Extent, Plan, Question};
use crate::Fallible;
use crate::process::ask;
use crate::rows::server::{CLIENT_CORE, SERVER_CORE, pinned};
use crate::scale::Scale;

/// How many checks are under way when counters are entered.
const ENTERED_AT_ONCE: usize = 256;
/// The fewest masters that a cluster has.
const MASTERS: usize = 3;

/// Redis, and how long the measurement takes.
pub(super) struct Stage {
    servers: Servers,
    scale: Scale,
}

enum Servers {
    One(Redis),
    Cluster(RedisCluster),
}

impl Stage {
    /// One server.
    pub(super) fn single(scale: &Scale) -> Fallible<Self> {
        Self::of(Redis::start(), scale)
    }

    /// A server that runs.
    pub(super) fn of(redis: Redis, scale: &Scale) -> Fallible<Self> {
        Self::with(Servers::One(redis), scale)
    }

    /// A cluster whose servers share their processor.
    pub(super) fn cluster(scale: &Scale) -> Fallible<Self> {
        Self::with(Servers::Cluster(RedisCluster::start(MASTERS, 0)), scale)
    }

    fn with(servers: Servers, scale: &Scale) -> Fallible<Self> {
        let stage = Self { servers, scale: *scale };
        for node in stage.nodes() {
            pin(node)?;
        }
        Ok(stage)
    }

    pub(super) fn nodes(&self) -> &[Redis] {
        match &self.servers {
            Servers::One(redis) => slice::from_ref(redis),
            Servers::Cluster(cluster) => cluster.nodes(),
        }
    }

    /// Where Tollgate finds it.
    pub(super) fn url(&self) -> String {
        let addresses: Vec<String> =
            self.nodes().iter().map(|node| node.address().to_string()).collect();
        match self.servers {
            Servers::One(_) => format!("redis://{}", addresses.join("")),
            Servers::Cluster(_) => format!("redis+cluster://{}", addresses.join(",")),
        }
    }

    /// Checks each subject once, so that all counters exist.
    pub(super) fn enter(&self, question: &Question, subjects: u64) -> Fallible<()> {
        self.ask(question, subjects, ENTERED_AT_ONCE, Extent::Entered).map(drop)
    }

    /// Checks each subject once more.
    pub(super) fn check_each(&self, question: &Question, subjects: u64) -> Fallible<()> {
        self.ask(question, subjects, ENTERED_AT_ONCE, Extent::EachOnce).map(drop)
    }

    /// Runs one turn.
    pub(super) fn drive(
        &self,
        question: &Question,
        subjects: u64,
        in_flight: usize,
    ) -> Fallible<Sample> {
        self.ask(question, subjects, in_flight, Extent::Turn(self.scale.turn * 2))
    }

    fn ask(
        &self,
        question: &Question,
        subjects: u64,
        in_flight: usize,
        extent: Extent,
    ) -> Fallible<Sample> {
        let plan = Plan {
            url: self.url(),
            servers: self.nodes().iter().map(Redis::url).collect(),
            question: question.clone(),
            subjects: usize::try_from(subjects)?,
            in_flight,
            extent,
        };
        let mut client = pinned(CLIENT_CORE, env::current_exe()?);
        client.arg("ask-redis").arg(serde_json::to_string(&plan)?);
        match ask(&mut client)?[..] {
            [per_second, redis_micros, calls, reads] => {
                Ok(Sample { per_second, redis_micros, calls, reads })
            }
            _ => Err("a client of Redis prints four numbers".into()),
        }
    }
}

/// Keeps all threads of a server that runs on the processor of servers.
pub(super) fn pin(redis: &Redis) -> Fallible<()> {
    keep_on(SERVER_CORE, redis).map(drop)
}

/// Keeps a server that runs on the processor of clients, and lets it interrupt them: as Redis is on a machine of its own,
/// it never waits for Tollgate to leave the processor.
pub(super) fn pin_apart(redis: &Redis) -> Fallible<()> {
    let id = keep_on(CLIENT_CORE, redis)?;
    run(Command::new("chrt").args(["--all-tasks", "--fifo", "--pid", "1", &id]))
}

fn keep_on(core: &str, redis: &Redis) -> Fallible<String> {
    let id = redis.process_id().ok_or("Redis has ended")?.to_string();
    run(Command::new("taskset").args(["--all-tasks", "--cpu-list", "--pid", core, &id]))?;
    Ok(id)
}

fn run(command: &mut Command) -> Fallible<()> {
    match command.stdout(Stdio::null()).status()?.success() {
        true => Ok(()),
        false => Err(format!("Redis cannot be kept on one processor: {command:?}").into()),
    }
}
