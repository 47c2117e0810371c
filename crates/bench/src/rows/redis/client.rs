//! The client process: sends requests concurrently, and measures the load on Redis.

use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use redis::cmd;
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tollgate::Stopwatch;

use super::plan::{Extent, Plan, Question};
use super::questions::{Asked, Checks, Contestant, Increments, Pairs, Script, connect, send};
use crate::Fallible;
use crate::keys::Draw;

/// What came of a load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) per_second: f64,
    /// Microseconds of processor time of all servers that a check took.
    pub(crate) redis_micros: f64,
    /// Commands that reached a server, for each check.
    pub(crate) calls: f64,
    /// How often servers read from a socket, for each check: commands that are sent together are read together.
    pub(crate) reads: f64,
}

/// Does what the plan says.
pub(crate) fn drive(plan: &Plan) -> Fallible<Sample> {
    // With a thread for each processor that it may run on: one.
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    let sample = runtime.block_on(async {
        match &plan.question {
            Question::Check(check) => ask_all(Checks::connect(plan, check).await?, plan).await,
            Question::Script(check) => ask_all(Script::overhear(plan, check).await?, plan).await,
            Question::Increment => ask_all(Increments::connect(plan).await?, plan).await,
            Question::Pairs(counters) => {
                ask_all(Pairs::connect(plan, *counters).await?, plan).await
            }
        }
    });
    Ok(sample?)
}

async fn ask_all(contestant: impl Contestant, plan: &Plan) -> Asked<Sample> {
    let contestant = Arc::new(contestant);
    let mut servers = Vec::with_capacity(plan.servers.len());
    for server in &plan.servers {
        servers.push(connect(server).await?);
    }
    let before = Books::read(&mut servers).await?;
    let stopwatch = Stopwatch::start();
    let mut askers = JoinSet::new();
    for number in 0..plan.in_flight {
        askers.spawn(ask_on(Arc::clone(&contestant), number, plan.clone(), stopwatch));
    }
    let mut checks = 0.0;
    while let Some(asked) = askers.join_next().await {
        checks += f64::from(asked.map_err(|error| error.to_string())??);
    }
    let seconds = stopwatch.elapsed().as_secs_f64();
    let after = Books::read(&mut servers).await?;
    Ok(Sample {
        per_second: checks / seconds,
        redis_micros: (after.processor_seconds - before.processor_seconds) / checks * 1e6,
        calls: (after.calls - before.calls) / checks,
        reads: (after.reads - before.reads) / checks,
    })
}

/// One client task, which sends one request after the other; returns how many.
async fn ask_on(
    contestant: Arc<impl Contestant>,
    number: usize,
    plan: Plan,
    stopwatch: Stopwatch,
) -> Asked<u32> {
    let mut asked = 0;
    match plan.extent {
        Extent::Entered | Extent::EachOnce => {
            for subject in (number..plan.subjects).step_by(plan.in_flight) {
                contestant.ask(subject).await?;
                asked += 1;
            }
        }
        Extent::Turn(turn) => {
            let mut draw = Draw::new(number as u64, plan.subjects as u64);
            while stopwatch.elapsed() < turn {
                contestant.ask(draw.next() as usize).await?;
                asked += 1;
            }
        }
    }
    Ok(asked)
}

/// What servers have done so far.
#[derive(Debug, Default, PartialEq)]
struct Books {
    processor_seconds: f64,
    /// Commands of contestants, without those that scripts call.
    calls: f64,
    /// Reads from sockets.
    reads: f64,
}

impl Books {
    async fn read(servers: &mut [MultiplexedConnection]) -> Asked<Self> {
        let mut books = Self::default();
        for server in servers {
            let text: String =
                send(server, cmd("INFO").arg("cpu").arg("stats").arg("commandstats")).await?;
            books.add(&text);
        }
        Ok(books)
    }

    /// Adds what a server says about itself.
    fn add(&mut self, text: &str) {
        for (name, value) in text.lines().filter_map(|line| line.split_once(':')) {
            match name {
                "used_cpu_sys" | "used_cpu_user" => {
                    self.processor_seconds += value.parse().unwrap_or(f64::NAN);
                }
                "total_reads_processed" => self.reads += value.parse().unwrap_or(f64::NAN),
                "cmdstat_eval" | "cmdstat_evalsha" | "cmdstat_incr" => {
                    let calls = value.strip_prefix("calls=").and_then(|it| it.split(',').next());
                    self.calls += calls.and_then(|it| it.parse().ok()).unwrap_or(f64::NAN);
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn books_are_added_up() {
        let mut books = Books::default();
        books.add(
            "# CPU\r\nused_cpu_sys:1.25\r\nused_cpu_user:2.5\r\nused_cpu_sys_children:9.0\r\n\
             # Stats\r\ntotal_reads_processed:5\r\ntotal_net_input_bytes:99\r\n\
             # Commandstats\r\ncmdstat_evalsha:calls=7,usec=70,usec_per_call=10.00\r\n\
             cmdstat_get:calls=100,usec=70,usec_per_call=0.70\r\n",
        );
        books.add("used_cpu_user:0.25\r\ncmdstat_eval:calls=1,usec=5\r\n");
        assert_eq!(books, Books { processor_seconds: 4.0, calls: 8.0, reads: 5.0 });
    }
}
