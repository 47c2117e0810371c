//! Settling charges on the counters of a memory store: find, lock, settle, keep.

use std::array;

use smallvec::SmallVec;
use tollgate_core::{Charge, ChargeResult, Mode, PackedState, State, Timestamp, dry_run, settle};

use super::sync::{MutexGuard, Ordering};
use super::{Location, MemoryStore, Shard};

/// Up to so many counters are in the cache anyway.
const CACHED_COUNTERS: usize = 1 << 16;

/// A charge that was settled, and the state it left.
struct SettledCharge<'a> {
    index: Option<usize>,
    charge: &'a Charge<'a>,
    written: bool,
    state: State,
}

impl MemoryStore {
    /// Settles a single charge, the whole of most requests, into `result`.
    #[inline]
    pub fn settle_one(&self, charge: &Charge<'_>, now: Timestamp, result: &mut ChargeResult) {
        let at = self.locate(charge.key.fingerprint);
        // With several threads, the lock is often in the cache of another processor: the counter is fetched meanwhile.
        if self.counters.load(Ordering::Relaxed) > CACHED_COUNTERS {
            self.fetch_at(at);
        }
        let mut shard = self.lock(at.shard);
        let page = &mut shard.pages[at.inner];
        let index = page.find(at.name, &self.common);
        let inline =
            index.is_some_and(|index| page.settle(index, charge, now, result, &self.common));
        if !inline {
            self.settle_apart(&mut shard, at, index, charge, now, result);
        }
        let sweep = shard.is_time_to_sweep();
        drop(shard);
        self.tidy_up(sweep, !inline, now);
    }

    /// Settles a charge on a counter that is new, outside its page, or counted in another limit.
    #[cold]
    fn settle_apart(
        &self,
        shard: &mut Shard,
        at: Location,
        index: Option<usize>,
        charge: &Charge<'_>,
        now: Timestamp,
        result: &mut ChargeResult,
    ) {
        let (page, overflow) = shard.page(at);
        let mut state = index.and_then(|index| page.take(index, overflow, &self.common));
        let (charges, states) = (std::slice::from_ref(charge), std::slice::from_mut(&mut state));
        settle(charges, states, now, std::slice::from_mut(result));
        if let Some(state) = state {
            self.keep(
                shard,
                at,
                SettledCharge { index, charge, written: result.written, state },
                now,
            );
        }
    }

