//! Counters in this process: exact under threads, bounded in bytes, and never scanned as a whole.
//!
//! Counters are in thousands of small pages, chosen by the upper bits of a counter's fingerprint. Each of a few
//! hundred locks guards a shard of pages: few enough to stay in the cache, enough to avoid contention. One request
//! locks the shards of its charges in ascending order, so requests never deadlock. Growth, expiry and eviction work
//! on one page at a time, a bounded number of slots per call; there is no background task.
//!
//! When the cap is reached, the counter that is soonest full again is evicted first, and an exhausted one only where all
//! others beside it are exhausted, too: resetting another client's limit takes as many exhausted keys as fit into memory.

mod forget;
mod limit_table;
mod overflow;
mod page;
mod prefetch;
mod settle;
mod slot;
mod sync;
mod upkeep;

use std::future::{Future, ready};

use smallvec::SmallVec;
use tollgate_core::{Charge, ChargeResult, Key, Mode, Timestamp};

use self::limit_table::LimitTable;
use self::overflow::Overflow;
use self::page::{Common, Page};
use self::prefetch::prefetch;
use self::slot::{Name, Slot};
use self::sync::{AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering};
use crate::{Op, OpOutcome, Outcomes, Refund, RefundOnce, SettleRequest, Settlement, Store};

/// The default cap: about nine million counters.
pub const DEFAULT_BYTES: usize = 256 << 20;

/// The number of locks.
const SHARDS: usize = 256;
/// Slots per page when memory is full, at most: what one growth moves. Larger pages would pause
/// longer; the descriptors of smaller ones would no longer fit the cache.
const FULL_PAGE: usize = 16_384;
/// One call in this many sweeps as many slots, so that sweeping costs each call one slot.
const CALLS_PER_SWEEP: u32 = 64;
/// How many slots an eviction reads.
const EVICTION_SLOTS: usize = 256;
/// How many requests of a batch are prefetched together. Enough to hide the latency of memory, few enough that the
/// first cache line is still there when it is used.
const PREFETCHED: usize = 16;

/// Counters in memory.
#[derive(Debug)]
pub struct MemoryStore {
    shards: Box<[Padded]>,
    /// Where the slots of each page are.
    hints: Box<[Hint]>,
    common: Common,
    /// How many bits of a page's number choose the page within its shard.
    inner_bits: u32,
    /// Bytes that pages may take in all.
    budget: usize,
    /// Bytes that pages take.
    bytes: AtomicUsize,
    /// Counters held.
    counters: AtomicUsize,
    evicted: AtomicU64,
    evicted_exhausted: AtomicU64,
    /// The page to be swept next.
    sweeper: AtomicUsize,
}

/// Pages under one lock.
#[derive(Debug, Default)]
struct Shard {
    pages: Box<[Page]>,
    /// Boxed, so that a shard and its lock share a cache line.
    overflow: Box<Overflow>,
    /// Settlements seen, which paces sweeping.
    calls: u32,
}

/// A shard and its lock, on a separate cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Padded(Mutex<Shard>);

#[cfg(not(shuttle))]
const _: () = assert!(size_of::<Padded>() == 64, "one cache line is read to take a lock, not two");

/// Where a page's slots are and how many, to be prefetched without the lock. May be out of date.
#[derive(Debug, Default)]
struct Hint {
    slots: AtomicUsize,
    len: AtomicUsize,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::with_bytes(DEFAULT_BYTES)
    }
}

impl MemoryStore {
    /// A store with the default cap.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A store that takes at most `bytes` of memory, plus or minus what one growing page needs. At least one
    /// mebibyte.
    #[must_use]
    pub fn with_bytes(bytes: usize) -> Self {
        let bytes = bytes.max(1 << 20);
        let pages = (bytes / (size_of::<Slot>() * FULL_PAGE)).next_power_of_two().max(SHARDS);
        let mut hints = Vec::new();
        hints.resize_with(pages, Hint::default);
        let mut shards = Vec::new();
        shards.resize_with(SHARDS, || {
            let mut inner = Vec::new();
            inner.resize_with(pages / SHARDS, Page::default);
            Padded(Mutex::new(Shard { pages: inner.into(), overflow: Box::default(), calls: 0 }))
        });
        let fixed = pages * (size_of::<Page>() + size_of::<Hint>()) + SHARDS * size_of::<Padded>();
        let budget = bytes.saturating_sub(fixed);
        // Fingerprints spread over pages evenly, but not exactly so.
        let share = budget / size_of::<Slot>() / pages;
        let full_len = share + share / 16 + 64;
        Self {
            shards: shards.into(),
            hints: hints.into(),
            common: Common {
                limits: LimitTable::new(),
                page_bits: pages.trailing_zeros(),
                full_len,
            },
            inner_bits: (pages / SHARDS).trailing_zeros(),
            budget,
            bytes: AtomicUsize::new(0),
            counters: AtomicUsize::new(0),
            evicted: AtomicU64::new(0),
            evicted_exhausted: AtomicU64::new(0),
            sweeper: AtomicUsize::new(0),
        }
    }

