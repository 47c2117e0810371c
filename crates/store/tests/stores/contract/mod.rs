//! What every store promises: on any trace it answers what `tollgate_core::settle` answers on states
//! kept in a map, and keeps the same states. `TOLLGATE_PROPTEST_CASES=50` makes a campaign of it.

pub(crate) mod draw;
pub(crate) mod model;
pub(crate) mod suite;

use std::future::{Future, ready};

use draw::Reach;
use suite::check_store;
use tollgate_core::{Charge, Key, Line, Mode, Timestamp};
use tollgate_store::{MemoryStore, Refund, Settlement, Store, StoreError};

const CASES: u32 = 400;

#[test]
fn memory() {
    check_store(CASES, Reach::ALL, || MemoryStore::with_bytes(0), MemoryStore::state_text);
}

#[test]
fn memory_in_many_pages() {
    check_store(CASES, Reach::ALL, || MemoryStore::with_bytes(8 << 20), MemoryStore::state_text);
}

#[test]
fn memory_side_by_side() {
    let make = || SideBySide(MemoryStore::with_bytes(0));
    check_store(CASES, Reach::ALL, make, |store, key| store.0.state_text(key));
}

/// A memory store that settles batches of single charges by [`MemoryStore::settle_each`].
struct SideBySide(MemoryStore);

impl Store for SideBySide {
    fn is_shared(&self) -> bool {
        false
    }

    fn settle(
        &self,
        charges: &[Charge<'_>],
        now: Timestamp,
    ) -> impl Future<Output = Result<Settlement, StoreError>> + Send {
        self.0.settle(charges, now)
    }

    fn settle_batch(
        &self,
        requests: &[&[Charge<'_>]],
        now: Timestamp,
    ) -> impl Future<Output = Vec<Result<Settlement, StoreError>>> + Send {
        let mut settled = Vec::new();
        for run in requests.chunk_by(|a, b| (a.len() == 1) == (b.len() == 1)) {
            let charges = run.concat();
            if charges.len() != run.len() || run.iter().any(|charges| charges.len() != 1) {
                settled.extend(run.iter().map(|charges| Ok(self.0.settle_now(charges, now))));
                continue;
            }
            let mut lines = vec![Line::default(); charges.len()];
            self.0.settle_each(&charges, now, &mut lines);
            settled.extend(charges.iter().zip(lines).map(|(charge, line)| {
                let passed = line.admitted || charge.mode != Mode::Enforce;
                let lines = [line].into_iter().collect();
                Ok(Settlement { now, passed, lines, ..Settlement::default() })
            }));
        }
        ready(settled)
    }

    fn refund(
        &self,
        refunds: &[Refund<'_>],
        now: Timestamp,
    ) -> impl Future<Output = Result<(), StoreError>> + Send {
        self.0.refund(refunds, now)
    }

    fn reset(&self, keys: &[Key<'_>]) -> impl Future<Output = Result<(), StoreError>> + Send {
        self.0.reset(keys)
    }
}
