//! Faults of a store under load: a row of figures for each. A build runs the short ones,
//! `scripts/soak/fleet` runs all of them.

mod cluster;
mod row;
mod single;

use std::time::Duration;

use tollgate_testbed::Redis;

use self::row::measure;
use crate::load::Load;
use crate::nodes::{self, is_soak};

/// How long a fault lasts that the test has to end.
const OUTAGE: Duration = Duration::from_secs(3);
const LONG_OUTAGE: Duration = Duration::from_secs(10);

/// What a store may have forgotten after a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Forgets {
    Nothing,
    /// What a master had not passed on to the replica that took its place.
    WhatWasOnItsWay,
    Everything,
}

/// A fault, and what it may cost.
struct Fault<'a> {
    name: &'static str,
    /// Whether it is short enough for every build.
    is_short: bool,
    /// Whether nodes may decide every request with the store in spite of it.
    is_harmless: bool,
    forgets: Forgets,
    /// Causes the fault, and returns when the store is healthy again.
    strike: Box<dyn Fn(&Load<'_>) + 'a>,
    /// Restores the servers after the measurement.
    mend: Box<dyn Fn() + 'a>,
}

impl<'a> Fault<'a> {
    fn new(name: &'static str, forgets: Forgets, strike: impl Fn(&Load<'_>) + 'a) -> Self {
        Self {
            name,
            is_short: false,
            is_harmless: false,
            forgets,
            strike: Box::new(strike),
            mend: Box::new(|| {}),
        }
    }

    /// A fault that clients need not notice.
    fn harmless(name: &'static str, strike: impl Fn(&Load<'_>) + 'a) -> Self {
        Self { is_harmless: true, ..Self::new(name, Forgets::Nothing, strike) }
    }

    fn short(self) -> Self {
        Self { is_short: true, ..self }
    }

    fn mended_by(self, mend: impl Fn() + 'a) -> Self {
        Self { mend: Box::new(mend), ..self }
    }
}

/// Tries faults one after the other on two nodes that count in one store, prints a row for each, and
/// fails if a bound was not kept.
fn try_out(store: &str, url: &str, faults: &[Fault<'_>]) {
    let nodes = nodes::start(row::NODES, url, &row::rules(), row::settings(is_soak()));
    let mut broken = Vec::new();
    for fault in faults.iter().filter(|fault| fault.is_short || is_soak()) {
        let row = measure(store, &nodes, fault);
        println!("{row}");
        broken.extend(row.broken);
        (fault.mend)();
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// Fills a server: it has twice its `maxmemory`, and evicts nothing.
fn fill(redis: &Redis) {
    let used: u64 = redis.info("memory")["used_memory"].parse().expect("a number");
    redis.command(&["CONFIG", "SET", "maxmemory", &(used / 2).to_string()]);
}

fn make_room(redis: &Redis) {
    redis.command(&["CONFIG", "SET", "maxmemory", "0"]);
}