    /// Settles several charges, all or nothing.
    #[inline]
    pub(super) fn settle_several(
        &self,
        charges: &[Charge<'_>],
        now: Timestamp,
        results: &mut [ChargeResult],
    ) -> bool {
        // Arrays, since lists of any length cost more than the arithmetic.
        let passed = match charges.len() {
            2 => self.settle_few::<2>(charges, now, results),
            3 => self.settle_few::<3>(charges, now, results),
            4 => self.settle_few::<4>(charges, now, results),
            5 => self.settle_few::<5>(charges, now, results),
            6 => self.settle_few::<6>(charges, now, results),
            _ => None,
        };
        passed.unwrap_or_else(|| self.settle_many(charges, now, results))
    }

    /// Settles `N` charges on counters in different shards; `None`: some are in the same, and nothing was charged.
    #[inline]
    fn settle_few<const N: usize>(
        &self,
        charges: &[Charge<'_>],
        now: Timestamp,
        results: &mut [ChargeResult],
    ) -> Option<bool> {
        let (charges, results) = (charges.first_chunk::<N>()?, results.first_chunk_mut::<N>()?);
        let mut places = [Location::default(); N];
        let mut order = [0; N];
        for ((charge, place), shard) in charges.iter().zip(&mut places).zip(&mut order) {
            *place = self.locate(charge.key.fingerprint);
            self.fetch_at(*place);
            *shard = place.shard;
        }
        order.sort_unstable();
        // Seldom are two in the same, which can be locked only once.
        if !order.is_sorted_by(|one, next| one < next) {
            return None;
        }
        let mut shards = array::from_fn(|number| self.lock(order[number]));
        let inline = self.settle_inline(charges, &places, &order, &mut shards, now, results);
        let passed = inline || self.settle_locked(charges, &order, &mut shards, now, results);
        let sweep = shards.first_mut().is_some_and(|shard| shard.is_time_to_sweep());
        drop(shards);
        self.tidy_up(sweep, !inline, now);
        Some(passed)
    }

    #[cold]
    fn settle_many(
        &self,
        charges: &[Charge<'_>],
        now: Timestamp,
        results: &mut [ChargeResult],
    ) -> bool {
        let shard_of = |charge: &Charge<'_>| self.locate(charge.key.fingerprint).shard;
        let mut order: SmallVec<[usize; 16]> = charges.iter().map(shard_of).collect();
        // Ascending and each once: no deadlock, no shard locked twice.
        order.sort_unstable();
        order.dedup();
        let mut shards: SmallVec<[MutexGuard<'_, Shard>; 16]> =
            order.iter().map(|shard| self.lock(*shard)).collect();
        let passed = self.settle_locked(charges, &order, &mut shards, now, results);
        let sweep = shards.first_mut().is_some_and(|shard| shard.is_time_to_sweep());
        drop(shards);
        self.tidy_up(sweep, true, now);
        passed
    }

    /// The fast path of nearly every request: settles charges on counters in their slots, if all of them are there
    /// and all fit; else does nothing.
    #[inline]
    fn settle_inline<const N: usize>(
        &self,
        charges: &[Charge<'_>; N],
        places: &[Location; N],
        order: &[usize; N],
        shards: &mut [MutexGuard<'_, Shard>; N],
        now: Timestamp,
        results: &mut [ChargeResult; N],
    ) -> bool {
        let mut settled = [(0, 0, PackedState::default()); N];
        for number in 0..N {
            let (charge, at, result) = (&charges[number], places[number], &mut results[number]);
            let held = position(order, at);
            let page = &shards[held].pages[at.inner];
            let Some(index) = page.find(at.name, &self.common) else { return false };
            match page.settled(index, charge, now, result, &self.common) {
                Some(counter) if result.admitted || charge.mode != Mode::Enforce => {
                    settled[number] = (held, index, counter);
                }
                _ => return false,
            }
        }
        for ((held, index, counter), at) in settled.into_iter().zip(places) {
            shards[held].pages[at.inner].set(index, counter);
        }
        true
    }

    /// Reads whether charges fit, and charges none.
    #[cold]
    pub(super) fn dry_run(
        &self,
        charges: &[Charge<'_>],
        now: Timestamp,
        results: &mut SmallVec<[ChargeResult; 4]>,
    ) -> bool {
        results.resize(charges.len(), ChargeResult::default());
        let mut passed = true;
        // Nothing is charged, so the charges need no common lock.
        for (charge, result) in charges.iter().zip(results) {
            let at = self.locate(charge.key.fingerprint);
            let mut shard = self.lock(at.shard);
            let (page, overflow) = shard.page(at);
            let index = page.find(at.name, &self.common);
            let mut state = index.and_then(|index| page.take(index, overflow, &self.common));
            let (charges, states) =
                (std::slice::from_ref(charge), std::slice::from_mut(&mut state));
            passed &= dry_run(charges, states, now, std::slice::from_mut(result));
            if let Some(state) = state {
                let settled = SettledCharge { index, charge, written: result.written, state };
                self.keep(&mut shard, at, settled, now);
            }
        }
        passed
    }

    /// Settles charges on any counters, all or nothing.
    fn settle_locked(
        &self,
        charges: &[Charge<'_>],
        order: &[usize],
        shards: &mut [MutexGuard<'_, Shard>],
        now: Timestamp,
        results: &mut [ChargeResult],
    ) -> bool {
        let mut indices: SmallVec<[Option<usize>; 8]> = SmallVec::new();
        let mut states: SmallVec<[Option<State>; 4]> = SmallVec::new();
        for charge in charges {
            let at = self.locate(charge.key.fingerprint);
            let (page, overflow) = shards[position(order, at)].page(at);
            let index = page.find(at.name, &self.common);
            indices.push(index);
            states.push(index.and_then(|index| page.take(index, overflow, &self.common)));
        }
        let passed = settle(charges, &mut states, now, results);
        // Existing counters first: a new one may move the others of its page.
        for known in [true, false] {
            for (i, charge) in charges.iter().enumerate() {
                let index = indices[i];
                if let Some(state) = states[i].take_if(|_| index.is_some() == known) {
                    let at = self.locate(charge.key.fingerprint);
                    let settled =
                        SettledCharge { index, charge, written: results[i].written, state };
                    self.keep(&mut shards[position(order, at)], at, settled, now);
                }
            }
        }
        passed
    }

    /// Stores a settled state: back, over the old one, or into a new slot.
    fn keep(&self, shard: &mut Shard, at: Location, settled: SettledCharge<'_>, now: Timestamp) {
        let SettledCharge { index, charge, written, state } = settled;
        let common = &self.common;
        match index {
            Some(index) if !written => {
                let (page, overflow) = shard.page(at);
                page.put_back(index, state, overflow);
            }
            Some(index) => self.update_page(shard, at, |page, overflow| {
                page.write(index, charge.limit, state, overflow, common);
            }),
            None if written => {
                self.make_room(shard, at, now);
                self.update_page(shard, at, |page, overflow| {
                    page.insert(at.name, charge.limit, state, overflow, common);
                });
            }
            None => {}
        }
    }
}

/// Which of the locked shards a counter is in.
#[inline]
fn position(order: &[usize], at: Location) -> usize {
    order.iter().position(|shard| *shard == at.shard).unwrap_or(0)
}
