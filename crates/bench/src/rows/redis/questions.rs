//! The contestants: Tollgate's store, one call of its script for each check, a plain `INCR`, and what envoyproxy/ratelimit
//! sends.

use std::future::Future;
use std::time::Duration;

use foldhash::quality::RandomState;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, FromRedisValue, cmd};
use tollgate::{Clock as _, SystemClock};
use tollgate_core::{Algorithm, Charge, Key, Limit, Micros, Mode, Quota};
use tollgate_store::redis::RedisStore;
use tollgate_store::{RemoteSettings, Store as _};

use super::plan::{Check, Extent, Plan};
use crate::keys::KeyText;

const WINDOW: Micros = Micros::from_secs(86_400);
/// Long enough for a machine that stalls.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);

/// When the window of a key of envoyproxy/ratelimit began; it is part of the key.
const WINDOW_START: u64 = 1_790_000_000;
/// How many commands may wait to be written.
const WAITING_COMMANDS: usize = 1_024;
/// From how many microseconds on Redis calls a command slow, when nothing is set.
const USUALLY_SLOW: u32 = 10_000;

/// An entry of Redis's SLOWLOG: its number, time, duration, arguments, and client.
type Slow = (u64, u64, u64, Vec<Vec<u8>>, String, String);

/// Why there was no valid response.
pub(super) type Asked<T> = Result<T, String>;

/// Something to ask Redis about subjects, by their numbers.
pub(super) trait Contestant: Send + Sync + 'static {
    fn ask(&self, subject: usize) -> impl Future<Output = Asked<()>> + Send;
}

/// Tollgate's store.
pub(super) struct Checks {
    store: RedisStore,
    hasher: RandomState,
    limit: Limit,
    rules: Vec<String>,
    subjects: Vec<String>,
    /// Questions do not share records.
    rest: String,
    counted_by: usize,
    cost: u64,
}

impl Checks {
    pub(super) async fn connect(plan: &Plan, check: &Check) -> Asked<Self> {
        let settings = RemoteSettings { deadline: RESPONSE_TIMEOUT, ..RemoteSettings::default() };
        let store = RedisStore::connect(&plan.url, settings)?;
        if !store.found(RESPONSE_TIMEOUT).await {
            return Err("the cluster does not say who serves what".into());
        }
        let algorithm = Algorithm::from_name(&check.algorithm).ok_or("no such algorithm")?;
        let limit = Quota::new(algorithm, check.limit, WINDOW).compile();
        Ok(Self {
            store,
            hasher: RandomState::default(),
            limit: limit.map_err(|error| error.to_string())?,
            rules: (0..check.rules).map(|number| check.rule(number)).collect(),
            subjects: subjects(plan),
            rest: check.rule(0),
            counted_by: check.counted_by,
            cost: match plan.extent {
                Extent::Entered => check.used(),
                Extent::EachOnce | Extent::Turn(_) => 1,
            },
        })
    }

