//! What counters weigh, all in: resident memory of a fresh process that holds nothing else.

use clap::ValueEnum;
use foldhash::quality::RandomState;
use tollgate_core::{Algorithm, Charge, Key, Limit, Micros, Mode, Quota, Timestamp};
use tollgate_store::MemoryStore;

use crate::Fallible;
use crate::keys::KeyText;
use crate::peers::{LIMIT, USED, WINDOW_SECONDS};
use crate::process::{ask_fresh_process, resident_bytes};
use crate::row::{Bar, Row};
use crate::scale::Scale;

/// The cap of the store, high enough that no counter is evicted.
const BYTES_PER_COUNTER: u64 = 64;
/// The time at which all counters are made; nothing expires meanwhile.
const NOW: Timestamp = Timestamp::from_secs(1_700_000_000);

/// Which counters a store is filled with.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Population {
    Gcra,
    FixedWindow,
    /// A third each: buckets, fixed windows, sliding counters.
    Mixed,
}

impl Population {
    const fn algorithms(self) -> &'static [Algorithm] {
        match self {
            Self::Gcra => &[Algorithm::Gcra],
            Self::FixedWindow => &[Algorithm::FixedWindow],
            Self::Mixed => {
                &[Algorithm::Gcra, Algorithm::FixedWindow, Algorithm::SlidingWindowCounter]
            }
        }
    }
}

/// What a process that holds a population takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filled {
    /// By how many bytes the process has grown.
    pub(crate) resident: f64,
    /// How many bytes the store says it takes.
    pub(crate) counted: f64,
}

pub(crate) fn resident(scale: &Scale) -> Fallible<Vec<Row>> {
    let (each, all) = (scale.of(10_000_000), scale.of(30_000_000));
    let per_counter = |name, population| -> Fallible<Row> {
        let filled = in_fresh_process(population, each)?;
        Ok(Row::figure(name, filled.resident / each as f64, " bytes")
            .held_to(Bar::AtMost(32.0))
            .with("counted_bytes", filled.counted / each as f64))
    };
    let mixed = in_fresh_process("mixed", all)?;
    Ok(vec![
        per_counter("memory/gcra", "gcra")?,
        per_counter("memory/fixed_window", "fixed-window")?,
        Row::figure("memory/30m_mixed", mixed.resident / 1e9, " GB")
            .held_to(Bar::Below(1.3))
            .with("bytes_per_counter", mixed.resident / all as f64)
            .with("counted_bytes", mixed.counted / all as f64),
    ])
}

fn in_fresh_process(population: &str, counters: u64) -> Fallible<Filled> {
    match ask_fresh_process(&["fill", population, &counters.to_string()])?[..] {
        [resident, counted] => Ok(Filled { resident, counted }),
        _ => Err("a process that fills a store prints two numbers".into()),
    }
}

/// Fills a store with counters and says what that took.
pub(crate) fn fill(population: Population, counters: u64) -> Fallible<Filled> {
    let limits = population.algorithms().iter().map(|algorithm| limit(*algorithm));
    let limits: Vec<Limit> = limits.collect::<Result<_, _>>()?;
    let (hasher, mut text) = (RandomState::default(), KeyText::new());
    let before = resident_bytes()?;
    let store = MemoryStore::with_bytes(usize::try_from(counters * BYTES_PER_COUNTER)?);
    for (number, limit) in (0..counters).zip(limits.iter().cycle()) {
        let subject = text.of(number).as_bytes();
        let key = Key::new(&hasher, limit.algorithm().name(), subject, b"");
        let charge = Charge { key, limit, cost: u64::from(USED), mode: Mode::Enforce };
        if !store.settle_now(&[charge], NOW).passed {
            return Err("a first charge was refused".into());
        }
    }
    let after = resident_bytes()?;
    if store.len() as u64 != counters {
        return Err(format!("only {} counters are left", store.len()).into());
    }
    let resident = after.saturating_sub(before) as f64;
    Ok(Filled { resident, counted: store.bytes() as f64 })
}

fn limit(algorithm: Algorithm) -> Fallible<Limit> {
    let window = Micros::from_secs(u64::from(WINDOW_SECONDS));
    Ok(Quota::new(algorithm, u64::from(LIMIT), window).compile()?)
}
