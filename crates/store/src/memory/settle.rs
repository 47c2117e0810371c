//! Settling charges on the counters of a memory store: find, lock, settle, keep.

use smallvec::SmallVec;
use tollgate_core::{Charge, Line, State, Timestamp, settle};

use super::sync::MutexGuard;
use super::{CALLS_PER_SWEEP, Location, MemoryStore, Shard};

/// A charge that was settled, and the state it left.
struct Settled<'a> {
    index: Option<usize>,
    charge: &'a Charge<'a>,
    written: bool,
    state: State,
}

impl MemoryStore {
    /// Settles a single charge, the whole of most requests, into `line`.
    #[inline]
    pub fn settle_one(&self, charge: &Charge<'_>, now: Timestamp, line: &mut Line) {
        let at = self.locate(charge.key.fingerprint);
        let mut shard = self.lock(at.shard);
        let page = &mut shard.pages[at.inner];
        let index = page.find(at.name, &self.common);
        if index
            .and_then(|index| page.settle_inline(index, charge, now, line, &self.common))
            .is_none()
        {
            self.settle_apart(&mut shard, at, index, charge, now, line);
        }
        let sweep = shard.is_time_to_sweep();
        drop(shard);
        if sweep {
            self.sweep_some(CALLS_PER_SWEEP as usize, now);
        }
    }

    /// Settles a charge on a counter that is new, spilled, or counted in another limit.
    #[cold]
    fn settle_apart(
        &self,
        shard: &mut Shard,
        at: Location,
        index: Option<usize>,
        charge: &Charge<'_>,
        now: Timestamp,
        line: &mut Line,
    ) {
        let (page, spill) = shard.page(at);
        let mut state = index.and_then(|index| page.take(index, spill, &self.common));
        let (charges, states) = (std::slice::from_ref(charge), std::slice::from_mut(&mut state));
        settle(charges, states, now, std::slice::from_mut(line));
        if let Some(state) = state {
            self.keep(shard, at, Settled { index, charge, written: line.written, state }, now);
        }
    }

    pub(super) fn settle_several(
        &self,
        charges: &[Charge<'_>],
        now: Timestamp,
        lines: &mut [Line],
    ) -> bool {
        // Ascending and each once: no circle of waiting, no shard locked twice.
        let mut order: SmallVec<[usize; 8]> = SmallVec::new();
        for charge in charges {
            self.prefetch(charge);
            order.push(self.locate(charge.key.fingerprint).shard);
        }
        order.sort_unstable();
        order.dedup();
        let mut shards: SmallVec<[MutexGuard<'_, Shard>; 8]> =
            order.iter().map(|shard| self.lock(*shard)).collect();
        let shard_of =
            |at: Location| order.iter().position(|shard| *shard == at.shard).unwrap_or(0);

        let mut indices: SmallVec<[Option<usize>; 8]> = SmallVec::new();
        let mut states: SmallVec<[Option<State>; 4]> = SmallVec::new();
        for charge in charges {
            let at = self.locate(charge.key.fingerprint);
            let (page, spill) = shards[shard_of(at)].page(at);
            let index = page.find(at.name, &self.common);
            indices.push(index);
            states.push(index.and_then(|index| page.take(index, spill, &self.common)));
        }
        let passed = settle(charges, &mut states, now, lines);
        // Known counters first: a new one may move the others of its page.
        for known in [true, false] {
            for (i, charge) in charges.iter().enumerate() {
                let index = indices[i];
                if let Some(state) = states[i].take_if(|_| index.is_some() == known) {
                    let at = self.locate(charge.key.fingerprint);
                    let settled = Settled { index, charge, written: lines[i].written, state };
                    self.keep(&mut shards[shard_of(at)], at, settled, now);
                }
            }
        }
        let sweep = shards.first_mut().is_some_and(|shard| shard.is_time_to_sweep());
        drop(shards);
        if sweep {
            self.sweep_some(CALLS_PER_SWEEP as usize, now);
        }
        passed
    }

    /// Puts a settled state where it belongs: back, over the old one, or into a new slot.
    fn keep(&self, shard: &mut Shard, at: Location, settled: Settled<'_>, now: Timestamp) {
        let Settled { index, charge, written, state } = settled;
        let common = &self.common;
        match index {
            Some(index) if !written => {
                let (page, spill) = shard.page(at);
                page.put_back(index, state, spill);
            }
            Some(index) => self.tend(shard, at, |page, spill| {
                page.write(index, charge.limit, state, spill, common);
            }),
            None if written => {
                self.make_room(shard, at, now);
                self.tend(shard, at, |page, spill| {
                    page.insert(at.name, charge.limit, state, spill, common);
                });
            }
            None => {}
        }
    }
}