    /// Rules take turns with the subjects that they count by, which lie far apart.
    fn charge<'a>(&'a self, subject: usize, (number, rule): (usize, &'a String)) -> Charge<'a> {
        let apart = number % self.counted_by * (self.subjects.len() / self.counted_by);
        let subject = &self.subjects[(subject + apart) % self.subjects.len()];
        let key = Key::new(&self.hasher, rule, subject.as_bytes(), self.rest.as_bytes());
        Charge { key, limit: &self.limit, cost: self.cost, mode: Mode::Enforce }
    }
}

impl Contestant for Checks {
    async fn ask(&self, subject: usize) -> Asked<()> {
        let charges: Vec<Charge<'_>> =
            self.rules.iter().enumerate().map(|rule| self.charge(subject, rule)).collect();
        match self.store.settle(&charges, SystemClock.now()).await {
            Ok(settlement) if settlement.passed => Ok(()),
            Ok(_) => Err("a check was refused".into()),
            Err(error) => Err(format!("a check was not answered: {error:?}")),
        }
    }
}

/// The script that the store runs, called once for each check.
pub(super) struct Script {
    connection: MultiplexedConnection,
    /// What the store sends, besides the key.
    digest: Vec<u8>,
    numbers: [Vec<u8>; 2],
    keys: Vec<String>,
}

impl Script {
    /// Has the store send a check, and reads it from the server's SLOWLOG, which records everything with a threshold
    /// of zero.
    pub(super) async fn overhear(plan: &Plan, check: &Check) -> Asked<Self> {
        let mut connection = connect(&plan.url).await?;
        let checks = Checks::connect(plan, check).await?;
        let rule = check.rule(0);
        let keys = (0..plan.subjects).map(|subject| {
            let [record, _] = checks.store.keys_of(&checks.charge(subject, (0, &rule)).key);
            record
        });
        let keys: Vec<String> = keys.collect();
        log_from(&mut connection, 0).await?;
        checks.ask(0).await?;
        let log: Vec<Slow> = send(&mut connection, cmd("SLOWLOG").arg("GET").arg(1)).await?;
        log_from(&mut connection, USUALLY_SLOW).await?;
        let [(.., command, _, _)] = &log[..] else { return Err("nothing was sent".into()) };
        match &command[..] {
            [name, digest, one, _, numbers @ ..] if name == b"EVALSHA" && one == b"1" => {
                let numbers = numbers.to_vec().try_into();
                let numbers = numbers.map_err(|_| "the script takes other arguments")?;
                Ok(Self { connection, digest: digest.clone(), numbers, keys })
            }
            _ => Err(format!("this is no call of the script: {command:?}")),
        }
    }
}

impl Contestant for Script {
    async fn ask(&self, subject: usize) -> Asked<()> {
        let mut call = cmd("EVALSHA");
        call.arg(&self.digest).arg(1).arg(&self.keys[subject % self.keys.len()]);
        let answer: Vec<Vec<u8>> =
            send(&mut self.connection.clone(), call.arg(&self.numbers[..])).await?;
        // The time, then the record: what had to fit did.
        match &answer[..] {
            [_, record] if record.first() == Some(&1) => Ok(()),
            _ => Err(format!("a check was not admitted: {answer:?}")),
        }
    }
}

/// From how many microseconds on Redis is to take note of a command.
async fn log_from(connection: &mut MultiplexedConnection, micros: u32) -> Asked<()> {
    let mut set = cmd("CONFIG");
    send(connection, set.arg("SET").arg("slowlog-log-slower-than").arg(micros)).await
}

/// A plain `INCR` for each check.
pub(super) struct Increments {
    connection: MultiplexedConnection,
    keys: Vec<String>,
}

impl Increments {
    pub(super) async fn connect(plan: &Plan) -> Asked<Self> {
        Ok(Self { connection: connect(&plan.url).await?, keys: subjects(plan) })
    }
}

impl Contestant for Increments {
    async fn ask(&self, subject: usize) -> Asked<()> {
        let key = &self.keys[subject % self.keys.len()];
        let _: u64 = send(&mut self.connection.clone(), cmd("INCR").arg(key)).await?;
        Ok(())
    }
}

/// What envoyproxy/ratelimit sends for each counter of a check: `INCRBY` and `EXPIRE`, in one pipeline.
pub(super) struct Pairs {
    connection: MultiplexedConnection,
    keys: Vec<String>,
    counters: usize,
}

impl Pairs {
    pub(super) async fn connect(plan: &Plan, counters: usize) -> Asked<Self> {
        Ok(Self { connection: connect(&plan.url).await?, keys: subjects(plan), counters })
    }
}

impl Contestant for Pairs {
    async fn ask(&self, subject: usize) -> Asked<()> {
        let key = &self.keys[subject % self.keys.len()];
        let mut pipeline = redis::pipe();
        for number in 0..self.counters {
            let key = format!("domain_user_{key}_{number}_{WINDOW_START}");
            pipeline.cmd("INCRBY").arg(&key).arg(1);
            pipeline.cmd("EXPIRE").arg(&key).arg(86_400).ignore();
        }
        let counts: Result<Vec<u64>, _> = pipeline.query_async(&mut self.connection.clone()).await;
        counts.map(drop).map_err(|error| error.to_string())
    }
}

fn subjects(plan: &Plan) -> Vec<String> {
    let mut text = KeyText::new();
    (0..plan.subjects).map(|number| text.of(number as u64).clone()).collect()
}

pub(super) async fn connect(url: &str) -> Asked<MultiplexedConnection> {
    let client = Client::open(url).map_err(|error| error.to_string())?;
    // As in the store: no timer for each response, and room for many commands.
    let config = AsyncConnectionConfig::new()
        .set_response_timeout(None)
        .set_pipeline_buffer_size(WAITING_COMMANDS);
    let connected = client.get_multiplexed_async_connection_with_config(&config).await;
    connected.map_err(|error| error.to_string())
}

pub(super) async fn send<T: FromRedisValue>(
    connection: &mut MultiplexedConnection,
    command: &Cmd,
) -> Asked<T> {
    command.query_async(connection).await.map_err(|error| error.to_string())
}
