//! Growth, expiry, eviction and the books about them: a bounded number of slots per call.

use tollgate_core::Timestamp;

use super::page::Page;
use super::slot::{Name, Slot};
use super::spill::Spill;
use super::sync::{AtomicUsize, Ordering};
use super::{Location, MemoryStore, STRETCH, Shard};

impl MemoryStore {
    /// Makes sure that the page has room for one more counter.
    pub(super) fn make_room(&self, shard: &mut Shard, at: Location, now: Timestamp) {
        if shard.page(at).0.has_room() {
            return;
        }
        let common = &self.common;
        self.tend(shard, at, |page, spill| {
            page.sweep(STRETCH, now, spill, common);
            if page.has_room() {
                return;
            }
            let len = page.grown_len();
            let growth = len * size_of::<Slot>();
            let within = self.bytes.load(Ordering::Relaxed) + growth <= self.budget;
            if within || page.len() < 4 {
                page.resize(len, common);
            } else {
                self.evict(page, spill, now);
            }
        });
    }

    fn evict(&self, page: &mut Page, spill: &mut Spill, now: Timestamp) {
        let evicted = page.evict(STRETCH, now, spill, &self.common);
        self.evicted.fetch_add(evicted as u64, Ordering::Relaxed);
    }

    /// Sweeps up to `slots` slots of the page whose turn it is.
    pub(super) fn sweep_some(&self, slots: usize, now: Timestamp) {
        let turn = self.sweeper.load(Ordering::Relaxed);
        let at = self.location(turn % self.hints.len(), Name::of(0));
        // A shard in use can wait for the next round.
        let done = self.shards[at.shard].0.try_lock().is_none_or(|mut shard| {
            let mut seen = shard.page(at).0.len() == 0;
            if !seen {
                self.tend(&mut shard, at, |page, spill| {
                    seen = page.sweep(slots, now, spill, &self.common);
                    // Logs grow in place, so memory may run over without anyone asking for room.
                    if self.bytes.load(Ordering::Relaxed) > self.budget && page.len() > 1 {
                        self.evict(page, spill, now);
                    }
                });
            }
            seen
        });
        if done {
            self.sweeper.store(turn.wrapping_add(1), Ordering::Relaxed);
        }
    }

    /// Does something to a page and keeps the books.
    pub(super) fn tend(
        &self,
        shard: &mut Shard,
        at: Location,
        chore: impl FnOnce(&mut Page, &mut Spill),
    ) {
        let (page, spill) = shard.page(at);
        let (bytes, counters) = (page.heap_bytes() + spill.heap_bytes(), page.len());
        chore(page, spill);
        adjust(&self.bytes, bytes, page.heap_bytes() + spill.heap_bytes());
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
