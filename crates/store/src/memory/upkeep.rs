//! Growth, expiry, eviction and their accounting: a bounded number of slots per call.

use tollgate_core::Timestamp;

use super::forget::EvictionPolicy;
use super::overflow::Overflow;
use super::page::Page;
use super::slot::{Name, Slot};
use super::sync::{AtomicUsize, Ordering};
use super::{CALLS_PER_SWEEP, EVICTION_SLOTS, Hint, Location, MemoryStore, Padded, Shard};

/// How many pages one call evicts from when memory is full.
const PAGES_RELIEVED: usize = 4;

impl MemoryStore {
    /// Bytes taken, fixed parts included.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.fixed_bytes() + self.bytes.load(Ordering::Relaxed)
    }

    /// The cap of [`Self::bytes`], plus or minus what one growing page needs.
    #[must_use]
    pub fn max_bytes(&self) -> usize {
        self.fixed_bytes() + self.budget
    }

    /// Bytes that are taken without a counter.
    fn fixed_bytes(&self) -> usize {
        let page = size_of::<Page>() + size_of::<Hint>();
        self.hints.len() * page + self.shards.len() * size_of::<Padded>()
    }

    /// Makes sure that the page has room for one more counter.
    pub(super) fn make_room(&self, shard: &mut Shard, at: Location, now: Timestamp) {
        if shard.page(at).0.has_room() {
            return;
        }
        let common = &self.common;
        self.update_page(shard, at, |page, overflow| {
            page.sweep(EVICTION_SLOTS, now, overflow, common);
            if page.has_room() {
                return;
            }
            let is_affordable = |len: &usize| {
                let growth = len * size_of::<Slot>() - page.heap_bytes();
                page.len() < 4 || self.bytes.load(Ordering::Relaxed) + growth <= self.budget
            };
            match page.grown_len(common).filter(is_affordable) {
                Some(len) => page.resize(len, common),
                None => self.evict(page, overflow, EvictionPolicy::Anyone, now),
            }
        });
    }

    fn evict(
        &self,
        page: &mut Page,
        overflow: &mut Overflow,
        policy: EvictionPolicy,
        now: Timestamp,
    ) {
        let evicted = page.evict(EVICTION_SLOTS, policy, now, overflow, &self.common);
        self.evicted.fetch_add(evicted.all as u64, Ordering::Relaxed);
        self.evicted_exhausted.fetch_add(evicted.exhausted as u64, Ordering::Relaxed);
    }

    /// How many of the evicted counters were exhausted: the limits of these clients started anew. It happens only if
    /// memory is full of exhausted counters.
    #[must_use]
    pub fn evicted_exhausted(&self) -> u64 {
        self.evicted_exhausted.load(Ordering::Relaxed)
    }

    /// The work after a settlement: sweeps a few slots now and then, and evicts when states outside the pages exceed
    /// the cap. Those grow without a check, so a call that writes one does the eviction.
    #[inline]
    pub(super) fn tidy_up(&self, is_time_to_sweep: bool, wrote_apart: bool, now: Timestamp) {
        if is_time_to_sweep {
            self.sweep_some(CALLS_PER_SWEEP as usize, now);
        }
        if wrote_apart && self.is_over() {
            self.relieve(now);
        }
    }

    fn is_over(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) > self.budget
    }

    /// Evicts states outside the pages, page by page, until memory suffices. Exhausted counters are kept as long as
    /// that works.
    #[cold]
    fn relieve(&self, now: Timestamp) {
        for _ in 0..PAGES_RELIEVED {
            let is_far_over = self.bytes.load(Ordering::Relaxed) > self.budget + self.budget / 8;
            let policy = if is_far_over {
                EvictionPolicy::Overflowed
            } else {
                EvictionPolicy::OverflowedNotExhausted
            };
            let turn = self.sweeper.fetch_add(1, Ordering::Relaxed);
            let at = self.location(turn % self.hints.len(), Name::of(0));
            if let Some(mut shard) = self.shards[at.shard].0.try_lock() {
                self.update_page(&mut shard, at, |page, overflow| {
                    self.evict(page, overflow, policy, now);
                });
            }
            if !self.is_over() {
                break;
            }
        }
    }

    /// Sweeps up to `slots` slots of the next page.
    pub(super) fn sweep_some(&self, slots: usize, now: Timestamp) {
        let turn = self.sweeper.load(Ordering::Relaxed);
        let at = self.location(turn % self.hints.len(), Name::of(0));
        // A shard in use can wait for the next round.
        let done = self.shards[at.shard].0.try_lock().is_none_or(|mut shard| {
            let mut seen = shard.page(at).0.heap_bytes() == 0;
            if !seen {
                self.update_page(&mut shard, at, |page, overflow| {
                    seen = page.sweep(slots, now, overflow, &self.common);
                });
            }
            seen
        });
        if done {
            self.sweeper.store(turn.wrapping_add(1), Ordering::Relaxed);
        }
    }

    /// Changes a page and accounts for its memory.
    pub(super) fn update_page(
        &self,
        shard: &mut Shard,
        at: Location,
        chore: impl FnOnce(&mut Page, &mut Overflow),
    ) {
        let (page, overflow) = shard.page(at);
        let (bytes, counters) = (page.heap_bytes() + overflow.heap_bytes(), page.len());
        chore(page, overflow);
        adjust(&self.bytes, bytes, page.heap_bytes() + overflow.heap_bytes());
        adjust(&self.counters, counters, page.len());
        let (slots, len) = page.location();
        self.hints[at.page].slots.store(slots, Ordering::Relaxed);
        self.hints[at.page].len.store(len, Ordering::Relaxed);
    }
}

fn adjust(sum: &AtomicUsize, before: usize, after: usize) {
    if after > before {
        sum.fetch_add(after - before, Ordering::Relaxed);
    } else if after < before {
        sum.fetch_sub(before - after, Ordering::Relaxed);
    }
}