    /// How many counters there are. Some may have expired and not been swept yet.
    #[must_use]
    pub fn len(&self) -> usize {
        self.counters.load(Ordering::Relaxed)
    }

    /// Whether there is no counter.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many counters were evicted because memory was full.
    #[must_use]
    pub fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    /// Charges all counters or none.
    #[must_use]
    pub fn settle_now(&self, charges: &[Charge<'_>], now: Timestamp) -> Settlement {
        let mut settlement = Settlement { now, ..Settlement::default() };
        settlement.passed = self.settle_into(charges, now, &mut settlement.results);
        settlement
    }

    /// Charges all counters or none, writes a result for each into `results`, which is empty, and returns whether every
    /// enforced charge fitted.
    #[inline]
    pub fn settle_into(
        &self,
        charges: &[Charge<'_>],
        now: Timestamp,
        results: &mut SmallVec<[ChargeResult; 4]>,
    ) -> bool {
        for _ in charges {
            results.push(ChargeResult::default());
        }
        if let ([charge], [result]) = (charges, results.as_mut_slice()) {
            self.settle_one(charge, now, result);
            return result.admitted || charge.mode != Mode::Enforce;
        }
        self.settle_several(charges, now, results)
    }

    /// [`Store::submit`] without `async`: counters in memory never wait.
    pub fn submit_now(&self, ops: &[Op<'_>], now: Timestamp) -> Outcomes {
        let mut outcomes = Outcomes::with_capacity(ops.len());
        for group in ops.chunks(PREFETCHED) {
            if group.len() > 1 {
                group.iter().for_each(|op| self.fetch_charged(op));
            }
            outcomes.extend(group.iter().map(|op| Ok(self.execute(op, now))));
        }
        outcomes
    }

    fn execute(&self, op: &Op<'_>, now: Timestamp) -> OpOutcome {
        match op {
            Op::Settle(request) => {
                let mut settlement = Settlement::default();
                self.try_settle(request, now, &mut settlement);
                return OpOutcome::Settled(settlement);
            }
            Op::Refund(refunds) => refunds.iter().for_each(|refund| self.refund_now(refund, now)),
            Op::RefundOnce(RefundOnce { refunds, .. }) => {
                let lasting = || refunds.iter().filter(|one| one.ends_at > now);
                lasting().for_each(|one| self.refund_now(&one.refund, now));
                return match lasting().count() {
                    0 => OpOutcome::RefundExpired,
                    counters => OpOutcome::Refunded { counters },
                };
            }
            Op::Reset(keys) => keys.iter().for_each(|key| self.forget(key)),
            Op::FindRecord(_) | Op::ForgetRecord(_) => {
                return OpOutcome::Record { is_there: false };
            }
        }
        OpOutcome::Done
    }

    fn fetch_charged(&self, op: &Op<'_>) {
        if let Op::Settle(request) = op {
            request.charges.iter().for_each(|charge| self.fetch(charge.key.fingerprint));
        }
    }

    /// Settles several requests of one charge each, independently and in order, into `results`; stops where those end.
    /// The counters are fetched from memory side by side.
    pub fn settle_each(
        &self,
        charges: &[Charge<'_>],
        now: Timestamp,
        results: &mut [ChargeResult],
    ) {
        let groups = charges.chunks(PREFETCHED).zip(results.chunks_mut(PREFETCHED));
        for (charges, results) in groups {
            // A prefetch gains nothing for a single charge.
            if charges.len() > 1 {
                charges.iter().for_each(|charge| self.fetch(charge.key.fingerprint));
            }
            for (charge, result) in charges.iter().zip(results) {
                self.settle_one(charge, now, result);
            }
        }
    }

    /// The state of a counter as text, for tests that compare stores.
    #[must_use]
    pub fn state_text(&self, key: &Key<'_>) -> Option<String> {
        let at = self.locate(key.fingerprint);
        let mut shard = self.lock(at.shard);
        let (page, overflow) = shard.page(at);
        let index = page.find(at.name, &self.common)?;
        let state = page.take(index, overflow, &self.common)?;
        let text = state.to_string();
        page.put_back(index, state, overflow);
        Some(text)
    }

    /// Removes all expired counters, a page at a time. Calls sweep a little each, so only an idle server needs this.
    pub fn sweep(&self, now: Timestamp) {
        for _ in 0..self.hints.len() {
            self.sweep_some(usize::MAX, now);
        }
    }

    #[inline]
    fn locate(&self, fingerprint: u64) -> Location {
        // There are at least `SHARDS` pages, so the shift is below 64.
        let page = usize::try_from(fingerprint >> (64 - self.common.page_bits)).unwrap_or(0);
        self.location(page, Name::of(fingerprint))
    }

    #[inline]
    fn location(&self, page: usize, name: Name) -> Location {
        let inner = page & ((1 << self.inner_bits) - 1);
        Location { name, page, shard: page >> self.inner_bits, inner }
    }

    #[inline]
    fn lock(&self, shard: usize) -> MutexGuard<'_, Shard> {
        self.shards[shard].0.lock()
    }

    #[inline]
    fn fetch(&self, fingerprint: u64) {
        self.fetch_at(self.locate(fingerprint));
    }

    #[inline]
    fn fetch_at(&self, at: Location) {
        let hint = &self.hints[at.page];
        let home = at.name.home(hint.len.load(Ordering::Relaxed), self.common.page_bits);
        let slot = hint.slots.load(Ordering::Relaxed).wrapping_add(home * size_of::<Slot>());
        // A search goes on past its home, often into the next line.
        prefetch(slot);
        prefetch(slot.wrapping_add(64));
    }

    /// Returns units to one counter.
    pub fn refund_now(&self, refund: &Refund<'_>, now: Timestamp) {
        let at = self.locate(refund.key.fingerprint);
        let mut shard = self.lock(at.shard);
        let (page, overflow) = shard.page(at);
        let Some(index) = page.find(at.name, &self.common) else { return };
        // A refund does not change the limit a counter is counted in.
        let Some(limit) = page.limit(index, overflow, &self.common) else { return };
        let mut state = page.take(index, overflow, &self.common);
        refund.limit.refund(&mut state, now, refund.units, refund.charged_at);
        if let Some(state) = state {
            self.update_page(&mut shard, at, |page, overflow| {
                page.write(index, &limit, state, overflow, &self.common);
            });
        }
    }

    /// Resets one counter.
    pub fn forget(&self, key: &Key<'_>) {
        let at = self.locate(key.fingerprint);
        let mut shard = self.lock(at.shard);
        if let Some(index) = shard.page(at).0.find(at.name, &self.common) {
            self.update_page(&mut shard, at, |page, overflow| {
                page.remove(index, overflow, &self.common);
            });
        }
    }
}

/// Where a counter is to be found.
#[derive(Clone, Copy, Default)]
struct Location {
    name: Name,
    page: usize,
    shard: usize,
    /// The number of the page within its shard.
    inner: usize,
}

impl Shard {
    #[inline]
    fn page(&mut self, at: Location) -> (&mut Page, &mut Overflow) {
        (&mut self.pages[at.inner], &mut self.overflow)
    }

    #[inline]
    fn is_time_to_sweep(&mut self) -> bool {
        self.calls = self.calls.wrapping_add(1);
        self.calls.is_multiple_of(CALLS_PER_SWEEP)
    }
}

impl Store for MemoryStore {
    fn is_shared(&self) -> bool {
        false
    }

    #[inline]
    fn try_settle(
        &self,
        request: &SettleRequest<'_>,
        now: Timestamp,
        settlement: &mut Settlement,
    ) -> bool {
        settlement.now = now;
        settlement.passed = if request.is_dry_run {
            self.dry_run(request.charges, now, &mut settlement.results)
        } else {
            self.settle_into(request.charges, now, &mut settlement.results)
        };
        true
    }

    #[inline]
    fn prefetch(&self, fingerprint: u64) {
        self.fetch(fingerprint);
    }

    fn submit(&self, ops: &[Op<'_>], now: Timestamp) -> impl Future<Output = Outcomes> + Send {
        ready(self.submit_now(ops, now))
    }
}
