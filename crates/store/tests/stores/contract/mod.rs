//! What every store promises: on any trace it answers what `tollgate_core::settle` answers on states
//! kept in a map, and keeps the same states. `TOLLGATE_PROPTEST_CASES=50` makes a campaign of it.

pub(crate) mod draw;
pub(crate) mod model;
pub(crate) mod suite;

use std::future::{Future, ready};

use draw::Reach;
use suite::check_store;
use tollgate_core::{Charge, ChargeResult, Key, Mode, Timestamp};
use tollgate_store::{MemoryStore, Op, OpOutcome, Outcomes, SettleRequest, Settlement, Store};

const CASES: u32 = 400;

#[test]
fn memory() {
    let make = || MemoryStore::with_bytes(0);
    check_store("memory", CASES, Reach::ALL, make, MemoryStore::state_text);
}

#[test]
fn memory_in_many_pages() {
    let make = || MemoryStore::with_bytes(8 << 20);
    check_store("memory in many pages", CASES, Reach::ALL, make, MemoryStore::state_text);
}

#[test]
fn memory_side_by_side() {
    let make = || SideBySide(MemoryStore::with_bytes(0));
    let text = |store: &SideBySide, key: &Key<'_>| store.0.state_text(key);
    check_store("memory, side by side", CASES, Reach::ALL, make, text);
}

/// The charge of a request that has no other.
fn single<'a>(op: &Op<'a>) -> Option<Charge<'a>> {
    match op {
        Op::Settle(SettleRequest { charges: [charge], is_dry_run: false, .. }) => Some(*charge),
        _ => None,
    }
}

/// A memory store that settles batches of single charges by [`MemoryStore::settle_each`].
struct SideBySide(MemoryStore);

impl Store for SideBySide {
    fn is_shared(&self) -> bool {
        false
    }

    fn try_settle(
        &self,
        request: &SettleRequest<'_>,
        now: Timestamp,
        settlement: &mut Settlement,
    ) -> bool {
        self.0.try_settle(request, now, settlement)
    }

    fn submit(&self, ops: &[Op<'_>], now: Timestamp) -> impl Future<Output = Outcomes> + Send {
        let mut outcomes = Outcomes::new();
        for run in ops.chunk_by(|a, b| single(a).is_some() == single(b).is_some()) {
            let charges: Vec<Charge<'_>> = run.iter().filter_map(single).collect();
            if charges.is_empty() {
                outcomes.extend(self.0.submit_now(run, now));
                continue;
            }
            let mut results = vec![ChargeResult::default(); charges.len()];
            self.0.settle_each(&charges, now, &mut results);
            outcomes.extend(charges.iter().zip(results).map(|(charge, line)| {
                let passed = line.admitted || charge.mode != Mode::Enforce;
                let results = [line].into_iter().collect();
                let settlement = Settlement { now, passed, results, ..Settlement::default() };
                Ok(OpOutcome::Settled(settlement))
            }));
        }
        ready(outcomes)
    }
}
