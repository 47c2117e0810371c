//! Measures Tollgate beside its peers in one run and holds the ratios against fixed bars.
//!
//! `cargo run -p tollgate-bench --profile dist`; see `docs/performance.md` for what the rows mean.

mod allocations;
mod clients;
mod contest;
mod instructions;
mod keys;
mod machine;
mod peers;
mod process;
mod report;
mod row;
mod rows;
mod scale;
mod stopwatch;

use std::error::Error;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::row::Row;
use crate::rows::BENCHES;
use crate::rows::grpc::turn::Turn;
use crate::rows::http::pace::{Delays, Pace};
use crate::rows::memory::Population;
use crate::rows::redis::client::Sample;
use crate::rows::redis::plan::Plan;
use crate::scale::Scale;

/// Anything may go wrong; nothing is done about it but to say so.
type Fallible<T> = Result<T, Box<dyn Error>>;

/// Measures Tollgate beside governor, throttlecrab and limitador.
#[derive(Debug, Parser)]
#[command(name = "tollgate-bench")]
struct Arguments {
    /// One JSON object per row instead of a table.
    #[arg(long)]
    json: bool,
    /// Small sizes and short rounds: shows that everything runs. Bars are not checked.
    #[arg(long)]
    quick: bool,
    /// Only benchmarks whose name contains this.
    #[arg(long, value_name = "SUBSTRING", default_value = "")]
    only: String,
    /// Counts instructions instead of time: in process, against the counts in the repository, then over the wire and
    /// in Redis.
    #[arg(long)]
    instructions: bool,
    /// Writes the counts into the repository.
    #[arg(long, requires = "instructions")]
    write: bool,
    /// Names the benchmarks and ends.
    #[arg(long)]
    list: bool,
    #[command(subcommand)]
    inner: Option<Inner>,
}

/// What the program runs in separate processes.
#[derive(Debug, Subcommand)]
enum Inner {
    /// Fills a store and prints what it takes.
    #[command(hide = true)]
    Fill { population: Population, counters: u64 },
    /// Responds to checks without checking.
    #[command(hide = true)]
    BareAxum { address: SocketAddr },
    /// Responds to calls without checking.
    #[command(hide = true)]
    BareTonic { address: SocketAddr },
    /// Forwards requests without checking.
    #[command(hide = true)]
    BareProxy { address: SocketAddr, upstream: SocketAddr },
    /// Sends checks on schedule and prints how long they took.
    #[command(hide = true)]
    Pace(Pace),
    /// Asks Redis as a plan says, which is JSON, and prints what that took.
    #[command(hide = true)]
    AskRedis { plan: String },
    /// Writes bodies into a file, one over the other.
    #[command(hide = true)]
    Turn(Turn),
}

impl Inner {
    fn run(self, out: &mut impl Write) -> Fallible<()> {
        match self {
            Self::Fill { population, counters } => {
                let filled = rows::memory::fill(population, counters)?;
                writeln!(out, "{} {}", filled.resident, filled.counted)?;
            }
            Self::BareAxum { address } => rows::http::bare::serve(address)?,
            Self::BareTonic { address } => rows::grpc::bare::serve(address)?,
            Self::BareProxy { address, upstream } => rows::gateway::bare::serve(address, upstream)?,
            Self::Pace(plan) => {
                let Delays { p50, p99, p999, degraded } = rows::http::pace::pace(&plan)?;
                writeln!(out, "{p50} {p99} {p999} {degraded}")?;
            }
            Self::AskRedis { plan } => {
                let plan: Plan = serde_json::from_str(&plan)?;
                let Sample { per_second, redis_micros, calls, reads } =
                    rows::redis::client::drive(&plan)?;
                writeln!(out, "{per_second} {redis_micros} {calls} {reads}")?;
            }
            Self::Turn(plan) => rows::grpc::turn::turn(&plan)?,
        }
        Ok(())
    }
}

fn main() -> Fallible<ExitCode> {
    let arguments = Arguments::parse();
    let mut out = io::stdout();
    if let Some(inner) = arguments.inner {
        inner.run(&mut out)?;
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.instructions {
        return instructions::report(arguments.write, &mut out);
    }
    let benches = || BENCHES.iter().filter(|bench| bench.name.contains(&arguments.only));
    if arguments.list {
        for bench in benches() {
            writeln!(out, "{:20} {}", bench.name, bench.about)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let scale = if arguments.quick { Scale::QUICK } else { Scale::FULL };
    eprintln!("{}", machine::facts());
    let mut rows: Vec<Row> = Vec::new();
    for bench in benches() {
        eprintln!("measuring {}", bench.name);
        let measured = (bench.run)(&scale)?;
        if arguments.json {
            for row in &measured {
                writeln!(out, "{}", report::json(row, &scale))?;
            }
        }
        rows.extend(measured);
    }
    if !arguments.json {
        writeln!(out, "{}", report::table(&rows, &scale))?;
    }
    let missed = rows.iter().any(|row| scale.judge(row) == Some(false));
    Ok(if missed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
